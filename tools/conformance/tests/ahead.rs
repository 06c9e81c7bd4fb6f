//! A plan whose launches fetch the weights of later ones computes what it computes without that, bit for bit, in as many kernels. Needs
//! NVRTC; skipped without it, except in CI.

use floe::session::{DeviceKind, Request};
use floe_compiler::{
    fused::FusedGraph,
    nvrtc::Compiler,
    pipeline::{self, CompileOptions},
    targets,
};
use floe_conformance::replay::replay;
use floe_engine::{
    host::Block,
    plan::{Plan, format::Region},
};
use floe_kernels::codegen::Target;
use floe_models::{
    DType, Fact, Graph, Node, Op, Tensor,
    op::{Unary, Window},
};

const CHANNELS: usize = 192;
const EXTENTS: [usize; 4] = [1, CHANNELS, 6, 6];

/// Numbers between -1 and 1.
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|n| ((n * 37 + count) % 101) as f32 / 50.0 - 1.0).collect()
}

/// Four convolutions, each with weights of 72 KiB in f16.
fn network() -> FusedGraph {
    let mut graph = Graph { name: "chain".into(), ..Graph::default() };
    let mut last = graph.add_value("x", Fact::new(DType::F32, &EXTENTS));
    graph.inputs.push(last);
    for number in 0..4 {
        let weights: Vec<f32> = numbers(CHANNELS * CHANNELS + number)[number..].iter().map(|x| x / 16.0).collect();
        let weights = graph.add_constant(format!("{number}"), Tensor::f32(&[CHANNELS, CHANNELS, 1, 1], &weights));
        let window =
            Window { strides: vec![1, 1], dilations: vec![1, 1], pads_begin: vec![0, 0], pads_end: vec![0, 0] };
        let ops = [(Op::Conv { window, groups: 1 }, vec![last, weights]), (Op::Unary(Unary::Relu), vec![])];
        for (op, mut inputs) in ops {
            if inputs.is_empty() {
                inputs.push(last);
            }
            let name = format!("{} {number}", op.name());
            last = graph.add_value(name.clone(), Fact::new(DType::F32, &EXTENTS));
            graph.nodes.push(Node { name, op, inputs, outputs: vec![last], sources: Vec::new() });
        }
    }
    graph.outputs.push(last);
    pipeline::fuse(graph, &|_| ()).unwrap()
}

/// Fetched ranges that are not empty, launches that take the pointers, and kernel images of a plan.
fn counts(bytes: &[u8]) -> [usize; 3] {
    let mut file = vec![Block::ZERO; bytes.len().div_ceil(size_of::<Block>())];
    let aligned: &mut [u8] = bytemuck::cast_slice_mut(&mut file);
    aligned[..bytes.len()].copy_from_slice(bytes);
    let plan = Plan::parse(&aligned[..bytes.len()]).unwrap();
    let variant = plan.variants().next().unwrap();
    let fetched = variant.steps().filter_map(|step| {
        let [.., range, second] = step.operands.as_slice() else { return None };
        (second.region == Region::Weights && second.bytes == 0).then_some(range.bytes)
    });
    let fetched: Vec<u64> = fetched.collect();
    [fetched.iter().filter(|&&bytes| bytes > 0).count(), fetched.len(), variant.header().images as usize]
}

#[test]
fn launches_that_fetch_ahead_compute_the_same() {
    let name = "h200";
    let target = targets::find(name).unwrap();
    if Compiler::find(target, None).is_err() {
        assert!(std::env::var_os("CI").is_none(), "CI has NVRTC");
        eprintln!("skipped: no NVRTC");
        return;
    }
    let fused = network();
    let plan = |l2_bytes| {
        let targets = vec![Target { l2_bytes, ..target.clone() }];
        let options = CompileOptions { targets, ptx: true, ..CompileOptions::default() };
        pipeline::compile_fused(&fused, &options, &|_| ()).unwrap().bytes
    };
    let inputs = vec![("x".to_owned(), Tensor::f32(&EXTENTS, &numbers(EXTENTS.iter().product())))];
    let request = Request { device: DeviceKind::Emulated, variant: Some(name.to_owned()), ..Request::default() };
    let (usual, fetching) = (plan(target.l2_bytes), plan(256 << 10));
    let ([_, none, before], [ranges, launches, after]) = (counts(&usual), counts(&fetching));
    assert_eq!((none, ranges, before), (0, 3, after));
    assert!(launches >= ranges);
    let [usual, fetching] = [usual, fetching].map(|bytes| replay(&bytes, &inputs, &request, &mut None).unwrap());
    assert_eq!(usual[0].1.bytes(), fetching[0].1.bytes());
    assert!(usual[0].1.bytes().iter().any(|&byte| byte != 0));
}
