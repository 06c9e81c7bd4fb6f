//! Choices of a mutator.

/// Xorshift (Marsaglia, 2003), seeded by libFuzzer: a run is repeatable.
pub struct Random(u64);

impl Random {
    /// A generator for one mutation.
    pub fn new(seed: u32) -> Self {
        Self(u64::from(seed) << 1 | 1)
    }

    /// A number below `limit`, or 0 where that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit.max(1)
    }

    /// An element, unless there is none.
    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        let index = self.below(among.len());
        among.get(index)
    }

    /// Likewise, to change it.
    pub fn pick_mut<'a, T>(&mut self, among: &'a mut [T]) -> Option<&'a mut T> {
        let index = self.below(among.len());
        among.get_mut(index)
    }

    /// Bytes of a tensor: any, or small integers of some size, as indices are.
    pub fn elements(&mut self, bytes: usize) -> Vec<u8> {
        let size = [0, 1, 2, 4, 8][self.below(5)];
        (0..bytes)
            .map(|at| match size {
                0 => self.below(256) as u8,
                size if at % size == 0 => self.below(6) as u8,
                _ => 0,
            })
            .collect()
    }

    /// A number where mistakes like to be.
    pub fn number(&mut self) -> i64 {
        const EDGES: [i64; 19] = [
            0,
            1,
            2,
            3,
            4,
            7,
            8,
            9,
            16,
            255,
            65_536,
            1 << 24,
            (1 << 31) - 1,
            1 << 31,
            (1 << 32) - 1,
            1 << 40,
            i64::MAX,
            -1,
            i64::MIN,
        ];
        let edge = EDGES[self.below(EDGES.len())];
        match self.below(4) {
            0 => edge.wrapping_neg(),
            _ => edge,
        }
    }
}
