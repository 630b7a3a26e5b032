//! Valid and invalid URLs, and that no message shows a password.

use super::{Deployment, Encryption, StoreUrl, UrlError};

fn parse(text: &str) -> StoreUrl {
    text.parse().unwrap_or_else(|error: UrlError| panic!("{text}: {error}"))
}

fn parse_error(text: &str) -> UrlError {
    text.parse::<StoreUrl>().expect_err(text)
}

fn addresses(url: &StoreUrl) -> Vec<String> {
    url.addresses.iter().map(ToString::to_string).collect()
}

#[test]
fn a_single_server() {
    let url = parse("redis://Example.ORG");
    assert_eq!(addresses(&url), ["example.org:6379"]);
    assert!(url.deployment == Deployment::Single && url.login.is_none() && url.database == 0);
    assert_eq!(url.encryption, Encryption::Plain);

    let url = parse(" rediss://al%3Aice:s%40cret%2F@[::1]:7000/3 ");
    assert_eq!(addresses(&url), ["[::1]:7000"]);
    assert_eq!((url.encryption, url.database), (Encryption::Tls, 3));
    let login = url.login.expect("a login");
    assert_eq!((login.user.as_deref(), &*login.password), (Some("al:ice"), "s@cret/"));

    let login = parse("redis://:secret@h").login.expect("a login");
    assert_eq!((login.user, &*login.password), (None, "secret"));
    // A user without a password.
    let login = parse("redis://alice@h").login.expect("a login");
    assert_eq!((login.user.as_deref(), &*login.password), (Some("alice"), ""));
    assert!(parse("redis://@h").login.is_none());
}

#[test]
fn sentinels_a_cluster_and_a_ring() {
    let url =
        parse("redis+sentinel://u:p@a,b:1,[fe80::1]/my%20master/5?sentinel_user=s&sentinel_password=q%26");
    assert_eq!(addresses(&url), ["a:26379", "b:1", "[fe80::1]:26379"]);
    assert_eq!(url.database, 5);
    let Deployment::Sentinel { master, login: Some(login) } = &url.deployment else { panic!("{url}") };
    assert_eq!((&**master, login.user.as_deref(), &*login.password), ("my master", Some("s"), "q&"));

    let url = parse("redis+sentinel://a/m?sentinel_password=q@");
    let Deployment::Sentinel { login: Some(login), .. } = &url.deployment else { panic!("{url}") };
    assert_eq!((login.user.as_deref(), &*login.password), (None, "q@"));

    let url = parse("rediss-cluster://a:7000,b");
    assert_eq!(addresses(&url), ["a:7000", "b:6379"]);
    assert!(url.deployment == Deployment::Cluster && url.encryption == Encryption::Tls);

    let url = parse("redis+ring://a,b,c/1");
    assert!(url.deployment == Deployment::Ring && url.database == 1 && url.addresses.len() == 3);
}

#[test]
fn display_hides_passwords() {
    let text = "redis+sentinel://alice:hidden1@a/m/2?sentinel_user=s&sentinel_password=hidden2";
    let url = parse(text);
    assert_eq!(url.to_string(), "redis+sentinel://alice@a:26379/m/2");
    let debug = format!("{url:?} {:?}", url.login);
    assert!(!debug.contains("hidden"), "{debug}");
}

#[test]
fn errors_include_a_hint() {
    let cases = [
        ("http://h", UrlError::Scheme("http".into())),
        ("10.0.0.7:6379", UrlError::Scheme("...".into())),
        ("redis://", UrlError::NoServer),
        ("redis:///0", UrlError::NoServer),
        ("redis://a,b", UrlError::SeveralServers),
        ("redis+ring://a,b,A", UrlError::DuplicateServer("a:6379".into())),
        ("redis://::1", UrlError::Host("::1".into())),
        ("redis://[::1", UrlError::Host("[::1".into())),
        ("redis://[::1]x", UrlError::Host("[::1]x".into())),
        ("redis://[nonsense]", UrlError::Host("[nonsense]".into())),
        ("redis://a b", UrlError::Host("a b".into())),
        ("redis://:6379", UrlError::Host(":...".into())),
        ("redis://user:word:6379", UrlError::Host("user:...".into())),
        ("redis://fe80::1", UrlError::Host("fe80::1".into())),
        ("redis://h:0", UrlError::Port("h".into())),
        ("redis://h:65536", UrlError::Port("h".into())),
        ("redis://h:", UrlError::Port("h".into())),
        ("redis://h/x", UrlError::Database("x".into())),
        ("redis://h/-1", UrlError::Database("-1".into())),
        ("redis://h/1/2", UrlError::Path("2".into())),
        ("redis-cluster://h/1", UrlError::Path("1".into())),
        ("redis+sentinel://h", UrlError::NoMaster),
        ("redis+sentinel://h/", UrlError::NoMaster),
        ("redis://h?sentinel_user=x", UrlError::Parameter("sentinel_user or sentinel_password".into())),
        ("redis+sentinel://h/m?db=1", UrlError::Parameter("db".into())),
        ("redis://u:%4@h", UrlError::Escape),
        ("redis://u:%zz@h", UrlError::Escape),
        ("redis://u:%ff@h", UrlError::Escape),
    ];
    for (text, error) in cases {
        assert_eq!(parse_error(text), error, "{text}");
        assert!(error.to_string().contains("hint: "), "{error}");
    }
    let many = format!("redis-cluster://{}", (0..300).map(|n| format!("h{n}")).collect::<Vec<_>>().join(","));
    assert_eq!(parse_error(&many), UrlError::TooManyServers);
}

#[test]
fn an_error_never_repeats_a_password() {
    for text in [
        "redis://:hid/den@h",
        "redis://:hid?den@h",
        "redis://:hid#den@h",
        "redis://u:hid@den@h",
        "redis+sentinel://:hid/den@h/m",
        ":hidden@h",
        ":hidden://h",
        "redis://:hidden",
        "redis://:hid,den",
        "redis://user:hidden",
        "redis://user:hidden:6379",
        "redis://user:a:hidden",
        "redis://[::1]:hidden:6379",
        "redis://[user:hidden",
        "redis://:p@ss?hidden@h",
        "redis://:p@ss?a=b&hidden@h",
        "redis://:p@ss/hidden@h",
        "redis+sentinel://:p@s/m?hidden@h",
    ] {
        let error = parse_error(text);
        assert!(
            !error.to_string().contains("hid") && !format!("{error:?}").contains("hid"),
            "{text}: {error}"
        );
    }
}

proptest::proptest! {
    #![proptest_config(tidegate_testing::proptest_config(64))]
    #[test]
    fn nothing_panics(text in ".{0,40}", scheme in "redis(s|)([+]sentinel|-cluster|[+]ring|)://[a-z@:/?%,0-9\\[\\]]{0,20}") {
        let _ = text.parse::<StoreUrl>();
        if let Ok(url) = scheme.parse::<StoreUrl>() {
            let _ = url.to_string();
        }
    }
}
