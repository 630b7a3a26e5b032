//! Division of a product that may exceed 128 bits.

/// A product divided by a divisor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ratio {
    pub factors: [u128; 2],
    pub divisor: u128,
}

/// The largest divisor. Three times this still fits 128 bits.
const DIVISOR_MAX: u128 = 1 << 126;

impl Ratio {
    /// The quotient, rounded up once. The caller ensures that it fits 128 bits and that the divisor is in
    /// `1..=DIVISOR_MAX`. Otherwise the result saturates.
    pub(super) fn ceil(self) -> u128 {
        let Self { factors: [one, other], divisor } = self;
        debug_assert!((1..=DIVISOR_MAX).contains(&divisor));
        match one.checked_mul(other) {
            Some(product) => product.checked_div(divisor).map_or(u128::MAX, |_| product.div_ceil(divisor)),
            None => self.ceil_by_bits(),
        }
    }

    /// Long multiplication in base two, from the highest bit of one factor down. Quotient and remainder are kept
    /// separately, so no intermediate value is larger.
    fn ceil_by_bits(self) -> u128 {
        let Self { factors: [one, other], divisor } = self;
        let (Some(whole), Some(part)) = (other.checked_div(divisor), other.checked_rem(divisor)) else {
            return u128::MAX;
        };
        let (mut quotient, mut rest) = (0_u128, 0_u128);
        for bit in (0..u128::BITS - one.leading_zeros()).rev() {
            quotient = quotient.saturating_mul(2);
            rest = rest.saturating_mul(2);
            if one >> bit & 1 == 1 {
                quotient = quotient.saturating_add(whole);
                rest = rest.saturating_add(part);
            }
            // At most three divisors at this point.
            while rest >= divisor {
                quotient = quotient.saturating_add(1);
                rest -= divisor;
            }
        }
        quotient.saturating_add(u128::from(rest > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::Ratio;

    #[test]
    fn both_ways_agree_where_the_product_fits() {
        let numbers = [0, 1, 2, 3, 7, 1_000, (1 << 40) - 1, 1 << 52, u128::from(u64::MAX)];
        for one in numbers {
            for other in numbers {
                for divisor in numbers.into_iter().filter(|divisor| *divisor > 0) {
                    let ratio = Ratio { factors: [one, other], divisor };
                    assert_eq!(ratio.ceil_by_bits(), (one * other).div_ceil(divisor), "{ratio:?}");
                }
            }
        }
    }

    #[test]
    fn products_of_256_bits_are_divided_exactly() {
        let divisor = (1 << 121) + 12_345;
        for quotient in [0, 1, 2, 999, (1 << 110) - 3] {
            assert_eq!(Ratio { factors: [quotient, divisor], divisor }.ceil(), quotient);
        }
        // (d - 1)^2 = d * (d - 2) + 1, and the one left over rounds up.
        assert_eq!(Ratio { factors: [divisor - 1, divisor - 1], divisor }.ceil(), divisor - 1);
        // (d + 1) * (d - 1) = d * d - 1.
        assert_eq!(Ratio { factors: [divisor + 1, divisor - 1], divisor }.ceil(), divisor);
        assert_eq!(Ratio { factors: [u128::MAX, u128::MAX], divisor: 1 }.ceil(), u128::MAX);
    }
}
