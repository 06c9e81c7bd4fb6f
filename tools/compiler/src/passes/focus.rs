//! A convolution of all phases of an image is one of the image itself, with windows and strides so many times as large: slices that take
//! every second row and column, joined as channels, need not be copied. YOLOv5 (up to release 5) and YOLOX begin so, with a layer that
//! they call Focus; later releases of YOLOv5 write the one convolution.

use super::edges::{self, Edges};
use floe_models::{Graph, Node, Op, Tensor, TensorId};

/// Most channels of the image: as many as first layers read as they lie.
const MOST_CHANNELS: usize = 4;
/// Most taps of the new window.
const MOST_TAPS: usize = 64;

/// Replaces every such convolution.
pub fn run(graph: Graph) -> Graph {
    edges::rewrite(graph, |edges, number| {
        if let Some(found) = Phases::at(edges, number) {
            found.apply(edges, number);
        }
    })
}

/// Every how manieth row and column of an image, and the first ones.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Lattice {
    first: [usize; 2],
    steps: [usize; 2],
}

struct Phases {
    image: TensorId,
    steps: [usize; 2],
    /// The first row and column of each part.
    firsts: Vec<[usize; 2]>,
}

impl Phases {
    /// What the convolution `number` reads, where that is all phases of one image.
    fn at(edges: &Edges, number: usize) -> Option<Self> {
        let node = &edges.nodes[number];
        let (Op::Conv { window, groups: 1 } | Op::QuantizedConv { window, groups: 1, .. }) = &node.op else {
            return None;
        };
        edges.constant(node.inputs[1])?;
        let Node { op: Op::Concat { axis: 1 }, inputs: parts, .. } = edges.maker(node.inputs[0])? else { return None };
        let found: Option<Vec<(TensorId, Lattice)>> = parts.iter().map(|&part| lattice(edges, part)).collect();
        let found = found?;
        let &(image, Lattice { steps, .. }) = found.first()?;
        let firsts: Vec<[usize; 2]> = found.iter().map(|(_, lattice)| lattice.first).collect();
        let alike = found.iter().all(|&(of, lattice)| of == image && lattice.steps == steps);
        let every = (0..steps[0]).all(|h| (0..steps[1]).all(|w| firsts.contains(&[h, w])));
        let channels = edges.fact(image).shape[1];
        let &[.., kh, kw] = edges.fact(node.inputs[1]).shape.as_slice() else { return None };
        let small = channels <= MOST_CHANNELS && kh * kw * firsts.len() <= MOST_TAPS;
        let dense = window.dilations.iter().all(|&dilation| dilation == 1) && firsts.len() == steps[0] * steps[1];
        (alike && every && small && dense && firsts.len() > 1).then_some(Self { image, steps, firsts })
    }

    /// Lets the convolution read the image.
    fn apply(self, edges: &mut Edges, number: usize) {
        let mut node = edges.nodes[number].clone();
        let Some(weights) = edges.constant(node.inputs[1]) else { return };
        let weights = self.weights(weights);
        let (Op::Conv { window, .. } | Op::QuantizedConv { window, .. }) = &mut node.op else { return };
        for extents in [&mut window.strides, &mut window.pads_begin, &mut window.pads_end] {
            extents.iter_mut().zip(self.steps).for_each(|(extent, step)| *extent *= step);
        }
        node.inputs[0] = self.image;
        node.inputs[1] = edges.add_constant(format!("{}_of_image", node.name), weights);
        edges.replace(number, node);
    }

    /// Filters of the phases, interleaved.
    fn weights(&self, weights: &Tensor) -> Tensor {
        let [filters, all, kh, kw] = [0, 1, 2, 3].map(|d| weights.shape[d]);
        let ([sh, sw], channels) = (self.steps, all / self.firsts.len());
        let shape = vec![filters, channels, kh * sh, kw * sw];
        let (size, from) = (weights.dtype.size(), weights.bytes());
        let mut bytes = vec![0; from.len()];
        for (at, element) in from.chunks_exact(size).enumerate() {
            let [filter, c, h, w] = [at / (all * kh * kw), at / (kh * kw) % all, at / kw % kh, at % kw];
            let [first_h, first_w] = self.firsts[c / channels];
            let (h, w) = (h * sh + first_h, w * sw + first_w);
            let to = ((filter * channels + c % channels) * kh * sh + h) * kw * sw + w;
            bytes[to * size..][..size].copy_from_slice(element);
        }
        Tensor::new(weights.dtype, shape, bytes)
    }
}

/// The image of which a value is a lattice, made by slices one behind the other.
fn lattice(edges: &Edges, mut value: TensorId) -> Option<(TensorId, Lattice)> {
    let mut lattice = Lattice { first: [0; 2], steps: [1; 2] };
    let extents = edges.fact(value).shape.clone();
    while let Some(Node { op: Op::Slice { starts, steps }, inputs, .. }) = edges.maker(value) {
        let &[n, c, h, w] = starts.as_slice() else { return None };
        let [1, 1, step_h, step_w] = steps[..] else { return None };
        if n != 0 || c != 0 {
            return None;
        }
        let steps = [usize::try_from(step_h).ok()?, usize::try_from(step_w).ok()?];
        lattice.first = [h + lattice.first[0] * steps[0], w + lattice.first[1] * steps[1]];
        lattice.steps = [lattice.steps[0] * steps[0], lattice.steps[1] * steps[1]];
        value = inputs[0];
    }
    let image = &edges.fact(value).shape;
    let all = |d: usize| extents[d] * lattice.steps[d - 2] == image[d] && lattice.first[d - 2] < lattice.steps[d - 2];
    let whole = image.len() == 4 && extents.len() == 4 && extents[..2] == image[..2] && all(2) && all(3);
    whole.then_some((value, lattice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evaluate::run_fused,
        passes::{self, same, tests::Network},
    };
    use floe_models::{DType, Fact, op::Window};

    /// A convolution of slices of an image of 3 channels, 8 by 12, that begin there and take every second row and column.
    fn network(firsts: &[[usize; 2]], stride: usize, dilation: usize) -> Network {
        let mut net = Network::new();
        let x = net.input(&[1, 3, 8, 12]);
        let mut parts = Vec::new();
        for &[h, w] in firsts {
            // As exporters write it, a dimension at a time.
            let rows = Op::Slice { starts: vec![0, 0, h, 0], steps: vec![1, 1, 2, 1] };
            let rows = net.node_as(rows, &[x], &[Fact::new(DType::F32, &[1, 3, 4, 12])])[0];
            let columns = Op::Slice { starts: vec![0, 0, 0, w], steps: vec![1, 1, 1, 2] };
            parts.extend(net.node_as(columns, &[rows], &[Fact::new(DType::F32, &[1, 3, 4, 6])]));
        }
        let all = net.node(Op::Concat { axis: 1 }, &parts);
        let weights = net.constant(&[5, 3 * firsts.len(), 3, 3]);
        let two = |extent: usize| vec![extent; 2];
        let window =
            Window { strides: two(stride), dilations: two(dilation), pads_begin: vec![1, 0], pads_end: vec![1, 2] };
        let y = net.node(Op::Conv { window, groups: 1 }, &[all, weights]);
        net.output(y);
        net
    }

    const FOCUS: [[usize; 2]; 4] = [[0, 0], [1, 0], [0, 1], [1, 1]];

    #[test]
    fn a_convolution_of_all_phases_is_one_of_the_image() {
        for stride in [1, 2] {
            let net = network(&FOCUS, stride, 1);
            let x = Tensor::f32(&[1, 3, 8, 12], &(0..288).map(|i| (i * 37 % 101) as f32 - 50.0).collect::<Vec<_>>());
            let run = |graph| run_fused(&passes::fuse(graph).expect("fusible"), &[&x]).expect("sound kernels");
            let before = run(net.graph.clone());
            let graph = passes::tests::simplify(net.graph).expect("legal");
            assert_eq!(graph.nodes.iter().map(|node| node.op.name()).collect::<Vec<_>>(), ["Conv"]);
            let after = run(graph);
            let numbers = |tensors: &[Tensor]| tensors[0].to_f64();
            assert!(numbers(&before).iter().any(|y| y.abs() > 10.0), "results that say something");
            for (x, y) in numbers(&before).iter().zip(numbers(&after)) {
                assert!((x - y).abs() < 1e-3, "{y} for {x}");
            }
        }
    }

    #[test]
    fn other_slices_and_windows_stay() {
        let missing = network(&[[0, 0], [1, 0], [0, 1]], 1, 1);
        let twice = network(&[[0, 0], [1, 0], [0, 1], [0, 0]], 1, 1);
        let dilated = network(&FOCUS, 1, 2);
        for net in [missing, twice, dilated] {
            let before = net.graph.nodes.clone();
            assert!(same(&run(net.graph.clone()).nodes, &before));
            net.finish();
        }
    }
}
