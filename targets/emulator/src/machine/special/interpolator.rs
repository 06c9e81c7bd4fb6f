//! The interpolator that all functions share: a quadratic of the operand's lower bits, whose coefficients the upper ones select.
//!
//! Its shape is that of S. F. Oberman and M. Y. Siu, "A High-Performance Area-Efficient Multifunction Interpolator" (ARITH 2005):
//! coefficients of 26, 16 and 10 bits, a squarer without its lower columns, and one sum, which is cut. The columns, the
//! coefficients' grids and the coefficients follow from readings of an H200: within each segment only these give its results.

/// Bits of a sum below the unit of the result.
pub(super) const FRACTION: u32 = 17;

/// A function over the operand's significand.
#[derive(Debug)]
pub(super) struct Table {
    /// What every sum begins with.
    pub bias: u32,
    /// Lower bits of the operand. Those above select the segment.
    pub bits: u32,
    /// Value at the segment's begin in quarters of the result's unit; slope and curvature, for the lower bits as they are and
    /// for 15 bits of their square, in units of the sum.
    pub segments: &'static [(u32, i32, i32)],
}

impl Table {
    /// The sum, with [`FRACTION`] bits below the result's unit.
    #[inline(always)]
    pub fn sum(&self, operand: u32) -> i64 {
        let (value, slope, curvature) = self.segments[(operand >> self.bits) as usize % self.segments.len()];
        let low = operand & ((1 << self.bits) - 1);
        (i64::from(value) << (FRACTION - 2))
            + i64::from(self.bias)
            + i64::from(slope) * i64::from(low)
            + i64::from(curvature) * square(low, self.bits)
    }

    /// The result's significand: the sum without its fraction.
    #[inline(always)]
    pub fn significand(&self, operand: u32) -> u32 {
        (self.sum(operand) >> FRACTION) as u32
    }
}

/// The upper 15 bits of the square of so many bits. The columns below them are not there, and neither are their carries.
#[inline(always)]
fn square(low: u32, bits: u32) -> i64 {
    let cut = 2 * bits - 15;
    let low = u64::from(low);
    // The product of two bits i < j is in column i + j + 1, since there are two of them; a bit's own is in column 2 i.
    let missing = (0..cut.div_ceil(2)).map(|i| {
        let others = low & ((1 << (cut - 1 - i)) - 1) & !((2 << i) - 1);
        (low >> i & 1) * ((2 * others + (1 << i)) << i)
    });
    ((low * low - missing.sum::<u64>()) >> cut) as i64
}

#[cfg(test)]
mod tests {
    use super::square;

    #[test]
    fn a_square_lacks_the_columns_below_its_fifteen_bits() {
        for bits in [16, 17] {
            let cut = 2 * bits - 15;
            for low in (0..1_u32 << bits).step_by(37) {
                let column = |i: u32, j: u32| if i == j { 2 * i } else { i + j + 1 };
                let products = (0..bits).flat_map(|i| (i..bits).map(move |j| (i, j)));
                let kept = products.filter(|&(i, j)| low >> i & low >> j & 1 == 1 && column(i, j) >= cut);
                let sum: i64 = kept.map(|(i, j)| 1 << (column(i, j) - cut)).sum();
                assert_eq!(square(low, bits), sum, "{low} of {bits} bits");
            }
        }
    }
}
