//! Whole numbers as decimal digits, without allocating.

/// The longest text is `i128::MIN`: 39 digits and a sign.
const DECIMAL_BYTES_MAX: usize = 40;

/// The digits of a number, at the end of a buffer.
#[derive(Clone, Copy)]
pub(crate) struct Decimal {
    bytes: [u8; DECIMAL_BYTES_MAX],
    start: usize,
}

/// The two digits of each number below 100, so that one division gives two digits.
const DIGIT_PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0_u8;
    while number < 100 {
        pairs[number as usize] = [b'0' + number / 10, b'0' + number % 10];
        number += 1;
    }
    pairs
};

impl Decimal {
    #[inline]
    pub(crate) fn of(number: u64) -> Self {
        let mut decimal = Self { bytes: [0; DECIMAL_BYTES_MAX], start: DECIMAL_BYTES_MAX };
        decimal.push_front(number);
        decimal
    }

    pub(crate) fn of_u128(number: u128) -> Self {
        // The largest power of ten that fits 64 bits.
        const DIGITS: usize = 19;
        const POWER: u128 = 10_u128.pow(19);
        let mut decimal = Self { bytes: [b'0'; DECIMAL_BYTES_MAX], start: DECIMAL_BYTES_MAX };
        let (mut rest, mut end) = (number, DECIMAL_BYTES_MAX);
        loop {
            #[allow(clippy::cast_possible_truncation, reason = "a remainder below 10^19")]
            decimal.push_front((rest % POWER) as u64);
            rest /= POWER;
            if rest == 0 {
                return decimal;
            }
            // This part keeps its leading zeros.
            end -= DIGITS;
            decimal.start = end;
        }
    }

    /// The digits with a minus sign in front.
    pub(crate) fn negative(mut self) -> Self {
        self.start -= 1;
        self.bytes[self.start] = b'-';
        self
    }

    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The same as text.
    #[inline]
    pub(crate) fn as_str(&self) -> &str {
        // Digits are ASCII.
        str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    #[inline]
    fn push_front(&mut self, number: u64) {
        let (mut rest, mut start) = (number, self.start);
        while rest >= 100 {
            start -= 2;
            self.bytes[start..start + 2].copy_from_slice(&DIGIT_PAIRS[(rest % 100) as usize]);
            rest /= 100;
        }
        let [tens, ones] = DIGIT_PAIRS[(rest % 100) as usize];
        start -= 1;
        self.bytes[start] = ones;
        if rest >= 10 {
            start -= 1;
            self.bytes[start] = tens;
        }
        self.start = start;
    }
}

#[cfg(test)]
mod tests {
    use super::Decimal;

    #[test]
    fn digits_are_those_of_the_standard_library() {
        let powers = (0..39).flat_map(|power| {
            let power = 10_u128.pow(power);
            [power - 1, power, power + 1, power.saturating_mul(7)]
        });
        for number in powers.chain([u128::MAX, u64::MAX.into(), u128::from(u64::MAX) + 1]) {
            assert_eq!(Decimal::of_u128(number).as_bytes(), number.to_string().as_bytes());
            assert_eq!(Decimal::of_u128(number).negative().as_bytes(), format!("-{number}").as_bytes());
            if let Ok(number) = u64::try_from(number) {
                assert_eq!(Decimal::of(number).as_bytes(), number.to_string().as_bytes());
            }
        }
    }
}
