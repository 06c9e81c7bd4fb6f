//! Ready results: class maps, the best classes, images of bytes, boxes, made of a network's outputs by operators that the
//! graph gets behind them.

mod boxes;
mod builder;
mod language;
mod places;
#[cfg(test)]
mod tests;

pub use boxes::{BoxDecoder, Detect};
pub use language::HELP;

use crate::preprocess::Placement;
use builder::Builder;
use floe_engine::plan::content::Content;
use floe_models::{
    DType, Fact, Graph, Op, TensorId,
    op::{Composite, Reduction, Unary},
};

/// What [`parse`](Postprocess::parse) reads: outputs of the network and what becomes of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Postprocess {
    /// The option as given.
    pub option: String,
    /// The outputs.
    pub outputs: Vec<String>,
    /// What becomes of them.
    pub kind: Kind,
}

/// Kinds of results.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// One step after the other on a single output, which keeps its name.
    Steps(Vec<Step>),
    /// Boxes.
    Detect(Box<Detect>),
}

/// A step of a chain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Along an axis; see [`Step::axis`].
    Softmax(Option<i64>),
    /// Of each element.
    Sigmoid,
    /// Index of the largest, the first of equals, as u8 where 256 suffice, else as i32; the axis goes.
    ArgMax(Option<i64>),
    /// The largest along the last axis, and an output `NAME.indices` of their indices (i32).
    TopK(usize),
    /// Bytes: `low` becomes 0 and `high` 255, rounded and clamped.
    Bytes {
        /// What 0 stands for.
        low: f64,
        /// What 255 stands for.
        high: f64,
    },
    /// Channels last: from `[n, c, h, w]` to `[n, h, w, c]`.
    Hwc,
}

/// Why a network's outputs cannot become a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--postprocess '{option}': {reason}")]
pub struct PostprocessError {
    /// The option as given.
    pub option: String,
    /// What is wrong.
    pub reason: String,
}

impl Step {
    /// The axis: as given, negative ones from the end; else channels of an image (the second of at least three dimensions),
    /// else the last.
    fn axis(given: Option<i64>, rank: usize) -> Result<usize, String> {
        let axis = given.unwrap_or(if rank >= 3 { 1 } else { -1 });
        let from_start = if axis < 0 { axis + rank as i64 } else { axis };
        usize::try_from(from_start)
            .ok()
            .filter(|&axis| axis < rank)
            .ok_or_else(|| format!("axis {axis} is outside rank {rank}"))
    }

    /// What the plan says of the results of a chain, the first of which has this shape.
    fn contents(steps: &[Self], results: &[(String, TensorId)], shape: &[usize]) -> Vec<String> {
        let vector = shape.last().is_some_and(|&classes| shape.iter().product::<usize>() == classes);
        let contents = match steps.last() {
            Some(Self::TopK(_)) if results.len() == 2 => {
                vec![Content::Best, Content::BestClasses { scores: &results[0].0 }]
            }
            Some(Self::ArgMax(_)) => vec![Content::Classes],
            Some(Self::Softmax(_) | Self::Sigmoid) if vector => vec![Content::Scores],
            _ => Vec::new(),
        };
        contents
            .into_iter()
            .chain(std::iter::repeat(Content::Tensor))
            .take(results.len())
            .map(|c| c.to_string())
            .collect()
    }

    /// Adds the step behind `x`; its result, and another output with the end of its name.
    fn apply(self, b: &mut Builder, x: TensorId) -> Result<(TensorId, Option<TensorId>), String> {
        let Fact { dtype, shape, .. } = b.fact(x).clone();
        if !dtype.is_float() && !matches!(self, Self::ArgMax(_) | Self::TopK(_) | Self::Hwc) {
            return Err(format!("it is {dtype:?}, not a float"));
        }
        let result = match self {
            Self::Softmax(axis) => b.emit(Op::Softmax { axis: Self::axis(axis, shape.len())?, log: false }, &[x])?,
            Self::Sigmoid => b.emit(Op::Unary(Unary::Sigmoid), &[x])?,
            Self::ArgMax(axis) => {
                let axis = Self::axis(axis, shape.len())?;
                let kind = Reduction::ArgMax;
                let index = b.emit(Op::Reduce { kind, axes: vec![axis], keep: false }, &[x])?;
                b.cast(index, if shape[axis] <= 256 { DType::U8 } else { DType::I32 })?
            }
            Self::TopK(k) => {
                let axis = Self::axis(Some(-1), shape.len())?;
                if k > shape[axis] {
                    return Err(format!("the best {k} of {}", shape[axis]));
                }
                let best = b.emit_all(Op::TopK { axis, k, largest: true }, &[x])?;
                return Ok((best[0], Some(b.cast(best[1], DType::I32)?)));
            }
            Self::Bytes { low, high } => {
                let scaled = b.affine(x, 255.0 / (high - low), -low * 255.0 / (high - low))?;
                let rounded = b.emit(Op::Unary(Unary::Round), &[scaled])?;
                let clipped =
                    b.emit(Op::Composite(Composite::Clip { min: Some(0.0), max: Some(255.0) }), &[rounded])?;
                b.cast(clipped, DType::U8)?
            }
            Self::Hwc => {
                let permutation = match shape.len() {
                    4 => vec![0, 2, 3, 1],
                    3 => vec![1, 2, 0],
                    rank => return Err(format!("hwc of rank {rank}, not 3 or 4")),
                };
                b.emit(Op::Transpose { permutation }, &[x])?
            }
        };
        Ok((result, None))
    }
}

impl Postprocess {
    fn error(&self, reason: impl Into<String>) -> PostprocessError {
        PostprocessError { option: self.option.clone(), reason: reason.into() }
    }

    /// Replaces outputs of the graph by results. `placements` tells of every camera-shaped input where its frame lies.
    ///
    /// # Errors
    /// Where the graph has no such outputs, or they do not have the shape that the result is made of.
    pub fn apply(&self, graph: &mut Graph, placements: &[(String, Placement)]) -> Result<(), PostprocessError> {
        let outputs = self.find(graph, &self.outputs)?;
        let scores = match &self.kind {
            Kind::Detect(detect) => self.find(graph, &detect.scores)?,
            Kind::Steps(_) => Vec::new(),
        };
        let used = [outputs.as_slice(), &scores].concat();
        let place = graph.outputs.iter().position(|id| used.contains(id)).unwrap_or(graph.outputs.len());
        let name = self.outputs.join("+");
        let mut b = Builder::new(graph, &name);
        let results: Vec<(String, TensorId, String)> = match &self.kind {
            Kind::Steps(steps) => {
                let (mut x, mut others) = (outputs[0], Vec::new());
                for step in steps {
                    let (next, other) = step.apply(&mut b, x).map_err(|reason| self.error(reason))?;
                    x = next;
                    others.extend(other.map(|other| (format!("{name}.indices"), other)));
                }
                let results = [vec![(name, x)], others].concat();
                let contents = Step::contents(steps, &results, b.shape(x));
                results.into_iter().zip(contents).map(|((name, id), content)| (name, id, content)).collect()
            }
            Kind::Detect(detect) => {
                detect.apply(&mut b, &outputs, &scores, placements).map_err(|reason| self.error(reason))?
            }
        };
        let graph = b.finish();
        graph.outputs.retain(|id| !used.contains(id));
        for &id in &used {
            graph.values[id.0].name += " as a tensor";
        }
        for (name, ..) in &results {
            if graph.outputs.iter().any(|&id| graph.value(id).name == *name) {
                return Err(self.error(format!("another output is called '{name}' already; write name=…")));
            }
        }
        let place = place.min(graph.outputs.len());
        for (name, id, content) in &results {
            graph.values[id.0].name.clone_from(name);
            graph.contents.outputs.insert(name.clone(), content.clone());
        }
        graph.outputs.splice(place..place, results.into_iter().map(|(_, id, _)| id));
        Ok(())
    }

    fn find(&self, graph: &Graph, names: &[String]) -> Result<Vec<TensorId>, PostprocessError> {
        let value = |id: &TensorId| graph.value(*id).name.as_str();
        let find = |name: &String| {
            graph.outputs.iter().copied().find(|id| value(id) == name).ok_or_else(|| {
                let all = graph.outputs.iter().map(value).collect::<Vec<_>>().join(", ");
                self.error(format!("the model has no output '{name}', only {all}"))
            })
        };
        names.iter().map(find).collect()
    }
}
