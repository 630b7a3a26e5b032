//! How many files and sockets the process may have open: as many as it is let, and no more connections than that.

use std::num::NonZeroUsize;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::serve::listening::Address;
use crate::serve::settings::{CONNECTIONS_MAX_DEFAULT, ServeArgs};

/// What the server itself has open at most: sockets to listen on, rules, a snapshot, the log, what the runtime waits on.
const OWN_FILES_MAX: u64 = 64;

/// Raises what the process sets itself as a limit to what it may set, and says how many connections each listener may have:
/// as many as are set, or fewer, if there is no room for so many files. Without room, those that are there would be served,
/// and new ones kept waiting without a word; so they are turned away and counted.
pub fn raise_limit(args: &ServeArgs) -> NonZeroUsize {
    let Some(fewer) = raise(getrlimit(Resource::Nofile)).and_then(|limit| reduce_connections(args, limit)) else {
        return args.connections_max;
    };
    // Who has not asked for so many has nothing to be warned of.
    match args.connections_max {
        CONNECTIONS_MAX_DEFAULT => tracing::info!("{}", fewer.message),
        _ => tracing::warn!("{}", fewer.message),
    }
    fewer.connections_max
}

/// Fewer connections than are set.
struct ReducedConnections {
    connections_max: NonZeroUsize,
    message: String,
}

/// The limit that is in force in the end; none if there is none.
fn raise(Rlimit { current, maximum }: Rlimit) -> Option<u64> {
    let wanted = Rlimit { current: maximum, maximum };
    match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => maximum,
        // As where the system has a bound of its own below what it says is the most.
        Err(_) => current,
    }
}

/// What this many files are enough for, if it is not what these settings ask for.
fn reduce_connections(args: &ServeArgs, limit: u64) -> Option<ReducedConnections> {
    let listeners = args.addresses().iter().filter(|(_, address)| **address != Address::Off).count() as u64;
    let each = args.connections_max.get() as u64;
    let needed = OWN_FILES_MAX + listeners * each;
    if needed <= limit {
        return None;
    }
    let fitting = limit.saturating_sub(OWN_FILES_MAX) / listeners.max(1);
    let connections_max =
        usize::try_from(fitting).ok().and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN);
    let message = format!(
        "each listener takes {connections_max} connections and not {each}, since the process may have {limit} files open and \
         {needed} are needed for so many on each of {listeners} listeners (hint: let it have more, by \
         LimitNOFILE={needed} in a unit of systemd or `ulimit -n {needed}`)"
    );
    Some(ReducedConnections { connections_max, message })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn connections_fit_the_file_limit() {
        let few = |limit: u64, args: &[&str]| {
            let args = ServeArgs::parse_from([&["tidegate serve"], args].concat());
            reduce_connections(&args, limit)
        };
        let two = ["--connections-max", "100", "--grpc", "off", "--resp", "off"];
        assert!(few(264, &two).is_none());
        let fewer = few(263, &two).expect("one is missing");
        assert_eq!(fewer.connections_max.get(), 99);
        for text in
            ["takes 99 connections and not 100", "may have 263 files", "264 are needed", "of 2 listeners"]
        {
            assert!(fewer.message.contains(text), "{text}: {}", fewer.message);
        }
        assert!(few(40_064, &[]).is_none());
        assert_eq!(few(1_024, &[]).expect("far too few").connections_max.get(), 240);
        assert_eq!(few(10, &[]).expect("none at all").connections_max.get(), 1);
    }
}
