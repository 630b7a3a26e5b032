//! The URL of an etcd: `etcd://USER:PASSWORD@HOST:2379,HOST:2379`.

use std::fmt;
use std::str::FromStr;

/// Members in a URL at most.
const MEMBERS_MAX: usize = 16;
const PORT_DEFAULT: u16 = 2379;

/// The members of an etcd, and how to log in. `Display` and `Debug` hide the password.
///
/// ```
/// use tidegate::etcd::EtcdUrl;
///
/// let url: EtcdUrl = "etcd://tidegate:secret@10.0.0.1:2379,10.0.0.2,10.0.0.3".parse()?;
/// assert_eq!(url.to_string(), "etcd://tidegate@10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379");
/// // `etcds` is TLS.
/// let _: EtcdUrl = "etcds://etcd.example".parse()?;
/// # Ok::<(), tidegate::etcd::EtcdUrlError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdUrl {
    pub(super) encryption: Encryption,
    pub(super) login: Option<Login>,
    /// At least one.
    pub(super) members: Vec<Member>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encryption {
    Plain,
    Tls,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login {
    pub user: Box<str>,
    pub password: Box<str>,
}

/// A host name or an IP address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// Without the brackets around an IPv6 address.
    pub host: Box<str>,
    pub port: u16,
}

/// What is wrong with the URL. It never contains text that may be a password.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EtcdUrlError {
    /// The scheme is not `etcd` or `etcds`.
    Scheme,
    /// It names no member.
    NoMember,
    /// It names more members than are allowed.
    TooManyMembers,
    /// It names the same member twice.
    DuplicateMember(Box<str>),
    /// A member is not a host with a port. Contains its position, from 1.
    Member(usize),
    /// The user or the password is missing, or has a character that must be escaped.
    Login,
    /// There is a path or a parameter after the members.
    Path,
}

impl FromStr for EtcdUrl {
    type Err = EtcdUrlError;

    fn from_str(text: &str) -> Result<Self, EtcdUrlError> {
        let (scheme, rest) = text.trim().split_once("://").ok_or(EtcdUrlError::Scheme)?;
        let encryption = match scheme {
            "etcd" => Encryption::Plain,
            "etcds" => Encryption::Tls,
            _ => return Err(EtcdUrlError::Scheme),
        };
        let (login, members) = match rest.rsplit_once('@') {
            Some((login, members)) => (Some(parse_login(login)?), members),
            None => (None, rest),
        };
        let members = members.strip_suffix('/').unwrap_or(members);
        if members.contains(['/', '?', '#']) {
            return Err(EtcdUrlError::Path);
        }
        Ok(Self { encryption, login, members: parse_members(members)? })
    }
}

fn parse_login(text: &str) -> Result<Login, EtcdUrlError> {
    let (user, password) = text.split_once(':').ok_or(EtcdUrlError::Login)?;
    if user.is_empty() || text.contains(['/', '?', '#', '@']) || password.contains(':') {
        return Err(EtcdUrlError::Login);
    }
    let decode = |text| percent_decode(text).map(String::into_boxed_str).ok_or(EtcdUrlError::Login);
    Ok(Login { user: decode(user)?, password: decode(password)? })
}

fn parse_members(text: &str) -> Result<Vec<Member>, EtcdUrlError> {
    let mut members: Vec<Member> = Vec::new();
    for (index, part) in text.split(',').map(str::trim).filter(|part| !part.is_empty()).enumerate() {
        if index == MEMBERS_MAX {
            return Err(EtcdUrlError::TooManyMembers);
        }
        let member = parse_member(part).ok_or(EtcdUrlError::Member(index + 1))?;
        if members.contains(&member) {
            return Err(EtcdUrlError::DuplicateMember(member.to_string().into()));
        }
        members.push(member);
    }
    if members.is_empty() { Err(EtcdUrlError::NoMember) } else { Ok(members) }
}

fn parse_member(text: &str) -> Option<Member> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
    if host.is_empty() || !host.chars().all(is_plain) {
        return None;
    }
    let port = match port {
        None => PORT_DEFAULT,
        Some(port) => port.parse().ok().filter(|port| *port > 0)?,
    };
    Some(Member { host: host.to_ascii_lowercase().into(), port })
}

/// Decodes `%xx`. None if that is not possible.
fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_first_chunk::<2>()?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for EtcdUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.encryption {
            Encryption::Plain => "etcd://",
            Encryption::Tls => "etcds://",
        })?;
        if let Some(login) = &self.login {
            write!(f, "{}@", login.user)?;
        }
        for (index, member) in self.members.iter().enumerate() {
            let separator = if index > 0 { "," } else { "" };
            write!(f, "{separator}{member}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for EtcdUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EtcdUrl({self})")
    }
}

impl fmt::Display for EtcdUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme => f.write_str("this is not the URL of an etcd (hint: etcd://HOST:2379, or etcds:// for TLS)"),
            Self::NoMember => f.write_str("the URL names no member (hint: etcd://10.0.0.1:2379,10.0.0.2:2379)"),
            Self::TooManyMembers => write!(
                f,
                "the URL names more than {MEMBERS_MAX} members (hint: three or five are enough)"
            ),
            Self::DuplicateMember(member) => write!(f, "the URL names {member} twice (hint: leave one out)"),
            Self::Member(position) => write!(
                f,
                "member {position} of the URL is not a host with a port (hint: etcd://10.0.0.1:2379; write IPv6 in \
                 brackets, as in etcd://[::1]:2379)"
            ),
            Self::Login => f.write_str(
                "the user and the password of the URL cannot be read (hint: etcd://USER:PASSWORD@HOST:2379; write `/` \
                 as %2F, `@` as %40, `:` as %3A, `?` as %3F, `#` as %23 and `%` as %25)",
            ),
            Self::Path => f.write_str("the URL has more after its members (hint: etcd://HOST:2379,HOST:2379)"),
        }
    }
}

impl std::error::Error for EtcdUrlError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (text, shown) in [
            ("etcd://127.0.0.1", "etcd://127.0.0.1:2379"),
            ("etcds://Etcd.Example:4001/", "etcds://etcd.example:4001"),
            ("etcd://a, b:1,[::1],[::2]:3", "etcd://a:2379,b:1,[::1]:2379,[::2]:3"),
            ("etcd://u:p%40ss@h", "etcd://u@h:2379"),
        ] {
            assert_eq!(text.parse::<EtcdUrl>().unwrap().to_string(), shown);
        }
        let url: EtcdUrl = "etcd://u:hunter%402@h".parse().unwrap();
        assert_eq!(&*url.login.clone().unwrap().password, "hunter@2");
        assert!(!format!("{url:?}").contains("hunter"));
    }

    #[test]
    fn wrong_urls_are_refused_without_their_password() {
        for (text, error) in [
            ("http://h", EtcdUrlError::Scheme),
            ("h:2379", EtcdUrlError::Scheme),
            ("etcd://", EtcdUrlError::NoMember),
            ("etcd://h:0", EtcdUrlError::Member(1)),
            ("etcd://a,b c", EtcdUrlError::Member(2)),
            ("etcd://user:hunter2", EtcdUrlError::Member(1)),
            ("etcd://hunter2@h", EtcdUrlError::Login),
            ("etcd://u:hun/ter2@h", EtcdUrlError::Login),
            ("etcd://u:hunter%2@h", EtcdUrlError::Login),
            ("etcd://h/prefix", EtcdUrlError::Path),
            ("etcd://h?tls=true", EtcdUrlError::Path),
            ("etcd://h,h:2379", EtcdUrlError::DuplicateMember("h:2379".into())),
        ] {
            let refused = text.parse::<EtcdUrl>().unwrap_err();
            assert_eq!(refused, error, "{text}");
            let shown = refused.to_string();
            assert!(shown.contains("(hint: ") && !shown.contains("hunter"), "{shown}");
        }
    }
}
