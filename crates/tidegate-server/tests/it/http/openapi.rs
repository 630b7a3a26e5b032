//! The OpenAPI documents of the listeners.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;

/// The document has exactly the paths and methods of the server.
#[test]
fn every_path_and_method_is_described() {
    let server = Server::new(RULES);
    for address in [server.http, server.admin] {
        let mut client = Client::connect(address);
        let document = client.get("/openapi.json");
        assert_eq!(document.header("content-type"), Some("application/json"));
        let document = document.json();
        assert_eq!(document["openapi"], "3.1.0");
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
        let described: BTreeSet<&str> =
            document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
        let missing = client.get("/nowhere").json();
        let there: BTreeSet<&str> =
            missing["paths"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
        assert_eq!(described, there);
        // Any method is allowed there.
        for path in described.into_iter().filter(|path| *path != "/v1/authorize") {
            let allowed = client.request("TRACE", path, &[], b"").header("allow").unwrap().to_lowercase();
            let methods: BTreeSet<&str> = document["paths"][path]
                .as_object()
                .unwrap()
                .keys()
                .map(String::as_str)
                .filter(|method| *method != "parameters")
                .collect();
            assert_eq!(methods, allowed.split(", ").collect::<BTreeSet<_>>(), "{path}");
        }
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let server = Server::new(RULES);
    for address in [server.http, server.admin] {
        let document = Client::connect(address).get("/openapi.json").json();
        let mut references = Vec::new();
        collect(&document, &mut references);
        assert!(!references.is_empty());
        for reference in references {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }
}

fn collect(value: &Value, references: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            references.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| collect(field, references));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, references)),
        _ => {}
    }
}
