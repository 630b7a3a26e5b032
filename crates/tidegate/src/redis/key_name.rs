//! The parts of a key's name that matter to Redis. `store/key_name.rs` builds the names.

pub(super) use crate::store::key_name::{KeyName, key_name};

/// The hash tag of a name, which decides the slot of a key.
pub(super) fn hash_tag(name: &[u8]) -> &[u8] {
    let inside = |open: usize| {
        let inside = &name[open + 1..];
        let close = inside.iter().position(|byte| *byte == b'}').filter(|close| *close > 0)?;
        Some(&inside[..close])
    };
    name.iter().position(|byte| *byte == b'{').and_then(inside).unwrap_or(name)
}

/// The part of a name after its hash tag, which identifies the counter.
pub(super) fn after_hash_tag(name: &[u8]) -> &[u8] {
    name.iter().position(|byte| *byte == b'}').map_or(&[], |close| &name[close + 1..])
}

#[cfg(test)]
mod tests {
    use super::after_hash_tag;

    #[test]
    fn the_counter_follows_the_hash_tag() {
        assert_eq!(after_hash_tag(b"tg:1{user}Zm9v"), b"Zm9v");
        assert_eq!(after_hash_tag(b"tg"), b"");
    }
}
