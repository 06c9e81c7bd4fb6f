//! Fusion: element-wise operators become pointwise programs, and programs become epilogues of the convolutions and
//! matrix products that feed them.
//!
//! A *group* is a set of element-wise nodes of which only one, the *root*, is seen from outside; every other member's
//! consumers are members. No path can leave such a set and come back, so replacing it by one node at the root's place
//! keeps the graph acyclic and in order. (At last cheap nodes become members of all groups that read them; see
//! [`super::recomputed`].) The same holds with an *anchor* in the set, a convolution or matrix product
//! that only members read: it moves down to the root's place, where all other inputs of the group exist.

use super::{quantization::Chains, rewrite};
use crate::{
    fused::{FusedGraph, FusedNode, FusedOp},
    program::{self, Builder, Classes, ProgramError, class_of},
};
use floe_kernels::{
    pointwise::{Class, MAX_POINTWISE_INPUTS, Program},
    quantized_conv::is_float_factor,
};
use floe_models::{DType, Graph, Node, NodeId, Op, TensorId, op::Binary};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Most program inputs of an epilogue beside the accumulator.
pub const MAX_EXTRAS: usize = 3;

/// Why a graph cannot be fused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FuseError {
    /// An element-wise operator has no program.
    #[error("node {node}: {reason}")]
    Program {
        /// Name of the node.
        node: String,
        /// Why.
        reason: ProgramError,
    },
    /// An earlier pass should have replaced this node.
    #[error("node {node}: {operator} reached fusion: {reason}")]
    NotNormalised {
        /// Name of the node.
        node: String,
        /// Its operator.
        operator: &'static str,
        /// What an earlier pass should have done.
        reason: &'static str,
    },
}

/// Fuses a simplified graph.
///
/// # Errors
/// Where an element-wise operator is not defined on its element types, or a node is left that earlier passes replace
/// (`BatchNormalization`, a `Gemm` with factors).
pub fn run(graph: Graph) -> Result<FusedGraph, FuseError> {
    for node in &graph.nodes {
        check_normalised(&graph, node)?;
    }
    let mut fusion = Fusion::new(&graph);
    let element_wise: Vec<usize> = (0..graph.nodes.len()).rev().filter(|&n| fusion.classes[n].is_some()).collect();
    fusion.grow(&element_wise)?;
    fusion.attach()?;
    fusion.recompute();
    let nodes = fusion.emit()?;
    let Graph { name, values, inputs, outputs, contents, .. } = graph;
    Ok(FusedGraph { name, nodes, values, inputs, outputs, contents })
}

/// Whether an operator takes an epilogue.
pub fn is_anchor(op: &Op) -> bool {
    is_quantized(op) || matches!(op, Op::Conv { .. } | Op::ConvTranspose { .. } | Op::MatMul | Op::Gemm { .. })
}

/// Whether an operator multiplies elements of 8 bits before its epilogue: integers, whose sums are exact, or floats.
pub fn is_quantized(op: &Op) -> bool {
    matches!(op, Op::QuantizedConv { .. } | Op::QuantizedMatMul)
}

/// Whether an operator multiplies floats of 8 bits before its epilogue.
fn multiplies_float8(graph: &Graph, node: &Node) -> bool {
    is_quantized(&node.op) && is_float_factor(graph.fact(node.inputs[0]).dtype)
}

/// Whether an anchor's epilogue reads elements of a type: no integers, but for those of sums of integers, and nothing narrow, but
/// for those of products of floats of 8 bits.
fn reads(graph: &Graph, anchor: &Node, dtype: DType) -> bool {
    let float = matches!(class_of(dtype), Some(Class::F32) | None) && !dtype.is_narrow();
    let more = match is_quantized(&anchor.op) {
        true if multiplies_float8(graph, anchor) => is_float_factor(dtype),
        true => dtype.size() <= 4 && !dtype.is_narrow(),
        false => false,
    };
    float || more
}

fn check_normalised(graph: &Graph, node: &Node) -> Result<(), FuseError> {
    let reason = match &node.op {
        Op::BatchNormalization { .. } => "batch normalisation has to be folded or made element-wise",
        Op::Gemm { alpha, beta, .. } => {
            let columns = graph.fact(node.outputs[0]).shape.last().copied().unwrap_or(1);
            let bias_fits = node.inputs.get(2).is_none_or(|&c| graph.fact(c).shape == [columns]);
            if *alpha == 1.0 && *beta == 1.0 && bias_fits {
                return Ok(());
            }
            "factors and a general addend have to be separate nodes"
        }
        Op::MatMul if node.inputs[..2].iter().any(|&input| graph.fact(input).shape.len() < 2) => {
            "vectors have to be reshaped to matrices"
        }
        _ => return Ok(()),
    };
    Err(FuseError::NotNormalised { node: node.name.clone(), operator: node.op.name(), reason })
}

/// Extents without leading ones: what decides how a value broadcasts.
pub fn significant(shape: &[usize]) -> &[usize] {
    let ones = shape.iter().take_while(|&&extent| extent == 1).count();
    &shape[ones..]
}

/// A set of element-wise nodes with one visible result.
#[derive(Debug)]
pub(super) struct Group {
    /// Node numbers, ascending; the last is the root.
    pub(super) members: BTreeSet<usize>,
    pub(super) classes: Classes,
    /// The node whose epilogue the group is.
    pub(super) anchor: Option<usize>,
}

impl Group {
    fn root(&self) -> usize {
        *self.members.last().expect("a group has a root")
    }

    pub(super) fn class(&self) -> Class {
        match self.classes {
            Classes::One(class) => class,
            Classes::Any => Class::F32,
        }
    }
}

/// An epilogue or a free-standing program, ready to be emitted.
pub(super) struct Lowered {
    program: Program,
    /// Inputs of the program, the accumulator left out.
    pub(super) inputs: Vec<TensorId>,
}

pub(super) struct Fusion<'a> {
    pub(super) graph: &'a Graph,
    pub(super) consumers: Vec<Vec<NodeId>>,
    producers: Vec<Option<NodeId>>,
    pub(super) is_output: Vec<bool>,
    /// Arithmetic of each element-wise node, `None` for other nodes.
    classes: Vec<Option<Classes>>,
    /// Groups by root.
    pub(super) groups: BTreeMap<usize, Group>,
    /// Root of the group that each element-wise node belongs to, or of the first where it is in several.
    pub(super) owner: Vec<Option<usize>>,
}

impl<'a> Fusion<'a> {
    fn new(graph: &'a Graph) -> Self {
        let mut is_output = vec![false; graph.values.len()];
        for output in &graph.outputs {
            is_output[output.0] = true;
        }
        let classes = graph
            .nodes
            .iter()
            .map(|node| {
                let facts = node.inputs.iter().chain(&node.outputs).map(|&id| graph.fact(id));
                program::class(&node.op, facts)
            })
            .collect();
        Self {
            graph,
            consumers: graph.consumers(),
            producers: graph.producers(),
            is_output,
            classes,
            groups: BTreeMap::new(),
            owner: vec![None; graph.nodes.len()],
        }
    }

    pub(super) fn output(&self, node: usize) -> TensorId {
        self.graph.nodes[node].outputs[0]
    }

    fn program_error(&self, node: usize, reason: ProgramError) -> FuseError {
        FuseError::Program { node: self.graph.nodes[node].name.clone(), reason }
    }

    /// Puts each of `nodes` (descending) into the group that has all its consumers, or into a new one.
    fn grow(&mut self, nodes: &[usize]) -> Result<(), FuseError> {
        for &node in nodes {
            if let Some((root, classes)) = self.group_to_join(node) {
                let group = self.groups.get_mut(&root).expect("owners are groups");
                let before = std::mem::replace(&mut group.classes, classes);
                group.members.insert(node);
                let group = &self.groups[&root];
                match self.lower(&group.members, group.class(), None) {
                    Ok(_) => {
                        self.owner[node] = Some(root);
                        continue;
                    }
                    Err(_) => {
                        let group = self.groups.get_mut(&root).expect("owners are groups");
                        group.members.remove(&node);
                        group.classes = before;
                    }
                }
            }
            let classes = self.classes[node].expect("only element-wise nodes are grouped");
            let group = Group { members: BTreeSet::from([node]), classes, anchor: None };
            self.lower(&group.members, group.class(), None).map_err(|reason| self.program_error(node, reason))?;
            self.groups.insert(node, group);
            self.owner[node] = Some(node);
        }
        Ok(())
    }

    /// The group that has all consumers of a node and could compute it too, with the classes it would have then.
    fn group_to_join(&self, node: usize) -> Option<(usize, Classes)> {
        let output = self.output(node);
        if self.is_output[output.0] {
            return None;
        }
        let (first, rest) = self.consumers[output.0].split_first()?;
        let root = self.owner[first.0]?;
        if rest.iter().any(|consumer| self.owner[consumer.0] != Some(root)) {
            return None;
        }
        let group = &self.groups[&root];
        let classes = match (group.classes, self.classes[node]?) {
            (Classes::Any, other) | (other, Classes::Any) => other,
            (one, other) if one == other => one,
            _ => return None,
        };
        let fact = self.graph.fact(output);
        let same_extents = significant(&fact.shape) == significant(&self.graph.fact(self.output(root)).shape);
        let exact = program::register_holds_result(&self.graph.nodes[node].op, fact.dtype) && !self.rounds(node);
        let fits = same_extents || self.dequantises(node);
        (group.anchor.is_none() && fits && exact).then_some((root, classes))
    }

    /// Whether a node is part of `(x − zero) · scale` of bytes. Such a value is made anew for each element that it is
    /// broadcast to, because floats between the two steps would be rounded to f16 and take a step of their own.
    fn dequantises(&self, node: usize) -> bool {
        let chains = Chains { graph: self.graph, producers: &self.producers };
        let Node { op, inputs, outputs, .. } = &self.graph.nodes[node];
        let bytes = |id: TensorId| chains.cast_from_bytes(id).is_some();
        self.graph.fact(outputs[0]).dtype == DType::F32
            && match op {
                Op::Cast => bytes(outputs[0]),
                Op::Binary(Binary::Sub) => bytes(inputs[0]) && chains.whole(inputs[1]).is_some(),
                _ => chains.dequantized(outputs[0]).is_some(),
            }
    }

    /// Whether a node casts to a narrower float only for that to be cast back: the model wants the rounding, which no
    /// register does.
    pub(super) fn rounds(&self, node: usize) -> bool {
        let Node { op, inputs, outputs, .. } = &self.graph.nodes[node];
        let dtype = |id: TensorId| self.graph.fact(id).dtype;
        let wider = |id: TensorId| dtype(id).is_float() && dtype(id).size() > dtype(outputs[0]).size();
        let back = |&NodeId(reader): &NodeId| {
            let reader = &self.graph.nodes[reader];
            reader.op == Op::Cast && wider(reader.outputs[0])
        };
        *op == Op::Cast
            && dtype(outputs[0]).is_float()
            && wider(inputs[0])
            && self.consumers[outputs[0].0].iter().any(back)
    }

    /// The program of members in ascending order. With an anchor, its output is input 0.
    pub(super) fn lower(
        &self,
        members: &BTreeSet<usize>,
        class: Class,
        anchor: Option<usize>,
    ) -> Result<Lowered, ProgramError> {
        let graph = self.graph;
        let mut builder = Builder::new(class);
        let mut registers = HashMap::new();
        if let Some(anchor) = anchor {
            registers.insert(self.output(anchor), builder.input(0)?);
        }
        let first = usize::from(anchor.is_some());
        let limit = if anchor.is_some() { MAX_EXTRAS } else { MAX_POINTWISE_INPUTS };
        let mut inputs = Vec::new();
        let mut result = 0;
        for &member in members {
            let node = &graph.nodes[member];
            let mut arguments = Vec::with_capacity(node.inputs.len());
            for &input in &node.inputs {
                let register = match (registers.get(&input), graph.constant(input)) {
                    (Some(&register), _) => register,
                    (None, Some(constant)) if constant.elements() == 1 => builder.scalar(constant)?,
                    (None, _) => {
                        let dtype = graph.fact(input).dtype;
                        if anchor.is_some_and(|anchor| !reads(graph, &graph.nodes[anchor], dtype)) {
                            return Err(ProgramError::Type { operator: "the epilogue's operand".into(), dtype });
                        }
                        inputs.push(input);
                        if inputs.len() > limit {
                            return Err(ProgramError::TooLong);
                        }
                        builder.input((first + inputs.len() - 1) as u8)?
                    }
                };
                registers.insert(input, register);
                arguments.push(register);
            }
            result = builder.apply(&node.op, &arguments, graph.fact(node.outputs[0]).dtype)?;
            registers.insert(node.outputs[0], result);
        }
        Ok(Lowered { program: builder.finish(result)?, inputs })
    }

    /// Makes groups the epilogues of their anchors, splitting off a part where the whole does not fit.
    fn attach(&mut self) -> Result<(), FuseError> {
        let mut pending: Vec<usize> = self.groups.keys().copied().collect();
        while let Some(root) = pending.pop() {
            let group = &self.groups[&root];
            if group.anchor.is_some() || group.class() != Class::F32 {
                continue;
            }
            let anchors = self.anchors(group);
            let whole = anchors.iter().copied().find(|&anchor| {
                self.same_output(anchor, root) && self.lower(&group.members, Class::F32, Some(anchor)).is_ok()
            });
            if let Some(anchor) = whole {
                self.groups.get_mut(&root).expect("pending roots are groups").anchor = Some(anchor);
                continue;
            }
            let Some((anchor, part)) =
                anchors.iter().find_map(|&anchor| Some((anchor, self.fitting_part(group, anchor)?)))
            else {
                continue;
            };
            let group = self.groups.remove(&root).expect("pending roots are groups");
            let rest: Vec<usize> =
                group.members.iter().rev().filter(|member| !part.contains(member)).copied().collect();
            let part = Group { members: part, classes: Classes::One(Class::F32), anchor: Some(anchor) };
            for &member in &part.members {
                self.owner[member] = Some(part.root());
            }
            for &member in &rest {
                self.owner[member] = None;
            }
            self.groups.insert(part.root(), part);
            self.grow(&rest)?;
            let mut roots: Vec<usize> = rest.iter().filter_map(|&member| self.owner[member]).collect();
            roots.sort_unstable();
            roots.dedup();
            pending.extend(roots);
        }
        Ok(())
    }

    /// Convolutions and matrix products that only this group reads, the last in topological order first: its inputs
    /// live up to there anyway.
    fn anchors(&self, group: &Group) -> Vec<usize> {
        let read = group.members.iter().flat_map(|&member| &self.graph.nodes[member].inputs);
        let mut anchors: Vec<usize> = read
            .filter(|input| !self.is_output[input.0])
            .filter(|input| self.consumers[input.0].iter().all(|consumer| group.members.contains(&consumer.0)))
            .filter_map(|input| self.producers[input.0])
            .map(|NodeId(producer)| producer)
            .filter(|&producer| is_anchor(&self.graph.nodes[producer].op))
            .collect();
        anchors.sort_unstable_by(|a, b| b.cmp(a));
        anchors.dedup();
        anchors
    }

    /// An epilogue stores what the anchor alone would: same element type, same extents. That of sums of integers stores
    /// any type of at most 32 bits but the narrow ones, that of floats of 8 bits such or f32.
    fn same_output(&self, anchor: usize, root: usize) -> bool {
        let (made, stored) = (self.graph.fact(self.output(anchor)), self.graph.fact(self.output(root)));
        let node = &self.graph.nodes[anchor];
        if multiplies_float8(self.graph, node) {
            return made.shape == stored.shape && (made.dtype == stored.dtype || is_float_factor(stored.dtype));
        }
        if is_quantized(&node.op) {
            return made.shape == stored.shape && stored.dtype.size() <= 4 && !stored.dtype.is_narrow();
        }
        made == stored
    }

    /// The largest part of a group that has one visible result, holds all readers of the anchor, and fits an epilogue.
    fn fitting_part(&self, group: &Group, anchor: usize) -> Option<BTreeSet<usize>> {
        let readers = &self.consumers[self.output(anchor).0];
        group.members.iter().rev().skip(1).find_map(|&root| {
            let mut part = BTreeSet::from([root]);
            for &member in group.members.range(..root).rev() {
                if self.consumers[self.output(member).0].iter().all(|consumer| part.contains(&consumer.0)) {
                    part.insert(member);
                }
            }
            let fits = self.same_output(anchor, root)
                && readers.iter().all(|reader| part.contains(&reader.0))
                && self.lower(&part, Class::F32, Some(anchor)).is_ok();
            fits.then_some(part)
        })
    }

    /// The nodes, each group at its root's place.
    fn emit(&self) -> Result<Vec<FusedNode>, FuseError> {
        let absorbed: BTreeSet<usize> = self.groups.values().filter_map(|group| group.anchor).collect();
        let mut nodes = Vec::new();
        for (number, node) in self.graph.nodes.iter().enumerate() {
            if let Some(group) = self.groups.get(&number) {
                nodes.push(self.emit_group(group)?);
            } else if self.owner[number].is_none() && !absorbed.contains(&number) {
                if node.op.is_element_wise() && node.op != Op::Cast {
                    return Err(FuseError::NotNormalised {
                        node: node.name.clone(),
                        operator: node.op.name(),
                        reason: "operands of different arithmetic have to be cast",
                    });
                }
                nodes.push(FusedNode {
                    name: node.name.clone(),
                    op: match &node.op {
                        op if is_anchor(op) => {
                            FusedOp::Anchored { op: op.clone(), operands: node.inputs.len(), program: None }
                        }
                        // An identity that stands between an input and an output is a copy.
                        Op::Identity => FusedOp::Operator(Op::Reshape),
                        op => FusedOp::Operator(op.clone()),
                    },
                    inputs: node.inputs.clone(),
                    outputs: node.outputs.clone(),
                    sources: node.sources.clone(),
                });
            }
        }
        Ok(nodes)
    }

    fn emit_group(&self, group: &Group) -> Result<FusedNode, FuseError> {
        let root = group.root();
        let lowered = self
            .lower(&group.members, group.class(), group.anchor)
            .map_err(|reason| self.program_error(root, reason))?;
        let parts = group.anchor.iter().chain(&group.members).map(|&member| &self.graph.nodes[member]);
        let mut sources = Vec::new();
        for part in parts {
            rewrite::add_sources(&mut sources, &part.sources);
        }
        let outputs = vec![self.output(root)];
        let Some(anchor) = group.anchor.map(|anchor| &self.graph.nodes[anchor]) else {
            let node = &self.graph.nodes[root];
            let op = match node.op {
                Op::Cast if group.members.len() == 1 => FusedOp::Operator(Op::Cast),
                _ => FusedOp::Pointwise(lowered.program),
            };
            // A lone cast reads its operand as it is, also where that is a scalar constant.
            let inputs = if matches!(op, FusedOp::Operator(_)) { node.inputs.clone() } else { lowered.inputs };
            return Ok(FusedNode { name: node.name.clone(), op, inputs, outputs, sources });
        };
        let mut inputs = anchor.inputs.clone();
        let operands = inputs.len();
        inputs.extend(lowered.inputs);
        let op = FusedOp::Anchored { op: anchor.op.clone(), operands, program: Some(lowered.program) };
        Ok(FusedNode { name: anchor.name.clone(), op, inputs, outputs, sources })
    }
}
