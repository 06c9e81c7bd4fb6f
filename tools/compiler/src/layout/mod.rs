//! Layout: how every value lies in memory, in which form every node reads its inputs, and which values are written straight into a
//! concatenation. Lowering does what this pass says; it copies where a value lies otherwise than it is read.
//!
//! On the host everything is row-major. On a GPU, images (rank 3 to 5) that convolutions, pooling and their neighbours touch are
//! channels-last with padded channels; the rest is row-major.

mod first_layer;
mod reads;
mod reason;
mod slices;
mod values;

pub use reads::Form;
pub(crate) use reads::tiled;
pub use reason::{Reason, Written};
pub use slices::Slice;

use crate::{
    fused::FusedGraph,
    precision::{Factors, Storage},
    store_options::StoreOptions,
};

/// Memory layout of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Row-major in the model's order of dimensions.
    Plain,
    /// Channels innermost, padded to a multiple of 8.
    ChannelsLast,
    /// Row-major after this permutation, which the only reader makes.
    Permuted(Vec<usize>),
}

impl Layout {
    /// In words.
    pub fn words(&self) -> &'static str {
        match self {
            Self::Plain => "row-major",
            Self::ChannelsLast => "channels last",
            Self::Permuted(_) => "permuted",
        }
    }
}

/// What the pass decides.
#[derive(Clone, Debug)]
pub struct Layouts {
    /// The layout of every value, and why.
    pub values: Vec<(Layout, Reason)>,
    /// For every node, the form in which it reads each input.
    pub reads: Vec<Vec<Form>>,
    /// For every value, the slice of a concatenation's output that it is written into, if it is.
    pub slices: Vec<Option<Slice>>,
    /// For every value that only one node reads, to make another view of it: that node, where the view is written into such a slice.
    pub viewed: Vec<Option<usize>>,
}

/// Decides all layouts of a graph.
pub fn assign(
    graph: &FusedGraph,
    options: StoreOptions<'_>,
    storage: &[Storage],
    factors: &[Option<Factors>],
) -> Layouts {
    let first_layers = first_layer::of(graph, options.host, factors);
    let reads = reads::assign(graph, options.host, &first_layers);
    let values = values::assign(graph, options, &first_layers);
    let slices::Slices { of: slices, viewed } = slices::assign(graph, options.host, storage, &values);
    Layouts { values, reads, slices, viewed }
}

/// The permutation that undoes another.
pub fn inverse(permutation: &[usize]) -> Vec<usize> {
    let mut result = vec![0; permutation.len()];
    for (to, &from) in permutation.iter().enumerate() {
        result[from] = to;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        passes::{self, tests::Network},
        stored::StoredGraph,
    };
    use floe_models::{
        DType, Fact, Op,
        op::{Pooling, Unary, Window},
    };

    fn half(network: Network) -> Layouts {
        let fused = passes::fuse(passes::tests::simplify(network.graph).expect("legal")).expect("fusible");
        StoredGraph::of(&fused, StoreOptions { half: true, ..StoreOptions::default() }).layouts
    }

    #[test]
    fn convolutions_say_how_they_read_images() {
        // A first layer, a usual one, and the patch embedding of a transformer.
        for (channels, kernel, stride, form) in [
            (3, 3, 1, Form::AsStored),
            (8, 3, 1, Form::ChannelsLast),
            (3, 16, 16, Form::Windows),
            (3, 16, 8, Form::ChannelsLast),
        ] {
            let mut net = Network::new();
            let x = net.input(&[1, channels, 32, 32]);
            let weights = net.input(&[16, channels, kernel, kernel]);
            let two = |number: usize| vec![number; 2];
            let window = Window { strides: two(stride), dilations: two(1), pads_begin: two(0), pads_end: two(0) };
            let y = net.node(Op::Conv { window, groups: 1 }, &[x, weights]);
            net.output(y);
            assert_eq!(half(net).reads, [[form, Form::Contiguous]]);
        }
    }

    #[test]
    fn values_say_why_they_lie_as_they_do() {
        let mut net = Network::new();
        let x = net.input(&[1, 8, 6, 6]);
        let before = net.unary(Unary::Sin, x);
        let product = net.conv(before, 8, 3, 1);
        let softmax = net.node(Op::Softmax { axis: 1, log: false }, &[product]);
        let turned = net.node(Op::Transpose { permutation: vec![0, 2, 3, 1] }, &[softmax]);
        net.output(turned);
        let values = half(net).values;
        let expected = [
            (before, Layout::ChannelsLast, "all that read it work so"),
            (product, Layout::ChannelsLast, "Conv works so"),
            (softmax, Layout::Plain, "nothing asks for another layout"),
        ];
        for (id, layout, reason) in expected {
            assert_eq!((&values[id.0].0, values[id.0].1.to_string().as_str()), (&layout, reason));
        }
    }

    #[test]
    fn a_pooling_writes_the_rows_that_it_is_flattened_to() {
        // Of a few elements, of too many, of one place, and only pixels joined.
        let cases = [
            ([1, 16, 14, 14], vec![1, 784], Layout::Plain),
            ([1, 64, 66, 66], vec![1, 69696], Layout::ChannelsLast),
            ([1, 16, 2, 2], vec![1, 16], Layout::ChannelsLast),
            ([1, 16, 14, 14], vec![1, 16, 49], Layout::ChannelsLast),
        ];
        for (shape, rows, layout) in cases {
            let mut net = Network::new();
            let x = net.input(&shape);
            let x = net.conv(x, shape[1], 1, 1);
            let two = || vec![2; 2];
            let window = Window { strides: two(), dilations: vec![1; 2], pads_begin: vec![0; 2], pads_end: vec![0; 2] };
            let op = Op::Pool { kind: Pooling::Max, kernel: two(), window };
            let half_as_high = [1, shape[1], shape[2] / 2, shape[3] / 2];
            let pooled = net.node_as(op, &[x], &[Fact::new(DType::F32, &half_as_high)])[0];
            let rows = net.node_as(Op::Reshape, &[pooled], &[Fact::new(DType::F32, &rows)])[0];
            let y = net.unary(Unary::Exp, rows);
            net.output(y);
            assert_eq!(half(net).values[pooled.0].0, layout, "{shape:?}");
        }
    }

    #[test]
    fn attention_lies_as_its_only_reader_turns_it() {
        let mut net = Network::new();
        let operands = [(); 3].map(|()| net.input(&[1, 2, 16, 8]));
        let attention = net.node(Op::Attention { scale: 1.0, softcap: 0.0, causal: None }, &operands);
        let turned = net.node(Op::Transpose { permutation: vec![0, 2, 1, 3] }, &[attention]);
        let y = net.unary(Unary::Exp, turned);
        net.output(y);
        assert_eq!(half(net).values[attention.0], (Layout::Permuted(vec![0, 2, 1, 3]), Reason::Transposed));
    }
}
