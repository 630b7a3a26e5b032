//! Lengths and places in a picture, in whole tenths of a pixel: the same text on every machine.

use std::fmt;
use std::ops::{Add, Mul, Sub};

const TENTHS_PER_PX: i64 = 10;
const NS_PER_S: u64 = 1_000_000_000;

/// A length or a coordinate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Px(i64);

impl Px {
    /// Whole pixels.
    pub const fn whole(px: i64) -> Self {
        Self(px * TENTHS_PER_PX)
    }

    /// Tenths of a pixel.
    pub const fn tenths(tenths: i64) -> Self {
        Self(tenths)
    }

    /// Half of it, rounded towards zero.
    pub const fn half(self) -> Self {
        Self(self.0 / 2)
    }
}

impl Add for Px {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Sub for Px {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

/// So many of this length in a row.
impl Mul<u64> for Px {
    type Output = Self;

    fn mul(self, times: u64) -> Self {
        Self(self.0 * times as i64)
    }
}

/// As SVG writes a number: no decimal if it is whole.
impl fmt::Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, tenth) = (self.0.abs() / TENTHS_PER_PX, self.0.abs() % TENTHS_PER_PX);
        if tenth == 0 { write!(f, "{sign}{whole}") } else { write!(f, "{sign}{whole}.{tenth}") }
    }
}

/// A place; y grows downwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// From the left edge.
    pub x: Px,
    /// From the upper edge.
    pub y: Px,
}

/// Where an instant of the trace is drawn.
#[derive(Clone, Copy, Debug)]
pub struct TimeAxis {
    /// Where time begins.
    pub left: Px,
    /// The length of a second.
    pub second: Px,
}

impl TimeAxis {
    /// The place of an instant.
    pub fn x(&self, at_ns: u64) -> Px {
        Px(self.left.0 + self.length(at_ns).0)
    }

    /// The length of a span.
    pub fn length(&self, span_ns: u64) -> Px {
        Px((span_ns * self.second.0.unsigned_abs() / NS_PER_S) as i64)
    }
}
