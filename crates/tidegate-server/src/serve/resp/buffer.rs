//! Buffers that give back what a burst made them take.

/// What a buffer keeps in any case, in bytes: a pipeline of a hundred commands.
pub(super) const KEPT_BYTES: usize = 8 << 10;
/// A buffer that was too large so often in a row is made smaller.
const ROOMY_ROUNDS_MAX: u32 = 32;

/// Watches how much of a buffer is used.
#[derive(Debug, Default)]
pub(super) struct Fit {
    roomy_rounds: u32,
}

impl Fit {
    /// So many bytes of it were used in this round, and it holds no more than it has to go on with.
    #[inline]
    pub fn settle(&mut self, buffer: &mut Vec<u8>, used: usize) {
        if buffer.capacity() <= KEPT_BYTES {
            return;
        }
        if used > buffer.capacity() / 4 {
            self.roomy_rounds = 0;
            return;
        }
        self.roomy_rounds += 1;
        if self.roomy_rounds == ROOMY_ROUNDS_MAX {
            self.roomy_rounds = 0;
            buffer.shrink_to((buffer.capacity() / 2).max(KEPT_BYTES));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_given_back_in_the_end_and_not_at_once() {
        let (mut buffer, mut fit) = (Vec::with_capacity(1 << 20), Fit::default());
        fit.settle(&mut buffer, 1 << 19);
        for _ in 1..ROOMY_ROUNDS_MAX {
            fit.settle(&mut buffer, 100);
        }
        assert_eq!(buffer.capacity(), 1 << 20);
        fit.settle(&mut buffer, 1 << 19);
        for _ in 0..ROOMY_ROUNDS_MAX * 7 {
            fit.settle(&mut buffer, 100);
        }
        assert_eq!(buffer.capacity(), KEPT_BYTES);
        fit.settle(&mut buffer, 0);
        assert_eq!(buffer.capacity(), KEPT_BYTES);
    }
}
