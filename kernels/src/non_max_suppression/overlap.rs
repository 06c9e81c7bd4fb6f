//! Order of scores and overlap of boxes, as everything that selects boxes computes them.

/// A box by its corners, the lower ones first.
pub(crate) type Corners = [f32; 4];

/// Larger for better scores, for equal ones for smaller indices; never 0 for a number.
pub(crate) fn key(score: f32, index: u32) -> u64 {
    // -0 and 0 are equal.
    let bits = (score + 0.0).to_bits();
    let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u64::from(ordered) << 32 | u64::from(!index)
}

pub(crate) fn index_of(key: u64) -> u32 {
    !(key as u32)
}

pub(crate) fn score_of(key: u64) -> f32 {
    let ordered = (key >> 32) as u32;
    f32::from_bits(if ordered >> 31 == 1 { ordered ^ 1 << 31 } else { !ordered })
}

/// Whether two boxes overlap too much.
pub(crate) fn too_close(a: &Corners, b: &Corners, threshold: f32) -> bool {
    let low = |d: usize| if a[d] < b[d] { b[d] } else { a[d] };
    let high = |d: usize| if b[d] < a[d] { b[d] } else { a[d] };
    let (height, width) = (high(2) - low(0), high(3) - low(1));
    if high(2) <= low(0) || high(3) <= low(1) {
        return false;
    }
    let shared = height * width;
    let area = |corners: &Corners| (corners[2] - corners[0]) * (corners[3] - corners[1]);
    let (first, second) = (area(a), area(b));
    let union = first + second - shared;
    if shared <= 0.0 || first <= 0.0 || second <= 0.0 || union <= 0.0 {
        return false;
    }
    shared / union > threshold
}
