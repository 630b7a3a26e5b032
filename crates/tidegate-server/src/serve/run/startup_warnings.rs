//! Settings that are allowed but weaken the security of the server, and rules that mean less than they say. Each warning
//! has a code that does not change.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tidegate::AlgorithmName;
use tidegate::rules::{CompiledDomain, CompiledLimit, Ruleset};

use crate::serve::App;
use crate::serve::listen::Address;
use crate::serve::settings::{ForwardAuthSource, Secret, Settings};
use crate::serve::status::limiting_rules;
use crate::text;

/// A shorter secret can be guessed.
const SECRET_BYTES_MIN: usize = 16;
/// The most rules that a warning names.
const NAMED_RULES_MAX: usize = 10;
/// The most characters of a rule's name in a warning.
const NAME_CHARS_MAX: usize = 60;
/// The mode bit that lets every user read.
const EVERYONE_READS: u32 = 0o004;

/// A warning at the start of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartupWarning {
    /// Other users can write to the data directory.
    DataDirWritable { path: PathBuf, mode: u32 },
    /// A secret is short.
    ShortSecret { setting: &'static str, bytes: usize },
    /// Every user can read the file of a secret.
    SecretFileReadable { setting: &'static str, path: PathBuf, mode: u32 },
    /// Other machines send a secret without TLS.
    PlaintextSecret { setting: &'static str, purpose: &'static str, address: Address },
    /// Other machines can use RESP without a password.
    RespWithoutPassword { address: Address },
    /// Proxies may pass on headers of clients that say what was requested.
    ForwardAuthSourceAny,
    /// Rules with the mode `leased` or `eventual`, while no other node shares the counters.
    ModeWithoutStore { rules: Vec<String> },
    /// Rules for proxies with a concurrency limit, whose slots proxies do not release.
    ForwardAuthConcurrency { rules: Vec<String> },
}

impl StartupWarning {
    /// Finds the warnings for these settings. The data directory is checked when it is opened.
    pub fn find(settings: &Settings) -> Vec<Self> {
        let args = &settings.args;
        let for_metrics = settings.metrics_token().map(|_| (&args.http, "for /metrics"));
        // Where clients send each secret, and what for.
        let admin_uses =
            [Some((&args.admin, "for the admin API")), for_metrics, Some((&args.resp, "with AUTH"))];
        let secrets = [
            ("admin_token", &settings.admin_token, args.admin_token_file.as_deref(), admin_uses),
            (
                "resp_password",
                &settings.resp_password,
                args.resp_password_file.as_deref(),
                [Some((&args.resp, "with AUTH")), None, None],
            ),
        ];
        let mut warnings = Vec::new();
        for (setting, secret, file, uses) in secrets {
            let Some(secret) = secret else { continue };
            warnings.extend(Self::short_secret(setting, secret));
            warnings.extend(file.and_then(|path| Self::secret_file_readable(setting, path)));
            for (address, purpose) in uses.into_iter().flatten() {
                if matches!(address, Address::Tcp(_)) && !address.is_local() {
                    warnings.push(Self::PlaintextSecret { setting, purpose, address: address.clone() });
                }
            }
        }
        if args.is_resp_open() {
            warnings.push(Self::RespWithoutPassword { address: args.resp.clone() });
        }
        let forward_auth = &args.forward_auth;
        if forward_auth.forward_auth_domain.is_some()
            && forward_auth.forward_auth_source == ForwardAuthSource::Any
        {
            warnings.push(Self::ForwardAuthSourceAny);
        }
        warnings
    }

    /// Logs a warning if rules have a mode that has no effect because the counters are in memory: at the start, and
    /// when rules are replaced.
    pub fn log_mode_without_store(app: &App) {
        if app.fleet.is_none() {
            Self::mode_without_store(&app.engine.rules()).iter().for_each(Self::log);
        }
    }

    fn mode_without_store(rules: &Ruleset) -> Option<Self> {
        let of_domains = rules.domains().flat_map(|domain| {
            let rules = limiting_rules(domain).filter(|rule| rule.mode.is_leased_or_eventual());
            rules.map(|rule| format!("{}/{}", domain.name(), rule.name))
        });
        let mut names: Vec<String> = of_domains.collect();
        names.sort_unstable();
        (!names.is_empty()).then_some(Self::ModeWithoutStore { rules: names })
    }

    /// Logs a warning if the rules for proxies have a concurrency limit.
    pub fn log_forward_auth_concurrency(app: &App, settings: &Settings) {
        let domain = settings.args.forward_auth.forward_auth_domain.as_deref();
        domain
            .and_then(|name| Self::forward_auth_concurrency(app.engine.rules().domain(name)?))
            .iter()
            .for_each(Self::log);
    }

    fn forward_auth_concurrency(domain: &CompiledDomain) -> Option<Self> {
        let is_concurrency =
            |limit: &CompiledLimit| limit.limit().limit.algorithm_name() == AlgorithmName::Concurrency;
        let rules =
            domain.limits().filter(|(_, limit)| is_concurrency(limit)).map(|(rule, _)| rule.name.to_string());
        let mut names: Vec<String> = rules.collect();
        names.dedup();
        (!names.is_empty()).then_some(Self::ForwardAuthConcurrency { rules: names })
    }

    /// Writes the warning to the log.
    pub fn log(&self) {
        tracing::warn!(code = self.code(), "{self}");
    }

    /// The code, for people who search for it or ignore it.
    fn code(&self) -> &'static str {
        match self {
            Self::DataDirWritable { .. } => "data-dir-writable",
            Self::ShortSecret { .. } => "short-secret",
            Self::SecretFileReadable { .. } => "secret-file-readable",
            Self::PlaintextSecret { .. } => "plaintext-secret",
            Self::RespWithoutPassword { .. } => "resp-without-password",
            Self::ForwardAuthSourceAny => "forward-auth-source-any",
            Self::ModeWithoutStore { .. } => "mode-without-store",
            Self::ForwardAuthConcurrency { .. } => "forward-auth-concurrency",
        }
    }

    fn short_secret(setting: &'static str, secret: &Secret) -> Option<Self> {
        let bytes = secret.bytes();
        (bytes < SECRET_BYTES_MIN).then_some(Self::ShortSecret { setting, bytes })
    }

    fn secret_file_readable(setting: &'static str, path: &Path) -> Option<Self> {
        let mode = fs::metadata(path).ok()?.mode() & 0o777;
        let warning = || Self::SecretFileReadable { setting, path: path.to_owned(), mode };
        (mode & EVERYONE_READS != 0).then(warning)
    }
}

impl fmt::Display for StartupWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DataDirWritable { path, mode } => write!(
                f,
                "other users can write to data_dir `{}` (mode {mode:03o}) and change the counters (hint: chmod go-w)",
                path.display()
            ),
            Self::ShortSecret { setting, bytes } => write!(
                f,
                "{setting} has {bytes} bytes and can be guessed (hint: use at least {SECRET_BYTES_MIN}: `openssl rand \
                 -hex 32`)"
            ),
            Self::SecretFileReadable { setting, path, mode } => write!(
                f,
                "every user of the machine can read {setting}_file `{}` (mode {mode:03o}) (hint: chmod o-r)",
                path.display()
            ),
            Self::PlaintextSecret { setting, purpose, address } => write!(
                f,
                "clients send {setting} to {address} {purpose}, without TLS, where others on the network can read it (hint: listen \
                 on tls:{address} or on 127.0.0.1)"
            ),
            Self::RespWithoutPassword { address } => write!(
                f,
                "resp listens on {address} without a password, because resp_protected_mode is off: other machines can \
                 charge any key (hint: set --resp-password-file)"
            ),
            Self::ForwardAuthSourceAny => f.write_str(
                "forward auth reads the headers of any proxy: if the proxy passes on a client's X-Forwarded-Uri or \
                 X-Original-URI, the client chooses the rule (hint: name the proxy with --forward-auth-source)",
            ),
            Self::ModeWithoutStore { rules } => {
                f.write_str("without a shared store these rules decide as with `mode: local`: ")?;
                write_names(f, rules)?;
                f.write_str(" (hint: set --store redis://..., or write `mode: local`)")
            }
            Self::ForwardAuthConcurrency { rules } => {
                f.write_str("proxies do not say when a request has ended, so it holds its slot until the ttl in these rules: ")?;
                write_names(f, rules)?;
                f.write_str(" (hint: limit requests per time, or hold slots with /v1/acquire or the tower layers)")
            }
        }
    }
}

fn write_names(f: &mut fmt::Formatter<'_>, rules: &[String]) -> fmt::Result {
    let named: Vec<String> = rules
        .iter()
        .take(NAMED_RULES_MAX)
        .map(|name| format!("`{}`", text::printable(name.as_bytes(), NAME_CHARS_MAX)))
        .collect();
    f.write_str(&named.join(", "))?;
    match rules.len().saturating_sub(NAMED_RULES_MAX) {
        0 => Ok(()),
        more => write!(f, " and {more} more"),
    }
}
