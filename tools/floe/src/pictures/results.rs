//! What a plan has found in a picture, in words and for programs.

use super::{Labels, Mask, Place};
use serde_json::{Value, json};
use std::ops::Range;

/// Classes that are told of an output of scores.
pub(super) const BEST: usize = 5;

/// A class and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Number.
    pub class: usize,
    /// Score; none where only the class is known.
    pub score: Option<f64>,
}

/// An object. Coordinates are pixels of the picture from its outer edge.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its class.
    pub class: usize,
    /// How sure the network is.
    pub score: f64,
    /// Left, top, right, bottom.
    pub corners: [f64; 4],
    /// Keypoints.
    pub points: Vec<[f64; 2]>,
    /// Which points of the box belong to it, where the network says so.
    pub mask: Option<Mask>,
}

impl Found {
    /// The pixels that the box takes: from the left and the top one up to, but without, the right and the bottom one.
    pub(super) fn pixels(&self) -> [Range<i32>; 2] {
        // What lies far outside stays there; casts of NaN are 0.
        let [left, top, right, bottom] = self.corners.map(|edge| edge.round().clamp(-1e6, 1e6) as i32);
        [left..right.max(left + 1), top..bottom.max(top + 1)]
    }

    /// Its mask in a picture of this width and height, as COCO's run lengths: column by column, how many pixels in turn do not and
    /// do belong to it.
    fn run_lengths(&self, [width, height]: [usize; 2]) -> Option<Vec<usize>> {
        let mask = self.mask.as_ref()?;
        let [columns, rows] = self.pixels();
        let inside = |range: Range<i32>, extent: usize| {
            let [start, end] = [range.start, range.end].map(|edge| (edge.max(0) as usize).min(extent));
            start..end
        };
        let (columns, rows) = (inside(columns, width), inside(rows, height));
        // The first counts pixels that do not belong to it, then every second one.
        let mut counts = vec![0];
        let mut add = |belongs: bool, pixels: usize| {
            if pixels > 0 && belongs == (counts.len() % 2 == 1) {
                counts.push(0);
            }
            counts.last_mut().into_iter().for_each(|last| *last += pixels);
        };
        add(false, columns.start * height);
        for x in columns.clone() {
            add(false, rows.start);
            rows.clone().for_each(|y| add(mask.covers([x, y].map(|at| at as f64 + 0.5)), 1));
            add(false, height - rows.end);
        }
        add(false, (width - columns.end) * height);
        Some(counts)
    }
}

/// A class for each pixel of the network's input.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) classes: Vec<usize>,
}

/// What was found in a picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Objects.
    pub boxes: Vec<Found>,
    /// Classes of the whole picture, the best first.
    pub classes: Vec<Class>,
    /// Classes of its pixels.
    pub map: Option<Map>,
}

impl Map {
    /// The class at a point of the picture; `None` where the network does not see it.
    pub fn at(&self, place: &Place, point: [f64; 2]) -> Option<usize> {
        let point = place.to_frame(point);
        let at = place.is_seen(point).then(|| place.to_network(point))?;
        let cell = |at: f64, network: u32, extent: usize| {
            let cell = (at * extent as f64 / f64::from(network)).floor();
            (cell >= 0.0 && cell < extent as f64).then_some(cell as usize)
        };
        let [width, height] = place.frame.network;
        let (column, row) = (cell(at[0], width, self.width)?, cell(at[1], height, self.height)?);
        self.classes.get(row * self.width + column).copied()
    }

    /// How much of the network's input each class takes, the largest first.
    fn shares(&self) -> Vec<(usize, f64)> {
        let mut counts = std::collections::BTreeMap::new();
        self.classes.iter().for_each(|&class| *counts.entry(class).or_insert(0usize) += 1);
        let all = self.classes.len().max(1) as f64;
        let mut shares: Vec<(usize, f64)> =
            counts.into_iter().map(|(class, count)| (class, count as f64 / all)).collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        shares
    }
}

impl Results {
    /// Leaves out boxes and classes with scores below `threshold`.
    pub fn retain(&mut self, threshold: f64) {
        let stays = |score: f64| score.is_nan() || score >= threshold;
        self.boxes.retain(|found| stays(found.score));
        self.classes.retain(|class| class.score.is_none_or(stays));
    }

    /// A line for people.
    pub fn text(&self, labels: &Labels) -> String {
        let mut parts = Vec::new();
        if !self.classes.is_empty() {
            let class = |class: &Class| match class.score {
                Some(score) => format!("{} {score:.3}", labels.name(class.class)),
                None => labels.name(class.class),
            };
            parts.push(self.classes.iter().map(class).collect::<Vec<_>>().join(", "));
        }
        if let Some(map) = &self.map {
            let shares = map.shares().into_iter().take(BEST);
            let shares = shares.map(|(class, share)| format!("{} {:.1} %", labels.name(class), 100.0 * share));
            parts.push(shares.collect::<Vec<_>>().join(", "));
        }
        if self.classes.is_empty() && self.map.is_none() || !self.boxes.is_empty() {
            let boxes = self.boxes.iter().map(|found| {
                let [left, top, right, bottom] = found.corners;
                let name = labels.name(found.class);
                format!("{name} {:.3} [{left:.1}, {top:.1}, {right:.1}, {bottom:.1}]", found.score)
            });
            let boxes: Vec<String> = boxes.collect();
            let what = if boxes.len() == 1 { "box" } else { "boxes" };
            parts.push(format!(
                "{} {what}{}{}",
                boxes.len(),
                if boxes.is_empty() { "" } else { ": " },
                boxes.join("; ")
            ));
        }
        parts.join("; ")
    }

    /// For programs: `boxes`, `classes` and `map`, as far as the plan makes them. A box with a mask has it in COCO's uncompressed
    /// run lengths, where the results are those of a picture, whose width and height are given.
    pub fn json(&self, labels: &Labels, picture: Option<[usize; 2]>) -> Value {
        let boxes = self.boxes.iter().map(|found| {
            let Found { class, score, corners, points, mask: _ } = found;
            let mut object =
                json!({"class": class, "label": labels.get(*class), "score": score, "box": corners, "points": points});
            if let Some(([width, height], counts)) = picture.and_then(|size| Some((size, found.run_lengths(size)?))) {
                object["mask"] = json!({"size": [height, width], "counts": counts});
            }
            object
        });
        let classes = self
            .classes
            .iter()
            .map(|Class { class, score }| json!({"class": class, "label": labels.get(*class), "score": score}));
        let map = self.map.as_ref().map(|map| {
            let shares = map.shares().into_iter();
            shares
                .map(|(class, share)| json!({"class": class, "label": labels.get(class), "share": share}))
                .collect::<Vec<_>>()
        });
        json!({"boxes": boxes.collect::<Vec<_>>(), "classes": classes.collect::<Vec<_>>(), "map": map})
    }
}
