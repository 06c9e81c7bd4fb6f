//! What the tests of reference kernels share: random operands, a run on poisoned outputs, and a comparison with a formula in f64.

use super::{Element, Walk, cast, cast_mut, clear_padding, with_element};
use crate::{DType, Kernel, View};
use std::ops::{Deref, DerefMut};

/// What fills outputs before a run.
pub(crate) const POISON: u8 = 0xA5;

/// Operand bytes, 64-byte aligned.
#[derive(Clone)]
pub(crate) struct Operand {
    lines: Vec<Line>,
    length: usize,
}

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl Operand {
    /// `length` bytes, all `value`.
    pub(crate) fn filled(length: u64, value: u8) -> Self {
        let length = usize::try_from(length).unwrap();
        Self { lines: vec![Line([value; 64]); length.div_ceil(64)], length }
    }

    /// Random elements; padded channels of a channels-last view are zero.
    fn random(dtype: DType, view: Option<&View>, bytes: u64, values: Values, random: &mut Random) -> Self {
        let mut operand = Self::filled(bytes, 0);
        with_element!(dtype, T => {
            for x in cast_mut::<T>(&mut operand, 0).unwrap() {
                *x = T::from_f64(values.draw(dtype, random));
            }
        });
        if let Some(view) = view {
            clear_padding(view, &mut operand);
        }
        operand
    }
}

/// What operands are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// Floats between -1 and 1; integers from 0 to 7, which may be indices.
    Moderate,
    /// As [`Values::Moderate`], but integers have both signs where their type has.
    Signed,
    /// As [`Values::Signed`], but one float in ten is a zero of either sign, the smallest subnormal number, infinite or NaN,
    /// and one integer in ten an end of its type (at most 32 bits of it, which f64 holds).
    Special,
}

impl Values {
    fn draw(self, dtype: DType, random: &mut Random) -> f64 {
        let value = f64::from(random.next());
        if self == Self::Special && random.next() > 0.8 {
            let number = ((f64::from(random.next()) + 1.0) * 4.0) as usize;
            let smallest = match dtype {
                DType::F16 => half::f16::from_bits(1).to_f64(),
                DType::Bf16 => half::bf16::from_bits(1).to_f64(),
                DType::F64 => f64::from_bits(1),
                _ => f64::from(f32::from_bits(1)),
            };
            let floats = [0.0, -0.0, smallest, -smallest, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0];
            let bits = 8.0 * (dtype.size() as f64).min(4.0);
            let (low, high) = match dtype {
                DType::I8 | DType::I16 | DType::I32 | DType::I64 => (-(bits - 1.0).exp2(), (bits - 1.0).exp2() - 1.0),
                _ => (0.0, bits.exp2() - 1.0),
            };
            return if dtype.is_float() { floats[number.min(7)] } else { [low, high][number % 2] };
        }
        match self {
            _ if dtype.is_float() => value,
            Self::Moderate => (value * 8.0).trunc().abs(),
            // Unsigned types saturate at 0.
            Self::Signed | Self::Special => (value * 8.0).trunc(),
        }
    }
}

impl Deref for Operand {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.length]
    }
}

impl DerefMut for Operand {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.length]
    }
}

/// A reproducible stream of numbers between -1 and 1.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> f32 {
        // Knuth's MMIX generator; the upper bits are good enough for test data.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// Random input operands of a kernel.
pub(crate) fn inputs(kernel: &Kernel, seed: u64) -> Vec<Operand> {
    inputs_of(kernel, Values::Moderate, seed)
}

/// As [`inputs`], of other values.
pub(crate) fn inputs_of(kernel: &Kernel, values: Values, seed: u64) -> Vec<Operand> {
    let (family, mut random) = (kernel.family(), Random::new(seed));
    (0..kernel.inputs())
        .map(|i| {
            let view = family.input(i);
            let bytes = family.input_bytes(i).unwrap().unwrap();
            Operand::random(view.map_or(DType::F32, |v| v.dtype), view, bytes, values, &mut random)
        })
        .collect()
}

/// Runs a reference kernel on poisoned outputs and a poisoned workspace.
pub(crate) fn run_all(kernel: &Kernel, inputs: &[Operand]) -> Vec<Operand> {
    let family = kernel.family();
    family.check().unwrap_or_else(|e| panic!("{e}: {kernel:?}"));
    let views = (0..kernel.outputs()).filter_map(|i| family.output(i));
    let mut outputs: Vec<Operand> = views.map(|view| Operand::filled(view.bytes().unwrap(), POISON)).collect();
    let mut workspace = Operand::filled(family.host_workspace(), POISON);
    let inputs: Vec<&[u8]> = inputs.iter().map(|x| &**x).collect();
    let mut writes: Vec<&mut [u8]> = outputs.iter_mut().map(|x| &mut **x).collect();
    family.run(&inputs, &mut writes, &mut workspace).unwrap_or_else(|e| panic!("{e}: {kernel:?}"));
    outputs
}

/// As [`run_all`]; the first output.
pub(crate) fn run(kernel: &Kernel, inputs: &[Operand]) -> Operand {
    run_all(kernel, inputs).swap_remove(0)
}

/// Element at a logical index.
pub(crate) fn element(view: &View, bytes: &[u8], index: &[i64]) -> f64 {
    let at: i64 = index.iter().zip(&view.strides).map(|(&i, &s)| i * i64::from(s)).sum();
    with_element!(view.dtype, T => cast::<T>(bytes, 0).unwrap()[(i64::from(view.offset) + at) as usize].to_f64())
}

/// A logical index of a view of `rank` dimensions, from its first two and three spatial ones; only `rank` of it count.
pub(crate) fn index(rank: usize, [n, c]: [i64; 2], spatial: [i64; 3]) -> [i64; 5] {
    let mut index = [n, c, 0, 0, 0];
    index[2..rank].copy_from_slice(&spatial[5 - rank..]);
    index
}

/// Runs a kernel on random operands and compares every output element with `expected(operands, index)`, gives or takes
/// `tolerance · (1 + |expected|)` plus what storing it rounds. Bytes outside the output's view must stay untouched and
/// its padded channels must be zero.
pub(crate) fn compare(kernel: &Kernel, tolerance: f64, expected: impl Fn(&[Operand], &[i64]) -> f64) {
    compare_of(kernel, Values::Moderate, tolerance, expected);
}

/// As [`compare`], on other values.
pub(crate) fn compare_of(
    kernel: &Kernel,
    values: Values,
    tolerance: f64,
    expected: impl Fn(&[Operand], &[i64]) -> f64,
) {
    let inputs = inputs_of(kernel, values, 42);
    let mut output = run(kernel, &inputs);
    assert!(*run(kernel, &inputs) == *output, "two runs differ: {kernel:?}");
    let view = kernel.family().output(0).unwrap();
    let rounding = match view.dtype {
        DType::F16 => 1e-3,
        DType::Bf16 => 8e-3,
        _ => 0.0,
    };
    let mut walk = Walk::new(&view.shape, [&view.strides], [view.offset]);
    loop {
        let index: Vec<i64> = walk.index().iter().map(|&i| i64::from(i)).collect();
        let Some([at]) = walk.next() else { break };
        let (wanted, got) = (expected(&inputs, &index), element(view, &output, &index));
        let near = wanted.is_finite() && (got - wanted).abs() <= (tolerance + rounding) * (1.0 + wanted.abs());
        assert!(
            near || (got.is_nan() && wanted.is_nan()) || got == wanted,
            "{index:?}: {got}, not {wanted}: {kernel:?}"
        );
        // Put the poison back, so that what remains is what the kernel should not have touched.
        let size = view.dtype.size();
        output[at * size..][..size].fill(POISON);
    }
    if view.padded_channels > view.shape.get(1).copied().unwrap_or(0) {
        let mut padded_channels = view.clone();
        padded_channels.offset += view.shape[1];
        padded_channels.shape[1] = view.padded_channels - view.shape[1];
        for [at] in Walk::new(&padded_channels.shape, [&padded_channels.strides], [padded_channels.offset]) {
            let lane = &mut output[at * view.dtype.size()..][..view.dtype.size()];
            assert!(lane.iter().all(|&b| b == 0), "a padding lane is not zero: {kernel:?}");
            lane.fill(POISON);
        }
    }
    assert!(output.iter().all(|&b| b == POISON), "wrote outside its view: {kernel:?}");
}

/// What convolutions of 8-bit integers make of an operand, one after the other; `parameters` are their further inputs.
pub(crate) fn in_turn<'a>(
    first: Operand,
    parameters: &[Operand],
    members: impl Iterator<Item = &'a crate::quantized_conv::QuantizedConv>,
) -> Operand {
    let mut parameters = parameters.iter();
    members.fold(first, |input, conv| {
        let member = Kernel::QuantizedConv(conv.clone());
        let own = std::iter::once(input).chain(parameters.by_ref().take(member.inputs() - 1).cloned());
        run(&member, &own.collect::<Vec<_>>())
    })
}

/// The epilogue's value for a sum: bias, then program. `first` is the position of the epilogue's first operand.
pub(crate) fn finish(
    epilogue: &crate::pointwise::Epilogue,
    operands: &[Operand],
    first: usize,
    channel: i64,
    index: &[i64],
    sum: f64,
) -> f64 {
    let mut operands = operands[first..].iter();
    let bias = if epilogue.bias { cast::<f32>(operands.next().unwrap(), 0).unwrap()[channel as usize] } else { 0.0 };
    let sum = sum + f64::from(bias);
    let Some(program) = &epilogue.program else { return sum };
    let mut values = vec![[sum as f32]];
    values.extend(epilogue.extras.iter().zip(operands).map(|(view, bytes)| [element(view, bytes, index) as f32]));
    let values: Vec<&[f32]> = values.iter().map(|v| v.as_slice()).collect();
    let mut result = [0.0];
    program.run_f32(&values, &mut result).unwrap();
    f64::from(result[0])
}
