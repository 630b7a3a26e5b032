//! Settings that are valid one by one but contradict each other.

use tidegate::identity::NetSet;

use super::{LeaseStoreLocation, ProtectedMode, ServeArgs, StoreLocation};
use crate::serve::Protocol;
use crate::serve::listen::Address;

/// All conflicts, each with a hint.
pub fn find_conflicts(args: &ServeArgs) -> Vec<String> {
    let mut conflicts = Vec::new();
    check_addresses(args, &mut conflicts);
    check_tls(args, &mut conflicts);
    check_admin(args, &mut conflicts);
    check_resp(args, &mut conflicts);
    check_secrets(args, &mut conflicts);
    check_store(args, &mut conflicts);
    check_lease_store(args, &mut conflicts);
    check_forward_auth(args, &mut conflicts);
    if args.has_stored_rules() && args.rules.len() > 1 {
        conflicts.push(
            "rules are both in the config store and in files (hint: push the files with `tidegate rules push`, and set \
             only --rules store; a file named `store` is ./store)"
                .to_owned(),
        );
    }
    conflicts
}

impl ServeArgs {
    /// The address of each protocol.
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

    /// Whether other machines can use RESP without showing a password or a certificate.
    pub fn is_resp_open(&self) -> bool {
        let has_password = self.resp_password.is_some() || self.resp_password_file.is_some();
        let has_certificates = matches!(self.resp, Address::Tls(_)) && self.tls_client_ca.is_some();
        !self.resp.is_local() && !has_password && !has_certificates
    }

    /// Whether any address uses TLS.
    pub fn has_tls_address(&self) -> bool {
        self.addresses().iter().any(|(_, address)| matches!(address, Address::Tls(_)))
    }
}

fn check_addresses(args: &ServeArgs, conflicts: &mut Vec<String>) {
    let addresses = args.addresses();
    if addresses.iter().all(|(_, address)| **address == Address::Off) {
        conflicts.push(
            "http, grpc, resp and admin are all off (hint: give at least one of them an address)".to_owned(),
        );
    }
    for (index, (protocol, address)) in addresses.iter().enumerate() {
        let overlaps = |(_, other): &&(Protocol, &Address)| other.overlaps(address);
        if let Some((other, _)) = addresses[..index].iter().find(overlaps) {
            let (protocol, other) = (protocol.as_str(), other.as_str());
            conflicts.push(format!(
                "{other} and {protocol} cannot both listen on {address} (hint: give each its own address, or turn one \
                 off: --{protocol} off)"
            ));
        }
    }
}

fn check_tls(args: &ServeArgs, conflicts: &mut Vec<String>) {
    for (protocol, address) in args.addresses() {
        let protocol = protocol.as_str();
        if matches!(address, Address::Tls(_)) && (args.tls_cert.is_none() || args.tls_key.is_none()) {
            conflicts.push(format!(
                "{protocol} listens on {address}, which needs a certificate and its key (hint: set both --tls-cert and \
                 --tls-key, or remove `tls:`)"
            ));
        }
    }
    let set = [
        ("tls_cert", args.tls_cert.is_some()),
        ("tls_key", args.tls_key.is_some()),
        ("tls_client_ca", args.tls_client_ca.is_some()),
    ];
    if let Some((name, _)) = set.iter().find(|(_, is_set)| *is_set && !args.has_tls_address()) {
        conflicts.push(format!(
            "{name} is set, but no address uses TLS (hint: write `tls:` before an address, as in --http \
             tls:0.0.0.0:8443)"
        ));
    }
}

fn check_admin(args: &ServeArgs, conflicts: &mut Vec<String>) {
    let has_token = args.admin_token.is_some() || args.admin_token_file.is_some();
    if !args.admin.is_local() && !has_token {
        conflicts.push(format!(
            "admin listens on {}, where other machines could reset limits (hint: set a token with \
             --admin-token-file or TIDEGATE_ADMIN_TOKEN, or listen on 127.0.0.1)",
            args.admin
        ));
    }
}

fn check_resp(args: &ServeArgs, conflicts: &mut Vec<String>) {
    if args.is_resp_open() && args.resp_protected_mode == ProtectedMode::On {
        conflicts.push(format!(
            "resp listens on {} without a password, where other machines could charge any key (hint: set a password with \
             --resp-password-file or TIDEGATE_RESP_PASSWORD, listen on 127.0.0.1, or allow it with \
             --resp-protected-mode off)",
            args.resp
        ));
    }
}

fn check_secrets(args: &ServeArgs, conflicts: &mut Vec<String>) {
    let twice = [
        ("admin_token", args.admin_token.is_some() && args.admin_token_file.is_some()),
        ("resp_password", args.resp_password.is_some() && args.resp_password_file.is_some()),
    ];
    for (name, _) in twice.iter().filter(|(_, is_twice)| *is_twice) {
        conflicts.push(format!("{name} and {name}_file are both set (hint: set only one of them)"));
    }
}

fn check_store(args: &ServeArgs, conflicts: &mut Vec<String>) {
    let set = [
        ("store_ca", args.store_ca.is_some()),
        ("store_cert", args.store_cert.is_some()),
        ("store_key", args.store_key.is_some()),
        ("store_wait_replicas", args.store_wait_replicas.is_some()),
        ("store_required", args.store_required),
        ("store_before_ready", args.store_before_ready),
    ];
    if args.store == StoreLocation::Memory {
        for (name, _) in set.iter().filter(|(_, is_set)| *is_set) {
            conflicts.push(format!(
                "{name} is set, but counters are in memory (hint: set the store, as in --store \
                 redis://127.0.0.1:6379, or remove {name})"
            ));
        }
    }
    if args.store_cert.is_some() != args.store_key.is_some() {
        conflicts.push("only one of store_cert and store_key is set (hint: set both or neither)".to_owned());
    }
}

fn check_forward_auth(args: &ServeArgs, conflicts: &mut Vec<String>) {
    let settings = &args.forward_auth;
    for name in settings.unused() {
        conflicts.push(format!(
            "{name} is set, but forward auth is off (hint: name the domain whose rules apply with --forward-auth-domain, \
             or remove {name})"
        ));
    }
    if settings.trusted_hops > 0 && !settings.trusted_proxies.is_empty() {
        conflicts.push(
            "trusted_hops and trusted_proxies are both set (hint: trust a number of proxies, or those with certain \
             addresses)"
                .to_owned(),
        );
    }
    if !settings.trusted_proxies.is_empty()
        && let Err(error) = NetSet::new(settings.trusted_proxies.iter().copied())
    {
        conflicts.push(format!("trusted_proxies: {error}"));
    }
    let has_keys = args.tokens.jwt_keys_file.is_some() || args.tokens.jwt_keys_url.is_some();
    match (settings.uses_claims(), has_keys) {
        (true, false) => conflicts.push(
            "a claim is an attribute, but there are no keys to verify tokens with (hint: set --jwt-keys-file or \
             --jwt-keys-url)"
                .to_owned(),
        ),
        (false, true) => conflicts.push(
            "there are keys of tokens, but no attribute is a claim (hint: set --user-from claim:sub, or remove the keys)"
                .to_owned(),
        ),
        _ => {}
    }
    if settings.http_proxy_protocol && matches!(args.http, Address::Tls(_)) {
        conflicts.push(
            "http_proxy_protocol cannot be used with a `tls:` address (hint: end TLS in the proxy, and listen on a plain \
             address or a Unix socket)"
                .to_owned(),
        );
    }
}

fn check_lease_store(args: &ServeArgs, conflicts: &mut Vec<String>) {
    let set = [
        ("lease_store_ca", args.lease_store_ca.is_some()),
        ("lease_store_cert", args.lease_store_cert.is_some()),
        ("lease_store_key", args.lease_store_key.is_some()),
    ];
    if args.lease_store == LeaseStoreLocation::Auto {
        for (name, _) in set.iter().filter(|(_, is_set)| *is_set) {
            conflicts.push(format!(
                "{name} is set, but leases are where counters are (hint: set the lease store, as in --lease-store \
                 etcds://10.0.0.1:2379, or remove {name})"
            ));
        }
    }
    if args.lease_store_cert.is_some() != args.lease_store_key.is_some() {
        conflicts.push(
            "only one of lease_store_cert and lease_store_key is set (hint: set both or neither)".to_owned(),
        );
    }
}
