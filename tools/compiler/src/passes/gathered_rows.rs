//! Slices, concatenations, reshapes and transpositions that only bring the rows of one value into another order become one gather of
//! rows: each part of a concatenation would be a copy of its own. Transformers of shifted windows roll and partition images so, and
//! merge patches.

use super::edges::{self, Edges};
use crate::{kernel_graph::BufferId, lower::Located};
use floe_models::{DType, Fact, Graph, Node, Op, Tensor, TensorId};

/// Least elements of a row: a thread looks up one index and moves a vector.
const LEAST_ROW: usize = 8;
/// Most rows: the plan holds an index for each.
const MOST_ROWS: usize = 1 << 18;

/// Replaces every such order that has a concatenation in it.
pub fn run(graph: Graph) -> Graph {
    edges::rewrite(graph, |edges, number| {
        if let Some(rows) = ordered(edges, number) {
            gather(edges, number, &rows);
        }
    })
}

/// A value as rows of another.
struct Rows {
    source: TensorId,
    /// For each row of the value, in order, its number in the source.
    numbers: Vec<i32>,
}

/// The result of the node `number` as rows of one value, where parts of it are joined and what reads it does more than to move it.
fn ordered(edges: &Edges, number: usize) -> Option<Rows> {
    let [output] = edges.nodes[number].outputs[..] else { return None };
    let moved_on = |&reader: &usize| is_movement(&edges.nodes[reader].op);
    if !edges.is_output(output) && edges.readers(output).iter().all(moved_on) {
        return None;
    }
    let source = source_of_joined(edges, output)?;
    let extent = row(edges, source)?;
    Some(Rows { source, numbers: numbers(edges, output, source, extent)? })
}

fn is_movement(op: &Op) -> bool {
    matches!(op, Op::Slice { .. } | Op::Concat { .. } | Op::Reshape | Op::Transpose { .. })
}

/// The elements of a row of the source: its last dimension.
fn row(edges: &Edges, source: TensorId) -> Option<usize> {
    let fact = edges.fact(source);
    let extent = *fact.shape.last()?;
    (extent >= LEAST_ROW && fact.elements() / extent <= MOST_ROWS && edges.constant(source).is_none()).then_some(extent)
}

/// The only value that the result of movements is made of, where there is a concatenation among them.
fn source_of_joined(edges: &Edges, result: TensorId) -> Option<TensorId> {
    let (mut pending, mut source, mut joined) = (vec![result], None, false);
    while let Some(value) = pending.pop() {
        match edges.maker(value).filter(|maker| is_movement(&maker.op)) {
            Some(maker) => {
                joined |= matches!(maker.op, Op::Concat { .. });
                pending.extend(&maker.inputs);
            }
            None if *source.get_or_insert(value) != value => return None,
            None => {}
        }
    }
    source.filter(|_| joined)
}

/// The rows of a value; nothing where a movement takes rows asunder.
fn numbers(edges: &Edges, value: TensorId, source: TensorId, row: usize) -> Option<Vec<i32>> {
    let fact = edges.fact(value);
    let rows = fact.elements() / row;
    if value == source {
        return (0..i32::try_from(rows).ok()?).map(Some).collect();
    }
    let node = edges.maker(value)?;
    // Extents in rows.
    let in_rows = |id: TensorId| -> Option<Vec<usize>> {
        let mut shape = edges.fact(id).shape.clone();
        let last = shape.last_mut().filter(|last| last.is_multiple_of(row))?;
        *last /= row;
        Some(shape)
    };
    let to = in_rows(value)?;
    if rows > MOST_ROWS {
        return None;
    }
    let last = to.len() - 1;
    match &node.op {
        Op::Reshape => numbers(edges, node.inputs[0], source, row),
        Op::Transpose { permutation } if permutation[last] == last => {
            let from = Located::plain(BufferId(0), DType::I32, &in_rows(node.inputs[0])?);
            let all = numbers(edges, node.inputs[0], source, row)?;
            Some(walk(&from.permuted(permutation)).map(|at| all[at]).collect())
        }
        Op::Slice { starts, steps } if steps[last] == 1 && starts[last].is_multiple_of(row) => {
            let from = Located::plain(BufferId(0), DType::I32, &in_rows(node.inputs[0])?);
            let all = numbers(edges, node.inputs[0], source, row)?;
            let mut starts = starts.clone();
            starts[last] /= row;
            Some(walk(&from.sliced(&starts, steps, &to)).map(|at| all[at]).collect())
        }
        Op::Concat { axis } => {
            let mut parts = Vec::new();
            for &part in &node.inputs {
                let block: usize = in_rows(part)?[*axis..].iter().product();
                parts.push((numbers(edges, part, source, row)?, block));
            }
            let outer: usize = to[..*axis].iter().product();
            let blocks = (0..outer).flat_map(|i| parts.iter().map(move |(all, block)| &all[i * block..][..*block]));
            Some(blocks.flatten().copied().collect())
        }
        _ => None,
    }
}

/// The places of all elements in order.
fn walk(place: &Located) -> impl Iterator<Item = usize> {
    let at = |mut index: usize| {
        let steps = place.shape.iter().zip(&place.strides).rev().map(|(&extent, stride)| {
            let step = (index % extent) as i64 * stride;
            index /= extent;
            step
        });
        (place.offset + steps.sum::<i64>()) as usize
    };
    (0..place.shape.iter().product()).map(at)
}

/// Makes the result of the node by one gather.
fn gather(edges: &mut Edges, number: usize, rows: &Rows) {
    let Node { name, outputs, sources, .. } = edges.nodes[number].clone();
    let Fact { dtype, shape, .. } = edges.fact(rows.source).clone();
    let row = shape[shape.len() - 1];
    let table = [shape.iter().product::<usize>() / row, row];
    let table = edges.add_value(format!("{name}_table"), Fact::new(dtype, &table));
    let count = rows.numbers.len();
    let order = edges.add_constant(format!("{name}_order"), Tensor::from_slice(DType::I32, &[count], &rows.numbers));
    let gathered = edges.add_value(format!("{name}_rows"), Fact::new(dtype, &[count, row]));
    let node = |op: Op, inputs: Vec<TensorId>, output: TensorId| Node {
        name: name.clone(),
        op,
        inputs,
        outputs: vec![output],
        sources: sources.clone(),
    };
    let nodes = vec![
        node(Op::Reshape, vec![rows.source], table),
        node(Op::Gather { axis: 0 }, vec![table, order], gathered),
        node(Op::Reshape, vec![gathered], outputs[0]),
    ];
    edges.replace_by(number, nodes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evaluate::run_fused,
        passes::{self, same, tests::Network},
    };
    use floe_models::op::Unary;

    fn slice(net: &mut Network, x: TensorId, dimension: usize, [start, step, extent]: [usize; 3]) -> TensorId {
        let mut shape = net.graph.fact(x).shape.clone();
        let (mut starts, mut steps) = (vec![0; shape.len()], vec![1; shape.len()]);
        (starts[dimension], steps[dimension], shape[dimension]) = (start, step as i64, extent);
        net.node_as(Op::Slice { starts, steps }, &[x], &[Fact::new(DType::F32, &shape)])[0]
    }

    fn roll(net: &mut Network, x: TensorId, dimension: usize, shift: usize) -> TensorId {
        let extent = net.graph.fact(x).shape[dimension];
        let parts = [[shift, 1, extent - shift], [0, 1, shift]].map(|part| slice(net, x, dimension, part));
        net.node(Op::Concat { axis: dimension }, &parts)
    }

    /// What the network computes, and which operators are left, before and after all passes.
    fn check(net: Network, shape: &[usize], kinds: &[&str]) {
        let elements: usize = shape.iter().product();
        let x = Tensor::f32(shape, &(0..elements).map(|i| i as f32).collect::<Vec<_>>());
        let run = |graph| run_fused(&passes::fuse(graph).expect("fusible"), &[&x]).expect("sound kernels");
        let before = run(net.graph.clone());
        let graph = passes::tests::simplify(net.graph).expect("legal");
        let left = graph.nodes.iter().map(|node| node.op.name()).filter(|kind| *kind != "Reshape").collect::<Vec<_>>();
        assert_eq!(left, kinds);
        assert_eq!(run(graph)[0].to_f64(), before[0].to_f64());
    }

    #[test]
    fn rolled_windows_are_one_gather() {
        let mut net = Network::new();
        let x = net.input(&[2, 6, 4, 8]);
        let x = net.unary(Unary::Sqrt, x);
        let rolled = roll(&mut net, x, 1, 1);
        let rolled = roll(&mut net, rolled, 2, 3);
        let fact = |shape: &[usize]| Fact::new(DType::F32, shape);
        let windows = net.node_as(Op::Reshape, &[rolled], &[fact(&[2, 3, 2, 2, 2, 8])])[0];
        let windows = net.node(Op::Transpose { permutation: vec![0, 1, 3, 2, 4, 5] }, &[windows]);
        let windows = net.node_as(Op::Reshape, &[windows], &[fact(&[12, 4, 8])])[0];
        let y = net.unary(Unary::Exp, windows);
        net.output(y);
        check(net, &[2, 6, 4, 8], &["Unary", "Gather", "Unary"]);
    }

    #[test]
    fn merged_patches_are_one_gather() {
        let mut net = Network::new();
        let x = net.input(&[1, 4, 6, 8]);
        let x = net.unary(Unary::Sqrt, x);
        let parts = [[0, 0], [1, 0], [0, 1], [1, 1]].map(|[h, w]| {
            let rows = slice(&mut net, x, 1, [h, 2, 2]);
            slice(&mut net, rows, 2, [w, 2, 3])
        });
        let merged = net.node(Op::Concat { axis: 3 }, &parts);
        let y = net.unary(Unary::Exp, merged);
        net.output(y);
        check(net, &[1, 4, 6, 8], &["Unary", "Gather", "Unary"]);
    }

    #[test]
    fn what_is_made_of_several_values_or_takes_rows_asunder_stays() {
        let mut net = Network::new();
        let (a, b) = (net.input(&[1, 4, 4, 8]), net.input(&[1, 4, 4, 8]));
        let several = net.node(Op::Concat { axis: 1 }, &[a, b]);
        let asunder = roll(&mut net, a, 3, 3);
        let narrow = net.input(&[1, 16, 4]);
        let narrow = roll(&mut net, narrow, 1, 5);
        let turned = roll(&mut net, b, 1, 1);
        let turned = net.node(Op::Transpose { permutation: vec![0, 3, 1, 2] }, &[turned]);
        for value in [several, asunder, narrow, turned] {
            let y = net.unary(Unary::Exp, value);
            net.output(y);
        }
        let before = net.graph.nodes.clone();
        assert!(same(&run(net.graph.clone()).nodes, &before));
        net.finish();
    }
}
