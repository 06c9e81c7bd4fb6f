//! How a camera was held: the orientation in a picture's EXIF data.

use super::Picture;

/// Tag of the orientation in the first directory (EXIF 2.32, 4.6.4).
const ORIENTATION: u16 = 0x0112;
/// A field of 16 bits.
const SHORT: u16 = 3;

/// The orientation that EXIF data, which begins with a TIFF header, states: 1 to 8; 1, upright, where it states none.
pub(super) fn orientation(exif: &[u8]) -> u8 {
    read(exif).unwrap_or(1)
}

fn read(exif: &[u8]) -> Option<u8> {
    let little = match exif.get(..4)? {
        b"II*\0" => true,
        b"MM\0*" => false,
        _ => return None,
    };
    let at = |offset: usize| exif.get(offset..);
    let short = |offset| {
        let bytes = *at(offset)?.first_chunk()?;
        Some(if little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    let bytes = *at(4)?.first_chunk()?;
    let directory = if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) };
    let directory = usize::try_from(directory).ok()?;
    let first = directory.checked_add(2)?;
    // A field is its tag, type, count, and a value of 4 bytes, which begins with a single 16-bit one.
    let fields = (0..usize::from(short(directory)?)).map_while(|number| first.checked_add(12 * number));
    let field = { fields }.find(|&field| short(field) == Some(ORIENTATION) && short(field + 2) == Some(SHORT))?;
    u8::try_from(short(field + 8)?).ok().filter(|value| (1..=8).contains(value))
}

impl Picture {
    /// The picture as it was seen, from one that a camera stored with an `orientation` of EXIF.
    pub(super) fn upright(self, orientation: u8) -> Self {
        // What leads from the upright picture to the stored one: columns and rows change places, then either runs backwards.
        let (swapped, right_to_left, bottom_up) = match orientation {
            2 => (false, true, false),
            3 => (false, true, true),
            4 => (false, false, true),
            5 => (true, false, false),
            6 => (true, false, true),
            7 => (true, true, true),
            8 => (true, true, false),
            _ => return self,
        };
        let (stored_width, stored_height) = (self.width, self.height);
        let (width, height) = if swapped { (stored_height, stored_width) } else { (stored_width, stored_height) };
        let stored = self.rgb.as_chunks::<3>().0;
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).flat_map(|(x, y)| {
            let (x, y) = if swapped { (y, x) } else { (x, y) };
            let x = if right_to_left { stored_width - 1 - x } else { x };
            let y = if bottom_up { stored_height - 1 - y } else { y };
            stored[y * stored_width + x]
        });
        Self { rgb: pixels.collect(), width, height }
    }
}
