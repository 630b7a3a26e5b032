//! Buffers that release memory after a burst.

/// Buffers up to this size, enough for a pipeline of a hundred commands, are never shrunk.
pub(super) const KEPT_BUFFER_BYTES: usize = 8 << 10;
/// A buffer is shrunk when it was oversized for this many rounds in a row.
const OVERSIZED_ROUNDS_MAX: u32 = 32;

/// Watches how much of a buffer is used.
#[derive(Debug, Default)]
pub(super) struct BufferShrinker {
    oversized_rounds: u32,
}

impl BufferShrinker {
    /// Ends a round in which `used` bytes of the buffer were needed, and shrinks it if it is often oversized.
    #[inline]
    pub fn shrink(&mut self, buffer: &mut Vec<u8>, used: usize) {
        if buffer.capacity() <= KEPT_BUFFER_BYTES {
            return;
        }
        if used > buffer.capacity() / 4 {
            self.oversized_rounds = 0;
            return;
        }
        self.oversized_rounds += 1;
        if self.oversized_rounds == OVERSIZED_ROUNDS_MAX {
            self.oversized_rounds = 0;
            buffer.shrink_to((buffer.capacity() / 2).max(KEPT_BUFFER_BYTES));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_memory_is_released_after_some_rounds() {
        let (mut buffer, mut shrinker) = (Vec::with_capacity(1 << 20), BufferShrinker::default());
        shrinker.shrink(&mut buffer, 1 << 19);
        for _ in 1..OVERSIZED_ROUNDS_MAX {
            shrinker.shrink(&mut buffer, 100);
        }
        assert_eq!(buffer.capacity(), 1 << 20);
        shrinker.shrink(&mut buffer, 1 << 19);
        for _ in 0..OVERSIZED_ROUNDS_MAX * 7 {
            shrinker.shrink(&mut buffer, 100);
        }
        assert_eq!(buffer.capacity(), KEPT_BUFFER_BYTES);
        shrinker.shrink(&mut buffer, 0);
        assert_eq!(buffer.capacity(), KEPT_BUFFER_BYTES);
    }
}
