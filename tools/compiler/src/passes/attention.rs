//! Recognises attention: softmax(scale·Q·Kᵀ + mask)·V, however an exporter scales, transposes and masks it.
//!
//! The pass looks from the second product backwards. What it needs anew, a transposed key or a mask joined from two, it
//! adds as movement and element-wise nodes, which cost nothing or little.

use super::{
    edges::{self, Edges},
    heads::Reshaped,
    rewrite,
};
use floe_kernels::attention::MAX_HEAD_SIZE;
use floe_models::{
    DType, Fact, Graph, Node, Op, Source, TensorId,
    op::{Binary, Unary},
};

/// A masking value that no score changes, whatever is added to it.
const HIDING: f64 = -1e30;

/// Most dimensions of a product: two of batches, heads, and those of a matrix.
const MOST_DIMENSIONS: usize = 5;

/// Puts `Attention` in place of its parts.
pub fn run(graph: Graph) -> Graph {
    super::dead_code::run(edges::rewrite(graph, |edges, number| {
        if let Some(found) = Match::at(edges, number) {
            found.apply(edges, number);
        }
    }))
}

struct Match {
    query: Operand,
    key: Key,
    value: Reshaped,
    masks: Vec<Mask>,
    scale: f64,
    softcap: f64,
    /// Whether weights that are NaN count as 0, which PyTorch exports for queries that see no key.
    guarded: bool,
    sources: Vec<Source>,
}

enum Key {
    /// The right factor of the first product, keys along its last dimension.
    Columns(Operand),
    /// Keys along the last dimension but one.
    Rows(Reshaped),
}

/// A mask that is added, or a condition under which a score is kept or else replaced by a constant.
#[derive(Clone, Copy)]
enum Mask {
    Added(TensorId),
    Kept { condition: TensorId, otherwise: TensorId },
    Replaced { condition: TensorId, by: TensorId },
}

impl Mask {
    /// What has the mask's shape.
    fn values(self) -> TensorId {
        match self {
            Self::Added(id) | Self::Kept { condition: id, .. } | Self::Replaced { condition: id, .. } => id,
        }
    }
}

/// A factor of the first product without the scalars it is multiplied by: where it comes from, and the movement that
/// follows, last first.
struct Operand {
    source: TensorId,
    movement: Vec<(Op, Fact)>,
}

impl Edges {
    /// The producer of a value that nothing else reads.
    fn private_producer(&self, id: TensorId) -> Option<&Node> {
        self.only_reader(id).and(self.maker(id))
    }

    /// The other operand and the factor, where the node multiplies by a scalar constant.
    pub(super) fn factor(&self, node: &Node) -> Option<(TensorId, f64)> {
        let scalar = |id: TensorId| rewrite::scalar(self, id);
        let &[a, b] = node.inputs.as_slice() else { return None };
        let found = match node.op {
            Op::Binary(Binary::Mul) => scalar(b).map(|s| (a, s)).or_else(|| scalar(a).map(|s| (b, s))),
            Op::Binary(Binary::Div) => scalar(b).map(|s| (a, 1.0 / s)),
            _ => None,
        };
        found.filter(|&(other, factor)| factor.is_finite() && self.fact(other) == self.fact(node.outputs[0]))
    }

    /// Whether a reshape only adds or takes away leading dimensions of one element.
    fn only_adds_ones(&self, node: &Node) -> bool {
        let shapes = [node.inputs[0], node.outputs[0]].map(|id| self.fact(id).shape.as_slice());
        let [from, to] = shapes.map(|shape| &shape[shape.iter().take_while(|&&extent| extent == 1).count()..]);
        from == to
    }

    /// The softmax that makes weights, and whether they are 0 where it gives NaN.
    fn softmax(&self, weights: TensorId) -> Option<(&Node, bool)> {
        let node = self.private_producer(weights)?;
        if node.op != Op::Where {
            return Some((node, false));
        }
        let &[condition, zero, softmax] = node.inputs.as_slice() else { return None };
        let test = self.private_producer(condition)?;
        let fits = test.op == Op::Unary(Unary::IsNan)
            && test.inputs == [softmax]
            && rewrite::scalar(self, zero) == Some(0.0)
            && self.readers(softmax).len() == 2
            && !self.is_output(softmax);
        fits.then_some((self.maker(softmax)?, true))
    }

    /// Follows an operand back through movement to the scalars that it is multiplied by.
    fn operand(&self, id: TensorId) -> (Operand, f64) {
        let mut found = Operand { source: id, movement: Vec::new() };
        let (mut at, mut movement, mut scale) = (id, Vec::new(), 1.0);
        while let Some(node) = self.maker(at) {
            if let Some((other, factor)) = self.factor(node) {
                scale *= factor;
                at = other;
                found = Operand { source: at, movement: movement.clone() };
            } else if matches!(node.op, Op::Transpose { .. } | Op::Reshape) {
                movement.push((node.op.clone(), self.fact(node.outputs[0]).clone()));
                at = node.inputs[0];
            } else {
                break;
            }
        }
        (found, scale)
    }
}

/// The shape, where it has two dimensions of batches, or leading ones before that, with one for all; `batches` is a shape that has all.
/// Nothing where it has some of the batches only.
fn one_batch(shape: &[usize], batches: &[usize]) -> Option<Vec<usize>> {
    let Some(outer) = shape.len().checked_sub(3).filter(|&outer| outer > 0) else { return Some(shape.to_vec()) };
    let (outer, matrices) = shape.split_at(outer);
    let all = &batches[..batches.len() - 3];
    let leading = outer.iter().take_while(|&&extent| extent == 1).count().min(outer.len().saturating_sub(all.len()));
    let outer = &outer[leading..];
    let joined = match outer {
        [] => return Some(matrices.to_vec()),
        _ if outer.iter().all(|&extent| extent == 1) => 1,
        _ if all.ends_with(outer) && all.iter().product::<usize>() == outer.iter().product() => outer.iter().product(),
        _ => return None,
    };
    Some([&[joined], matrices].concat())
}

/// Whether masks may leave a query no key at all, as far as constants tell.
fn may_hide_all(graph: &Graph, masks: &[Mask]) -> bool {
    let infinite = |id: TensorId| rewrite::scalar(graph, id).is_none_or(|value| value == f64::NEG_INFINITY);
    let hiding = |mask: &&Mask| match **mask {
        Mask::Added(mask) => graph.constant(mask).is_none_or(|mask| mask.to_f64().contains(&f64::NEG_INFINITY)),
        Mask::Kept { otherwise: value, .. } | Mask::Replaced { by: value, .. } => infinite(value),
    };
    let hiding: Vec<&Mask> = masks.iter().filter(hiding).collect();
    match hiding.as_slice() {
        [] => false,
        [Mask::Added(mask)] => graph.constant(*mask).is_none_or(|mask| {
            let row = mask.shape.last().copied().unwrap_or(1).max(1);
            mask.to_f64().chunks(row).any(|row| row.iter().all(|&value| value == f64::NEG_INFINITY))
        }),
        _ => true,
    }
}

/// Puts 0 in place of NaN in what node `number` makes: behind the movement that follows it, which costs nothing where it
/// is done by the strides with which the node writes.
fn guard(graph: &mut Edges, mut number: usize) {
    while let Some(next) = graph.only_reader(graph.nodes[number].outputs[0])
        && matches!(graph.nodes[next].op, Op::Transpose { .. } | Op::Reshape)
    {
        number = next;
    }
    let Node { name, outputs, sources, .. } = graph.nodes[number].clone();
    let fact = graph.fact(outputs[0]).clone();
    let unguarded = graph.add_value(format!("{name}_unguarded"), fact.clone());
    graph.replace(number, Node { outputs: vec![unguarded], ..graph.nodes[number].clone() });
    let mut added = Added { graph, name: &name, sources: &sources, nodes: Vec::new() };
    let zero = added.scalar(fact.dtype, 0.0);
    let unseen = added.node(Op::Unary(Unary::IsNan), vec![unguarded], Fact { dtype: DType::Bool, ..fact });
    let mut nodes = added.nodes;
    let inputs = vec![unseen, zero, unguarded];
    nodes.push(Node { name: format!("{name}_guarded"), op: Op::Where, inputs, outputs, sources });
    graph.insert_after(number, nodes);
}

impl Match {
    /// The pattern whose second product is node `number`.
    fn at(edges: &Edges, number: usize) -> Option<Self> {
        let graph: &Graph = edges;
        let product = &graph.nodes[number];
        if product.op != Op::MatMul || product.inputs.len() != 2 {
            return None;
        }
        let fact = graph.fact(product.outputs[0]);
        let rank = fact.shape.len();
        if !(3..=MOST_DIMENSIONS).contains(&rank) || !matches!(fact.dtype, DType::F32 | DType::F16 | DType::Bf16) {
            return None;
        }
        let &[weights, value] = product.inputs.as_slice() else { return None };
        let (softmax, guarded) = edges.softmax(weights)?;
        if softmax.op != (Op::Softmax { axis: rank - 1, log: false }) {
            return None;
        }
        let found = Search { edges, masks: Vec::new(), sources: softmax.sources.clone() };
        let (mut found, first, softcap, scale) = found.scores(softmax.inputs[0])?;
        rewrite::add_sources(&mut found.sources, &first.sources);
        let (query, query_scale) = edges.operand(first.inputs[0]);
        let (key, key_scale) = edges.operand(first.inputs[1]);
        let mut key = match edges.exchanged(key.source).filter(|_| key.movement.is_empty()) {
            Some(rows) => Key::Rows(rows),
            None => Key::Columns(key),
        };
        let [query_shape, key_shape, value_shape] =
            [first.inputs[0], first.inputs[1], value].map(|id| graph.fact(id).shape.as_slice());
        let mut shapes = found.masks.iter().map(|mask| graph.fact(mask.values()).shape.as_slice());
        let mask = shapes.try_fold(Vec::new(), |all, one| floe_models::infer::broadcast(&all, one).ok());
        let fits = [query_shape, key_shape, value_shape].iter().all(|shape| shape.len() == rank)
            && mask.is_some_and(|mask| one_batch(&mask, query_shape).is_some())
            && query_shape[..rank - 2] == key_shape[..rank - 2]
            && key_shape[..rank - 2] == value_shape[..rank - 2]
            && query_shape[rank - 1].max(value_shape[rank - 1]) <= MAX_HEAD_SIZE as usize
            && query_shape[rank - 1] > 0
            && value_shape[rank - 2] > 0;
        let scale = scale * query_scale * key_scale;
        let mut value = Reshaped { source: value, shape: graph.fact(value).shape.clone() };
        if let Key::Rows(rows) = &key
            && let (Some(shared_key), Some(shared_value)) = (edges.unrepeated(rows), edges.unrepeated(&value))
            && shared_key.shape[..3] == shared_value.shape[..3]
        {
            (key, value) = (Key::Rows(shared_key), shared_value);
        }
        if rank == MOST_DIMENSIONS {
            value.shape = one_batch(&value.shape, value_shape)?;
        }
        let guarded = guarded && may_hide_all(graph, &found.masks);
        (fits && (scale as f32).is_finite()).then_some(Self {
            query,
            key,
            value,
            masks: found.masks,
            scale,
            softcap,
            guarded,
            sources: found.sources,
        })
    }

    /// Replaces the second product, node `number`.
    fn apply(self, graph: &mut Edges, number: usize) {
        let Node { name, outputs, mut sources, .. } = graph.nodes[number].clone();
        rewrite::add_sources(&mut sources, &self.sources);
        let mut added = Added { graph, name: &name, sources: &sources, nodes: Vec::new() };
        let query = added.moved(self.query);
        let batches = added.graph.fact(query).shape.clone();
        let query = added.in_one_batch(query, &batches);
        let key = match self.key {
            Key::Rows(rows) => added.reshaped(rows),
            Key::Columns(columns) => {
                let columns = added.moved(columns);
                let fact = added.graph.fact(columns).clone();
                let rank = fact.shape.len();
                let mut permutation: Vec<usize> = (0..rank).collect();
                permutation.swap(rank - 2, rank - 1);
                let shape: Vec<usize> = permutation.iter().map(|&d| fact.shape[d]).collect();
                added.node(Op::Transpose { permutation }, vec![columns], Fact::new(fact.dtype, &shape))
            }
        };
        let key = added.in_one_batch(key, &batches);
        let value = added.reshaped(self.value);
        let mut inputs = vec![query, key, value];
        let mask = added.mask(&self.masks);
        inputs.extend(mask.map(|mask| added.in_one_batch(mask, &batches)));
        let op = Op::Attention { scale: self.scale as f32, softcap: self.softcap as f32, causal: None };
        let Fact { dtype, shape, .. } = added.graph.fact(outputs[0]).clone();
        let node = |op, inputs, outputs| Node { name: name.clone(), op, inputs, outputs, sources: sources.clone() };
        if shape.len() == MOST_DIMENSIONS {
            let shape = one_batch(&shape, &batches).expect("what has all batches has them as one");
            let result = added.node(op, inputs, Fact::new(dtype, &shape));
            added.nodes.push(node(Op::Reshape, vec![result], outputs));
        } else {
            added.nodes.push(node(op, inputs, outputs));
        }
        let nodes = added.nodes;
        graph.replace_by(number, nodes);
        if self.guarded {
            guard(graph, number);
        }
    }
}

/// What lies between the first product and the softmax.
struct Search<'a> {
    edges: &'a Edges,
    masks: Vec<Mask>,
    sources: Vec<Source>,
}

impl<'a> Search<'a> {
    /// From the softmax's input back to the first product: masks, then the bound, then scalars.
    fn scores(mut self, mut id: TensorId) -> Option<(Self, &'a Node, f64, f64)> {
        let (mut softcap, mut scale) = (0.0, 1.0);
        loop {
            let node = self.edges.private_producer(id)?;
            rewrite::add_sources(&mut self.sources, &node.sources);
            if node.op == Op::Reshape && self.edges.only_adds_ones(node) {
                id = node.inputs[0];
                continue;
            }
            let scores =
                |id: TensorId| self.edges.fact(id) == self.edges.fact(node.outputs[0]) && self.leads_to_product(id);
            let unscaled = scale == 1.0 && softcap == 0.0;
            if node.op == Op::MatMul && node.inputs.len() == 2 {
                return Some((self, node, softcap, scale));
            } else if let Some((other, factor)) = self.edges.factor(node) {
                if let Some((inner, bound)) = self.bounded(other, factor).filter(|_| unscaled) {
                    (id, softcap) = (inner, bound);
                } else {
                    (id, scale) = (other, scale * factor);
                }
            } else if node.op == Op::Binary(Binary::Add) && unscaled {
                let &[a, b] = node.inputs.as_slice() else { return None };
                let (from, mask) = if scores(a) {
                    (a, b)
                } else if scores(b) {
                    (b, a)
                } else {
                    return None;
                };
                self.masks.push(Mask::Added(mask));
                id = from;
            } else if node.op == Op::Where && unscaled {
                let &[condition, a, b] = node.inputs.as_slice() else { return None };
                let hides = |id: TensorId| rewrite::scalar(self.edges, id).is_some_and(|value| value <= HIDING);
                if hides(b) && scores(a) {
                    self.masks.push(Mask::Kept { condition, otherwise: b });
                    id = a;
                } else if hides(a) && scores(b) {
                    self.masks.push(Mask::Replaced { condition, by: a });
                    id = b;
                } else {
                    return None;
                }
            } else {
                return None;
            }
        }
    }

    /// The input x and the bound where a value is tanh(x / bound), to be multiplied by `factor`.
    fn bounded(&self, id: TensorId, factor: f64) -> Option<(TensorId, f64)> {
        let tanh = self.edges.private_producer(id)?;
        if tanh.op != Op::Unary(Unary::Tanh) || factor <= 0.0 {
            return None;
        }
        let (inner, divisor) = self.edges.factor(self.edges.private_producer(tanh.inputs[0])?)?;
        ((divisor * factor - 1.0).abs() < 1e-5).then_some((inner, factor))
    }

    /// Whether a value is made from a product of two computed values by scaling and masking alone.
    fn leads_to_product(&self, mut id: TensorId) -> bool {
        while let Some(node) = self.edges.private_producer(id) {
            match node.op {
                Op::MatMul => return true,
                Op::Reshape if self.edges.only_adds_ones(node) => id = node.inputs[0],
                Op::Binary(Binary::Add | Binary::Mul | Binary::Div) | Op::Unary(Unary::Tanh) | Op::Where => {
                    let same = |input: &&TensorId| self.edges.fact(**input) == self.edges.fact(id);
                    let private = |input: &&TensorId| self.edges.private_producer(**input).is_some();
                    let Some(&next) = node.inputs.iter().filter(same).find(private) else { return false };
                    id = next;
                }
                _ => return false,
            }
        }
        false
    }
}

/// Nodes to be put before the attention.
struct Added<'a> {
    graph: &'a mut Edges,
    name: &'a str,
    sources: &'a [Source],
    nodes: Vec<Node>,
}

impl Added<'_> {
    fn node(&mut self, op: Op, inputs: Vec<TensorId>, fact: Fact) -> TensorId {
        let name = format!("{}_{}", self.name, op.name().to_lowercase());
        let output = self.graph.add_value(name.clone(), fact);
        self.nodes.push(Node { name, op, inputs, outputs: vec![output], sources: self.sources.to_vec() });
        output
    }

    fn scalar(&mut self, dtype: DType, value: f64) -> TensorId {
        let tensor = rewrite::float_tensor(dtype, &[], &[value]).expect("scores are floats");
        self.graph.add_constant(format!("{}_mask_value", self.name), tensor)
    }

    fn reshaped(&mut self, Reshaped { source, shape }: Reshaped) -> TensorId {
        let dtype = self.graph.fact(source).dtype;
        if self.graph.fact(source).shape == shape {
            return source;
        }
        self.node(Op::Reshape, vec![source], Fact::new(dtype, &shape))
    }

    /// The value with one dimension for all batches.
    fn in_one_batch(&mut self, source: TensorId, batches: &[usize]) -> TensorId {
        let shape = one_batch(&self.graph.fact(source).shape, batches);
        let shape = shape.expect("what has some batches only was no match");
        self.reshaped(Reshaped { source, shape })
    }

    fn moved(&mut self, operand: Operand) -> TensorId {
        let mut id = operand.source;
        for (op, fact) in operand.movement.into_iter().rev() {
            id = self.node(op, vec![id], fact);
        }
        id
    }

    /// All masks as one that is added.
    fn mask(&mut self, masks: &[Mask]) -> Option<TensorId> {
        let mut joined: Option<TensorId> = None;
        for &mask in masks {
            let mask = match mask {
                Mask::Added(mask) => mask,
                Mask::Kept { condition, otherwise } => self.chosen(condition, None, Some(otherwise)),
                Mask::Replaced { condition, by } => self.chosen(condition, Some(by), None),
            };
            joined = Some(match joined {
                None => mask,
                Some(other) => {
                    let (a, b) = (self.graph.fact(other), self.graph.fact(mask));
                    let shape = floe_models::infer::broadcast(&a.shape, &b.shape).ok()?;
                    let fact = Fact::new(a.dtype, &shape);
                    self.node(Op::Binary(Binary::Add), vec![other, mask], fact)
                }
            });
        }
        joined
    }

    /// One of two scalars by a condition, 0 where none is given.
    fn chosen(&mut self, condition: TensorId, a: Option<TensorId>, b: Option<TensorId>) -> TensorId {
        let dtype = a.or(b).map_or(DType::F32, |id| self.graph.fact(id).dtype);
        let mut scalar = |id: Option<TensorId>| {
            let value = id.and_then(|id| rewrite::scalar(self.graph, id)).unwrap_or(0.0);
            self.scalar(dtype, value)
        };
        let (a, b) = (scalar(a), scalar(b));
        let shape = self.graph.fact(condition).shape.clone();
        self.node(Op::Where, vec![condition, a, b], Fact::new(dtype, &shape))
    }
}
