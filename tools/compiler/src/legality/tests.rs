//! Each rule is broken once, and named.

use super::*;
use crate::{
    fused::{FusedGraph, FusedOp},
    kernel_graph::{KernelGraph, Storage},
    layout::{Form, Layout, Slice},
    lower::lower,
    passes::{self, tests::Network},
    pipeline::{self, CompileOptions},
    precision::Reason,
    schedule::{Schedule, StepAction},
    store_options::StoreOptions,
    stored::StoredGraph,
    targets,
};
use floe_engine::plan::format::Direction;
use floe_kernels::{DType, Kernel, codegen::Target};
use floe_models::{
    Op, TensorId,
    op::{Binary, Unary},
};

/// A convolution with an epilogue that adds an input, its softmax, and a sum of both that stands alone.
fn network() -> FusedGraph {
    let mut net = Network::new();
    let (x, added) = (net.input(&[1, 8, 6, 6]), net.input(&[1, 8, 6, 6]));
    let product = net.conv(x, 8, 3, 1);
    let sum = net.binary(Binary::Add, product, added);
    let softmax = net.node(Op::Softmax { axis: 1, log: false }, &[sum]);
    let y = net.binary(Binary::Add, softmax, sum);
    let y = net.unary(Unary::Exp, y);
    net.output(y);
    passes::fuse(passes::tests::simplify(net.graph).expect("legal")).expect("fusible")
}

fn target() -> &'static Target {
    targets::find("jetson-orin-nano").expect("known")
}

fn kernel_graph() -> KernelGraph {
    lower(&StoredGraph::of(&network(), StoreOptions { host: true, ..StoreOptions::default() })).expect("lowered")
}

fn a_schedule() -> Schedule {
    pipeline::scheduled_and_placed(&network(), target(), &CompileOptions::default(), &|_| ()).expect("scheduled").0
}

fn half(graph: &FusedGraph) -> StoredGraph<'_> {
    StoredGraph::of(graph, StoreOptions { half: true, ..StoreOptions::default() })
}

/// What breaks a form.
type Change<'a, T> = &'a dyn Fn(&mut T);

/// Breaks a legal form in each of these ways; the check must say so.
fn each<T>(legal: impl Fn() -> T, check: impl Fn(&T) -> Result<(), Illegal>, broken: &[(&str, Change<'_, T>)]) {
    check(&legal()).expect("legal before it is broken");
    for (words, change) in broken {
        let mut form = legal();
        change(&mut form);
        let error = check(&form).expect_err(words).to_string();
        assert!(error.starts_with("after pass test: ") && error.contains(words), "'{error}' for '{words}'");
    }
}

#[test]
fn broken_fused_graphs_are_named() {
    let anchored = |graph: &FusedGraph| {
        graph.nodes.iter().position(|node| matches!(node.op, FusedOp::Anchored { .. })).expect("a convolution")
    };
    let pointwise = |graph: &FusedGraph| {
        graph.nodes.iter().position(|node| matches!(node.op, FusedOp::Pointwise(_))).expect("a program")
    };
    each(
        network,
        |graph| fused::check(graph, "test"),
        &[
            ("is given twice", &|graph| graph.inputs.push(graph.inputs[0])),
            ("read before it is made", &|graph| graph.nodes.reverse()),
            ("made twice", &|graph| graph.nodes.push(graph.nodes[0].clone())),
            ("never made", &|graph| graph.nodes.truncate(1)),
            ("value 1000 is never made", &|graph| graph.outputs.push(TensorId(1000))),
            ("stands alone", &|graph| {
                let number = pointwise(graph);
                graph.nodes[number].op = FusedOp::Operator(Op::Unary(Unary::Exp));
            }),
            ("makes [Fact", &|graph| {
                let softmax = graph.nodes.iter().position(|node| matches!(node.op, FusedOp::Operator(_)));
                let output = graph.nodes[softmax.expect("a softmax")].outputs[0];
                graph.values[output.0].fact.shape[1] = 4;
            }),
            ("with an epilogue", &|graph| {
                let number = anchored(graph);
                let FusedOp::Anchored { op, .. } = &mut graph.nodes[number].op else { unreachable!() };
                *op = Op::Softmax { axis: 1, log: false };
            }),
            ("but no program", &|graph| {
                let number = anchored(graph);
                let FusedOp::Anchored { program, .. } = &mut graph.nodes[number].op else { unreachable!() };
                *program = None;
            }),
            ("inputs over", &|graph| {
                let number = anchored(graph);
                graph.nodes[number].inputs.pop();
            }),
            ("fewer inputs", &|graph| {
                let number = anchored(graph);
                graph.nodes[number].inputs.truncate(1);
            }),
            ("an epilogue of 4 inputs", &|graph| {
                let number = anchored(graph);
                let input = *graph.nodes[number].inputs.last().expect("the addend");
                graph.nodes[number].inputs.extend([input; 3]);
            }),
            ("does not broadcast", &|graph| {
                let addend = graph.inputs[1];
                graph.values[addend.0].fact.shape = vec![3, 1, 1];
            }),
            ("a program of 8 inputs", &|graph| {
                let number = pointwise(graph);
                let input = graph.nodes[number].inputs[0];
                graph.nodes[number].inputs.resize(8, input);
            }),
        ],
    );
}

#[test]
fn broken_stored_graphs_are_named() {
    let graph = network();
    let output = graph.outputs[0].0;
    let states = [(graph.values[output].name.clone(), "input_0".to_owned())];
    each::<StoredGraph<'_>>(
        || half(&graph),
        |stored| stored::check(stored, "test"),
        &[
            ("decisions about", &|stored| stored.storage.truncate(1)),
            ("decisions about", &|stored| stored.factors.truncate(1)),
            ("decisions about", &|stored| stored.layouts.values.truncate(1)),
            ("decisions about", &|stored| stored.layouts.slices.truncate(1)),
            ("decisions about", &|stored| stored.layouts.viewed.truncate(1)),
            ("decisions about", &|stored| stored.layouts.reads.truncate(1)),
            ("1 forms of", &|stored| stored.layouts.reads.iter_mut().for_each(|forms| forms.truncate(1))),
            ("do not tile it", &|stored| stored.layouts.reads.iter_mut().for_each(|forms| forms[0] = Form::Windows)),
            ("read as the host reads weights", &|stored| {
                stored.layouts.reads.iter_mut().for_each(|forms| forms[0] = Form::SumsInnermost);
            }),
            ("no only reader transposes", &|stored| {
                stored.layouts.values[output].0 = Layout::Permuted(vec![0, 1, 3, 2]);
            }),
            ("as no only reader views it", &|stored| stored.layouts.viewed[output] = Some(0)),
            ("lies in a slice of", &|stored| {
                stored.layouts.slices[output] = Some(Slice { whole: TensorId(output), axis: 1, start: 1 });
            }),
            ("stays f32 without a reason", &|stored| stored.storage[output].dtype = DType::F32),
            ("F32 is stored as F16: [State]", &|stored| stored.storage[output].reasons.push(Reason::State)),
            ("F32 is stored as I8", &|stored| stored.storage[output].dtype = DType::I8),
            ("F32 is stored as F16", &|stored| stored.options.half = false),
            ("lies channels last", &|stored| stored.options.host = true),
            ("a state is rounded", &|stored| stored.options.states = &states),
            ("factors of what is no product", &|stored| {
                let factors = stored.factors.iter().flatten().next().copied();
                stored.factors.fill(factors);
            }),
        ],
    );
}

#[test]
fn kernels_that_store_f32_without_a_reason_are_named() {
    let graph = network();
    each::<KernelGraph>(
        || lower(&half(&graph)).expect("lowered"),
        |kernels| kernels::check_reasons(kernels, true, "test"),
        &[
            ("stores f32 without a reason", &|kernels| {
                kernels.nodes.iter_mut().for_each(|node| node.reasons.clear());
            }),
            ("reasons for f32 that it does not store", &|kernels| {
                kernels.nodes.iter_mut().for_each(|node| node.reasons.push(Reason::Asked));
            }),
        ],
    );
}

#[test]
fn broken_kernel_graphs_are_named() {
    each(
        kernel_graph,
        |graph| kernels::check(graph, "test"),
        &[
            ("in a buffer of", &|graph| {
                let constant = graph.buffers.iter_mut().find(|buffer| matches!(buffer.storage, Storage::Constant(_)));
                constant.expect("weights").bytes += 4;
            }),
            ("there is no binding", &|graph| {
                graph.bindings.pop();
            }),
            ("is beyond", &|graph| graph.nodes[0].inputs[0].offset = 4),
            ("there is no buffer", &|graph| graph.nodes[0].inputs[0].buffer.0 = 1000),
            ("nothing has written", &|graph| graph.nodes.reverse()),
            ("which is an input or a constant", &|graph| graph.nodes[0].outputs[0] = graph.nodes[0].inputs[0]),
            ("is never written", &|graph| {
                graph.nodes.pop();
            }),
            ("is never written", &|graph| {
                graph.bindings[0].direction = Direction::Output;
                graph.nodes.clear();
            }),
            ("are read", &|graph| graph.nodes[0].inputs[0].bytes -= 4),
            ("are written", &|graph| graph.nodes[0].outputs[0].bytes -= 4),
            ("inputs, fewer than", &|graph| {
                graph.nodes[0].inputs.pop();
            }),
            ("one more than", &|graph| {
                let input = graph.nodes[0].inputs[0];
                graph.nodes[0].inputs.push(input);
            }),
            ("outputs, fewer than", &|graph| graph.nodes[0].outputs.clear()),
            ("has no output 1", &|graph| {
                let output = graph.nodes[0].outputs[0];
                graph.nodes[0].outputs.push(output);
            }),
            ("conv: ", &|graph| {
                let Kernel::Conv(conv) = &mut graph.nodes[0].kernel else { panic!("a convolution first") };
                conv.geometry.groups = 7;
            }),
        ],
    );
}

#[test]
fn broken_schedules_are_named() {
    fn launch(schedule: &mut Schedule) -> &mut floe_kernels::codegen::Launch {
        let StepAction::Launch(launch) = &mut schedule.steps[0].action else { panic!("a launch") };
        launch
    }
    each(
        a_schedule,
        |schedule| schedule::check(schedule, target(), "test"),
        &[
            ("a host step on a GPU", &|schedule| {
                schedule.steps[0].action = StepAction::Host(kernel_graph().nodes[0].kernel.clone());
            }),
            ("operands for", &|schedule| {
                launch(schedule).arguments.pop();
            }),
            ("its source has no entry", &|schedule| launch(schedule).entry = "no_such_kernel".into()),
            ("grid [0, 1, 1]", &|schedule| launch(schedule).grid = [0, 1, 1]),
            ("grid [1, 65536, 1]", &|schedule| launch(schedule).grid = [1, 65536, 1]),
            ("block [32, 33, 1]", &|schedule| launch(schedule).block = [32, 33, 1]),
            ("bytes of shared memory", &|schedule| launch(schedule).shared = 1 << 20),
            ("nothing has written", &|schedule| schedule.steps.reverse()),
            ("is never written", &|schedule| schedule.steps.clear()),
            ("which is an input or a constant", &|schedule| {
                schedule.steps[0].operands.iter_mut().for_each(|operand| operand.written = true);
            }),
        ],
    );
    let host = targets::find("host").expect("known");
    let error = schedule::check(&a_schedule(), host, "test").expect_err("a launch").to_string();
    assert!(error.contains("a launch on the host"), "{error}");
}
