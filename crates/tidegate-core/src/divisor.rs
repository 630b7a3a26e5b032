//! Division by a number that is known in advance: a multiplication and a shift instead of a division.
//!
//! From Granlund and Montgomery, "Division by Invariant Integers using Multiplication" (1994). With 2^(s-1) < d <= 2^s and
//! m = ceil(2^(63+s) / d), the quotient of n < 2^63 is floor(n·m / 2^(63+s)): m·d exceeds 2^(63+s) by e < d <= 2^s, so
//! the product is too large by n·e / (d·2^(63+s)) < 1/d, which cannot reach the next whole number.

/// A divisor from 1 to 2^62.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divisor {
    divisor: u64,
    multiplier: u64,
    shift: u32,
}

impl Divisor {
    pub(crate) fn new(divisor: u64) -> Self {
        debug_assert!((1..=1 << 62).contains(&divisor));
        let shift = u64::BITS - (divisor - 1).leading_zeros();
        let multiplier = (1_u128 << (63 + shift)).div_ceil(u128::from(divisor));
        #[allow(
            clippy::cast_possible_truncation,
            reason = "below 2^64, because the divisor is more than 2^(shift-1)"
        )]
        return Self { divisor, multiplier: multiplier as u64, shift };
    }

    /// The number itself.
    #[inline(always)]
    pub(crate) fn get(self) -> u64 {
        self.divisor
    }

    /// The quotient of a dividend below 2^63.
    #[inline(always)]
    pub(crate) fn divide(self, dividend: u64) -> u64 {
        debug_assert!(dividend >> 63 == 0);
        // Twice the dividend, so that the upper half of the product is what was meant.
        #[allow(clippy::cast_possible_truncation, reason = "the upper half of a product")]
        let upper = ((u128::from(dividend << 1) * u128::from(self.multiplier)) >> 64) as u64;
        upper >> self.shift
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rate::{WINDOW_NS_MAX, WINDOW_NS_MIN};

    #[test]
    fn borders_are_exact() {
        let powers = (0..=62).map(|bit| 1_u64 << bit);
        let divisors =
            powers.flat_map(|power| [power - 1, power, power + 1]).chain([WINDOW_NS_MIN, WINDOW_NS_MAX]);
        for divisor in divisors.filter(|divisor| (1..=1 << 62).contains(divisor)) {
            let exact = Divisor::new(divisor);
            let largest = (1_u64 << 63) - 1;
            let multiple = largest - largest % divisor;
            for dividend in [0, 1, divisor - 1, divisor, multiple - 1, multiple, largest] {
                assert_eq!(exact.divide(dividend), dividend / divisor, "{dividend} / {divisor}");
            }
        }
    }

    proptest! {
        #[test]
        fn quotients_are_exact(dividend in 0..1_u64 << 63, divisor in 1..=1_u64 << 62, bits in 0..62_u32) {
            let divisor = (divisor >> bits).max(1);
            prop_assert_eq!(Divisor::new(divisor).divide(dividend), dividend / divisor);
            let multiple = dividend - dividend % divisor;
            prop_assert_eq!(Divisor::new(divisor).divide(multiple), multiple / divisor);
            prop_assert_eq!(Divisor::new(divisor).divide(multiple.saturating_sub(1)), multiple.saturating_sub(1) / divisor);
        }
    }
}
