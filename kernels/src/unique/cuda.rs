//! CUDA candidate: a thread a row, which looks at all other rows.

use super::{UNUSED, Unique};
use crate::codegen::{Argument, Candidate, Generate, Launch, Target, Unsupported};
use crate::strided::source::{Source, cost, traffic};

/// Threads of a block.
const BLOCK: u32 = 128;

impl Generate for Unique {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let n = u64::from(self.input.shape[0]);
        let part = (n * 4).next_multiple_of(256);
        let (leaders, places) = (Argument::Workspace(0), Argument::Workspace(part));
        let launch = |entry: &str, arguments: &[Argument]| Launch {
            arguments: arguments.to_vec(),
            ..self.source().launch(include_str!("unique.cu"), entry, n.div_ceil(BLOCK.into()).max(1), BLOCK, 0)
        };
        let input = Argument::Input(0);
        let [first, inverse, counts, count] = [0, 1, 2, 3].map(Argument::Output);
        let launches = vec![
            launch("unique_lead", &[input, leaders]),
            launch("unique_place", &[input, leaders, places, first, counts, count]),
            launch("unique_inverse", &[leaders, places, inverse]),
        ];
        // Every row is compared with every other, a few instructions for an element that decides and one that leads.
        let comparisons = (n as f64).powi(2) * 16.0;
        let rate = f64::from(target.multiprocessors) * 128.0 * 1e3;
        let cost = cost(target, traffic(&[&self.input]), 1.0) + comparisons / rate + 2.0 * target.launch;
        let mut candidate = Candidate::new("pairs", format!("{BLOCK} threads"), launches, cost);
        candidate.workspace = 2 * part;
        Ok(vec![candidate])
    }
}

impl Unique {
    fn source(&self) -> Source {
        let views = [&self.input, &self.first, &self.inverse, &self.counts];
        let mut source = Source::spanning(self.input.dtype, &views);
        source.define("BLOCK", format!("{BLOCK}u"));
        source.define("COUNT", format!("{}u", self.input.shape[0]));
        source.define("WIDTH", format!("{}u", self.input.shape[1]));
        source.define("SORTED", u8::from(self.sorted));
        source.define("UNUSED", format!("({UNUSED}ll)"));
        source.define("COUNT_OFFSET", self.count.offset);
        for (name, view) in ["input_at", "first_at", "inverse_at", "counts_at"].into_iter().zip(views) {
            source.index(name, view);
        }
        source
    }
}
