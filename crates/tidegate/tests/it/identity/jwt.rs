//! JSON Web Tokens. `tokens.json` has a token of each algorithm, signed by OpenSSL through Python's `cryptography`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use tidegate::Timestamp;
use tidegate::identity::jwt::{
    JwtAlgorithm, JwtSettings, JwtSettingsError, JwtVerifier, KeyRefresh, KeySet, TOKEN_BYTES_MAX,
};
use tidegate::identity::{HttpRequest, Identity, Source, TokenProblem, VerifyToken};

/// A second at which the claims of all tokens here are valid.
const NOW_SECONDS: u64 = 1_950_000_000;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(seconds * 1_000_000_000)
}

fn fixture() -> Value {
    serde_json::from_str(include_str!("tokens.json")).expect("JSON")
}

fn keys(fixture: &Value, name: &str) -> KeySet {
    KeySet::parse(&fixture[name].to_string()).expect("keys")
}

fn keys_for(algorithm: JwtAlgorithm, fixture: &Value) -> KeySet {
    keys(fixture, if algorithm.is_symmetric() { "secret_jwks" } else { "jwks" })
}

fn verifier(settings: JwtSettings, keys: KeySet) -> JwtVerifier {
    JwtVerifier::new(settings, keys).expect("settings")
}

/// Signs tokens with Ed25519.
struct Signer(Ed25519KeyPair);

impl Signer {
    fn new() -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("a key"))
    }

    fn sign(&self, header: &Value, claims: &str) -> String {
        let signed = [header.to_string().as_str(), claims].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
        let signature = self.0.sign(signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn token(&self, claims: &Value) -> String {
        self.sign(&json!({ "alg": "EdDSA", "kid": "1" }), &claims.to_string())
    }

    fn keys(&self, id: &str) -> KeySet {
        let x = URL_SAFE_NO_PAD.encode(self.0.public_key());
        let key = json!({ "kty": "OKP", "crv": "Ed25519", "kid": id, "x": x });
        KeySet::parse(&json!({ "keys": [key] }).to_string()).expect("keys")
    }

    fn verifier(&self, settings: JwtSettings) -> JwtVerifier {
        verifier(settings, self.keys("1"))
    }
}

fn ed_dsa() -> JwtSettings {
    JwtSettings::new([JwtAlgorithm::EdDsa])
}

fn problem(verifier: &JwtVerifier, token: &str) -> Option<TokenProblem> {
    verifier.verify(token, &["sub"], at(NOW_SECONDS)).err()
}

#[test]
fn tokens_of_every_algorithm_are_verified() {
    let fixture = fixture();
    for algorithm in JwtAlgorithm::ALL {
        let token = fixture["tokens"][algorithm.name()].as_str().expect("a token");
        let settings = JwtSettings {
            issuer: Some("https://login.example.org".to_owned()),
            audiences: vec!["api".to_owned()],
            ..JwtSettings::new([algorithm])
        };
        let verifier = verifier(settings, keys_for(algorithm, &fixture));
        let claims = ["sub", "realm.plan", "https://example.org/tenant", "realm", "missing"];
        let values = verifier.verify(token, &claims, at(NOW_SECONDS)).expect("valid");
        let text = |value: &str| Some(value.to_owned());
        assert_eq!(values, [text("ann"), text("pro"), text("7"), None, None], "{algorithm}");

        // Any other character in any part, and the token is not valid.
        for position in (0..token.len()).step_by(7) {
            let mut changed = token.as_bytes().to_vec();
            changed[position] = if changed[position] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("text");
            assert!(problem(&verifier, &changed).is_some(), "{algorithm} {position}");
        }
    }
}

#[test]
fn a_token_cannot_choose_its_algorithm() {
    let fixture = fixture();
    for pinned in JwtAlgorithm::ALL {
        let verifier = verifier(JwtSettings::new([pinned]), keys_for(pinned, &fixture));
        for other in JwtAlgorithm::ALL.into_iter().filter(|other| *other != pinned) {
            let token = fixture["tokens"][other.name()].as_str().expect("a token");
            assert_eq!(problem(&verifier, token), Some(TokenProblem::Algorithm), "{other} for {pinned}");
        }
    }
    let signer = Signer::new();
    let verifier = signer.verifier(ed_dsa());
    for name in ["none", "None", "", "eddsa", "HS256"] {
        let token = signer.sign(&json!({ "alg": name, "kid": "1" }), r#"{"exp": 2000000000}"#);
        assert_eq!(problem(&verifier, &token), Some(TokenProblem::Algorithm), "{name}");
        let unsigned = format!("{}.", token.rsplit_once('.').expect("a signature").0);
        assert_eq!(problem(&verifier, &unsigned), Some(TokenProblem::Algorithm), "{name}");
    }
}

/// The public key as the secret of an HMAC: the classic attack.
#[test]
fn a_public_key_is_no_secret() {
    use JwtAlgorithm::{Es256, Hs256, Rs256};
    let fixture = fixture();
    let mixed = JwtVerifier::new(JwtSettings::new([Rs256, Hs256]), keys(&fixture, "jwks"));
    assert_eq!(mixed.unwrap_err(), JwtSettingsError::MixedAlgorithms);
    // Pinned to HS256 by mistake, public keys still do not fit.
    let verifier = verifier(JwtSettings::new([Hs256]), keys(&fixture, "jwks"));
    let n = fixture["jwks"]["keys"][0]["n"].as_str().expect("a modulus");
    let signed = [r#"{"alg":"HS256","kid":"rsa"}"#, r#"{"exp":2000000000,"sub":"eve"}"#]
        .map(|part| URL_SAFE_NO_PAD.encode(part))
        .join(".");
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &URL_SAFE_NO_PAD.decode(n).expect("base64"));
    let forged = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(ring::hmac::sign(&key, signed.as_bytes())));
    assert_eq!(problem(&verifier, &forged), Some(TokenProblem::Algorithm));
    // A short secret does not fit either.
    let short = self::verifier(JwtSettings::new([Hs256]), KeySet::from_secret(&[1; 31]));
    assert_eq!(
        problem(&short, fixture["tokens"]["HS256"].as_str().expect("a token")),
        Some(TokenProblem::UnknownKey)
    );
    assert_eq!(
        JwtVerifier::new(JwtSettings::new([]), KeySet::default()).unwrap_err(),
        JwtSettingsError::NoAlgorithm
    );
    let lax = JwtSettings { leeway: Duration::from_secs(601), ..JwtSettings::new([Es256]) };
    assert_eq!(JwtVerifier::new(lax, KeySet::default()).unwrap_err(), JwtSettingsError::Leeway);
}

#[test]
fn times_have_a_leeway() {
    let signer = Signer::new();
    let verifier = signer.verifier(JwtSettings { leeway: Duration::from_secs(10), ..ed_dsa() });
    let token = signer.token(&json!({ "exp": 1000, "nbf": 900 }));
    for (seconds, expected) in [
        (889, Some(TokenProblem::NotYetValid)),
        (890, None),
        (1000, None),
        (1009, None),
        (1010, Some(TokenProblem::Expired)),
    ] {
        assert_eq!(verifier.verify(&token, &[], at(seconds)).err(), expected, "{seconds}");
    }
    for (claims, expected) in [
        (r#"{}"#, Some(TokenProblem::Expired)),
        (r#"{"exp": 2000000000.75}"#, None),
        (r#"{"exp": 1e30}"#, Some(TokenProblem::Malformed)),
        (r#"{"exp": "2000000000"}"#, Some(TokenProblem::Malformed)),
        (r#"{"exp": -1}"#, Some(TokenProblem::Expired)),
        (r#"{"exp": 2000000000, "nbf": null}"#, Some(TokenProblem::Malformed)),
        (r#"[]"#, Some(TokenProblem::Malformed)),
    ] {
        let token = signer.sign(&json!({ "alg": "EdDSA", "kid": "1" }), claims);
        assert_eq!(problem(&verifier, &token), expected, "{claims}");
    }
}

#[test]
fn issuer_and_audience_must_be_those_of_the_settings() {
    let signer = Signer::new();
    let settings = JwtSettings {
        issuer: Some("issuer".to_owned()),
        audiences: vec!["api".to_owned(), "web".to_owned()],
        ..ed_dsa()
    };
    let verifier = signer.verifier(settings);
    for (issuer, audience, expected) in [
        (json!("issuer"), json!("api"), None),
        (json!("issuer"), json!(["other", "web"]), None),
        (json!("Issuer"), json!("api"), Some(TokenProblem::Issuer)),
        (json!(null), json!("api"), Some(TokenProblem::Issuer)),
        (json!("issuer"), json!("ap"), Some(TokenProblem::Audience)),
        (json!("issuer"), json!([]), Some(TokenProblem::Audience)),
        (json!("issuer"), json!(null), Some(TokenProblem::Audience)),
        (json!("issuer"), json!({ "api": 1 }), Some(TokenProblem::Audience)),
    ] {
        let token = signer.token(&json!({ "exp": 2_000_000_000, "iss": issuer, "aud": audience }));
        assert_eq!(problem(&verifier, &token), expected, "{issuer} {audience}");
    }
    let token = signer.token(&json!({ "exp": 2_000_000_000, "iss": "issuer" }));
    assert_eq!(problem(&verifier, &token), Some(TokenProblem::Audience));
}

#[test]
fn other_text_is_malformed() {
    let signer = Signer::new();
    let verifier = signer.verifier(ed_dsa());
    let good = signer.token(&json!({ "exp": 2_000_000_000 }));
    assert_eq!(problem(&verifier, &good), None);
    for text in [
        "",
        ".",
        "..",
        "...",
        "a.b",
        "a.b.c",
        "e30.e30.e30",
        &format!("{good}="),
        &format!("{good}.x"),
        &format!(" {good}"),
    ] {
        assert_eq!(problem(&verifier, text), Some(TokenProblem::Malformed), "{text}");
    }
    let long = format!("{good}{}", "A".repeat(TOKEN_BYTES_MAX));
    assert_eq!(problem(&verifier, &long), Some(TokenProblem::TooLong));
    let critical =
        signer.sign(&json!({ "alg": "EdDSA", "kid": "1", "crit": ["b64"] }), r#"{"exp": 2000000000}"#);
    assert_eq!(problem(&verifier, &critical), Some(TokenProblem::Critical));
    let strange_id = signer.sign(&json!({ "alg": "EdDSA", "kid": 1 }), r#"{"exp": 2000000000}"#);
    assert_eq!(problem(&verifier, &strange_id), Some(TokenProblem::Malformed));
}

#[test]
fn an_unknown_key_asks_for_new_keys() {
    let signer = Signer::new();
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let verifier = verifier(ed_dsa(), KeySet::default()).with_unknown_key_hook(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let token = signer.token(&json!({ "exp": 2_000_000_000 }));
    assert_eq!(problem(&verifier, &token), Some(TokenProblem::UnknownKey));
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    verifier.set_keys(signer.keys("2"));
    assert_eq!(problem(&verifier, &token), Some(TokenProblem::UnknownKey));
    // Without an id, one key that fits is enough.
    let without_id = signer.sign(&json!({ "alg": "EdDSA" }), r#"{"exp": 2000000000}"#);
    assert_eq!(problem(&verifier, &without_id), None);
    verifier.set_keys(signer.keys("1"));
    assert_eq!(problem(&verifier, &token), None);
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[test]
fn key_sets() {
    let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    let ed = |fields: Value| {
        let mut key = json!({ "kty": "OKP", "crv": "Ed25519", "x": x });
        key.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        KeySet::parse(&json!({ "keys": [{ "kty": "new" }, key] }).to_string()).map(|keys| keys.len())
    };
    assert_eq!(ed(json!({})), Ok(1));
    assert_eq!(ed(json!({ "use": "sig", "key_ops": ["verify"], "alg": "EdDSA" })), Ok(1));
    for unusable in [json!({ "use": "enc" }), json!({ "key_ops": ["sign"] }), json!({ "alg": "ES256K" })] {
        assert!(ed(unusable.clone()).is_err(), "{unusable}");
    }
    assert_eq!(
        ed(json!({ "x": "*" })).unwrap_err().to_string(),
        "key 2 of the key set: `x` is missing or not base64url"
    );
    for wrong in [
        "",
        "{}",
        "[]",
        r#"{"keys": []}"#,
        r#"{"keys": [1]}"#,
        r#"{"keys": [{}]}"#,
        r#"{"keys": [{"kty": "RSA"}]}"#,
    ] {
        assert!(KeySet::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn keys_are_fetched_again_at_most_every_30_seconds() {
    let mut refresh = KeyRefresh::every(Duration::from_secs(300));
    assert!(refresh.is_due(at(0)));
    refresh.started(at(0));
    assert_eq!(refresh.next_fetch(), Some(at(300)));
    // A client sends tokens with unknown keys all the time.
    let mut fetches = Vec::new();
    for second in 1..=120 {
        refresh.unknown_key();
        if refresh.is_due(at(second)) {
            fetches.push(second);
            refresh.started(at(second));
        }
    }
    assert_eq!(fetches, [30, 60, 90, 120]);
    // A URL that is away is tried again soon, not at once.
    refresh.failed();
    assert_eq!(refresh.next_fetch(), Some(at(150)));
    refresh.started(at(150));
    assert_eq!(refresh.next_fetch(), Some(at(450)));
}

#[test]
fn a_bad_token_is_a_missing_user() {
    let signer = Signer::new();
    let identity =
        Identity::default().with_user(Source::claim("sub")).with_tokens(Arc::new(signer.verifier(ed_dsa())));
    let good = signer.token(&json!({ "exp": 2_000_000_000, "sub": "ann" }));
    let old = signer.token(&json!({ "exp": 1, "sub": "ann" }));
    for (token, user, problem) in [(good, Some("ann"), None), (old, None, Some(TokenProblem::Expired))] {
        let headers = [("authorization", format!("Bearer {token}"))];
        let request = HttpRequest { method: None, target: None, host: None, peer: None, headers: &headers };
        let attributes = identity.attributes(&request, None, at(NOW_SECONDS)).expect("attributes");
        assert_eq!(attributes.value("user"), user);
        assert_eq!(attributes.token_problem(), problem);
    }
}
