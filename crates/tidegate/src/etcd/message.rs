//! Transactions and other messages of etcd, as JSON. Keys and values are base64, and 64-bit numbers are text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Replies bound their lists: more leases of a key than this are not read.
pub(super) const RANGE_KEYS_MAX: u64 = 4_096;

/// A transaction: if all comparisons hold, the operations `then`, and otherwise `otherwise`.
#[derive(Debug, Default)]
pub(super) struct Txn {
    compare: Vec<Value>,
    then: Vec<Value>,
    otherwise: Vec<Value>,
}

/// All keys that begin with a prefix.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefix<'a>(pub &'a [u8]);

/// An etcd lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeaseId(pub i64);

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyValue {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    pub create_revision: u64,
    pub mod_revision: u64,
    pub lease: LeaseId,
}

/// What a transaction did.
#[derive(Clone, Debug)]
pub(super) struct TxnReply {
    pub succeeded: bool,
    /// The revision of etcd after it.
    pub revision: u64,
    /// The term of the leader that the answering member knows.
    pub term: u64,
    /// The keys that each operation found or deleted, in order.
    pub found: Vec<FoundKeys>,
    /// Whether it was sent several times, so that an earlier attempt may have been applied without a reply.
    pub may_be_repeated: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct FoundKeys {
    pub keys: Vec<KeyValue>,
    /// How many keys there are, if they were not all read.
    pub count: u64,
}

impl Txn {
    /// Compares: no key with this prefix was created after a revision.
    pub fn if_none_created_after(&mut self, prefix: Prefix<'_>, revision: u64) {
        self.compare.push(json!({
            "target": "CREATE", "result": "LESS", "create_revision": (revision + 1).to_string(),
            "key": STANDARD.encode(prefix.0), "range_end": STANDARD.encode(prefix.end()),
        }));
    }

    /// Compares: the key was last written at this revision; 0 means that it does not exist.
    pub fn if_unchanged(&mut self, key: &[u8], mod_revision: u64) {
        self.compare.push(json!({
            "target": "MOD", "result": "EQUAL", "mod_revision": mod_revision.to_string(), "key": STANDARD.encode(key),
        }));
    }

    pub fn then_put(&mut self, key: &[u8], value: &str, lease: Option<LeaseId>) {
        let lease = lease.map_or(0, |lease| lease.0).to_string();
        let value = STANDARD.encode(value);
        self.then
            .push(json!({ "request_put": { "key": STANDARD.encode(key), "value": value, "lease": lease } }));
    }

    pub fn then_delete(&mut self, key: &[u8]) {
        self.then.push(json!({ "request_delete_range": { "key": STANDARD.encode(key), "prev_kv": true } }));
    }

    pub fn then_delete_all(&mut self, prefix: Prefix<'_>) {
        let (key, end) = (STANDARD.encode(prefix.0), STANDARD.encode(prefix.end()));
        self.then.push(json!({ "request_delete_range": { "key": key, "range_end": end } }));
    }

    pub fn then_get(&mut self, key: &[u8]) {
        self.then.push(get(key));
    }

    pub fn then_get_all(&mut self, prefix: Prefix<'_>) {
        self.then.push(get_all(prefix));
    }

    pub fn otherwise_get(&mut self, key: &[u8]) {
        self.otherwise.push(get(key));
    }

    pub fn otherwise_get_all(&mut self, prefix: Prefix<'_>) {
        self.otherwise.push(get_all(prefix));
    }

    pub fn into_json(self) -> Value {
        json!({ "compare": self.compare, "success": self.then, "failure": self.otherwise })
    }
}

fn get(key: &[u8]) -> Value {
    json!({ "request_range": { "key": STANDARD.encode(key) } })
}

fn get_all(prefix: Prefix<'_>) -> Value {
    let (key, end) = (STANDARD.encode(prefix.0), STANDARD.encode(prefix.end()));
    json!({ "request_range": { "key": key, "range_end": end, "limit": RANGE_KEYS_MAX.to_string() } })
}

impl Prefix<'_> {
    /// The first key after all keys with this prefix. The last byte of a prefix is never 255.
    fn end(self) -> Vec<u8> {
        let mut end = self.0.to_vec();
        if let Some(last) = end.last_mut() {
            *last = last.saturating_add(1);
        }
        end
    }
}

impl TxnReply {
    /// None if the reply is not that of a transaction.
    pub fn read(reply: &Value) -> Option<Self> {
        let header = reply.get("header")?;
        let responses = reply.get("responses").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        Some(Self {
            // The gateway leaves out what is false, zero or empty.
            succeeded: reply.get("succeeded").and_then(Value::as_bool).unwrap_or(false),
            revision: number(header, "revision")?,
            term: number(header, "raft_term")?,
            found: responses.iter().map(FoundKeys::read).collect::<Option<_>>()?,
            may_be_repeated: false,
        })
    }
}

impl FoundKeys {
    fn read(response: &Value) -> Option<Self> {
        let (list, count) = if let Some(range) = response.get("response_range") {
            (range.get("kvs"), number(range, "count")?)
        } else if let Some(deleted) = response.get("response_delete_range") {
            (deleted.get("prev_kvs"), number(deleted, "deleted")?)
        } else {
            return response.get("response_put").map(|_| Self::default());
        };
        let list = list.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        Some(Self { keys: list.iter().map(KeyValue::read).collect::<Option<_>>()?, count })
    }
}

impl KeyValue {
    fn read(json: &Value) -> Option<Self> {
        let bytes = |name: &str| STANDARD.decode(json.get(name).and_then(Value::as_str).unwrap_or("")).ok();
        Some(Self {
            key: bytes("key")?,
            value: bytes("value")?,
            create_revision: number(json, "create_revision")?,
            mod_revision: number(json, "mod_revision")?,
            lease: LeaseId(signed_number(json, "lease")?),
        })
    }
}

/// A number that may be left out if it is zero. None if it is not a number.
pub(super) fn number(json: &Value, name: &str) -> Option<u64> {
    u64::try_from(signed_number(json, name)?).ok()
}

pub(super) fn signed_number(json: &Value, name: &str) -> Option<i64> {
    match json.get(name) {
        None => Some(0),
        Some(Value::String(text)) => text.parse().ok(),
        Some(number) => number.as_i64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_read_whatever_is_left_out_of_it() {
        let reply = json!({
            "header": { "revision": "7", "raft_term": "2" },
            "responses": [
                { "response_range": { "kvs": [{ "key": "Zm9v", "create_revision": "5", "lease": "-3" }], "count": "1" } },
                { "response_range": {} },
                { "response_put": {} },
                { "response_delete_range": { "deleted": 2 } },
            ],
        });
        let reply = TxnReply::read(&reply).unwrap();
        assert_eq!((reply.succeeded, reply.revision, reply.term), (false, 7, 2));
        let key = &reply.found[0].keys[0];
        assert_eq!((&*key.key, key.create_revision, key.lease), (&b"foo"[..], 5, LeaseId(-3)));
        assert_eq!(reply.found.iter().map(|found| found.count).collect::<Vec<_>>(), [1, 0, 0, 2]);
        for wrong in [
            json!({}),
            json!({ "header": { "revision": "x" } }),
            json!({ "header": {}, "responses": [{ "what": {} }] }),
            json!({ "header": {}, "responses": [{ "response_range": { "kvs": [{ "key": "*" }] } }] }),
        ] {
            assert!(TxnReply::read(&wrong).is_none(), "{wrong}");
        }
    }
}
