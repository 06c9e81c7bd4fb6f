//! CUDA candidates: one block that does everything, or blocks for the scores in front of it.

use super::{BOX, Detect, ScoreActivation};
use crate::codegen::{Argument, Candidate, Generate, Launch, Target, Unsupported, element_type, f32_literal};
use crate::non_max_suppression::OVERLAP;
use crate::strided::source::{Source, cost, traffic};

/// Threads of the block that selects.
const SELECT: u32 = 512;
/// Threads of a block that makes scores.
const SCORE: u32 = 128;
/// Most detections that are kept in shared memory while others are compared with them.
const SHARED: u64 = 256;
/// Classes from which neighbouring threads share a candidate whose scores lie together, and how many then do.
const LANES: u32 = 8;

impl Generate for Detect {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let (candidates, most) = (u64::from(self.candidates()), u64::from(self.most()));
        let outside = if most > SHARED { most } else { 0 };
        // Keys and classes of candidates; keys, corners and classes of detections.
        let mut bytes = 0;
        let parts = [candidates * 8, candidates * 4, most * 8, outside * 16, outside * 4].map(|part: u64| {
            bytes += part.next_multiple_of(256);
            Argument::Workspace(bytes - part.next_multiple_of(256))
        });
        let [keys, classes, chosen, corners, their_classes] = parts;
        let heads: Vec<Argument> = (0..self.boxes.len() + self.scores.len()).map(Argument::Input).collect();
        let select = |stage| {
            let more = [Argument::Input(heads.len()), keys, classes, chosen, corners, their_classes];
            let outputs = [Argument::Output(0), Argument::Output(1)];
            let arguments = [heads.as_slice(), &more, &outputs].concat();
            Launch { arguments, ..self.launch(stage, "detect_select", 1, SELECT) }
        };
        let padded_channels = u64::from(self.padded_channels());
        let blocks = (candidates * padded_channels).div_ceil(SCORE.into());
        if blocks > 1 << 31 {
            return Err(Unsupported("2^31 blocks of candidates".into()));
        }
        let score = Launch {
            arguments: [heads.as_slice(), &[keys, classes]].concat(),
            ..self.launch(0, "detect_score", blocks, SCORE)
        };

        let read = traffic(&self.scored().iter().collect::<Vec<_>>());
        // Sorting and going through what is good; a block alone reads a few numbers in a nanosecond.
        let work = 3.0 + most.min(300) as f64 * 0.02;
        let alone = candidates as f64 * f64::from(self.head.classes) * 1e-3;
        let kinds = [
            ("one_block", vec![select(2)], cost(target, 0, 1.0) + work + alone),
            (
                "scores_first",
                vec![score, select(1)],
                cost(target, read, 2.0) + cost(target, 0, 1.0) + work + candidates as f64 * 1e-4,
            ),
        ];
        let candidates = kinds.into_iter().map(|(algorithm, launches, cost)| {
            let mut candidate = Candidate::new(algorithm, format!("{SELECT} threads"), launches, cost);
            candidate.workspace = bytes;
            candidate
        });
        Ok(candidates.collect())
    }
}

impl Detect {
    /// Neighbouring threads that share a candidate. Sums of exponentials have one order.
    fn padded_channels(&self) -> u32 {
        let together = self.scored().iter().all(|part| part.strides[2] == 1);
        if together && self.head.classes > LANES && self.head.activation != ScoreActivation::Softmax {
            LANES
        } else {
            1
        }
    }

    fn launch(&self, stage: u32, entry: &str, blocks: u64, threads: u32) -> Launch {
        let head = &self.head;
        let mut source = Source::spanning(self.boxes[0].dtype, &[&self.detections]);
        source.define("STAGE", stage);
        source.define("THREADS", format!("{threads}u"));
        source.define("SCORE_LANES", format!("{}u", self.padded_channels()));
        source.define("CANDIDATES", format!("{}u", self.candidates()));
        source.define("CLASSES", format!("{}u", head.classes));
        source.define("BACKGROUND", format!("{}u", u8::from(head.background)));
        source.define("FIRST_CLASS", format!("{}u", head.first_class));
        source.define("FIRST_POINT", format!("{}u", head.first_point));
        source.define("ROWS_FIRST", u8::from(head.rows_first));
        source.define("SIGMOID", 1);
        source.define("SOFTMAX", 2);
        source.define("ACTIVATION", head.activation as u8);
        source.define("THRESHOLD", f32_literal(head.threshold));
        source.define("OVERLAP", f32_literal(head.overlap));
        source.define("MOST", format!("{}u", self.most()));
        source.define("NUMBERS", format!("{}u", self.detections.shape[1]));
        source.define("BOX", format!("{BOX}u"));
        source.define("COUNT_OFFSET", self.count.offset);
        if let Some(object) = head.object {
            source.define("OBJECT", format!("{object}u"));
        }
        if let Some(factor) = head.logarithm {
            source.define("LOGARITHM", f32_literal(factor));
        }
        source.index("places_at", &self.places);
        source.index("detections_at", &self.detections);
        self.inputs(&mut source);
        source.line(OVERLAP);
        source.launch(include_str!("detect.cu"), entry, blocks, threads, 0)
    }

    /// Adds the pointers of the parts, and functions that read a number of a candidate from the part that it is in.
    fn inputs(&self, source: &mut Source) {
        let kinds = [("box", "B", &self.boxes), ("score", "S", &self.scores)];
        let (mut parameters, mut fields, mut values) = (Vec::new(), String::new(), Vec::new());
        for (name, letter, parts) in kinds {
            let Some(first) = parts.first() else { continue };
            source.line(&format!("typedef {} {letter};", element_type(first.dtype)));
            for (number, part) in parts.iter().enumerate() {
                source.index(&format!("{name}{number}_at"), part);
                parameters.push(format!("const {letter}* __restrict__ {name}{number}"));
                fields += &format!("const {letter}* {name}{number}; ");
                values.push(format!("{name}{number}"));
            }
        }
        source.line(&format!("struct Inputs {{ {fields}}};"));
        source.define("INPUTS", parameters.join(", "));
        source.define("GATHERED", format!("Inputs{{{}}}", values.join(", ")));
        for (name, _, parts) in kinds {
            let mut body = String::new();
            for (number, part) in parts.iter().enumerate() {
                let (row, all) = (part.shape[1].max(1), part.shape[0] * part.shape[1]);
                let read =
                    format!("return to_f32(inputs.{name}{number}[{name}{number}_at(i / {row}u, i % {row}u, n)]);");
                body += &if number + 1 == parts.len() { read } else { format!("if (i < {all}u) {read} i -= {all}u; ") };
            }
            if parts.is_empty() {
                body = "return box_number(inputs, i, n);".into();
            }
            source.line(&format!("DEVICE f32 {name}_number(const Inputs& inputs, u32 i, u32 n) {{ {body} }}"));
        }
    }
}
