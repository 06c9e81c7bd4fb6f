//! Measured times choose between a fused kernel and its members, where a table has both; chains of 8-bit kernels.

use crate::{
    fused::FusedGraph,
    kernel_graph::KernelGraph,
    passes::{
        self,
        tests::{Network, window},
    },
    pipeline::{self, CompileOptions},
    schedule::Schedule,
    selection::{self, Selection},
    targets,
};
use floe_kernels::{Kernel, codegen::Target};
use floe_models::{
    DType, TensorId,
    op::{Binary, Op, Pooling, Unary, Window},
};
use floe_timings::{Device, Timing, Timings};
use std::collections::HashMap;

/// Kernels as an Orin has them fused.
pub(super) fn fused(graph: KernelGraph) -> KernelGraph {
    let target = targets::find("jetson-agx-orin").expect("known");
    super::run(graph, &mut Selection::new(target, &HashMap::new(), None, None), None)
}

/// Families of kernels, without what brings inputs and outputs into form.
pub(super) fn families(graph: &KernelGraph) -> Vec<&str> {
    let names = graph.nodes.iter().map(|node| node.kernel.family().name());
    names.filter(|name| *name != "copy" && *name != "pointwise").collect()
}

fn target() -> &'static Target {
    targets::find("jetson-orin-nano").expect("known")
}

/// The expansion and depthwise convolution of a mobile inverted bottleneck.
fn network() -> FusedGraph {
    let mut net = Network::new();
    let x = net.input(&[1, 16, 28, 28]);
    let expanded = net.conv(x, 64, 1, 1);
    let expanded = net.unary(Unary::Relu, expanded);
    let depthwise = net.conv(expanded, 64, 3, 64);
    let depthwise = net.unary(Unary::Relu, depthwise);
    net.output(depthwise);
    passes::fuse(passes::tests::simplify(net.graph).expect("legal")).expect("fusible")
}

fn scheduled(timings: Option<Timings>) -> Schedule {
    let options = CompileOptions { timings, candidates: Some(16), ..CompileOptions::default() };
    pipeline::schedule(&network(), target(), &options).expect("scheduled")
}

fn fuses(timings: Option<Timings>) -> bool {
    scheduled(timings).steps.iter().any(|step| step.note.family == "mbconv")
}

/// A table with these times of the candidates of each kernel.
fn table(time: impl Fn(&Kernel) -> Option<f64>) -> Timings {
    let device = Device { gpu: target().gpu.clone(), multiprocessors: target().multiprocessors };
    let mut timings = Timings::default();
    for (problem, candidate) in scheduled(None).problems.candidates() {
        let Some(time) = time(&problem.kernel) else { continue };
        let timing = Timing {
            time,
            deviation: 0.0,
            clock: 0,
            problem: String::new(),
            algorithm: candidate.algorithm.to_owned(),
            configuration: candidate.configuration.clone(),
        };
        timings.insert(&device, &selection::key(candidate), timing);
    }
    timings
}

#[test]
fn a_table_decides_whether_kernels_are_fused() {
    let times = |fused: f64, apart: f64| {
        move |kernel: &Kernel| match kernel {
            Kernel::MbConv(_) => Some(fused),
            _ => Some(apart),
        }
    };
    assert!(fuses(Some(table(times(1.9, 1.0)))), "one kernel is faster than the sum of two");
    assert!(!fuses(Some(table(times(2.1, 1.0)))), "two kernels are faster");
}

#[test]
fn a_table_that_lacks_a_member_does_not_decide() {
    let by_cost = fuses(None);
    let (fused, apart) = if by_cost { (1000.0, 0.001) } else { (0.001, 1000.0) };
    let without = |lacking: fn(&Kernel) -> bool| {
        table(move |kernel| match kernel {
            _ if lacking(kernel) => None,
            Kernel::MbConv(_) => Some(fused),
            _ => Some(apart),
        })
    };
    let is_depthwise = |kernel: &Kernel| matches!(kernel, Kernel::Conv(conv) if conv.geometry.groups > 1);
    let is_fused = |kernel: &Kernel| matches!(kernel, Kernel::MbConv(_));
    assert_ne!(fuses(Some(without(|_| false))), by_cost, "a whole table decides");
    assert_eq!(fuses(Some(without(is_depthwise))), by_cost);
    assert_eq!(fuses(Some(without(is_fused))), by_cost);
}

/// A convolution of 8 bits, its result at a scale, and that dequantised.
fn convolution(net: &mut Network, x: TensorId, weights: [usize; 4], groups: usize, scale: f32) -> [TensorId; 2] {
    let taps = weights[3];
    let weights = net.signed(&weights, 0);
    let y = net.node(Op::Conv { window: window(taps / 2), groups }, &[x, weights]);
    let y = net.quantise(y, scale, 3, DType::I8);
    [y, net.dequantise(y, scale, 3)]
}

/// Families of a network's steps, without what brings inputs and outputs into form.
fn families_of_steps(net: Network) -> Vec<String> {
    steps(net).into_iter().filter(|family| !["pointwise", "copy"].contains(&family.as_str())).collect()
}

/// Families of a network's steps.
fn steps(net: Network) -> Vec<String> {
    let graph = passes::fuse(passes::tests::simplify(net.graph).expect("legal")).expect("fusible");
    let target = targets::find("jetson-agx-orin").expect("known");
    let schedule = pipeline::schedule(&graph, target, &CompileOptions::default()).expect("scheduled");
    schedule.steps.iter().map(|step| step.note.family.clone()).collect()
}

#[test]
fn a_gated_block_of_8_bits_is_two_kernels() {
    let mut net = Network::new();
    let (_, x) = net.activation(&[1, 64, 14, 14]);
    let [_, wide] = convolution(&mut net, x, [64, 64, 1, 1], 1, 0.5);
    let [_, deep] = convolution(&mut net, wide, [64, 1, 3, 3], 64, 0.25);
    let mean = net.node(Op::GlobalPool { kind: Pooling::AverageExcludingPads }, &[deep]);
    let mean = net.quantise(mean, 1.0 / 16.0, 9, DType::I8);
    let mean = net.dequantise(mean, 1.0 / 16.0, 9);
    let [_, squeezed] = convolution(&mut net, mean, [8, 64, 1, 1], 1, 0.25);
    let [_, gate] = convolution(&mut net, squeezed, [64, 8, 1, 1], 1, 0.125);
    let scaled = net.binary(Binary::Mul, deep, gate);
    let scaled = net.quantise(scaled, 0.5, 0, DType::I8);
    let scaled = net.dequantise(scaled, 0.5, 0);
    let [y, _] = convolution(&mut net, scaled, [24, 64, 1, 1], 1, 1.0);
    net.output(y);
    assert_eq!(families_of_steps(net), ["quantized_mbconv", "scaled_quantized_conv"]);
}

/// Two layers whose results are concatenated at a scale that the first does not have; the first is also read by `readers` − 1 others.
fn concatenated(readers: usize, scale: f32) -> Vec<String> {
    let mut net = Network::new();
    let (_, x) = net.activation(&[1, 32, 20, 20]);
    let [_, first] = convolution(&mut net, x, [64, 32, 1, 1], 1, scale);
    let input = if readers > 1 { first } else { x };
    let channels = if readers > 1 { 64 } else { 32 };
    let [_, second] = convolution(&mut net, input, [64, channels, 3, 3], 1, 0.5);
    let both = net.node(Op::Concat { axis: 1 }, &[first, second]);
    let both = net.quantise(both, 0.5, 3, DType::I8);
    let both = net.dequantise(both, 0.5, 3);
    let [y, _] = convolution(&mut net, both, [32, 128, 1, 1], 1, 1.0);
    net.output(y);
    families_of_steps(net)
}

#[test]
fn a_result_of_8_bits_is_stored_at_each_scale_that_its_readers_have() {
    assert_eq!(concatenated(2, 0.25), ["dual_quantized_conv", "quantized_conv", "quantized_conv"]);
    // With one reader there is one scale, and with equal scales one result.
    assert_eq!(concatenated(1, 0.25), ["quantized_conv"; 3]);
    assert_eq!(concatenated(2, 0.5), ["quantized_conv"; 3]);
}

#[test]
fn a_first_layer_quantises_the_image_that_only_it_reads() {
    let network = |channels: usize, integers_are_output: bool| {
        let mut net = Network::new();
        let (integers, x) = net.activation(&[1, channels, 48, 48]);
        let [y, _] = convolution(&mut net, x, [16, channels, 3, 3], 1, 0.5);
        net.output(y);
        if integers_are_output {
            net.output(integers);
        }
        steps(net).into_iter().filter(|family| family != "copy").collect::<Vec<_>>()
    };
    assert_eq!(network(3, false), ["quantizing_conv"]);
    assert_eq!(network(3, true), ["pointwise", "quantized_conv"]);
    assert_eq!(network(8, false), ["pointwise", "quantized_conv"], "no first layer");
}

/// Maxima of windows of 2×2 that move by `step`.
fn pooled(net: &mut Network, x: TensorId, step: usize) -> TensorId {
    let window = Window { strides: vec![step; 2], ..window(0) };
    let mut pooled = net.graph.fact(x).clone();
    pooled.shape[2..].iter_mut().for_each(|extent| *extent = (*extent - 2) / step + 1);
    net.node_as(Op::Pool { kind: Pooling::Max, kernel: vec![2; 2], window }, &[x], &[pooled])[0]
}

#[test]
fn a_convolution_stores_the_largest_of_windows_side_by_side() {
    // Of f16, read by others than the pooling or pooled in windows that overlap.
    let of_floats = |step: usize, others: bool| {
        let mut net = Network::new();
        let x = net.input(&[1, 32, 40, 40]);
        let y = net.conv(x, 64, 3, 1);
        let y = net.unary(Unary::Relu, y);
        let pooled = pooled(&mut net, y, step);
        let pooled = net.conv(pooled, 64, 3, 1);
        net.output(pooled);
        if others {
            let y = net.conv(y, 64, 1, 1);
            net.output(y);
        }
        families_of_steps(net)
    };
    assert_eq!(of_floats(2, false), ["pooled_conv", "conv"]);
    assert_eq!(of_floats(1, false), ["conv", "pool", "conv"]);
    assert!(of_floats(2, true).contains(&"pool".into()));
    // Of 8 bits.
    let mut net = Network::new();
    let (_, x) = net.activation(&[1, 32, 40, 40]);
    let [_, y] = convolution(&mut net, x, [64, 32, 3, 3], 1, 0.25);
    let y = pooled(&mut net, y, 2);
    let y = net.quantise(y, 0.25, 3, DType::I8);
    let y = net.dequantise(y, 0.25, 3);
    let [y, _] = convolution(&mut net, y, [64, 64, 3, 3], 1, 0.5);
    net.output(y);
    assert_eq!(families_of_steps(net), ["pooled_quantized_conv", "quantized_conv"]);
}

#[test]
fn a_pointwise_convolution_multiplies_what_a_depthwise_one_leaves_in_registers() {
    let network = |others: bool| {
        let mut net = Network::new();
        let x = net.input(&[1, 32, 112, 112]);
        let x = net.unary(Unary::Relu, x);
        let depthwise = net.conv(x, 32, 3, 32);
        let depthwise = net.unary(Unary::Relu, depthwise);
        let y = net.conv(depthwise, 16, 1, 1);
        net.output(y);
        if others {
            net.output(depthwise);
        }
        families_of_steps(net)
    };
    assert!(network(false).contains(&"separable_conv".into()));
    assert!(!network(true).contains(&"separable_conv".into()), "the image between is an output");
    // Of 8 bits.
    let network = |others: bool| {
        let mut net = Network::new();
        let (_, x) = net.activation(&[1, 32, 112, 112]);
        let [_, depthwise] = convolution(&mut net, x, [32, 1, 3, 3], 32, 0.25);
        let [y, _] = convolution(&mut net, depthwise, [16, 32, 1, 1], 1, 0.5);
        net.output(y);
        if others {
            net.output(depthwise);
        }
        families_of_steps(net)
    };
    assert!(network(false).contains(&"quantized_separable_conv".into()));
    assert!(!network(true).contains(&"quantized_separable_conv".into()), "the image between is an output");
}

#[test]
fn a_convolution_stores_the_averages_of_its_channels() {
    // Of an image of so many lines, read by others than the pooling or not.
    let of_floats = |kind: Pooling, lines: usize, others: bool| {
        let mut net = Network::new();
        let x = net.input(&[1, 64, lines, lines]);
        let y = net.conv(x, 128, 3, 1);
        let y = net.unary(Unary::Relu, y);
        let pooled = net.node(Op::GlobalPool { kind }, &[y]);
        let pooled = net.conv(pooled, 40, 1, 1);
        net.output(pooled);
        if others {
            let y = net.conv(y, 64, 1, 1);
            net.output(y);
        }
        families_of_steps(net)
    };
    assert_eq!(of_floats(Pooling::AverageExcludingPads, 7, false), ["averaged_conv", "conv"]);
    assert_eq!(of_floats(Pooling::Max, 7, false), ["conv", "reduce", "conv"]);
    assert_eq!(of_floats(Pooling::AverageExcludingPads, 40, false), ["conv", "reduce", "conv"], "no tile is as large");
    assert!(of_floats(Pooling::AverageExcludingPads, 7, true).contains(&"reduce".into()));
    // Of 8 bits, before the layers of a gate or without them.
    let of_integers = |lines: usize, gated: bool| {
        let mut net = Network::new();
        let (_, x) = net.activation(&[1, 64, lines, lines]);
        let [_, y] = convolution(&mut net, x, [128, 64, 3, 3], 1, 0.5);
        let mean = net.node(Op::GlobalPool { kind: Pooling::AverageExcludingPads }, &[y]);
        let mean = net.quantise(mean, 1.0 / 16.0, 9, DType::I8);
        let mean = net.dequantise(mean, 1.0 / 16.0, 9);
        let mut z = mean;
        if gated {
            z = convolution(&mut net, z, [40, 128, 1, 1], 1, 0.25)[1];
            z = convolution(&mut net, z, [128, 40, 1, 1], 1, 0.25)[1];
        }
        let [_, z] = convolution(&mut net, z, [40, 128, 1, 1], 1, 0.25);
        net.output(z);
        families_of_steps(net)
    };
    assert_eq!(of_integers(7, false), ["averaged_quantized_conv", "quantized_conv"]);
    assert_eq!(
        of_integers(40, false),
        ["quantized_conv", "quantized_average", "quantized_conv"],
        "no tile is as large"
    );
    assert_eq!(of_integers(7, true), ["quantized_conv", "quantized_average", "quantized_conv"], "one with its layers");
}
