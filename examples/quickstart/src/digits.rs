//! The digits that the network never saw (`held_back.bin`, made by `train.py`).

/// Rows and columns of a digit.
pub const SIDE: usize = 8;
const PIXELS: usize = SIDE * SIDE;

/// A handwritten digit.
#[derive(Clone, Copy, Debug)]
pub struct Digit {
    /// Grey levels 0..=16, row by row.
    pub pixels: &'static [u8],
    /// What it shows, 0..=9.
    pub label: u8,
}

impl Digit {
    /// The network's input: `[1, 1, 8, 8]`, 0.0..=1.0.
    pub fn image(&self) -> [f32; PIXELS] {
        std::array::from_fn(|i| f32::from(self.pixels[i]) / 16.0)
    }
}

/// All held-back digits.
pub fn held_back() -> Vec<Digit> {
    let bytes: &'static [u8] = include_bytes!("../held_back.bin");
    bytes.chunks_exact(PIXELS + 1).map(|row| Digit { pixels: &row[..PIXELS], label: row[PIXELS] }).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn held_back_digits_are_whole() {
        let digits = super::held_back();
        assert_eq!(digits.len(), 359);
        assert!(digits.iter().all(|digit| digit.label < 10 && digit.pixels.iter().all(|&level| level <= 16)));
    }
}
