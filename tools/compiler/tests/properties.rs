//! What operators say of themselves, held to what their kernels compute.

use floe_compiler::evaluate::HostEvaluator;
use floe_models::{
    DType, Evaluate, Fact, Op, Tensor, infer,
    op::{
        Binary, Coordinates, Elements, Interpolation, Outside, PadMode, Pooling, Properties, Reduction, RegionPooling,
        Rounding, SampleCoordinates, Sampling, ScatterReduction, Size, Unary, Window,
    },
};

/// Different numbers on both sides of 0.
fn numbers(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|i| (i * 37 % 101) as f32 / 8.0 - 3.3 + i as f32 / 1024.0).collect();
    Tensor::f32(shape, &values)
}

fn window() -> Window {
    Window { strides: vec![2; 2], dilations: vec![1; 2], pads_begin: vec![1; 2], pads_end: vec![1; 2] }
}

/// An operator, inputs besides its data, and output facts that inference leaves open.
fn cases() -> Vec<(Op, Vec<Tensor>, Vec<Vec<usize>>)> {
    let kernel = || vec![3; 2];
    let grid = || {
        let places: Vec<f32> = (0..50).map(|i| (i * 29 % 51) as f32 / 20.0 - 1.2).collect();
        Tensor::f32(&[1, 5, 5, 2], &places)
    };
    let sample = |sampling, outside| Op::GridSample { sampling, outside, coordinates: SampleCoordinates::HalfPixel };
    let resize = |interpolation| Op::Resize {
        scales: vec![1.0, 1.0, 1.5, 2.0],
        interpolation,
        coordinates: Coordinates::HalfPixel,
    };
    let larger = || vec![vec![1, 4, 9, 12]];
    let reduce = |kind| Op::Reduce { kind, axes: vec![2], keep: true };
    let roi = |kind| Op::RoiAlign { kind, extents: [2, 2], samples: 2, scale: 1.0, half_pixel: false };
    let regions = || vec![Tensor::f32(&[1, 4], &[0.5, 1.0, 4.0, 4.5]), Tensor::i64(&[1], &[0])];
    let pad = |mode| Op::Pad { before: vec![0, 1, 0, 1], after: vec![0, 0, 1, 2], mode };
    vec![
        (Op::Split { axis: 1 }, vec![], vec![vec![1, 1, 6, 6], vec![1, 3, 6, 6]]),
        (Op::Slice { starts: vec![0, 1, 5, 0], steps: vec![1, 1, -2, 1] }, vec![], vec![vec![1, 2, 3, 6]]),
        (Op::Identity, vec![], vec![]),
        (Op::Reshape, vec![], vec![vec![4, 36]]),
        (Op::Transpose { permutation: vec![0, 3, 1, 2] }, vec![], vec![]),
        (Op::Expand, vec![], vec![vec![3, 4, 6, 6]]),
        // Its own numbers, so that they are seen to be among the data.
        (Op::Concat { axis: 1 }, vec![Tensor::f32(&[1, 2, 6, 6], &[50.25; 72])], vec![]),
        (Op::Tile { repeats: vec![1, 2, 1, 3] }, vec![], vec![]),
        (Op::Gather { axis: 1 }, vec![Tensor::i64(&[3], &[2, 0, 2])], vec![]),
        (Op::DepthToSpace { block: 2, column_row_depth: true }, vec![], vec![]),
        (Op::SpaceToDepth { block: 2 }, vec![], vec![]),
        (pad(PadMode::Constant(99.5)), vec![], vec![]),
        (pad(PadMode::Reflect), vec![], vec![]),
        (pad(PadMode::Edge), vec![], vec![]),
        (pad(PadMode::Wrap), vec![], vec![]),
        (Op::Pool { kind: Pooling::Max, kernel: kernel(), window: window() }, vec![], vec![vec![1, 4, 3, 3]]),
        (
            Op::Pool { kind: Pooling::AverageIncludingPads, kernel: kernel(), window: window() },
            vec![],
            vec![vec![1, 4, 3, 3]],
        ),
        (Op::GlobalPool { kind: Pooling::Max }, vec![], vec![]),
        (reduce(Reduction::Max), vec![], vec![]),
        (reduce(Reduction::Min), vec![], vec![]),
        (reduce(Reduction::Mean), vec![], vec![]),
        (resize(Interpolation::Nearest(Rounding::Floor)), vec![], larger()),
        (resize(Interpolation::Nearest(Rounding::HalfUp)), vec![], larger()),
        (resize(Interpolation::Linear), vec![], larger()),
        (Op::TopK { axis: 3, k: 2, largest: false }, vec![], vec![]),
        (sample(Sampling::Nearest, Outside::Border), vec![grid()], vec![]),
        (sample(Sampling::Nearest, Outside::Zeros), vec![grid()], vec![]),
        (sample(Sampling::Linear, Outside::Zeros), vec![grid()], vec![]),
        (roi(RegionPooling::Cells), regions(), vec![]),
        (roi(RegionPooling::Average), regions(), vec![]),
        (Op::Cast, vec![], vec![vec![1, 4, 6, 6]]),
    ]
}

/// Outputs that have the data's type.
fn run(op: &Op, inputs: &[Tensor], open: &[Vec<usize>]) -> Vec<f64> {
    let facts: Vec<Fact> = inputs.iter().map(|tensor| Fact::new(tensor.dtype, &tensor.shape)).collect();
    let facts: Vec<&Fact> = facts.iter().collect();
    let open: Vec<Fact> = open.iter().map(|shape| Fact::new(DType::F32, shape)).collect();
    let outputs = infer(op, &facts, &open).unwrap_or_else(|error| panic!("{}: {error}", op.name()));
    let tensors: Vec<&Tensor> = inputs.iter().collect();
    let made = HostEvaluator::default().evaluate(op, &tensors, &outputs);
    let made = made.unwrap_or_else(|| panic!("{} does not run", op.name()));
    made.into_iter().filter(|tensor| tensor.dtype == DType::F32).flat_map(|tensor| tensor.to_f64()).collect()
}

/// Operators whose results may leave the range of their data, or are no numbers of it: what they say must still hold, and
/// they would be seen to say too much.
fn beyond() -> Vec<(Op, Vec<Tensor>, Vec<Vec<usize>>)> {
    let reduce = |kind| Op::Reduce { kind, axes: vec![2], keep: true };
    let cubic = Interpolation::Cubic(-0.75, false);
    let grid: Vec<f32> = (0..50).map(|i| (i * 29 % 51) as f32 / 20.0 - 1.2).collect();
    let sample = Op::GridSample {
        sampling: Sampling::Cubic,
        outside: Outside::Border,
        coordinates: SampleCoordinates::HalfPixel,
    };
    let scales = vec![1.0, 1.0, 1.5, 2.0];
    let vector = |value: f32| Tensor::f32(&[4], &[value; 4]);
    vec![
        (reduce(Reduction::Sum), vec![], vec![]),
        (reduce(Reduction::Product), vec![], vec![]),
        (reduce(Reduction::L1), vec![], vec![]),
        (reduce(Reduction::SumSquare), vec![], vec![]),
        (reduce(Reduction::LogSumExp), vec![], vec![]),
        (
            Op::Resize { scales, interpolation: cubic, coordinates: Coordinates::HalfPixel },
            vec![],
            vec![vec![1, 4, 9, 12]],
        ),
        (sample, vec![Tensor::f32(&[1, 5, 5, 2], &grid)], vec![]),
        (Op::MatMul, vec![numbers(&[6, 5])], vec![]),
        (Op::Softmax { axis: 3, log: false }, vec![], vec![]),
        (Op::Softmax { axis: 3, log: true }, vec![], vec![]),
        (Op::Cumulative { axis: 3, product: false, exclusive: false, reverse: false }, vec![], vec![]),
        (Op::Unary(Unary::Exp), vec![], vec![]),
        (Op::Binary(Binary::Mul), vec![numbers(&[1, 4, 6, 6])], vec![]),
        (Op::Lrn { size: 3, alpha: 0.5, beta: 0.75, bias: 0.1 }, vec![], vec![]),
        (Op::BatchNormalization { epsilon: 1e-5 }, vec![vector(3.0), vector(20.0), vector(0.5), vector(0.2)], vec![]),
        (Op::InstanceNormalization { epsilon: 1e-5 }, vec![vector(30.0), vector(1.0)], vec![]),
        (Op::Determinant, vec![], vec![]),
    ]
}

#[test]
fn operators_move_and_bound_data_as_they_say() {
    let mut wrong = Vec::new();
    let data = || std::iter::once(numbers(&[1, 4, 6, 6]));
    for (op, others, open) in cases() {
        let inputs: Vec<Tensor> = data().chain(others).collect();
        check(&op, &inputs, &open, &mut wrong);
        // It is among the cases because it says so.
        if op.properties().size != Size::OfData {
            wrong.push(format!("{op:?} does not say that its data bounds it"));
        }
    }
    for (op, others, open) in beyond() {
        let inputs: Vec<Tensor> = match op {
            Op::Determinant => vec![numbers(&[4, 6, 6])],
            _ => data().chain(others).collect(),
        };
        check(&op, &inputs, &open, &mut wrong);
    }
    for reduction in [
        ScatterReduction::Replace,
        ScatterReduction::Max,
        ScatterReduction::Min,
        ScatterReduction::Add,
        ScatterReduction::Multiply,
    ] {
        let inputs =
            [numbers(&[5, 3]), Tensor::i64(&[2], &[4, 1]), Tensor::f32(&[2, 3], &[9.0, -9.0, 0.5, 1.5, 2.5, 3.5])];
        check(&Op::Scatter { reduction }, &inputs, &[], &mut wrong);
    }
    let heads = || numbers(&[2, 4, 8]);
    check(&Op::Attention { scale: 0.3, softcap: 0.0, causal: None }, &[heads(), heads(), heads()], &[], &mut wrong);
    let chosen: Vec<u8> = (0..32).map(|i| u8::from(i % 3 == 0)).collect();
    let condition = Tensor::from_slice(DType::Bool, &[4, 8], &chosen);
    check(&Op::Where, &[condition, numbers(&[4, 8]), Tensor::f32(&[1], &[-50.0])], &[], &mut wrong);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Holds an operator to where it says that its elements come from, and to how large they are.
fn check(op: &Op, inputs: &[Tensor], open: &[Vec<usize>], wrong: &mut Vec<String>) {
    let Properties { elements, data, number, size, .. } = op.properties();
    let data: Vec<f64> = data.of(inputs).flat_map(Tensor::to_f64).chain(number).collect();
    let made = run(op, inputs, open);
    assert!(!made.is_empty());
    if matches!(elements, Elements::View | Elements::Moved | Elements::Chosen)
        && let Some(foreign) = made.iter().find(|element| !data.contains(element))
    {
        wrong.push(format!("{op:?} makes {foreign}, which is not in its data"));
    }
    let (least, most) = data.iter().fold((0.0f64, 0.0f64), |(least, most), &value| (least.min(value), most.max(value)));
    let inside = least - 1e-4..=most + 1e-4;
    if size == Size::OfData
        && let Some(outside) = made.iter().find(|element| !inside.contains(element))
    {
        wrong.push(format!("{op:?} makes {outside}, which is not in {least} … {most}"));
    }
}

/// What works on integers in place of numbers: results of one are those of the other, quantised.
#[test]
fn operators_that_move_quantised_integers_do_to_them_what_they_do_to_numbers() {
    const SCALE: f32 = 0.25;
    const ZERO: f32 = 77.0;
    let shape = [1, 4, 6, 6];
    let integers: Vec<u8> = (0..144_u32).map(|i| (i * 37 % 251) as u8).collect();
    let number = |q: &u8| (f32::from(*q) - ZERO) * SCALE;
    let numbers: Vec<f32> = integers.iter().map(number).collect();
    let (mut wrong, mut held) = (Vec::new(), Vec::new());
    let host = HostEvaluator::default();
    for (op, others, open) in cases().into_iter().filter(|(op, ..)| op.properties().moves_quantised) {
        // Of two operands both are the data.
        let operands = 1 + usize::from(!others.is_empty());
        let made = |data: Tensor| {
            let inputs = vec![&data; operands];
            let facts: Vec<Fact> = inputs.iter().map(|tensor| Fact::new(tensor.dtype, &tensor.shape)).collect();
            let open: Vec<Fact> = open.iter().map(|shape| Fact::new(data.dtype, shape)).collect();
            let outputs = infer(&op, &facts.iter().collect::<Vec<_>>(), &open).ok()?;
            let made = host.evaluate(&op, &inputs, &outputs)?;
            Some(made.into_iter().flat_map(|tensor| tensor.to_f64()).collect::<Vec<_>>())
        };
        let of_numbers = made(Tensor::f32(&shape, &numbers)).expect("runs on numbers");
        let of_integers = made(Tensor::from_slice(DType::U8, &shape, &integers));
        let of_integers: Option<Vec<f64>> =
            of_integers.map(|made| made.iter().map(|q| (q - f64::from(ZERO)) * f64::from(SCALE)).collect());
        match of_integers {
            Some(of_integers) if of_integers == of_numbers => held.push(op.name()),
            Some(_) => wrong.push(format!("{op:?} does something else to integers")),
            None => wrong.push(format!("{op:?} does not run on integers")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(held, ["Split", "Slice", "Reshape", "Transpose", "Concat", "Pool", "Resize", "Resize"]);
}
