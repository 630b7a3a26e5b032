//! BLAKE2b (RFC 7693) with a digest of 32 bytes and without a key.
//!
//! The digest of a long value stands for the value in a key, so clients must not be able to find two values with the
//! same digest. All nodes of a fleet and all snapshots need the same digest, so it has no secret key. BLAKE2b is as
//! strong as SHA-256, and without special instructions about three times as fast.

/// The size of a digest.
const DIGEST_BYTES: usize = 32;
/// The size of a block.
const BLOCK_BYTES: usize = 128;
const ROUNDS: usize = 12;

const IV: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

/// Which words of a block each round mixes, in order. The last two rounds repeat the first two.
const SIGMA: [[usize; 16]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];

/// The BLAKE2b digest of a message, with 32 bytes and without a key, as `b2sum -l 256` prints it.
pub fn digest(message: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut state = IV;
    // The parameters: the size of the digest, no key, fanout 1, depth 1.
    state[0] ^= 0x0101_0000 ^ DIGEST_BYTES as u64;
    // The last block may be full. An empty message has one empty block.
    let last_at = message.len().saturating_sub(1) / BLOCK_BYTES * BLOCK_BYTES;
    let (head, last) = message.split_at(last_at);
    let mut bytes_done = 0;
    for block in head.as_chunks::<BLOCK_BYTES>().0 {
        bytes_done += BLOCK_BYTES as u64;
        compress(&mut state, block, bytes_done, BlockKind::Inner);
    }
    let mut padded = [0; BLOCK_BYTES];
    padded[..last.len()].copy_from_slice(last);
    compress(&mut state, &padded, bytes_done + last.len() as u64, BlockKind::Last);
    let mut digest = [0; DIGEST_BYTES];
    for (bytes, word) in digest.as_chunks_mut::<8>().0.iter_mut().zip(state) {
        *bytes = word.to_le_bytes();
    }
    digest
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Inner,
    Last,
}

/// Mixes a block into the state. `bytes_done` is the length of the message up to the end of the block.
fn compress(state: &mut [u64; 8], block: &[u8; BLOCK_BYTES], bytes_done: u64, kind: BlockKind) {
    let mut words = [0; 16];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let mut v = [0; 16];
    v[..8].copy_from_slice(state);
    v[8..].copy_from_slice(&IV);
    // The upper half of the length, in v[13], is zero.
    v[12] ^= bytes_done;
    if kind == BlockKind::Last {
        v[14] = !v[14];
    }
    for round in 0..ROUNDS {
        let s = &SIGMA[round % SIGMA.len()];
        mix(&mut v, [0, 4, 8, 12], [words[s[0]], words[s[1]]]);
        mix(&mut v, [1, 5, 9, 13], [words[s[2]], words[s[3]]]);
        mix(&mut v, [2, 6, 10, 14], [words[s[4]], words[s[5]]]);
        mix(&mut v, [3, 7, 11, 15], [words[s[6]], words[s[7]]]);
        mix(&mut v, [0, 5, 10, 15], [words[s[8]], words[s[9]]]);
        mix(&mut v, [1, 6, 11, 12], [words[s[10]], words[s[11]]]);
        mix(&mut v, [2, 7, 8, 13], [words[s[12]], words[s[13]]]);
        mix(&mut v, [3, 4, 9, 14], [words[s[14]], words[s[15]]]);
    }
    for (index, word) in state.iter_mut().enumerate() {
        *word ^= v[index] ^ v[index + 8];
    }
}

#[inline]
fn mix(v: &mut [u64; 16], [a, b, c, d]: [usize; 4], [x, y]: [u64; 2]) {
    v[a] = v[a].wrapping_add(v[b]).wrapping_add(x);
    v[d] = (v[d] ^ v[a]).rotate_right(32);
    v[c] = v[c].wrapping_add(v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(24);
    v[a] = v[a].wrapping_add(v[b]).wrapping_add(y);
    v[d] = (v[d] ^ v[a]).rotate_right(16);
    v[c] = v[c].wrapping_add(v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(63);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Digests by the reference implementation (`b2sum -l 256`): lengths around the ends of blocks.
    #[test]
    fn digests_of_the_reference_implementation() {
        let vectors = [
            (0, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8"),
            (1, "03170a2e7597b7b7e3d84c05391d139a62b157e78786d8c082f29dcf4c111314"),
            (127, "f2fe67ff342e21b8f45e8f2e0bcd1d9243245d50ee6c78042e9c491388791c72"),
            (128, "c3582f71ebb2be66fa5dd750f80baae97554f3b015663c8be377cfcb2488c1d1"),
            (129, "f7f3c46ba2564ff4c4c162da1f5b605f9f1c4aa6a20652a9f9a337c1a2f5b9c9"),
            (255, "d9ef0fc521b4266d16df662bec231bc2ec3989e7adeaf63169c295dc239dbbea"),
            (256, "582f782226018ec33076bd8d1c42413530ac7e1126260ffc0f306ba3befc3f24"),
            (257, "227e15ed64ee8e93eb7bc53828f76eed974f2c4ab1408c3d08f212b7f8d69904"),
            (1025, "533c8d76c0f61487431e7c31d15417c8b53887e4765b5597d0d03cb085014afb"),
            (100000, "916cfaa800ee55811e82095babeb88ea29c9ef8a36e8d7e20c7b772c344c9e1c"),
        ];
        for (length, expected) in vectors {
            let message: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
            let hex: String = digest(&message).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, expected, "{length} bytes");
        }
    }
}
