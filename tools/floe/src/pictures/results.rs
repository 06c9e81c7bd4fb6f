//! What a plan has found in a picture, in words and for programs.

use super::{Labels, Mask, Place};
use serde_json::{Value, json};

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

    /// For programs: `boxes`, `classes` and `map`, as far as the plan makes them.
    pub fn json(&self, labels: &Labels) -> Value {
        let boxes = self.boxes.iter().map(|found| {
            let Found { class, score, corners, points, mask: _ } = found;
            json!({"class": class, "label": labels.get(*class), "score": score, "box": corners, "points": points})
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
