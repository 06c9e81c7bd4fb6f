//! Cases that the reference kernel and the GPU are verified on.

use super::{Binary as B, Class, Instruction as I, Pointwise, Program, Unary as U};
use crate::codegen::views::{broadcast, channels_last, dense, permuted, reversed, slice};
use crate::{DType, Kernel, View};

/// Kernels of this family with odd sizes, types, layouts and parameters.
pub fn cases() -> Vec<Kernel> {
    let mut cases = Vec::new();
    let mut case = |output: View, inputs: &[View], program: Program| {
        let inputs = inputs.iter().cloned().collect();
        cases.push(Kernel::Pointwise(Pointwise { output, inputs, program }));
    };
    let add = || program(Class::F32, 2, &[I::Input(0), I::Input(1), I::Binary(B::Add, 0, 1)]);
    let relu = || program(Class::F32, 1, &[I::Input(0), I::Unary(U::Relu, 0)]);
    use DType::{Bf16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

    // Dense operands: vectors, and a rest that does not fill one.
    case(dense(F32, &[2, 3, 5, 7]), &[dense(F32, &[2, 3, 5, 7]), dense(F32, &[2, 3, 5, 7])], add());
    case(dense(F16, &[4, 16, 9, 9]), &[dense(F16, &[4, 16, 9, 9])], relu());
    case(dense(Bf16, &[1031]), &[dense(Bf16, &[1031]), dense(F32, &[1031])], add());
    // Channels-last, padded channels: results there are zero although 0 + 1 is not.
    let plus_one = || program(Class::F32, 1, &[I::Input(0), I::Float(1.0), I::Binary(B::Add, 0, 1)]);
    let shape = [2, 11, 6, 5];
    case(channels_last(F16, &shape), &[channels_last(F16, &shape)], plus_one());
    case(channels_last(F16, &shape), &[channels_last(F16, &shape), broadcast(F16, &[1, 11, 1, 1], &shape)], add());
    case(channels_last(F16, &shape), &[channels_last(F16, &shape), broadcast(F32, &[2, 1, 6, 5], &shape)], add());
    case(channels_last(F32, &[1, 24, 7, 3]), &[channels_last(F32, &[1, 24, 7, 3])], plus_one());
    // Squeeze and excite: a gate for every image and channel.
    let gate = [I::Input(0), I::Input(1), I::Unary(U::Sigmoid, 1), I::Binary(B::Mul, 0, 2)];
    let scales = slice(channels_last(F16, &[2, 40, 1, 1]), 2, 0, 1);
    let scales =
        View { shape: dense(F16, &[2, 40, 6, 5]).shape, strides: [40, 1, 0, 0].into_iter().collect(), ..scales };
    case(
        channels_last(F16, &[2, 40, 6, 5]),
        &[channels_last(F16, &[2, 40, 6, 5]), scales],
        program(Class::F32, 2, &gate),
    );
    // Broadcasts of row-major operands, scalars and both sides at once.
    case(
        dense(F32, &[3, 4, 5]),
        &[broadcast(F32, &[3, 1, 5], &[3, 4, 5]), broadcast(F32, &[1, 4, 1], &[3, 4, 5])],
        add(),
    );
    case(dense(F32, &[7, 33]), &[dense(F32, &[7, 33]), broadcast(F32, &[1, 1], &[7, 33])], add());
    case(dense(F32, &[]), &[dense(F32, &[]), dense(F32, &[])], add());
    // Mixed layouts, reversed and sliced operands.
    case(dense(F32, &shape), &[channels_last(F16, &shape), reversed(F32, &shape)], add());
    case(channels_last(F16, &shape), &[dense(F32, &shape), permuted(F16, &shape, &[3, 1, 0, 2])], add());
    case(
        slice(dense(F32, &[2, 9, 8]), 1, 3, 4),
        &[slice(dense(F32, &[2, 4, 11]), 2, 2, 8), dense(F32, &[2, 4, 8])],
        add(),
    );
    case(reversed(I32, &[5, 6]), &[dense(I32, &[5, 6])], program(Class::I64, 1, &[I::Input(0), I::Unary(U::Neg, 0)]));
    // An only operand that lies across: of bytes, to padded channels and from them, of odd extents, into a part of something, of integers.
    let scaled = || program(Class::F32, 1, &[I::Input(0), I::Float(0.05), I::Binary(B::Mul, 0, 1)]);
    case(dense(F32, &[80, 420]), &[permuted(I8, &[80, 420], &[1, 0])], scaled());
    case(dense(F16, &[3, 20, 34, 5]), &[permuted(U8, &[3, 20, 34, 5], &[2, 0, 3, 1])], scaled());
    case(channels_last(F16, &shape), &[dense(F32, &shape)], plus_one());
    case(channels_last(I8, &[1, 40, 9, 31]), &[dense(F32, &[1, 40, 9, 31])], plus_one());
    case(dense(F32, &[2, 19, 9, 7]), &[channels_last(F16, &[2, 19, 9, 7])], plus_one());
    case(slice(dense(F32, &[4, 10, 16]), 1, 3, 5), &[permuted(F16, &[4, 5, 16], &[0, 2, 1])], relu());
    case(
        dense(I64, &[67, 45]),
        &[permuted(I32, &[67, 45], &[1, 0])],
        program(Class::I64, 1, &[I::Input(0), I::Unary(U::Neg, 0)]),
    );
    case(
        dense(F64, &[67, 45]),
        &[permuted(F32, &[67, 45], &[1, 0])],
        program(Class::F64, 1, &[I::Input(0), I::Unary(U::Exp, 0)]),
    );
    // Every float function; arguments of the bounded ones are brought into range first.
    let bounded = [U::Asin, U::Acos, U::Atanh, U::Sin, U::Cos, U::Tan, U::Atan, U::Exp, U::Sinh, U::Cosh, U::Asinh];
    let free = [
        U::Abs,
        U::Neg,
        U::Sign,
        U::Floor,
        U::Ceil,
        U::Round,
        U::Erf,
        U::Sigmoid,
        U::Tanh,
        U::Relu,
        U::Softplus,
        U::Not,
        U::IsNan,
        U::IsInf,
        U::ToF16,
        U::Reciprocal,
    ];
    for class in [Class::F32, Class::F64] {
        let dtype = if class == Class::F32 { F32 } else { F64 };
        for op in bounded {
            let code = [I::Input(0), I::Unary(U::Tanh, 0), I::Unary(op, 1)];
            case(dense(dtype, &[67]), &[dense(dtype, &[67])], program(class, 1, &code));
        }
        for op in free {
            case(dense(dtype, &[67]), &[dense(dtype, &[67])], program(class, 1, &[I::Input(0), I::Unary(op, 0)]));
        }
        for op in [U::Sqrt, U::Rsqrt, U::Log, U::Acosh] {
            let positive = [I::Input(0), I::Unary(U::Abs, 0), I::Float(1.0), I::Binary(B::Add, 1, 2), I::Unary(op, 3)];
            case(dense(dtype, &[67]), &[dense(dtype, &[67])], program(class, 1, &positive));
        }
        let comparisons = [B::Equal, B::Less, B::LessOrEqual, B::Greater, B::GreaterOrEqual, B::And, B::Or, B::Xor];
        for op in comparisons {
            case(dense(Bool, &[67]), &[dense(dtype, &[67]), dense(dtype, &[67])], two(class, op));
        }
        for op in [B::Sub, B::Mul, B::Div, B::Min, B::Max, B::Mod, B::Fmod] {
            case(dense(dtype, &[67]), &[dense(dtype, &[67]), dense(dtype, &[67])], two(class, op));
        }
        let power = [I::Input(0), I::Unary(U::Abs, 0), I::Input(1), I::Binary(B::Pow, 1, 2)];
        case(dense(dtype, &[67]), &[dense(dtype, &[67]), dense(dtype, &[67])], program(class, 2, &power));
        let square = [I::Input(0), I::Float(2.0), I::Binary(B::Pow, 0, 1)];
        case(dense(dtype, &[67]), &[dense(dtype, &[67])], program(class, 1, &square));
    }
    // Every integer instruction.
    for (class, dtype) in [(Class::I64, I64), (Class::I64, I32), (Class::I64, U32), (Class::U64, U64)] {
        let view = || dense(dtype, &[53]);
        for op in [U::Abs, U::Neg, U::Sign, U::Relu, U::Not, U::BitNot] {
            case(view(), &[view()], program(class, 1, &[I::Input(0), I::Unary(op, 0)]));
        }
        let arithmetic = [B::Add, B::Sub, B::Mul, B::Div, B::Pow, B::Min, B::Max, B::Mod, B::Fmod];
        let bits = [B::BitAnd, B::BitOr, B::BitXor, B::ShiftLeft, B::ShiftRight, B::Less, B::GreaterOrEqual, B::Xor];
        for op in arithmetic.into_iter().chain(bits) {
            case(view(), &[view(), view()], two(class, op));
        }
    }
    // Types in and out.
    for dtype in [I8, U8, I16, U16, I32, U32, I64, U64, Bool, F16, Bf16, F64] {
        let scale = [I::Input(0), I::Float(0.5), I::Binary(B::Mul, 0, 1)];
        case(dense(F16, &[3, 37]), &[dense(dtype, &[3, 37])], program(Class::F32, 1, &scale));
        case(dense(dtype, &[3, 37]), &[dense(F32, &[3, 37])], program(Class::F32, 1, &scale));
        case(dense(dtype, &[3, 37]), &[dense(I16, &[3, 37])], Program::identity(Class::I64));
    }
    // Bytes that a sigmoid is taken of, rounded to bytes again, and made floats: what a table of 256 values holds.
    for (from, to) in [(U8, F32), (I8, F32), (I8, F16), (U8, Bf16)] {
        let scaled = [I::Input(0), I::Float(0.05), I::Binary(B::Mul, 0, 1), I::Unary(U::Sigmoid, 2)];
        let rounded = [I::Float(1.0 / 256.0), I::Binary(B::Div, 3, 4), I::Unary(U::Round, 5), I::Float(255.0)];
        let code = [&scaled[..], &rounded, &[I::Binary(B::Min, 6, 7), I::Binary(B::Mul, 8, 4)]].concat();
        case(dense(to, &[7, 148]), &[dense(from, &[7, 148])], program(Class::F32, 1, &code));
    }
    // Floats that are rounded to bytes twice, and made floats again.
    for dtype in [F32, F16] {
        let first = [I::Input(0), I::Float(0.0311), I::Binary(B::Div, 0, 1), I::Unary(U::Round, 2), I::Float(127.0)];
        let bounded = [I::Binary(B::Min, 3, 4), I::Float(-128.0), I::Binary(B::Max, 5, 6), I::Binary(B::Mul, 7, 1)];
        let sum = [I::Input(1), I::Binary(B::Add, 8, 9), I::Float(0.0473), I::Binary(B::Div, 10, 11)];
        let second =
            [I::Unary(U::Round, 12), I::Binary(B::Min, 13, 4), I::Binary(B::Max, 14, 6), I::Binary(B::Mul, 15, 11)];
        let code = [&first[..], &bounded, &sum, &second].concat();
        case(dense(dtype, &[5, 203]), &[dense(dtype, &[5, 203]), dense(F32, &[5, 203])], program(Class::F32, 2, &code));
    }
    // Choice by a mask, and a long fused chain with seven inputs.
    let select = [I::Input(0), I::Input(1), I::Input(2), I::Select(0, 1, 2)];
    let mask = broadcast(Bool, &[1, 19], &[8, 19]);
    case(dense(F32, &[8, 19]), &[mask, dense(F32, &[8, 19]), dense(F16, &[8, 19])], program(Class::F32, 3, &select));
    let mut chain: Vec<I> = (0..7).map(I::Input).collect();
    for step in 0..20u8 {
        chain.push(I::Binary([B::Add, B::Mul, B::Max, B::Sub][usize::from(step % 4)], 6 + step, step % 7));
    }
    let inputs: Vec<View> = (0..7).map(|i| if i % 2 == 0 { dense(F32, &[129]) } else { dense(F16, &[129]) }).collect();
    case(dense(F16, &[129]), &inputs, program(Class::F32, 7, &chain));
    // Large enough for many blocks.
    let large = [1, 72, 112, 112];
    case(channels_last(F16, &large), &[channels_last(F16, &large), channels_last(F16, &large)], add());
    // Functions of results in sixteen bits; wide arguments reach both tails.
    for dtype in [F16, Bf16] {
        for op in [U::Exp, U::Sigmoid, U::Tanh, U::Reciprocal] {
            let wide = [I::Input(0), I::Float(5.0), I::Binary(B::Mul, 0, 1), I::Unary(op, 2)];
            case(dense(dtype, &[1031]), &[dense(dtype, &[1031])], program(Class::F32, 1, &wide));
        }
        for op in [U::Sqrt, U::Rsqrt] {
            let positive = [I::Input(0), I::Unary(U::Abs, 0), I::Float(0.01), I::Binary(B::Add, 1, 2), I::Unary(op, 3)];
            case(dense(dtype, &[1031]), &[dense(dtype, &[1031])], program(Class::F32, 1, &positive));
        }
        case(dense(dtype, &[1031]), &[dense(dtype, &[1031]), dense(dtype, &[1031])], two(Class::F32, B::Div));
        for (op, scale, factor) in [(U::Erf, core::f64::consts::FRAC_1_SQRT_2, 2.0), (U::Tanh, 0.797_884_56, 2.0)] {
            let wide = [I::Input(0), I::Float(factor), I::Binary(B::Mul, 0, 1)];
            let inner = [I::Float(scale), I::Binary(B::Mul, 2, 3), I::Unary(op, 4)];
            let outer = [I::Float(1.0), I::Binary(B::Add, 5, 6), I::Binary(B::Mul, 2, 7)];
            let gelu = [&wide[..], &inner, &outer].concat();
            case(dense(dtype, &[1031]), &[dense(dtype, &[1031])], program(Class::F32, 1, &gelu));
        }
    }
    // To floats of 8 bits and back, with a scale a channel: saturating, and with what lies beyond the largest number.
    for narrow in [DType::F8E4M3, DType::F8E4M3Fnuz, DType::F8E5M2, DType::F8E5M2Fnuz] {
        let largest = crate::narrow::largest(narrow).expect("a float of 8 bits");
        let quotient = [I::Input(0), I::Input(1), I::Binary(B::Div, 0, 1)];
        let clamped = [I::Float(-largest), I::Binary(B::Max, 2, 3), I::Float(largest), I::Binary(B::Min, 4, 5)];
        let scales = || broadcast(F32, &[1, 11, 1, 1], &shape);
        case(dense(narrow, &shape), &[dense(F32, &shape), scales()], program(Class::F32, 2, &quotient));
        let saturating = [&quotient[..], &clamped].concat();
        case(
            channels_last(narrow, &shape),
            &[channels_last(F16, &shape), scales()],
            program(Class::F32, 2, &saturating),
        );
        // From the smallest subnormal number to four times the largest one.
        for factor in [largest, largest / 65536.0, largest / 1048576.0] {
            let wide = [I::Input(0), I::Float(factor), I::Binary(B::Mul, 0, 1)];
            case(dense(narrow, &[1031]), &[dense(F32, &[1031])], program(Class::F32, 1, &wide));
            let wide = [&wide[..], &[I::Unary(U::Round, 2)]].concat();
            case(dense(narrow, &[1031]), &[dense(F64, &[1031])], program(Class::F64, 1, &wide));
        }
        let product = [I::Input(0), I::Input(1), I::Binary(B::Mul, 0, 1)];
        case(dense(F32, &shape), &[dense(narrow, &shape), scales()], program(Class::F32, 2, &product));
        case(channels_last(F16, &shape), &[channels_last(narrow, &shape), scales()], program(Class::F32, 2, &product));
    }
    // Likewise 4-bit integers, with zero points; in blocks along a dimension, as weights have them; wrapping.
    for narrow in [DType::I4, DType::U4] {
        let spread = |dtype| broadcast(dtype, &[1, 11, 1, 1], &shape);
        let quotient = [I::Input(0), I::Input(1), I::Binary(B::Div, 0, 1), I::Unary(U::Round, 2)];
        let quantised = [&quotient[..], &[I::Input(2), I::Binary(B::Add, 3, 4)]].concat();
        let operands = [dense(F32, &shape), spread(F32), spread(narrow)];
        case(dense(narrow, &shape), &operands, program(Class::F32, 3, &quantised));
        let value = [I::Input(0), I::Input(1), I::Binary(B::Sub, 0, 1), I::Input(2), I::Binary(B::Mul, 2, 3)];
        let operands = [channels_last(narrow, &shape), spread(narrow), spread(F32)];
        case(channels_last(F16, &shape), &operands, program(Class::F32, 3, &value));
        let blocks = |dtype| broadcast(dtype, &[5, 3, 1], &[5, 3, 32]);
        let operands = [dense(narrow, &[5, 3, 32]), blocks(narrow), blocks(F16)];
        case(dense(F16, &[5, 3, 32]), &operands, program(Class::F32, 3, &value));
        case(dense(narrow, &[1031]), &[dense(I32, &[1031]), dense(narrow, &[1031])], two(Class::I64, B::Mul));
    }
    cases
}

/// A checked program.
fn program(class: Class, inputs: u8, instructions: &[I]) -> Program {
    let program = Program { class, inputs, instructions: instructions.iter().copied().collect() };
    program.check().expect("a case's program");
    program
}

/// The program of a single two-operand instruction.
fn two(class: Class, op: B) -> Program {
    program(class, 2, &[I::Input(0), I::Input(1), I::Binary(op, 0, 1)])
}
