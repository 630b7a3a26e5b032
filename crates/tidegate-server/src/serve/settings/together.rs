//! Settings that each are right, and do not go together.

use super::{ServeArgs, StorePlace};
use crate::serve::Protocol;
use crate::serve::listening::Address;

/// All that does not go together, each with what to do.
pub fn problems(args: &ServeArgs) -> Vec<String> {
    let mut problems = Vec::new();
    addresses(args, &mut problems);
    encryption(args, &mut problems);
    admin(args, &mut problems);
    secrets(args, &mut problems);
    store(args, &mut problems);
    problems
}

impl ServeArgs {
    /// Where each protocol is to be spoken.
    pub fn addresses(&self) -> [(Protocol, &Address); 4] {
        Protocol::ALL.map(|protocol| (protocol, self.address(protocol)))
    }

    fn address(&self, protocol: Protocol) -> &Address {
        match protocol {
            Protocol::Http => &self.http,
            Protocol::Grpc => &self.grpc,
            Protocol::Resp => &self.resp,
            Protocol::Admin => &self.admin,
        }
    }

    /// Whether anything is to be encrypted.
    pub fn is_any_tls(&self) -> bool {
        self.addresses().iter().any(|(_, address)| matches!(address, Address::Tls(_)))
    }
}

fn addresses(args: &ServeArgs, problems: &mut Vec<String>) {
    let addresses = args.addresses();
    if addresses.iter().all(|(_, address)| **address == Address::Off) {
        problems.push(
            "http, grpc, resp and admin are all off, so there is nothing to do (hint: give one of them an address)"
                .to_owned(),
        );
    }
    for (at, (protocol, address)) in addresses.iter().enumerate() {
        let same = |(_, other): &&(Protocol, &Address)| other.is_same_place(address);
        if let Some((other, _)) = addresses[..at].iter().find(same) {
            let (protocol, other) = (protocol.as_str(), other.as_str());
            problems.push(format!(
                "{other} and {protocol} are both to listen on {address} (hint: give each an address of its own, or \
                 turn one off: --{protocol} off)"
            ));
        }
    }
}

fn encryption(args: &ServeArgs, problems: &mut Vec<String>) {
    for (protocol, address) in args.addresses() {
        let protocol = protocol.as_str();
        if matches!(address, Address::Tls(_)) && (args.tls_cert.is_none() || args.tls_key.is_none()) {
            problems.push(format!(
                "{protocol} is to listen on {address}, which needs a certificate and its key (hint: set both \
                 --tls-cert and --tls-key, or leave `tls:` out)"
            ));
        }
    }
    let set = [
        ("tls_cert", args.tls_cert.is_some()),
        ("tls_key", args.tls_key.is_some()),
        ("tls_client_ca", args.tls_client_ca.is_some()),
    ];
    if let Some((name, _)) = set.iter().find(|(_, is_set)| *is_set && !args.is_any_tls()) {
        problems.push(format!(
            "{name} is set and nothing is encrypted (hint: write `tls:` before an address, as in --http \
             tls:0.0.0.0:8443)"
        ));
    }
}

fn admin(args: &ServeArgs, problems: &mut Vec<String>) {
    let has_token = args.admin_token.is_some() || args.admin_token_file.is_some();
    if !args.admin.is_this_machine() && !has_token {
        problems.push(format!(
            "admin is to listen on {}, beyond this machine, where anybody could reset limits (hint: set a token by \
             --admin-token-file or TIDEGATE_ADMIN_TOKEN, or listen on 127.0.0.1)",
            args.admin
        ));
    }
}

fn secrets(args: &ServeArgs, problems: &mut Vec<String>) {
    let twice = [
        ("admin_token", args.admin_token.is_some() && args.admin_token_file.is_some()),
        ("resp_password", args.resp_password.is_some() && args.resp_password_file.is_some()),
    ];
    for (name, _) in twice.iter().filter(|(_, is_twice)| *is_twice) {
        problems.push(format!("{name} and {name}_file are both set (hint: leave one of them out)"));
    }
}

fn store(args: &ServeArgs, problems: &mut Vec<String>) {
    let set = [
        ("store_ca", args.store_ca.is_some()),
        ("store_cert", args.store_cert.is_some()),
        ("store_key", args.store_key.is_some()),
        ("store_wait_replicas", args.store_wait_replicas.is_some()),
    ];
    if args.store == StorePlace::Memory {
        for (name, _) in set.iter().filter(|(_, is_set)| *is_set) {
            problems.push(format!(
                "{name} is set and counters are in memory (hint: say where the store is, as in --store \
                 redis://127.0.0.1:6379, or leave {name} out)"
            ));
        }
    }
    if args.store_cert.is_some() != args.store_key.is_some() {
        problems.push(
            "one of store_cert and store_key is set without the other (hint: set both, or neither)"
                .to_owned(),
        );
    }
}
