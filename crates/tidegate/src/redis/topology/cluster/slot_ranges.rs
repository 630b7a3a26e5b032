//! The reply of `CLUSTER SLOTS`.

use std::ops::RangeInclusive;

use redis::{Pipeline, Value};

use crate::redis::connection::{
    ConnectError, ConnectErrorKind as Kind, Connection, as_text, closed_error, into_result, refusal_error,
};
use crate::redis::topology::hash_slot::SLOT_COUNT;
use crate::redis::url::Address;

/// A range of slots and its master.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SlotRange {
    pub slots: RangeInclusive<u16>,
    pub master: Address,
}

/// Queries the slots of a server. The result is never empty.
pub(crate) async fn query_slot_ranges(
    connection: &Connection,
    queried: &Address,
) -> Result<Vec<SlotRange>, ConnectError> {
    let mut pipeline = Pipeline::new();
    pipeline.cmd("CLUSTER").arg("SLOTS");
    let replies = connection.send(&pipeline).await.map_err(|error| closed_error(queried, &error))?;
    let reply = into_result(replies.into_iter().next()).map_err(|error| refusal_error(queried, &error))?;
    let ranges = parse_slot_ranges(&reply, queried);
    if ranges.is_empty() {
        return Err(ConnectError::new(
            Kind::NotReady,
            queried,
            "no server of its cluster has slots",
            "create a cluster with redis-cli --cluster create HOST:PORT HOST:PORT ...",
        ));
    }
    Ok(ranges)
}

/// Parses `[first slot, last slot, [host, port, ...] of the master, ... of replicas]` for each range. Invalid
/// ranges are skipped.
fn parse_slot_ranges(reply: &Value, queried: &Address) -> Vec<SlotRange> {
    let Value::Array(ranges) = reply else { return Vec::new() };
    ranges.iter().filter_map(|range| parse_slot_range(range, queried)).take(SLOT_COUNT).collect()
}

fn parse_slot_range(range: &Value, queried: &Address) -> Option<SlotRange> {
    let Value::Array(parts) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = parts.as_slice() else {
        return None;
    };
    let [host, Value::Int(port), ..] = master.as_slice() else { return None };
    // A server that does not know its own name, or is configured to hide it, is where it was queried.
    let host = match as_text(host) {
        None | Some("" | "?") => queried.host.clone(),
        Some(host) => host.to_ascii_lowercase().into(),
    };
    let slot = |number: &i64| u16::try_from(*number).ok().filter(|&slot| usize::from(slot) < SLOT_COUNT);
    let port = u16::try_from(*port).ok().filter(|&port| port > 0)?;
    Some(SlotRange { slots: slot(first)?..=slot(last)?, master: Address { host, port } })
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::{Address, SlotRange, parse_slot_ranges};

    fn slot_range_value(first: i64, last: i64, host: Value, port: i64) -> Value {
        let master = Value::Array(vec![host, Value::Int(port), Value::BulkString(b"id".to_vec())]);
        Value::Array(vec![Value::Int(first), Value::Int(last), master])
    }

    #[test]
    fn slot_ranges_are_parsed_and_invalid_ones_skipped() {
        let queried = Address { host: "seed".into(), port: 1 };
        let named = |host: &str| Value::BulkString(host.as_bytes().to_vec());
        let reply = Value::Array(vec![
            slot_range_value(0, 5460, named("10.0.0.1"), 7000),
            slot_range_value(5461, 5461, named(""), 7001),
            slot_range_value(5462, 9000, Value::Nil, 7002),
            // Invalid ranges.
            slot_range_value(9001, 16384, named("10.0.0.2"), 7003),
            slot_range_value(-1, 2, named("10.0.0.2"), 7003),
            slot_range_value(9001, 9002, named("10.0.0.2"), 70000),
            slot_range_value(9001, 9002, named("10.0.0.2"), 0),
            Value::Array(vec![Value::Int(1)]),
            Value::Nil,
        ]);
        let address = |host: &str, port| Address { host: host.into(), port };
        assert_eq!(
            parse_slot_ranges(&reply, &queried),
            [
                SlotRange { slots: 0..=5460, master: address("10.0.0.1", 7000) },
                SlotRange { slots: 5461..=5461, master: address("seed", 7001) },
                SlotRange { slots: 5462..=9000, master: address("seed", 7002) },
            ]
        );
        assert_eq!(parse_slot_ranges(&Value::Nil, &queried), []);
    }
}
