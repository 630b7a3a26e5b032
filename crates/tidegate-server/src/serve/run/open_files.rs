//! Raises the limit of open files, and reduces the number of connections if the limit is still too low.

use std::num::NonZeroUsize;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::serve::listen::Address;
use crate::serve::settings::{CONNECTIONS_MAX_DEFAULT, ServeArgs};

/// The maximum of files that the server itself opens: listeners, rules, a snapshot, the log, epoll of the runtime.
const OWN_FILES_MAX: u64 = 64;

/// Raises the soft limit of open files to the hard limit, and returns how many connections each listener may have:
/// `--connections-max`, or fewer if the limit is too low. Without this, new connections would wait in the backlog when
/// the process has no file left. Now they are refused and counted.
pub fn raise_limit(args: &ServeArgs) -> NonZeroUsize {
    let Some(reduced) = raise(getrlimit(Resource::Nofile)).and_then(|limit| reduce_connections(args, limit))
    else {
        return args.connections_max;
    };
    // The user did not ask for the default, so it needs no warning.
    match args.connections_max {
        CONNECTIONS_MAX_DEFAULT => tracing::info!("{}", reduced.message),
        _ => tracing::warn!("{}", reduced.message),
    }
    reduced.connections_max
}

/// Fewer connections than `--connections-max`, with a message.
struct ReducedConnections {
    connections_max: NonZeroUsize,
    message: String,
}

/// Raises the soft limit. Returns the limit in force, or `None` if there is none.
fn raise(Rlimit { current, maximum }: Rlimit) -> Option<u64> {
    let limit = Rlimit { current: maximum, maximum };
    match setrlimit(Resource::Nofile, limit) {
        Ok(()) => maximum,
        // Some systems have a lower bound than the hard limit that they report.
        Err(_) => current,
    }
}

/// The connections that fit in this limit of files, if these settings need more.
fn reduce_connections(args: &ServeArgs, limit: u64) -> Option<ReducedConnections> {
    let listeners = args.addresses().iter().filter(|(_, address)| **address != Address::Off).count() as u64;
    let wanted = args.connections_max.get() as u64;
    let needed = OWN_FILES_MAX + listeners * wanted;
    if needed <= limit {
        return None;
    }
    let fitting = limit.saturating_sub(OWN_FILES_MAX) / listeners.max(1);
    let connections_max =
        usize::try_from(fitting).ok().and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN);
    let message = format!(
        "each listener accepts {connections_max} connections instead of {wanted}: the process may open {limit} files, \
         but {wanted} connections on each of {listeners} listeners need {needed} (hint: raise the limit with \
         LimitNOFILE={needed} in the systemd unit, or with `ulimit -n {needed}`)"
    );
    Some(ReducedConnections { connections_max, message })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn connections_fit_the_file_limit() {
        let reduce = |limit: u64, args: &[&str]| {
            let args = ServeArgs::parse_from([&["tidegate serve"], args].concat());
            reduce_connections(&args, limit)
        };
        let two_listeners = ["--connections-max", "100", "--grpc", "off", "--resp", "off"];
        assert!(reduce(264, &two_listeners).is_none());
        let reduced = reduce(263, &two_listeners).expect("one is missing");
        assert_eq!(reduced.connections_max.get(), 99);
        for text in
            ["accepts 99 connections instead of 100", "may open 263 files", "need 264", "of 2 listeners"]
        {
            assert!(reduced.message.contains(text), "{text}: {}", reduced.message);
        }
        assert!(reduce(40_064, &[]).is_none());
        assert_eq!(reduce(1_024, &[]).expect("far too few").connections_max.get(), 240);
        assert_eq!(reduce(10, &[]).expect("none at all").connections_max.get(), 1);
    }
}
