//! CUDA candidate: tiles are counted, then written where the counts say.

use super::{NonZero, UNUSED};
use crate::codegen::{Argument, Candidate, Generate, Launch, Target, Unsupported};
use crate::strided::source::{Source, cost, traffic};

/// Threads of a block.
const THREADS: u32 = 256;
/// Elements that a block looks at.
const TILE: u32 = 8 * THREADS;

impl Generate for NonZero {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let tiles = self.input.elements().div_ceil(TILE.into());
        let launch = |entry: &str, arguments: &[Argument]| Launch {
            arguments: arguments.to_vec(),
            ..self.source(tiles).launch(include_str!("non_zero.cu"), entry, tiles.max(1), THREADS, 0)
        };
        let counts = Argument::Workspace(0);
        let write = launch("non_zero_write", &[Argument::Input(0), counts, Argument::Output(0), Argument::Output(1)]);
        let launches = match tiles {
            0 => vec![write],
            _ => vec![launch("non_zero_count", &[Argument::Input(0), counts]), write],
        };
        let bytes = 2 * traffic(&[&self.input]) + traffic(&[&self.indices]);
        let cost = cost(target, bytes, 1.0) + target.launch;
        let mut candidate = Candidate::new("tiles", format!("{TILE} elements a tile"), launches, cost);
        candidate.workspace = (tiles * 4).next_multiple_of(256);
        Ok(vec![candidate])
    }
}

impl NonZero {
    fn source(&self, tiles: u64) -> Source {
        let mut source = Source::spanning(self.input.dtype, &[&self.input, &self.indices]);
        source.define("THREADS", format!("{THREADS}u"));
        source.define("TILE", format!("{TILE}u"));
        source.define("TILES", format!("{tiles}u"));
        source.define("ELEMENTS", format!("{}u", self.input.elements()));
        source.define("COUNT_OFFSET", self.count.offset);
        source.place("input_at", &self.input);
        source.index("indices_at", &self.indices);
        let mut body = String::new();
        let mut inner = 1u64;
        for (d, &extent) in self.input.shape.iter().enumerate().rev() {
            let index = format!("(i64)(i / {inner}u % {}u)", extent.max(1));
            body += &format!(" indices[indices_at({d}, column)] = set ? {index} : {UNUSED}ll;");
            inner *= u64::from(extent.max(1));
        }
        source.line(&format!("DEVICE void write_index(i64* indices, u32 column, u32 i, bool set) {{{body} }}"));
        source
    }
}
