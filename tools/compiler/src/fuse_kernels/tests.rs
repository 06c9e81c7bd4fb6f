//! Measured times choose between a fused kernel and its members, where a table has both.

use crate::{
    fused::FusedGraph,
    passes::{self, tests::Network},
    pipeline::{self, CompileOptions},
    schedule::Schedule,
    selection, targets,
};
use floe_kernels::{Kernel, codegen::Target};
use floe_models::op::Unary;
use floe_timings::{Device, Timing, Timings};

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
