use super::*;
use crate::op::{PadMode, Pooling, Window};

fn f(shape: &[usize]) -> Fact {
    Fact::new(DType::F32, shape)
}

fn shape(op: &Op, inputs: &[Fact], declared: &[Fact]) -> Result<Vec<usize>> {
    infer(op, &inputs.iter().collect::<Vec<_>>(), declared).map(|facts| facts[0].shape.clone())
}

fn window(stride: usize, dilation: usize, begin: usize, end: usize) -> Window {
    Window { strides: vec![stride], dilations: vec![dilation], pads_begin: vec![begin], pads_end: vec![end] }
}

#[test]
fn convolutions() {
    let op = Op::Conv { window: window(2, 3, 1, 4), groups: 2 };
    // (20 + 5 − 7) / 2 + 1
    assert_eq!(shape(&op, &[f(&[3, 4, 20]), f(&[6, 2, 3]), f(&[6])], &[]).unwrap(), [3, 6, 10]);
    assert!(shape(&op, &[f(&[3, 4, 20]), f(&[6, 4, 3])], &[]).unwrap_err().0.contains("2 groups"));
    assert!(shape(&op, &[f(&[3, 4, 1]), f(&[6, 2, 3])], &[]).unwrap_err().0.contains("does not fit"));
    assert!(shape(&op, &[f(&[3, 4, 20, 20]), f(&[6, 2, 3, 3])], &[]).is_err());
}

#[test]
fn pooling_rounds_up_only_inside_the_input() {
    let w = window(2, 1, 0, 0);
    assert_eq!(pooled_extent(&w, 0, 6, 3, Rounding::Floor).unwrap(), 2);
    assert_eq!(pooled_extent(&w, 0, 6, 3, Rounding::Ceil).unwrap(), 3);
    // The third window would start at 4 = the end of the input.
    assert_eq!(pooled_extent(&window(2, 1, 0, 1), 0, 4, 2, Rounding::Ceil).unwrap(), 2);
    let op = Op::Pool { kind: Pooling::Max, kernel: vec![3], window: w };
    assert!(shape(&op, &[f(&[1, 1, 6])], &[f(&[1, 1, 3])]).is_ok());
    assert!(shape(&op, &[f(&[1, 1, 6])], &[f(&[1, 1, 4])]).is_err());
}

#[test]
fn broadcasting() {
    assert_eq!(broadcast(&[3, 1], &[2, 1, 4]).unwrap(), [2, 3, 4]);
    assert_eq!(broadcast(&[], &[0, 1]).unwrap(), [0, 1]);
    assert!(broadcast(&[3], &[2]).is_err());
}

#[test]
fn matrix_products() {
    let product = |a: &[usize], b: &[usize]| shape(&Op::MatMul, &[f(a), f(b)], &[]);
    assert_eq!(product(&[5, 1, 2, 3], &[4, 3, 7]).unwrap(), [5, 4, 2, 7]);
    assert_eq!(product(&[3], &[3]).unwrap(), [0_usize; 0]);
    assert_eq!(product(&[3], &[4, 3, 7]).unwrap(), [4, 7]);
    assert_eq!(product(&[4, 2, 3], &[3]).unwrap(), [4, 2]);
    assert!(product(&[2, 3], &[4, 3]).is_err());
    assert!(product(&[], &[3]).is_err());
}

#[test]
fn pads() {
    let pad = |before: i64, after: i64, mode| {
        shape(&Op::Pad { before: vec![before], after: vec![after], mode }, &[f(&[4])], &[])
    };
    assert_eq!(pad(-1, 3, PadMode::Constant(0.0)).unwrap(), [6]);
    assert_eq!(pad(3, 0, PadMode::Reflect).unwrap(), [7]);
    assert!(pad(4, 0, PadMode::Reflect).is_err());
    assert!(pad(-3, -2, PadMode::Constant(0.0)).is_err());
}

#[test]
fn slices() {
    let slice = |start: usize, step: i64, count: usize| {
        shape(&Op::Slice { starts: vec![start], steps: vec![step] }, &[f(&[5])], &[f(&[count])])
    };
    assert!(slice(4, -2, 3).is_ok());
    assert!(slice(4, -2, 4).is_err());
    assert!(slice(5, 1, 1).is_err());
    assert!(slice(0, i64::MAX, 2).is_err());
}

#[test]
fn absurd_sizes_are_errors() {
    assert!(shape(&Op::Tile { repeats: vec![usize::MAX] }, &[f(&[2])], &[]).is_err());
    assert!(check_fact(&f(&[1; 9])).is_err());
    assert!(check_fact(&f(&[MAX_EXTENT, MAX_EXTENT])).is_err());
    assert!(check_fact(&f(&[0, MAX_EXTENT, MAX_EXTENT, MAX_EXTENT])).is_err());
}

#[test]
fn products_of_8_bits_have_sums_of_32() {
    let product = |a: DType, b: DType, bias: bool| {
        let bias = bias.then(|| Fact::new(DType::I32, &[4]));
        let inputs: Vec<Fact> = [Fact::new(a, &[2, 3]), Fact::new(b, &[3, 4])].into_iter().chain(bias).collect();
        infer(&Op::QuantizedMatMul, &inputs.iter().collect::<Vec<_>>(), &[]).map(|facts| facts[0].dtype)
    };
    assert_eq!(product(DType::U8, DType::I8, true), Ok(DType::I32));
    assert_eq!(product(DType::F8E5M2, DType::F8E4M3, false), Ok(DType::F32));
    for (a, b, bias) in [
        (DType::F8E4M3, DType::F8E4M3, true),
        (DType::F8E4M3, DType::I8, false),
        (DType::U8, DType::F8E4M3, false),
        (DType::F8E4M3Fnuz, DType::F8E4M3Fnuz, false),
        (DType::I4, DType::I4, false),
    ] {
        assert!(product(a, b, bias).is_err(), "{a:?} {b:?}");
    }
    // Only floats have batches of second factors, and neither has vectors.
    let shape =
        |dtype, a: &[usize], b: &[usize]| shape(&Op::QuantizedMatMul, &[Fact::new(dtype, a), Fact::new(dtype, b)], &[]);
    assert_eq!(shape(DType::F8E4M3, &[2, 1, 5, 3], &[4, 3, 7]).unwrap(), [2, 4, 5, 7]);
    assert!(shape(DType::I8, &[2, 5, 3], &[2, 3, 7]).is_err());
    assert_eq!(shape(DType::I8, &[2, 5, 3], &[3, 7]).unwrap(), [2, 5, 7]);
    assert!(shape(DType::F8E4M3, &[3], &[3, 7]).is_err() && shape(DType::F8E4M3, &[5, 3], &[3]).is_err());
}

#[test]
fn narrow_types_are_converted_and_moved_only() {
    for dtype in [DType::F8E4M3, DType::F8E4M3Fnuz, DType::F8E5M2, DType::F8E5M2Fnuz, DType::I4, DType::U4] {
        let x = Fact::new(dtype, &[2, 3]);
        assert_eq!(shape(&Op::Cast, std::slice::from_ref(&x), &[f(&[2, 3])]).unwrap(), [2, 3]);
        assert_eq!(shape(&Op::Transpose { permutation: vec![1, 0] }, std::slice::from_ref(&x), &[]).unwrap(), [3, 2]);
        for (op, inputs) in [
            (Op::Unary(Unary::Abs), 1),
            (Op::Binary(crate::op::Binary::Add), 2),
            (Op::MatMul, 2),
            (Op::BitCast, 1),
            (Op::Softmax { axis: 0, log: false }, 1),
        ] {
            let error = shape(&op, &vec![x.clone(); inputs], &[Fact::new(DType::U8, &[2, 3])]).unwrap_err();
            assert!(error.0.contains("only converted and moved"), "{}: {}", op.name(), error.0);
        }
        let bits = shape(&Op::BitCast, &[Fact::new(DType::U8, &[2, 3])], &[x]).unwrap_err();
        assert!(bits.0.contains("do not make"), "{}", bits.0);
    }
}
