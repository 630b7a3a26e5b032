//! A flag overrides the environment, which overrides the file, which overrides the default.

use crate::serve::{Directory, HTTP_ONLY, Server};

/// The HTTP address that results from these sources. Each names a different socket.
fn http(file: Option<&str>, env: Option<&str>, flag: Option<&str>) -> String {
    let directory = Directory::new();
    let socket = |name: &str| format!("unix:{}/{name}", directory.path());
    let config = file.map(|name| directory.write("tidegate.yaml", format!("http: unix:{name}\n")));
    let (env, flag) = (env.map(socket), flag.map(socket));
    let mut args = HTTP_ONLY.to_vec();
    args.extend(flag.iter().flat_map(|address| ["--http", address]));
    let mut variables: Vec<(&str, &str)> = env.iter().map(|address| ("TIDEGATE_HTTP", &**address)).collect();
    variables.extend(config.iter().map(|path| ("TIDEGATE_CONFIG", &**path)));
    let server = Server::start_with_env(&args, &variables);
    server.address("http").rsplit_once('/').unwrap().1.to_owned()
}

#[test]
fn one_setting() {
    assert_eq!(http(Some("file"), None, None), "file");
    assert_eq!(http(None, Some("env"), None), "env");
    assert_eq!(http(None, None, Some("flag")), "flag");
    assert_eq!(http(Some("file"), Some("env"), None), "env");
    assert_eq!(http(Some("file"), None, Some("flag")), "flag");
    assert_eq!(http(None, Some("env"), Some("flag")), "flag");
    assert_eq!(http(Some("file"), Some("env"), Some("flag")), "flag");
}

/// Relative paths in a file resolve against its directory, others against the working directory.
#[test]
fn settings_from_all_sources() {
    let directory = Directory::new();
    directory.write("here/rules.yaml", crate::serve::RULES);
    let config = directory.write(
        "here/tidegate.yaml",
        "# Settings.\nrules: [rules.yaml]\nhttp: unix:http.sock\ngrpc: off\nresp: 127.0.0.1:0\nadmin: off\ndata_dir: data\n",
    );
    let server = Server::start_with_env(&["--config", &config], &[("TIDEGATE_RESP", "off")]);
    assert_eq!(server.addresses.keys().collect::<Vec<_>>(), ["http"]);
    assert_eq!(server.address("http"), format!("unix:{}/here/http.sock", directory.path()));
    assert_eq!(server.check("ann"), 200);
    server.stop();
    assert!(std::fs::exists(format!("{}/here/data/counters.snapshot", directory.path())).unwrap());
}

/// A list is replaced as a whole.
#[test]
fn list_settings_are_replaced() {
    let directory = Directory::new();
    let mine = directory.write("mine.yaml", crate::serve::RULES);
    let other = directory.write("other.yaml", "domain: other\nrules: [ { name: all, limit: 1 per day } ]\n");
    let config = directory.write(
        "tidegate.yaml",
        format!("rules: [{mine}, {other}]\nhttp: 127.0.0.1:0\ngrpc: off\nresp: off\nadmin: off\n"),
    );
    let domains = |server: &Server| server.health()["rules"]["domains"].to_string();
    let both = Server::start_with_env(&["--config", &config], &[]);
    assert_eq!(domains(&both), r#"["api","other"]"#);
    let one = Server::start_with_env(&["--config", &config, "--rules", &other], &[]);
    assert_eq!(domains(&one), r#"["other"]"#);
    let by_env = format!("{mine},{other}");
    let both = Server::start_with_env(
        &["--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off", "--admin", "off"],
        &[("TIDEGATE_RULES", &by_env)],
    );
    assert_eq!(domains(&both), r#"["api","other"]"#);
}
