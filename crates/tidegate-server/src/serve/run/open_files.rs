//! How many files and sockets the process may have open: as many as it is let, and a word if they are too few.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::serve::listening::Address;
use crate::serve::settings::ServeArgs;

/// What the server itself has open at most: sockets to listen on, rules, a snapshot, the log, what the runtime waits on.
const OWN_FILES_MAX: u64 = 64;

/// Raises what the process sets itself as a limit to what it may set, and warns if that is not enough for all connections
/// that are let in.
pub fn make_room(args: &ServeArgs) {
    let limit = raised(getrlimit(Resource::Nofile));
    if let Some(warning) = limit.and_then(|limit| too_few(args, limit)) {
        tracing::warn!("{warning}");
    }
}

/// The limit that is in force in the end; none if there is none.
fn raised(Rlimit { current, maximum }: Rlimit) -> Option<u64> {
    let wanted = Rlimit { current: maximum, maximum };
    match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => maximum,
        // As where the system has a bound of its own below what it says is the most.
        Err(_) => current,
    }
}

/// What is wrong with this many files for these settings.
fn too_few(args: &ServeArgs, limit: u64) -> Option<String> {
    let listeners = args.addresses().iter().filter(|(_, address)| **address != Address::Off).count() as u64;
    let each = args.connections_max.get() as u64;
    let needed = OWN_FILES_MAX + listeners * each;
    let fitting = limit.saturating_sub(OWN_FILES_MAX) / listeners.max(1);
    (limit < needed).then(|| {
        format!(
            "the process may have {limit} files open, and {needed} are needed for {each} connections on each of \
             {listeners} listeners: clients may be kept waiting (hint: let it have more, by LimitNOFILE={needed} in a \
             unit of systemd or `ulimit -n {needed}`, or set connections_max to {} or less)",
            fitting.max(1)
        )
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn as_many_as_all_listeners_need() {
        let few = |limit: u64, args: &[&str]| {
            let args = ServeArgs::parse_from([&["tidegate serve"], args].concat());
            too_few(&args, limit)
        };
        let two = ["--connections-max", "100", "--grpc", "off", "--resp", "off"];
        assert_eq!(few(264, &two), None);
        let warning = few(263, &two).expect("one is missing");
        for text in ["may have 263 files", "264 are needed", "each of 2 listeners", "connections_max to 99 "]
        {
            assert!(warning.contains(text), "{text}: {warning}");
        }
        assert_eq!(few(40_064, &[]), None);
        assert!(few(1_024, &[]).expect("far too few").contains("connections_max to 240 "));
        assert!(few(10, &[]).expect("none at all").contains("connections_max to 1 "));
    }
}
