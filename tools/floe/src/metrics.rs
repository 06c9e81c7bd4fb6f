//! How far found results are from expected ones: errors of numbers, agreement of classes, boxes matched by overlap.

/// The error of numbers against expected ones, gathered over any number of tensors.
///
/// Elements of which one is finite and the other is not, or that are different infinities, count as [`Error::unfinite`] and
/// take no part in the other figures; equal ones, two NaN included, have no error.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Error {
    /// Elements compared.
    pub elements: u64,
    /// Elements of which just one is finite, or that are different infinities.
    pub unfinite: u64,
    /// Largest absolute difference.
    pub largest: f64,
    /// Elements that differ by more than the bound.
    pub beyond: u64,
    /// The lowest cosine of any tensor.
    pub worst_cosine: f64,
    /// The largest relative error of any tensor.
    pub worst_relative: f64,
    tensors: u64,
    difference: f64,
    expected: f64,
    found: f64,
    product: f64,
}

/// How far an element may be off before it counts as beyond: `|a − b| ≤ absolute + relative·|a|`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Absolute part.
    pub absolute: f64,
    /// Relative part, of the expected element.
    pub relative: f64,
}

impl Default for Bound {
    /// 1e-2 of the element, and 1e-3.
    fn default() -> Self {
        Self { absolute: 1e-3, relative: 1e-2 }
    }
}

fn cosine(expected: f64, found: f64, product: f64) -> f64 {
    match (expected > 0.0, found > 0.0) {
        (false, false) => 1.0,
        (true, true) => (product / (expected * found).sqrt()).clamp(-1.0, 1.0),
        _ => 0.0,
    }
}

fn relative(difference: f64, expected: f64) -> f64 {
    if difference == 0.0 { 0.0 } else { (difference / expected.max(f64::MIN_POSITIVE)).sqrt() }
}

impl Error {
    /// Of one tensor.
    pub fn of(expected: &[f64], found: &[f64], bound: Bound) -> Self {
        let mut error = Self::default();
        error.add(expected, found, bound);
        error
    }

    /// Takes a tensor in. Where one is longer than the other, what it has more counts as unfinite.
    pub fn add(&mut self, expected: &[f64], found: &[f64], bound: Bound) {
        let (mut difference, mut norm, mut found_norm, mut product) = (0f64, 0f64, 0f64, 0f64);
        let mut unfinite = expected.len().abs_diff(found.len()) as u64;
        for (&a, &b) in expected.iter().zip(found) {
            if !(a.is_finite() && b.is_finite()) {
                unfinite += u64::from(!(a == b || a.is_nan() && b.is_nan()));
                continue;
            }
            let off = (a - b).abs();
            self.largest = self.largest.max(off);
            self.beyond += u64::from(off > bound.absolute + bound.relative * a.abs());
            difference += off * off;
            norm += a * a;
            found_norm += b * b;
            product += a * b;
        }
        let [own_cosine, own_relative] = if unfinite > 0 {
            [-1.0, f64::INFINITY]
        } else {
            [cosine(norm, found_norm, product), relative(difference, norm)]
        };
        self.worst_cosine = if self.tensors == 0 { own_cosine } else { self.worst_cosine.min(own_cosine) };
        self.worst_relative = self.worst_relative.max(own_relative);
        self.tensors += 1;
        self.elements += expected.len().max(found.len()) as u64;
        self.unfinite += unfinite;
        self.difference += difference;
        self.expected += norm;
        self.found += found_norm;
        self.product += product;
    }

    /// Euclidean norm of all differences over that of the expected elements. Elements that are not finite take no part.
    pub fn relative(&self) -> f64 {
        relative(self.difference, self.expected)
    }

    /// Cosine of the angle between the two; 1 where both are zero. Elements that are not finite take no part.
    pub fn cosine(&self) -> f64 {
        cosine(self.expected, self.found, self.product)
    }

    /// Share of elements beyond the bound, those that are not finite included.
    pub fn share_beyond(&self) -> f64 {
        (self.beyond + self.unfinite) as f64 / self.elements.max(1) as f64
    }

    /// Whether anything differs.
    pub fn is_exact(&self) -> bool {
        self.unfinite == 0 && self.largest == 0.0
    }
}

/// How often rows of scores have the same best elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Rows compared.
    pub rows: u64,
    /// Rows whose best element is the expected one, or one that the reference holds for as good.
    pub top_1: u64,
    /// Rows whose five best hold the expected one.
    pub top_5: u64,
}

impl Agreement {
    /// Takes tensors in whose rows of `classes` elements are scores.
    pub fn add(&mut self, expected: &[f64], found: &[f64], classes: usize) {
        for (expected, found) in expected.chunks_exact(classes.max(1)).zip(found.chunks_exact(classes.max(1))) {
            self.rows += 1;
            let best = expected.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let top = crate::tensor::largest(found, 5);
            // A row of NaN has no best element.
            let is_best = |&place: &usize| expected[place] == best && !found[place].is_nan();
            self.top_1 += u64::from(top.first().is_some_and(is_best));
            self.top_5 += u64::from(top.iter().any(is_best));
        }
    }

    /// Share of rows with the same best element; 1 without rows.
    pub fn share_1(&self) -> f64 {
        if self.rows == 0 { 1.0 } else { self.top_1 as f64 / self.rows as f64 }
    }

    /// Share of rows whose five best hold the expected one; 1 without rows.
    pub fn share_5(&self) -> f64 {
        if self.rows == 0 { 1.0 } else { self.top_5 as f64 / self.rows as f64 }
    }
}

/// How many scores a row has, where an output looks like scores of classes: a vector, a batch of vectors, or a sequence of
/// rows that are probabilities.
pub fn classes(shape: &[usize], expected: &[f64]) -> Option<usize> {
    let &classes = shape.last().filter(|&&classes| classes >= 2)?;
    let rows: usize = shape[..shape.len() - 1].iter().product();
    let sums_to_one = || {
        let is_one = |row: &[f64]| row.iter().all(|&p| p >= 0.0) && (row.iter().sum::<f64>() - 1.0).abs() < 1e-3;
        rows > 0 && expected.chunks_exact(classes).all(is_one)
    };
    let fits = match shape.len() {
        1 => true,
        2 => rows <= classes || sums_to_one(),
        3 => sums_to_one(),
        _ => false,
    };
    fits.then_some(classes)
}

/// A box with its class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detection {
    /// Left, top, right, bottom.
    pub bounds: [f64; 4],
    /// Its score.
    pub score: f64,
    /// Its class.
    pub class: f64,
}

/// The boxes of an output `detections` of `--postprocess`: rows of left, top, right, bottom, score, class and whatever
/// follows; the first of them that have a score.
pub fn detections(rows: &[f64], columns: usize) -> Vec<Detection> {
    let row = |row: &[f64]| Detection { bounds: [row[0], row[1], row[2], row[3]], score: row[4], class: row[5] };
    if columns < 6 {
        return Vec::new();
    }
    rows.chunks_exact(columns).map(row).take_while(|found| found.score > 0.0).collect()
}

/// Area of the intersection over that of the union.
pub fn overlap(a: &Detection, b: &Detection) -> f64 {
    let area = |bounds: [f64; 4]| (bounds[2] - bounds[0]).max(0.0) * (bounds[3] - bounds[1]).max(0.0);
    let both = [
        a.bounds[0].max(b.bounds[0]),
        a.bounds[1].max(b.bounds[1]),
        a.bounds[2].min(b.bounds[2]),
        a.bounds[3].min(b.bounds[3]),
    ];
    let union = area(a.bounds) + area(b.bounds) - area(both);
    if union > 0.0 { area(both) / union } else { f64::from(u8::from(a.bounds == b.bounds)) }
}

/// Boxes, or other things, of two results, and how many of them are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Matching {
    /// Expected.
    pub expected: u64,
    /// Found.
    pub found: u64,
    /// Found and expected.
    pub matched: u64,
    overlaps: f64,
    /// Largest difference of the scores of a matched pair.
    pub score: f64,
}

impl Matching {
    /// Takes the boxes of a picture in: each found box goes with the expected one of its class that it overlaps most, from
    /// the largest overlap to `least`.
    pub fn add(&mut self, expected: &[Detection], found: &[Detection], least: f64) {
        let mut pairs = Vec::new();
        for (a, one) in expected.iter().enumerate() {
            for (b, other) in found.iter().enumerate().filter(|(_, other)| other.class == one.class) {
                let overlap = overlap(one, other);
                if overlap >= least {
                    pairs.push((overlap, a, b));
                }
            }
        }
        pairs.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        let (mut of_expected, mut of_found) = (vec![false; expected.len()], vec![false; found.len()]);
        for (overlap, a, b) in pairs {
            if !of_expected[a] && !of_found[b] {
                (of_expected[a], of_found[b]) = (true, true);
                self.matched += 1;
                self.overlaps += overlap;
                self.score = self.score.max((expected[a].score - found[b].score).abs());
            }
        }
        self.expected += expected.len() as u64;
        self.found += found.len() as u64;
    }

    /// Takes rows of integers in, such as the indices that NonMaxSuppression selects: a row matches an equal one, wherever it
    /// stands.
    pub fn add_rows(&mut self, expected: &[f64], found: &[f64], columns: usize) {
        let rows = |values: &[f64]| {
            let rows = values.chunks_exact(columns.max(1)).filter(|row| row.iter().all(|&value| value >= 0.0));
            rows.map(|row| row.iter().map(|&value| value as i64).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        let (expected, mut found) = (rows(expected), rows(found));
        self.expected += expected.len() as u64;
        self.found += found.len() as u64;
        found.sort_unstable();
        for row in &expected {
            if let Ok(place) = found.binary_search(row) {
                found.remove(place);
                self.matched += 1;
                self.overlaps += 1.0;
            }
        }
    }

    /// Twice the matched over all expected and found: 1 where each has its partner, or there are none.
    pub fn share(&self) -> f64 {
        let all = self.expected + self.found;
        if all == 0 { 1.0 } else { 2.0 * self.matched as f64 / all as f64 }
    }

    /// Mean overlap of matched boxes; 1 without any.
    pub fn mean_overlap(&self) -> f64 {
        if self.matched == 0 { 1.0 } else { self.overlaps / self.matched as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_all_tensors_and_the_worst_is_told() {
        let mut error = Error::of(&[3.0, 4.0], &[3.0, 4.0], Bound::default());
        assert!(error.is_exact() && error.cosine() == 1.0 && error.relative() == 0.0);
        error.add(&[3.0, 4.0], &[4.0, 3.0], Bound::default());
        assert_eq!(error.largest, 1.0);
        assert_eq!((error.beyond, error.elements), (2, 4));
        assert!((error.relative() - (2.0f64 / 50.0).sqrt()).abs() < 1e-12);
        assert!((error.worst_relative - (2.0f64 / 25.0).sqrt()).abs() < 1e-12);
        assert!((error.worst_cosine - 0.96).abs() < 1e-12);
        assert!((error.cosine() - 0.98).abs() < 1e-12);
    }

    #[test]
    fn what_is_not_finite_counts_apart() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        let error = Error::of(&[1.0, nan, inf, 2.0, inf], &[1.0, nan, inf, inf, -inf], Bound::default());
        assert_eq!((error.unfinite, error.elements, error.largest), (2, 5, 0.0));
        assert_eq!(error.cosine(), 1.0);
        assert!(!error.is_exact());
        assert_eq!(error.share_beyond(), 0.4);
        assert_eq!(error.worst_cosine, -1.0);
        assert_eq!(Error::of(&[0.0], &[0.0], Bound::default()).cosine(), 1.0);
        assert_eq!(Error::of(&[0.0], &[1.0], Bound::default()).cosine(), 0.0);
        assert_eq!(Error::of(&[1.0, 2.0], &[1.0], Bound::default()).unfinite, 1);
    }

    #[test]
    fn classes_agree_where_the_best_is_the_same() {
        let mut agreement = Agreement::default();
        let expected = [0.1, 0.7, 0.2, 0.0, 0.0, 0.0, 0.0];
        agreement.add(&expected, &[0.1, 0.3, 0.6, 0.0, 0.0, 0.0, 0.0], 7);
        assert_eq!((agreement.top_1, agreement.top_5), (0, 1));
        agreement.add(&expected, &expected, 7);
        assert_eq!((agreement.rows, agreement.top_1), (2, 1));
        agreement.add(&expected, &[f64::NAN; 7], 7);
        assert_eq!((agreement.rows, agreement.top_1, agreement.top_5), (3, 1, 1));
        // Two of the same score: either is right.
        agreement.add(&[0.5, 0.5], &[0.4, 0.6], 2);
        assert_eq!(agreement.top_1, 2);
    }

    #[test]
    fn scores_are_told_from_other_outputs() {
        assert_eq!(classes(&[1, 1000], &[]), Some(1000));
        assert_eq!(classes(&[10], &[]), Some(10));
        assert_eq!(classes(&[1, 2, 2], &[0.25, 0.75, 1.0, 0.0]), Some(2));
        assert_eq!(classes(&[1, 2, 2], &[0.25, 0.5, 1.0, 0.0]), None);
        assert_eq!(classes(&[1, 3, 8, 8], &[]), None);
        assert_eq!(classes(&[100, 4], &[7.0; 400]), None);
    }

    fn found(bounds: [f64; 4], class: f64) -> Detection {
        Detection { bounds, score: 0.5, class }
    }

    #[test]
    fn boxes_are_matched_once_by_overlap_and_class() {
        let one = found([0.0, 0.0, 10.0, 10.0], 0.0);
        let near = found([0.0, 0.0, 10.0, 9.0], 0.0);
        let mut matching = Matching::default();
        // Two found boxes on one expected box: the better one is it, the other is too many.
        matching.add(&[one], &[near, one], 0.5);
        assert_eq!((matching.expected, matching.found, matching.matched), (1, 2, 1));
        assert_eq!(matching.mean_overlap(), 1.0);
        matching.add(&[one], &[found(one.bounds, 1.0)], 0.5);
        assert_eq!(matching.matched, 1);
        assert!((matching.share() - 2.0 / 5.0).abs() < 1e-12);
        assert!((overlap(&one, &near) - 0.9).abs() < 1e-12);
        assert_eq!(Matching::default().share(), 1.0);
        let rows = [0.0, 0.0, 1.0, 1.0, 0.9, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        assert_eq!(detections(&rows, 6).len(), 1);
    }

    #[test]
    fn selected_indices_match_in_any_order() {
        let mut matching = Matching::default();
        matching.add_rows(&[0.0, 0.0, 5.0, 0.0, 1.0, 7.0, -1.0, -1.0, -1.0], &[0.0, 1.0, 7.0, 0.0, 0.0, 6.0], 3);
        assert_eq!((matching.expected, matching.found, matching.matched), (2, 2, 1));
    }
}
