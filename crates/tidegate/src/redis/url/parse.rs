//! Parses the text of a [`StoreUrl`].
//!
//! General URL parsers do not support several hosts, so this is written by hand.

use super::{Address, Deployment, Encryption, Login, StoreUrl, URL_SERVERS_MAX, UrlError};

const REDIS_PORT_DEFAULT: u16 = 6379;
const SENTINEL_PORT_DEFAULT: u16 = 26379;
const SENTINEL_USER: &str = "sentinel_user";
const SENTINEL_PASSWORD: &str = "sentinel_password";
const PARAMETERS: [&str; 2] = [SENTINEL_USER, SENTINEL_PASSWORD];

pub(super) fn parse(text: &str) -> Result<StoreUrl, UrlError> {
    let text = text.trim();
    // Text without a scheme may start with a password, so errors do not repeat it.
    let is_scheme = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let (scheme, rest) = text
        .split_once("://")
        .filter(|(scheme, _)| is_scheme(scheme))
        .ok_or_else(|| UrlError::Scheme("...".into()))?;
    let (deployment, encryption) = parse_scheme(scheme)?;
    let parts = split_url(rest)?;

    let port =
        if let Deployment::Sentinel { .. } = deployment { SENTINEL_PORT_DEFAULT } else { REDIS_PORT_DEFAULT };
    let mut url = StoreUrl {
        addresses: parse_addresses(parts.servers, port)?,
        login: parts.login.map(parse_login).transpose()?.flatten(),
        deployment,
        encryption,
        database: 0,
    };
    if url.deployment == Deployment::Single && url.addresses.len() > 1 {
        return Err(UrlError::SeveralServers);
    }
    parse_path(&mut url, parts.path)?;
    parse_parameters(&mut url, parts.parameters)?;
    Ok(url)
}

fn parse_scheme(scheme: &str) -> Result<(Deployment, Encryption), UrlError> {
    let sentinel = || Deployment::Sentinel { master: "".into(), login: None };
    Ok(match scheme.to_ascii_lowercase().as_str() {
        "redis" | "valkey" => (Deployment::Single, Encryption::Plain),
        "rediss" | "valkeys" => (Deployment::Single, Encryption::Tls),
        "redis+sentinel" => (sentinel(), Encryption::Plain),
        "rediss+sentinel" => (sentinel(), Encryption::Tls),
        "redis-cluster" => (Deployment::Cluster, Encryption::Plain),
        "rediss-cluster" => (Deployment::Cluster, Encryption::Tls),
        "redis+ring" => (Deployment::Ring, Encryption::Plain),
        "rediss+ring" => (Deployment::Ring, Encryption::Tls),
        other => return Err(UrlError::Scheme(other.into())),
    })
}

/// The parts of a URL after its scheme.
struct UrlParts<'a> {
    login: Option<&'a str>,
    servers: &'a str,
    path: &'a str,
    parameters: &'a str,
}

fn split_url(rest: &str) -> Result<UrlParts<'_>, UrlError> {
    let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    // An unescaped `/` or `?` in a password would make the rest of it look like a host, and errors would show
    // it.
    let is_stray = |parameter: &str| {
        parameter.contains('@') && !PARAMETERS.iter().any(|name| parameter.split('=').next() == Some(name))
    };
    if path.contains('@') || parameters.split('&').any(is_stray) || rest.contains('#') {
        return Err(UrlError::Unescaped);
    }
    let (login, servers) = match authority.rsplit_once('@') {
        Some((login, servers)) => (Some(login), servers),
        None => (None, authority),
    };
    Ok(UrlParts { login, servers, path, parameters })
}

fn parse_login(text: &str) -> Result<Option<Login>, UrlError> {
    if text.contains('@') {
        return Err(UrlError::Unescaped);
    }
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    let (user, password) = (percent_decode(user)?, percent_decode(password)?);
    if user.is_empty() && password.is_empty() {
        return Ok(None);
    }
    let user = (!user.is_empty()).then(|| user.into_boxed_str());
    Ok(Some(Login { user, password: password.into() }))
}

fn parse_addresses(text: &str, port: u16) -> Result<Vec<Address>, UrlError> {
    let mut addresses = Vec::new();
    for server in text.split(',').map(str::trim).filter(|server| !server.is_empty()) {
        if addresses.len() == URL_SERVERS_MAX {
            return Err(UrlError::TooManyServers);
        }
        let address = parse_address(server, port)?;
        if addresses.contains(&address) {
            return Err(UrlError::DuplicateServer(address.to_string().into()));
        }
        addresses.push(address);
    }
    if addresses.is_empty() { Err(UrlError::NoServer) } else { Ok(addresses) }
}

fn parse_address(text: &str, default_port: u16) -> Result<Address, UrlError> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(|| host_error(text))?;
        if host.parse::<std::net::Ipv6Addr>().is_err() {
            return Err(host_error(text));
        }
        match rest.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if rest.is_empty() => (host, None),
            None => return Err(host_error(text)),
        }
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(host_error(text));
    }
    if port.is_some_and(|port| port.contains(':')) {
        return Err(host_error(text));
    }
    let port = match port {
        None => default_port,
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err(UrlError::Port(host.into())),
        },
    };
    Ok(Address { host: host.to_ascii_lowercase().into(), port })
}

/// Text after a colon may be a password without its `@HOST`, so errors hide it, unless the text is an IPv6
/// address.
fn host_error(text: &str) -> UrlError {
    let (address, after) = match text.strip_prefix('[') {
        Some(inside) => inside.split_once(']').unwrap_or((inside, "")),
        None => (text, ""),
    };
    let is_address = address.parse::<std::net::Ipv6Addr>().is_ok() && !after.contains(':');
    match text.split_once(':') {
        Some((before, _)) if !is_address => UrlError::Host(format!("{before}:...").into()),
        _ => UrlError::Host(text.into()),
    }
}

fn parse_path(url: &mut StoreUrl, path: &str) -> Result<(), UrlError> {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    if let Deployment::Sentinel { master, .. } = &mut url.deployment {
        *master = percent_decode(segments.next().ok_or(UrlError::NoMaster)?)?.into();
    }
    if url.deployment != Deployment::Cluster
        && let Some(number) = segments.next()
    {
        url.database = number.parse().map_err(|_| UrlError::Database(number.into()))?;
    }
    match segments.next() {
        Some(more) => Err(UrlError::Path(more.into())),
        None => Ok(()),
    }
}

fn parse_parameters(url: &mut StoreUrl, text: &str) -> Result<(), UrlError> {
    let (mut user, mut password) = (None, None);
    for parameter in text.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match name {
            SENTINEL_USER => user = Some(percent_decode(value)?.into_boxed_str()),
            SENTINEL_PASSWORD => password = Some(percent_decode(value)?.into_boxed_str()),
            _ => return Err(UrlError::Parameter(name.into())),
        }
    }
    if user.is_none() && password.is_none() {
        return Ok(());
    }
    match &mut url.deployment {
        Deployment::Sentinel { login, .. } => {
            *login = Some(Login { user, password: password.unwrap_or_default() });
            Ok(())
        }
        _ => Err(UrlError::Parameter("sentinel_user or sentinel_password".into())),
    }
}

/// Decodes `%xx`.
fn percent_decode(text: &str) -> Result<String, UrlError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_first_chunk::<2>().ok_or(UrlError::Escape)?;
        let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
        let (high, low) = high.zip(low).ok_or(UrlError::Escape)?;
        bytes.push(u8::try_from(high * 16 + low).map_err(|_| UrlError::Escape)?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| UrlError::Escape)
}
