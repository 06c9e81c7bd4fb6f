//! A graph under rewriting: who makes and who reads each value follows every change, and nodes keep their numbers.

use floe_models::{Fact, Graph, Node, Op, Source, Tensor, TensorId};
use std::ops::Deref;

/// A graph with its edges in both directions. Reading goes through [`Deref`]; a change goes through a method.
pub(super) struct Edges {
    graph: Graph,
    readers: Vec<Vec<usize>>,
    makers: Vec<Option<usize>>,
    inputs: Vec<bool>,
    outputs: Vec<bool>,
    /// The nodes in order: the places before and after each, a place being a number and 1. Place 0 is both ends, and what
    /// is not in the graph any more stands beside itself.
    order: Vec<[usize; 2]>,
    changed: bool,
}

/// Rewrites a graph: visits its nodes in order by their numbers, except for those that are removed meanwhile. Nodes that are added are
/// not visited.
pub(super) fn rewrite(graph: Graph, mut visit: impl FnMut(&mut Edges, usize)) -> Graph {
    let count = graph.nodes.len();
    let mut edges = Edges::of(graph);
    for number in 0..count {
        if edges.is_there(number) {
            visit(&mut edges, number);
        }
    }
    edges.finish()
}

impl Deref for Edges {
    type Target = Graph;

    fn deref(&self) -> &Graph {
        &self.graph
    }
}

impl Edges {
    /// The edges of a graph.
    pub(super) fn of(graph: Graph) -> Self {
        let places = graph.nodes.len() + 1;
        let order = (0..places).map(|place| [(place + places - 1) % places, (place + 1) % places]).collect();
        let mut inputs = vec![false; graph.values.len()];
        graph.inputs.iter().for_each(|input| inputs[input.0] = true);
        let numbers = |readers: Vec<_>| readers.into_iter().map(|floe_models::NodeId(reader)| reader).collect();
        Self {
            readers: graph.consumers().into_iter().map(numbers).collect(),
            makers: graph.producers().into_iter().map(|maker| maker.map(|maker| maker.0)).collect(),
            outputs: super::rewrite::output_flags(&graph),
            inputs,
            order,
            changed: false,
            graph,
        }
    }

    /// The graph, with all nodes at their places.
    pub(super) fn finish(mut self) -> Graph {
        if self.changed {
            let mut nodes: Vec<_> = std::mem::take(&mut self.graph.nodes).into_iter().map(Some).collect();
            let places = std::iter::successors(Some(self.order[0][1]), |&place| Some(self.order[place][1]));
            let nodes = places.take_while(|&place| place != 0).filter_map(|place| nodes[place - 1].take());
            self.graph.nodes = nodes.collect();
        }
        self.graph
    }

    /// Whether a node has not been removed.
    fn is_there(&self, number: usize) -> bool {
        self.order[number + 1][1] != number + 1
    }

    /// The number of the node that makes a value.
    pub(super) fn producer(&self, id: TensorId) -> Option<usize> {
        self.makers.get(id.0).copied().flatten()
    }

    /// The node that makes a value.
    pub(super) fn maker(&self, id: TensorId) -> Option<&Node> {
        self.producer(id).map(|number| &self.graph.nodes[number])
    }

    /// The numbers of the nodes that read a value, ascending, once for each use.
    pub(super) fn readers(&self, id: TensorId) -> &[usize] {
        self.readers.get(id.0).map_or(&[], Vec::as_slice)
    }

    /// Whether a value is an output of the graph.
    pub(super) fn is_output(&self, id: TensorId) -> bool {
        self.outputs.get(id.0).is_some_and(|&output| output)
    }

    /// The only reader of a value, which reads it once, where it is no output of the graph.
    pub(super) fn only_reader(&self, id: TensorId) -> Option<usize> {
        match *self.readers(id) {
            [reader] if !self.is_output(id) => Some(reader),
            _ => None,
        }
    }

    /// Adds a value.
    pub(super) fn add_value(&mut self, name: impl Into<String>, fact: Fact) -> TensorId {
        self.graph.add_value(name, fact)
    }

    /// Adds a constant.
    pub(super) fn add_constant(&mut self, name: impl Into<String>, tensor: Tensor) -> TensorId {
        self.graph.add_constant(name, tensor)
    }

    /// Gives a value another shape; its makers and readers have to follow.
    pub(super) fn set_shape(&mut self, id: TensorId, shape: &[usize]) {
        shape.clone_into(&mut self.graph.values[id.0].fact.shape);
    }

    /// Gives a node another operator with the same operands.
    pub(super) fn set_op(&mut self, number: usize, op: Op) {
        self.graph.nodes[number].op = op;
    }

    /// Has a node stand for more nodes of the model.
    pub(super) fn add_sources(&mut self, number: usize, sources: &[Source]) {
        super::rewrite::add_sources(&mut self.graph.nodes[number].sources, sources);
    }

    /// Puts another node in place of one.
    pub(super) fn replace(&mut self, number: usize, node: Node) {
        self.unlink(number);
        self.graph.nodes[number] = node;
        self.link(number);
    }

    /// Puts nodes in front of one.
    pub(super) fn insert_before(&mut self, number: usize, nodes: impl IntoIterator<Item = Node>) {
        self.insert_at(number + 1, nodes);
    }

    /// Puts nodes in front of a place.
    fn insert_at(&mut self, next: usize, nodes: impl IntoIterator<Item = Node>) {
        for node in nodes {
            let (previous, place) = (self.order[next][0], self.order.len());
            self.order.push([previous, next]);
            (self.order[previous][1], self.order[next][0]) = (place, place);
            self.graph.nodes.push(node);
            self.link(place - 1);
            self.changed = true;
        }
    }

    /// Puts nodes behind one.
    pub(super) fn insert_after(&mut self, number: usize, nodes: impl IntoIterator<Item = Node>) {
        self.insert_at(self.order[number + 1][1], nodes);
    }

    /// Puts nodes in place of one, of which the last gets its number.
    pub(super) fn replace_by(&mut self, number: usize, mut nodes: Vec<Node>) {
        let Some(last) = nodes.pop() else { return };
        self.replace(number, last);
        self.insert_before(number, nodes);
    }

    /// Removes a node. Its number is not given again.
    pub(super) fn remove(&mut self, number: usize) {
        self.unlink(number);
        let place = number + 1;
        let [previous, next] = std::mem::replace(&mut self.order[place], [place; 2]);
        (self.order[previous][1], self.order[next][0]) = (next, previous);
        self.changed = true;
    }

    /// Makes every reader of `from` read `to`, which holds the same elements. Whoever makes `from` should then be removed.
    ///
    /// A graph output keeps its name, so `to` takes over the number of `from` there. False, and nothing changed, where that
    /// cannot be: `to` is itself an input or an output of the graph.
    pub(super) fn replace_value(&mut self, from: TensorId, to: TensorId) -> bool {
        if !self.outputs[from.0] {
            self.rename_read(from, to);
            return true;
        }
        if self.inputs[to.0] || self.outputs[to.0] {
            return false;
        }
        if self.graph.constant(to).is_some() {
            self.graph.values[from.0].constant = self.graph.values[to.0].constant.clone();
            return true;
        }
        // The node about to be removed makes `from`; the producer of `to` makes it from now on.
        self.rename_read(to, from);
        self.makers[from.0] = self.makers[to.0].take();
        if let Some(maker) = self.makers[from.0] {
            let outputs = &mut self.graph.nodes[maker].outputs;
            outputs.iter_mut().filter(|output| **output == to).for_each(|output| *output = from);
        }
        true
    }

    fn rename_read(&mut self, from: TensorId, to: TensorId) {
        for reader in std::mem::take(&mut self.readers[from.0]) {
            for input in self.graph.nodes[reader].inputs.iter_mut().filter(|input| **input == from) {
                *input = to;
                insert(&mut self.readers[to.0], reader);
            }
        }
    }

    fn link(&mut self, number: usize) {
        let values = self.graph.values.len();
        self.readers.resize_with(values, Vec::new);
        self.makers.resize(values, None);
        self.inputs.resize(values, false);
        self.outputs.resize(values, false);
        let Node { inputs, outputs, .. } = &self.graph.nodes[number];
        inputs.iter().for_each(|input| insert(&mut self.readers[input.0], number));
        outputs.iter().for_each(|output| self.makers[output.0] = Some(number));
    }

    fn unlink(&mut self, number: usize) {
        let Node { inputs, outputs, .. } = &self.graph.nodes[number];
        for input in inputs {
            let readers = &mut self.readers[input.0];
            if let Ok(at) = readers.binary_search(&number) {
                readers.remove(at);
            }
        }
        // Another node may make it already.
        let own = |output: &&TensorId| self.makers[output.0] == Some(number);
        let own: Vec<TensorId> = outputs.iter().filter(own).copied().collect();
        own.into_iter().for_each(|output| self.makers[output.0] = None);
    }
}

/// Adds to an ascending list.
fn insert(numbers: &mut Vec<usize>, number: usize) {
    numbers.insert(numbers.partition_point(|&other| other <= number), number);
}

#[cfg(test)]
mod tests {
    use super::*;
    use floe_models::{DType, op::Unary};

    /// x → a → b → y
    fn chain() -> Graph {
        let mut graph = Graph::default();
        let values: Vec<_> =
            ["x", "a", "b", "y"].map(|name| graph.add_value(name, Fact::new(DType::F32, &[2]))).to_vec();
        graph.nodes = values.windows(2).map(|edge| node(&format!("to {}", edge[1].0), edge[0], edge[1])).collect();
        (graph.inputs, graph.outputs) = (vec![values[0]], vec![values[3]]);
        graph
    }

    fn node(name: &str, from: TensorId, to: TensorId) -> Node {
        let (inputs, outputs) = (vec![from], vec![to]);
        Node { name: name.into(), op: Op::Unary(Unary::Relu), inputs, outputs, sources: Vec::new() }
    }

    /// Edges that follow changes are those of the finished graph, whose nodes have other numbers.
    fn finished(edges: Edges) -> Vec<String> {
        let name = |number: &usize| edges.nodes[*number].name.clone();
        let all =
            |edges: &Edges, id| (edges.producer(id).map(|n| name(&n)), edges.readers(id).iter().map(name).collect());
        let kept: Vec<(Option<String>, Vec<String>)> =
            (0..edges.values.len()).map(|id| all(&edges, TensorId(id))).collect();
        let graph = edges.finish();
        let edges = Edges::of(graph);
        let name = |number: &usize| edges.nodes[*number].name.clone();
        for (id, (maker, mut readers)) in kept.into_iter().enumerate() {
            assert_eq!(maker, edges.producer(TensorId(id)).map(|number| name(&number)), "maker of {id}");
            let mut rebuilt: Vec<String> = edges.readers(TensorId(id)).iter().map(name).collect();
            readers.sort();
            rebuilt.sort();
            assert_eq!(readers, rebuilt, "readers of {id}");
        }
        edges.nodes.iter().map(|node| node.name.clone()).collect()
    }

    #[test]
    fn edges_follow_insertion_removal_and_replacement() {
        let [x, a, b, y] = [0, 1, 2, 3].map(TensorId);
        let mut edges = Edges::of(chain());
        let between = edges.add_value("between", edges.fact(a).clone());
        edges.replace(1, node("late", between, b));
        edges.insert_before(1, [node("early", a, between)]);
        assert_eq!((edges.readers(a), edges.producer(between)), (&[3][..], Some(3)));
        assert_eq!(finished(edges), ["to 1", "early", "late", "to 3"]);

        let mut edges = Edges::of(chain());
        assert!(edges.replace_value(b, a));
        edges.remove(1);
        assert_eq!((edges.only_reader(a), edges.is_there(1)), (Some(2), false));
        assert_eq!(finished(edges), ["to 1", "to 3"]);

        // An output keeps its number: the node before makes it.
        let mut edges = Edges::of(chain());
        assert!(edges.replace_value(y, b));
        edges.remove(2);
        assert_eq!((edges.producer(y), edges.producer(b)), (Some(1), None));
        assert_eq!(finished(edges), ["to 1", "to 2"]);
        assert!(!Edges::of(chain()).replace_value(y, x));
    }
}
