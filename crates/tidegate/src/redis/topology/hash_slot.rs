//! The hash slot of a hash tag in Redis Cluster.

/// The number of slots in a cluster.
pub(crate) const SLOT_COUNT: usize = 16384;

/// The CRC16 table (CCITT, as in XMODEM: polynomial 0x1021, initial value 0).
static CRC16: [u16; 256] = crc16_table();

/// The slot of keys with this hash tag, the text between `{` and `}`.
pub(crate) fn slot_of(tag: &[u8]) -> u16 {
    let crc = tag.iter().fold(0u16, |crc, &byte| {
        let [high, _] = crc.to_be_bytes();
        (crc << 8) ^ CRC16[usize::from(high ^ byte)]
    });
    crc % 16384
}

/// A tag whose keys are in this slot. A slot that is out of range is wrapped.
pub(crate) fn tag_for_slot(slot: u16) -> String {
    // A server known only from a redirect has no valid slot yet. Without this the search would never end.
    let slot = slot % 16384;
    // Numbers spread evenly over the slots, so this tries about as many numbers as there are slots.
    (0u64..).map(|number| number.to_string()).find(|tag| slot_of(tag.as_bytes()) == slot).unwrap_or_default()
}

const fn crc16_table() -> [u16; 256] {
    let mut table = [0u16; 256];
    let mut byte = 0u16;
    while byte < 256 {
        let mut crc = byte << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::{SLOT_COUNT, slot_of, tag_for_slot};

    #[test]
    fn slots_are_those_of_redis() {
        // The check value of the polynomial, and the results of CLUSTER KEYSLOT.
        assert_eq!(slot_of(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b""), 0);
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b"user1000"), 3443);
    }

    #[test]
    fn every_slot_has_a_tag() {
        for slot in [0, 1, 77, 8191, 16383] {
            assert_eq!(slot_of(tag_for_slot(slot).as_bytes()), slot);
        }
        assert!(!tag_for_slot(u16::MAX).is_empty(), "an invalid slot must end too");
        assert!((0..1000).all(|number| usize::from(slot_of(format!("key{number}").as_bytes())) < SLOT_COUNT));
    }
}
