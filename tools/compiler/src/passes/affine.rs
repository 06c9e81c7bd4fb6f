//! Folds products and sums with constants, one value for each channel, into the convolution or matrix product before
//! them. The result differs from the unfolded one by f32 rounding only.

use super::rewrite;
use floe_models::{Graph, Node, Op, Tensor, TensorId, op::Binary};

/// Folds until nothing more folds.
pub fn run(mut graph: Graph) -> Graph {
    // A fold drops a reader and nothing else that these know.
    let readers = rewrite::sole_readers(&graph);
    let mut folded = vec![false; graph.nodes.len()];
    for anchor in 0..graph.nodes.len() {
        if !super::fuse::is_anchor(&graph.nodes[anchor].op) {
            continue;
        }
        while let Some(consumer) = readers[graph.nodes[anchor].outputs[0].0]
            && let Some(step) = Step::of(&graph, anchor, consumer)
            && let Some(inputs) = step.folded(&mut graph, anchor)
        {
            let Node { outputs, sources, .. } = graph.nodes[consumer].clone();
            let node = &mut graph.nodes[anchor];
            (node.inputs, node.outputs) = (inputs, outputs);
            rewrite::add_sources(&mut node.sources, &sources);
            folded[consumer] = true;
        }
    }
    let mut folded = folded.into_iter();
    graph.nodes.retain(|_| !folded.next().unwrap_or(false));
    graph
}

/// y·scale + shift for each channel; a vector of one value counts for all channels.
struct Step {
    scale: Option<Vec<f64>>,
    shift: Option<Vec<f64>>,
}

/// Dimension of the output along which a bias varies.
fn channel_dimension(op: &Op, rank: usize) -> usize {
    if matches!(op, Op::MatMul | Op::Gemm { .. }) { rank - 1 } else { 1 }
}

impl Step {
    /// What `consumer` does to the output of `anchor`.
    fn of(graph: &Graph, anchor: usize, consumer: usize) -> Option<Self> {
        let (anchor, consumer) = (&graph.nodes[anchor], &graph.nodes[consumer]);
        let Op::Binary(op) = consumer.op else { return None };
        let made = anchor.outputs[0];
        let fact = graph.fact(made);
        if graph.fact(consumer.outputs[0]) != fact || fact.shape.len() < 2 {
            return None;
        }
        let reversed = consumer.inputs[1] == made;
        let other = consumer.inputs[usize::from(!reversed)];
        let values = rewrite::per_channel(graph, other, fact, channel_dimension(&anchor.op, fact.shape.len()))?;
        let negated = |values: Vec<f64>| values.into_iter().map(|v| -v).collect::<Vec<_>>();
        let (scale, shift) = match (op, reversed) {
            (Binary::Mul, _) => (Some(values), None),
            (Binary::Div, false) if values.iter().all(|&v| (1.0 / v).is_finite()) => {
                (Some(values.into_iter().map(|v| 1.0 / v).collect()), None)
            }
            (Binary::Add, _) => (None, Some(values)),
            (Binary::Sub, false) => (None, Some(negated(values))),
            (Binary::Sub, true) => (Some(vec![-1.0]), Some(values)),
            _ => return None,
        };
        Some(Self { scale, shift })
    }

    /// The anchor's inputs with the step folded in.
    fn folded(&self, graph: &mut Graph, anchor: usize) -> Option<Vec<TensorId>> {
        let Node { name, op, inputs, outputs, .. } = graph.nodes[anchor].clone();
        let fact = graph.fact(outputs[0]).clone();
        let channels = fact.shape[channel_dimension(&op, fact.shape.len())];
        let at = |values: &Option<Vec<f64>>, channel: usize, otherwise: f64| {
            values.as_ref().map_or(otherwise, |values| values[channel % values.len()])
        };
        let weights = match &self.scale {
            Some(scale) => Some(scaled(&op, graph.constant(inputs[1])?, |channel| scale[channel % scale.len()])?),
            None => None,
        };
        let before = match inputs.get(2) {
            Some(&bias) => Some(graph.constant(bias)?.to_f64()),
            None => None,
        };
        if before.as_ref().is_some_and(|bias| bias.len() != channels) {
            return None;
        }
        let bias = if before.is_some() || self.shift.is_some() {
            let value = |channel: usize| {
                let bias = before.as_ref().map_or(0.0, |bias| bias[channel]);
                bias * at(&self.scale, channel, 1.0) + at(&self.shift, channel, 0.0)
            };
            Some(rewrite::float_tensor(fact.dtype, &[channels], &(0..channels).map(value).collect::<Vec<_>>())?)
        } else {
            None
        };
        let mut result = inputs[..2].to_vec();
        if let Some(weights) = weights {
            result[1] = graph.add_constant(format!("{name}_weights"), weights);
        }
        if let Some(bias) = bias {
            result.push(graph.add_constant(format!("{name}_bias"), bias));
        }
        Some(result)
    }
}

/// Weights multiplied by a factor for each output channel (column). `None` where the columns are not those of a matrix.
fn scaled(op: &Op, weights: &Tensor, factor: impl Fn(usize) -> f64) -> Option<Tensor> {
    let shape = &weights.shape;
    let channel_of: Box<dyn Fn(usize) -> usize> = match op {
        // [m, c / groups, kernel…]
        Op::Conv { .. } => {
            let inner: usize = shape[1..].iter().product();
            Box::new(move |index| index / inner)
        }
        // [c, m / groups, kernel…]
        Op::ConvTranspose { groups, .. } => {
            let (inner, of_group, inputs) = (shape[2..].iter().product::<usize>(), shape[1], shape[0] / groups);
            Box::new(move |index| {
                let (input, channel) = (index / inner / of_group, index / inner % of_group);
                input / inputs * of_group + channel
            })
        }
        Op::Gemm { transpose_b: true, .. } => {
            let inner = shape[1];
            Box::new(move |index| index / inner)
        }
        Op::MatMul | Op::Gemm { .. } => {
            let columns = *shape.last()?;
            Box::new(move |index| index % columns)
        }
        _ => return None,
    };
    let values: Vec<f64> =
        weights.to_f64().into_iter().enumerate().map(|(index, value)| value * factor(channel_of(index))).collect();
    rewrite::float_tensor(weights.dtype, shape, &values)
}
