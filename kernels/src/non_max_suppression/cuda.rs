//! CUDA candidate: boxes sorted by score in tiles, tiles merged, a block a class to select, and one launch to write.

use super::{NonMaxSuppression, UNUSED};
use crate::codegen::{Argument, Candidate, Generate, Launch, Target, Unsupported, element_type};
use crate::strided::source::{Source, cost, traffic};

/// CUDA of [`super::overlap`].
pub(crate) const OVERLAP: &str = include_str!("overlap.cu");
/// Threads of a block.
const THREADS: u32 = 1024;
/// Boxes that a block sorts.
const TILE: u32 = 2 * THREADS;

/// Sizes of the workspace's parts, in bytes and in order: keys, sorted keys, numbers of keys in tiles, corners and
/// indices of selected boxes, their numbers.
fn parts(rows: u64, tiles: u64, limit: u64) -> [u64; 6] {
    let keys = rows * tiles * u64::from(TILE) * 8;
    [keys, if tiles > 1 { keys } else { 0 }, rows * tiles * 4, rows * limit * 16, rows * limit * 4, rows * 4]
        .map(|bytes| bytes.next_multiple_of(256))
}

impl Generate for NonMaxSuppression {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let (rows, boxes, limit) = (self.rows(), self.boxes.shape[1], self.limit());
        let tiles = u64::from(boxes.div_ceil(TILE));
        if rows * tiles * u64::from(TILE) > 1 << 31 {
            return Err(Unsupported("2^31 scores or more".into()));
        }
        let parts = parts(rows, tiles, limit);
        let [keys, sorted, counts, selected, picked, picks] = {
            let mut start = 0;
            parts.map(|bytes| {
                start += bytes;
                Argument::Workspace(start - bytes)
            })
        };
        let sorted = if tiles > 1 { sorted } else { keys };
        let (boxes_input, scores_input, thresholds) = (Argument::Input(0), Argument::Input(1), Argument::Input(2));
        let launch = |entry: &str, blocks: u64, arguments: &[Argument]| Launch {
            arguments: arguments.to_vec(),
            ..self.source().launch(include_str!("non_max_suppression.cu"), entry, blocks, THREADS, 0)
        };
        let mut launches = Vec::new();
        if rows * tiles * limit > 0 {
            launches.push(launch("nms_sort", rows * tiles, &[scores_input, thresholds, keys, counts]));
            if tiles > 1 {
                launches.push(launch("nms_merge", rows * tiles, &[keys, counts, sorted]));
            }
            let select = [boxes_input, thresholds, sorted, counts, selected, picked, picks];
            launches.push(launch("nms_select", rows, &select));
        }
        // Without anything to select from, the count remains to be written.
        let blocks = if launches.is_empty() { 1 } else { rows };
        launches.push(launch("nms_write", blocks, &[picked, picks, Argument::Output(0), Argument::Output(1)]));
        // A sort of a tile takes some 5 µs, going through a row as much for every hundred boxes that are selected.
        let waves = rows.div_ceil(target.multiprocessors.into()) as f64;
        let work = waves * (5.0 * tiles as f64 + limit.min(300) as f64 * 0.05);
        let cost = cost(target, traffic(&[&self.boxes, &self.scores, &self.indices]), 2.0) + work;
        let mut candidate = Candidate::new("tiles", format!("{TILE} boxes a tile"), launches, cost);
        candidate.workspace = parts.iter().sum();
        Ok(vec![candidate])
    }
}

impl NonMaxSuppression {
    fn source(&self) -> Source {
        let views = [&self.boxes, &self.scores, &self.thresholds, &self.indices];
        let mut source = Source::spanning(self.boxes.dtype, &views);
        source.line(&format!("typedef {} B;", element_type(self.boxes.dtype)));
        source.line(&format!("typedef {} S;", element_type(self.scores.dtype)));
        let (rows, boxes, limit) = (self.rows(), self.boxes.shape[1], self.limit());
        // Without work the constants are still divided by.
        let work = u64::from(rows * limit > 0);
        source.define("THREADS", format!("{THREADS}u"));
        source.define("TILE", format!("{TILE}u"));
        source.define("ROWS", format!("{}u", rows * work));
        source.define("CLASSES", format!("{}u", self.scores.shape[1].max(1)));
        source.define("BOXES", format!("{boxes}u"));
        source.define("TILES", format!("{}u", boxes.div_ceil(TILE).max(1)));
        source.define("LIMIT", format!("{}u", limit * work));
        source.define("SCORED", u8::from(self.thresholds.shape[0] == 2));
        source.define("CENTER", u8::from(self.center));
        source.define("UNUSED", format!("({UNUSED}ll)"));
        source.define("COUNT_OFFSET", self.count.offset);
        source.line(OVERLAP);
        for (name, view) in ["boxes_at", "scores_at", "thresholds_at", "indices_at"].into_iter().zip(views) {
            source.index(name, view);
        }
        source
    }
}
