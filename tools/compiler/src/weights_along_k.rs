//! Constant right factors of products, packed so that the elements of each column lie side by side along K. Models store most of them by
//! rows, which neither products of warpgroups nor lanes that finish what they multiplied can read.

use crate::{
    kernel_graph::{BufferId, BufferRange, KernelGraph, KernelNode, Storage},
    lower::repack,
};
use floe_kernels::{Kernel, View, matmul::MatMul};
use rayon::prelude::*;
use std::collections::HashMap;

/// Which input of a product its right factor is.
const B: usize = 1;
/// K is a multiple of this where tensor cores read products of 16 bits.
const CHUNK: u32 = 8;

/// How all products that read a constant see it, and how they shall.
#[derive(Clone, Debug, PartialEq)]
struct Form {
    range: BufferRange,
    from: View,
    to: View,
}

impl Form {
    /// Of an input; `None` where it is no right factor of 16 bits that lies by rows.
    fn of(node: &KernelNode, input: usize) -> Option<Self> {
        let Kernel::MatMul(product) = &node.kernel else { return None };
        let MatMul { a, b, .. } = product;
        let k = b.rank().checked_sub(2).filter(|_| input == B)?;
        let along_columns = b.strides[k] != 1 && b.shape[k].is_multiple_of(CHUNK) && b.shape[k + 1] > 1;
        let halves = b.dtype == a.dtype && b.dtype.is_float() && b.dtype.size() == 2;
        let to = product.packed_b().filter(|_| along_columns && halves)?;
        Some(Self { range: node.inputs[input], from: b.clone(), to })
    }

    /// The bytes of the packed factor.
    fn packed(&self, constant: &[u8]) -> Option<Vec<u8>> {
        repack(constant.get(self.range.offset as usize..)?, &self.from, &self.to).ok()
    }
}

/// Packs constants that are such factors of all their readers.
pub fn run(mut graph: KernelGraph) -> KernelGraph {
    let mut forms: HashMap<BufferId, Option<Form>> = HashMap::new();
    for node in &graph.nodes {
        for (input, range) in node.inputs.iter().enumerate().filter(|(_, range)| graph.constant(range.buffer).is_some())
        {
            let form = Form::of(node, input);
            let common = forms.entry(range.buffer).or_insert_with(|| form.clone());
            if *common != form {
                *common = None;
            }
        }
    }
    let forms: Vec<Form> = forms.into_values().flatten().collect();
    let pack = |form: Form| {
        let bytes = form.packed(graph.constant(form.range.buffer)?)?;
        Some((form.range.buffer, (form.to, bytes)))
    };
    let packed: HashMap<BufferId, (View, Vec<u8>)> = forms.into_par_iter().filter_map(pack).collect();
    for node in &mut graph.nodes {
        if let Kernel::MatMul(product) = &mut node.kernel
            && let Some(range) = node.inputs.get_mut(B)
            && let Some((to, bytes)) = packed.get(&range.buffer)
        {
            product.b = to.clone();
            (range.offset, range.bytes) = (0, bytes.len() as u64);
        }
    }
    for (BufferId(number), (_, bytes)) in packed {
        let buffer = &mut graph.buffers[number];
        (buffer.bytes, buffer.storage) = (bytes.len() as u64, Storage::Constant(bytes.into()));
    }
    graph
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{evaluate::run_kernels, passes::tests::Network};
    use floe_models::{Op, Tensor, op::Binary};

    const ROWS: usize = 5;

    /// `x·w` with `depth`×24 weights in f16, and `w` added to `y` of its size where somebody else is to read it.
    fn network(depth: usize, read_twice: bool) -> KernelGraph {
        let mut net = Network::new();
        let x = net.input(&[ROWS, depth]);
        let values: Vec<f32> = (0..depth * 24).map(|i| (i * 7919 % 1021) as f32 / 1021.0 - 0.5).collect();
        let weights = net.graph.add_constant("weights", Tensor::f32(&[depth, 24], &values));
        let product = net.node(Op::MatMul, &[x, weights]);
        net.output(product);
        if read_twice {
            let y = net.input(&[depth, 24]);
            let sum = net.binary(Binary::Add, y, weights);
            net.output(sum);
        }
        net.kernels_of_f16()
    }

    fn strides_of_b(graph: &KernelGraph) -> Vec<i32> {
        let mut products = graph.nodes.iter().filter_map(|node| match &node.kernel {
            Kernel::MatMul(product) => Some(product.b.strides.to_vec()),
            _ => None,
        });
        products.next().expect("a product")
    }

    #[test]
    fn weights_lie_along_k_and_the_results_are_the_same_bits() {
        let rows = network(40, false);
        assert_eq!(strides_of_b(&rows), [24, 1]);
        let x: Vec<f32> = (0..ROWS * 40).map(|i| (i * 31 % 97) as f32 / 24.0 - 2.0).collect();
        let outputs =
            |graph: &KernelGraph| run_kernels(graph, &[&Tensor::f32(&[ROWS, 40], &x)]).expect("sound kernels");
        let wanted = outputs(&rows);
        let packed = run(rows);
        assert_eq!(strides_of_b(&packed), [1, 40]);
        assert_eq!(outputs(&packed), wanted);
    }

    #[test]
    fn what_tensor_cores_cannot_read_or_others_read_too_stays_as_it_is() {
        for (depth, read_twice) in [(36, false), (40, true)] {
            assert_eq!(strides_of_b(&run(network(depth, read_twice))), [24, 1]);
        }
    }
}
