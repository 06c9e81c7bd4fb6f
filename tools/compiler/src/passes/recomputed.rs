//! What several programs read that is a few cheap operators away from values in memory is made anew in each: it is no step of its
//! own, and no more elements are moved. The corners of boxes, from which a detector computes centres and sizes, are made so, in 8
//! bits with the rounding to bytes and back.
//!
//! This is a part of fusion, done once it is known which programs there are: what is read by one program alone is in that program
//! already, and what is an epilogue, or read by one, is left alone.

use super::fuse::{Fusion, significant};
use floe_models::{
    NodeId, Op, TensorId,
    op::{Binary, Composite, Unary},
};
use std::collections::{BTreeMap, BTreeSet};

/// Most operators that are made anew: a sum, its rounding to bytes and back, and another one.
const MOST_MEMBERS: usize = 16;

impl Fusion<'_> {
    /// Puts every such node into all programs that read it. Readers come first, so that chains follow.
    pub(super) fn recompute(&mut self) {
        let mut joined = BTreeMap::new();
        let nodes: Vec<usize> = self.groups.keys().rev().copied().collect();
        for node in nodes {
            if let Some(roots) = self.programs_that_read(node, &joined) {
                let members = self.groups.remove(&node).expect("it was a program").members;
                for root in &roots {
                    self.groups.get_mut(root).expect("readers are programs").members.extend(&members);
                }
                for member in members {
                    self.owner[member] = roots.first().copied();
                    joined.insert(member, roots.clone());
                }
            }
        }
    }

    /// The programs that read a node, if it is the root of a cheap one that is better made anew in each of them. `joined` has the
    /// programs of each node that is in several.
    fn programs_that_read(&self, node: usize, joined: &BTreeMap<usize, BTreeSet<usize>>) -> Option<BTreeSet<usize>> {
        let made = self.groups.get(&node)?;
        let output = self.output(node);
        let fact = self.graph.fact(output);
        let cheap = made.anchor.is_none()
            && made.members.len() <= MOST_MEMBERS
            && made.members.iter().all(|&member| self.is_cheap(member));
        let exact = fact.dtype.is_float() && !self.rounds(node);
        if !cheap || !exact || self.is_output[output.0] {
            return None;
        }
        let mut roots = BTreeSet::new();
        for &NodeId(reader) in &self.consumers[output.0] {
            match joined.get(&reader) {
                Some(of_reader) => roots.extend(of_reader),
                None => {
                    roots.insert(self.owner[reader]?);
                }
            }
        }
        // Elements that are read and written now, and that would be.
        let elements = |id: &TensorId| self.graph.fact(*id).elements();
        let read = self.lower(&made.members, made.class(), None).ok()?.inputs;
        let mut now: usize = read.iter().map(elements).sum::<usize>() + elements(&output);
        let mut then: usize = 0;
        for root in &roots {
            let group = self.groups.get(root).filter(|group| group.anchor.is_none())?;
            let same_extents = significant(&fact.shape) == significant(&self.graph.fact(self.output(*root)).shape);
            if !same_extents || group.classes != made.classes {
                return None;
            }
            let members = &group.members | &made.members;
            let before = self.lower(&group.members, group.class(), None).ok()?.inputs;
            let after = self.lower(&members, group.class(), None).ok()?.inputs;
            now += before.iter().map(elements).sum::<usize>();
            then += after.iter().map(elements).sum::<usize>();
        }
        (roots.len() > 1 && then <= now).then_some(roots)
    }

    /// Whether a node is a few instructions.
    fn is_cheap(&self, node: usize) -> bool {
        let node = &self.graph.nodes[node];
        match &node.op {
            Op::Unary(op) => matches!(op, Unary::Neg | Unary::Abs | Unary::Relu | Unary::Round),
            Op::Composite(op) => matches!(op, Composite::Clip { .. }),
            Op::Binary(Binary::Div) => {
                self.graph.constant(node.inputs[1]).is_some_and(|divisor| divisor.elements() == 1)
            }
            Op::Binary(op) => matches!(op, Binary::Add | Binary::Sub | Binary::Mul | Binary::Min | Binary::Max),
            Op::Cast => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fused::{FusedGraph, FusedOp},
        passes::tests::Network,
    };
    use floe_models::Fact;

    /// The steps in order, with the number of their inputs.
    fn steps(graph: &FusedGraph) -> Vec<(&'static str, usize)> {
        let name = |op: &FusedOp| match op {
            FusedOp::Operator(op) | FusedOp::Anchored { op, .. } => op.name(),
            FusedOp::Pointwise(_) => "pointwise",
        };
        graph.nodes.iter().map(|node| (name(&node.op), node.inputs.len())).collect()
    }

    /// A value that is no program's.
    fn computed(net: &mut Network, shape: &[usize]) -> TensorId {
        let x = net.input(shape);
        net.node(Op::Softmax { axis: 1, log: false }, &[x])
    }

    #[test]
    fn corners_of_boxes_are_made_where_they_are_read() {
        let mut net = Network::new();
        let distances = computed(&mut net, &[1, 4, 6]);
        let half = Fact::new(floe_models::DType::F32, &[1, 2, 6]);
        let parts = net.node_as(Op::Split { axis: 1 }, &[distances], &[half.clone(), half]);
        let places = net.input(&[1, 2, 6]);
        let first = net.binary(Binary::Sub, places, parts[0]);
        let last = net.binary(Binary::Add, places, parts[1]);
        let sum = net.binary(Binary::Add, first, last);
        let two = net.scalar(2.0);
        let centre = net.binary(Binary::Div, sum, two);
        let size = net.binary(Binary::Sub, last, first);
        let boxes = net.node(Op::Concat { axis: 1 }, &[centre, size]);
        net.output(boxes);
        let expected = [("Softmax", 1), ("Split", 1), ("pointwise", 3), ("pointwise", 3), ("Concat", 2)];
        assert_eq!(steps(&net.finish()), expected);
    }

    #[test]
    fn bytes_between_are_rounded_to_in_each() {
        let mut net = Network::new();
        let x = computed(&mut net, &[1, 4, 6]);
        let scale = net.scalar(1.0 / 64.0);
        let quotient = net.binary(Binary::Div, x, scale);
        let rounded = net.unary(Unary::Round, quotient);
        let cast =
            |net: &mut Network, x: TensorId, dtype| net.node_as(Op::Cast, &[x], &[Fact::new(dtype, &[1, 4, 6])])[0];
        let bytes = cast(&mut net, rounded, floe_models::DType::U8);
        let floats = cast(&mut net, bytes, floe_models::DType::F32);
        let value = net.binary(Binary::Mul, floats, scale);
        for op in [Unary::Exp, Unary::Tanh] {
            let y = net.unary(op, value);
            let y = net.node(Op::Softmax { axis: 2, log: false }, &[y]);
            net.output(y);
        }
        assert_eq!(steps(&net.finish()).into_iter().filter(|step| step.0 == "pointwise").count(), 2);
    }

    #[test]
    fn chains_follow_their_readers() {
        let mut net = Network::new();
        let x = computed(&mut net, &[1, 4, 6]);
        let two = net.scalar(2.0);
        let doubled = net.binary(Binary::Mul, x, two);
        let more = net.binary(Binary::Add, doubled, two);
        for (op, y) in [(Unary::Exp, doubled), (Unary::Tanh, more), (Unary::Sin, more)] {
            let y = net.unary(op, y);
            let y = net.node(Op::Softmax { axis: 2, log: false }, &[y]);
            net.output(y);
        }
        let programs = steps(&net.finish()).into_iter().filter(|step| *step == ("pointwise", 1)).count();
        assert_eq!(programs, 3);
    }

    #[test]
    fn others_are_made_once() {
        let made = |build: &dyn Fn(&mut Network) -> TensorId, readers: usize, outputs: usize| {
            let mut net = Network::new();
            let shared = build(&mut net);
            for number in 0..readers {
                let y = net.unary([Unary::Exp, Unary::Tanh, Unary::Sin, Unary::Cos][number], shared);
                let y = net.node(Op::Softmax { axis: 1, log: false }, &[y]);
                net.output(y);
            }
            (0..outputs).for_each(|_| net.output(shared));
            steps(&net.finish()).into_iter().filter(|(name, _)| *name == "pointwise").count()
        };
        let sum = |net: &mut Network| {
            let [a, b] = [(); 2].map(|()| computed(net, &[2, 4, 6]));
            net.binary(Binary::Add, a, b)
        };
        assert_eq!(made(&sum, 3, 0), 3);
        // What would move more elements, an output, what is not cheap, what is broadcast.
        assert_eq!(made(&sum, 4, 0), 5);
        assert_eq!(made(&sum, 2, 1), 3);
        let root = |net: &mut Network| {
            let x = computed(net, &[2, 4, 6]);
            net.unary(Unary::Sqrt, x)
        };
        assert_eq!(made(&root, 2, 0), 3);
        let mut net = Network::new();
        let [small, large] = [&[1, 4, 1], &[1, 4, 6]].map(|shape| computed(&mut net, shape));
        let relu = net.unary(Unary::Relu, small);
        for op in [Binary::Add, Binary::Mul] {
            let y = net.binary(op, relu, large);
            let y = net.node(Op::Softmax { axis: 1, log: false }, &[y]);
            net.output(y);
        }
        let programs = steps(&net.finish()).into_iter().filter(|(name, _)| *name == "pointwise").count();
        assert_eq!(programs, 3);
    }

    #[test]
    fn epilogues_and_what_they_read_stay() {
        let mut net = Network::new();
        let x = net.input(&[1, 8, 6, 6]);
        let y = net.conv(x, 8, 3, 1);
        let gate = net.unary(Unary::Sigmoid, y);
        let silu = net.binary(Binary::Mul, y, gate);
        // A residual sum that a convolution and the next residual sum read.
        let sum = net.binary(Binary::Add, silu, x);
        let next = net.conv(sum, 8, 3, 1);
        let y = net.binary(Binary::Add, next, sum);
        net.output(y);
        // A sum of two values in memory that two epilogues read.
        let [a, b] = [(); 2].map(|()| computed(&mut net, &[1, 8, 6, 6]));
        let shared = net.binary(Binary::Add, a, b);
        for _ in 0..2 {
            let y = net.conv(x, 8, 1, 1);
            let y = net.binary(Binary::Mul, y, shared);
            net.output(y);
        }
        let expected =
            [("Conv", 4), ("Conv", 4), ("Softmax", 1), ("Softmax", 1), ("pointwise", 2), ("Conv", 4), ("Conv", 4)];
        assert_eq!(steps(&net.finish()), expected);
    }
}
