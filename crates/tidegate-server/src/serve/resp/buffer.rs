//! Buffers that give back what a burst made them take.

/// What a buffer keeps in any case, in bytes: a pipeline of a hundred commands.
pub(super) const KEPT_BUFFER_BYTES: usize = 8 << 10;
/// A buffer that was too large so often in a row is made smaller.
const OVERSIZED_ROUNDS_MAX: u32 = 32;

/// Watches how much of a buffer is used.
#[derive(Debug, Default)]
pub(super) struct BufferShrinker {
    oversized_rounds: u32,
}

impl BufferShrinker {
    /// So many bytes of it were used in this round, and it holds no more than it has to go on with.
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
        let (mut buffer, mut fit) = (Vec::with_capacity(1 << 20), BufferShrinker::default());
        fit.shrink(&mut buffer, 1 << 19);
        for _ in 1..OVERSIZED_ROUNDS_MAX {
            fit.shrink(&mut buffer, 100);
        }
        assert_eq!(buffer.capacity(), 1 << 20);
        fit.shrink(&mut buffer, 1 << 19);
        for _ in 0..OVERSIZED_ROUNDS_MAX * 7 {
            fit.shrink(&mut buffer, 100);
        }
        assert_eq!(buffer.capacity(), KEPT_BUFFER_BYTES);
        fit.shrink(&mut buffer, 0);
        assert_eq!(buffer.capacity(), KEPT_BUFFER_BYTES);
    }
}
