//! Operands of a kernel case: random inputs on the host, poisoned gaps, repacking, and the expected outputs.

use anyhow::{Context, Result, anyhow};
use floe::{
    random::Generator,
    selftest::operand::{POISON, Places},
};
use floe_engine::host::Block;
use floe_kernels::{
    DType, Family, Kernel, View,
    codegen::Packing,
    copy::Copy,
    narrow::{F8E4M3, F8E5M2},
    recurrent::Recurrent,
};
use half::{bf16, f16};

/// Bytes aligned as the reference kernels want them.
#[derive(Clone, Debug)]
pub struct Buffer {
    blocks: Vec<Block>,
    length: usize,
}

impl Buffer {
    /// `length` bytes of one value.
    pub fn filled(length: usize, value: u8) -> Self {
        Self { blocks: vec![Block([value; size_of::<Block>()]); length.div_ceil(size_of::<Block>())], length }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.blocks)[..self.length]
    }

    /// The bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.blocks)[..self.length]
    }
}

/// A case with its inputs and what the reference kernel makes of them.
#[derive(Debug)]
pub struct Prepared {
    /// Inputs as the kernel's own views say.
    pub inputs: Vec<Buffer>,
    /// Outputs; gaps hold [`POISON`].
    pub outputs: Vec<Buffer>,
}

impl Prepared {
    /// Makes inputs from the case's number and runs the reference kernel.
    ///
    /// # Errors
    /// What the reference kernel says.
    pub fn new(kernel: &Kernel, number: usize) -> Result<Self> {
        let family = kernel.family();
        family.check().map_err(|error| anyhow!("check: {error}"))?;
        let mut generator = Generator::new(number as u64, family.name());
        let inputs: Vec<Buffer> =
            (0..kernel.inputs()).map(|index| input(kernel, index, &mut generator)).collect::<Result<_>>()?;
        let mut outputs: Vec<Buffer> =
            outputs(family).iter().map(|view| Ok(Buffer::filled(length(view)?, POISON))).collect::<Result<_>>()?;
        let mut workspace = Buffer::filled(usize::try_from(family.host_workspace())?, POISON);
        let reads: Vec<&[u8]> = inputs.iter().map(Buffer::bytes).collect();
        let mut writes: Vec<&mut [u8]> = outputs.iter_mut().map(Buffer::bytes_mut).collect();
        family.run(&reads, &mut writes, workspace.bytes_mut()).map_err(|error| anyhow!("reference kernel: {error}"))?;
        Ok(Self { inputs, outputs })
    }

    /// Input `index` as a candidate wants it.
    ///
    /// # Errors
    /// Where it cannot be packed so.
    pub fn packed(&self, kernel: &Kernel, index: usize, packing: Option<&Packing>) -> Result<Buffer> {
        let view = match packing {
            None | Some(Packing::Keep) => return Ok(self.inputs[index].clone()),
            Some(Packing::View(view)) => view,
            Some(Packing::Transform(transform)) => {
                let source = kernel.family().input(index).context("a packed operand has a view")?;
                let bytes = transform
                    .apply(self.inputs[index].bytes(), source)
                    .map_err(|error| anyhow!("transform of input {index}: {error}"))?;
                let mut packed = Buffer::filled(bytes.len(), 0);
                packed.bytes_mut().copy_from_slice(&bytes);
                return Ok(packed);
            }
        };
        let source = kernel.family().input(index).context("a packed operand has a view")?.clone();
        let copy = Copy { source, destination: view.clone() };
        copy.check().map_err(|error| anyhow!("packing of input {index}: {error}"))?;
        // `Packing::View` promises zeros in gaps too.
        let mut packed = Buffer::filled(length(view)?, 0);
        let mut workspace = Buffer::filled(usize::try_from(copy.host_workspace())?, POISON);
        copy.run(&[self.inputs[index].bytes()], &mut [packed.bytes_mut()], workspace.bytes_mut())
            .map_err(|error| anyhow!("packing of input {index}: {error}"))?;
        Ok(packed)
    }
}

/// Views of a kernel's outputs.
pub fn outputs(family: &dyn Family) -> Vec<&View> {
    (0..).map_while(|index| family.output(index)).collect()
}

fn length(view: &View) -> Result<usize> {
    Ok(usize::try_from(view.bytes().map_err(|error| anyhow!("view: {error}"))?)?)
}

/// Random contents of one input; what the view does not reach is [`POISON`].
fn input(kernel: &Kernel, index: usize, generator: &mut Generator) -> Result<Buffer> {
    let family = kernel.family();
    let bytes = family.input_bytes(index).map_err(|error| anyhow!("input {index}: {error}"))?;
    let mut buffer = Buffer::filled(usize::try_from(bytes.context("the input exists")?)?, POISON);
    let Some(view) = family.input(index) else {
        // Only biases and the like have no view: f32, contiguous.
        generator.fill(DType::F32, buffer.bytes_mut());
        return Ok(buffer);
    };
    let range = Range::of(kernel, index);
    let places = Places::of(view);
    let size = view.dtype.size();
    for &place in &places.elements {
        element(view.dtype, range, generator, &mut buffer.bytes_mut()[place * size..][..size]);
    }
    for &place in &places.padded_channels {
        buffer.bytes_mut()[place * size..][..size].fill(0);
    }
    Ok(buffer)
}

/// Which numbers an input gets.
#[derive(Clone, Copy)]
enum Range {
    /// Floats in ±bound, integers likewise (or from 0); of the narrow types every code, also of NaN.
    Within(f32),
    /// The same, but for floats of 8 bits: they are in ±bound too.
    Finite(f32),
    /// Indices of an axis of that extent, from the end as well.
    Index(u32),
}

impl Range {
    fn of(kernel: &Kernel, index: usize) -> Self {
        match kernel {
            Kernel::Gather(gather) if index == 1 => {
                Self::Index(gather.data.shape.get(usize::from(gather.axis)).copied().unwrap_or(1))
            }
            Kernel::Recurrent(layer) if index == 1 => Self::of_units(layer),
            Kernel::RecurrentStack(stack) if stack.weights().contains(&index) => Self::of_units(&stack.second),
            Kernel::Scatter(scatter) if index == 1 => Self::Index(scatter.data.shape.first().copied().unwrap_or(1)),
            Kernel::RoiAlign(align) if index == 2 => Self::Index(align.input.shape.first().copied().unwrap_or(1)),
            // Places outside the image too.
            Kernel::GridSample(_) if index == 1 => Self::Within(1.5),
            // Conversions should see fractions, large numbers and every bit of small integers.
            Kernel::Copy(_) => Self::Within(100.0),
            Kernel::Pointwise(_) | Kernel::Softmax(_) => Self::Within(4.0),
            // Beyond what 8 bits hold at the scale of the cases.
            Kernel::QuantizingConv(_) if index == 0 => Self::Within(5.0),
            // Sums of products with NaN would be nothing else.
            Kernel::QuantizedConv(conv) if conv.is_float() => Self::Finite(32.0),
            Kernel::MatMul(product) if product.is_float8() => Self::Finite(4.0),
            // Every byte.
            Kernel::Frame(_)
            | Kernel::QuantizedConv(_)
            | Kernel::DualQuantizedConv(_)
            | Kernel::ScaledQuantizedConv(_)
            | Kernel::PooledQuantizedConv(_)
            | Kernel::AveragedQuantizedConv(_)
            | Kernel::QuantizedMbConv(_)
            | Kernel::QuantizedSeparableConv(_)
            | Kernel::QuantizedAverage(_)
            | Kernel::QuantizingConv(_) => Self::Within(32.0),
            Kernel::PackedMatMul(_) if index == 1 => Self::Within(32.0),
            _ => Self::Within(1.0),
        }
    }

    /// Weights of a trained network keep sums of any number of units moderate.
    fn of_units(layer: &Recurrent) -> Self {
        let units = layer.weights.shape.last().copied().unwrap_or(1).max(1);
        Self::Within(1.5 / (units as f32).sqrt())
    }
}

/// One random element.
fn element(dtype: DType, range: Range, generator: &mut Generator, bytes: &mut [u8]) {
    let (float, integer) = match range {
        Range::Within(bound) | Range::Finite(bound) => {
            let float = generator.signed_unit() * bound;
            // Small integers keep sums of products in range; eight times the bound reaches past every byte's sign.
            (float, (float * 8.0) as i64)
        }
        Range::Index(extent) => {
            let index = generator.below(2 * u64::from(extent.max(1))) as i64 - i64::from(extent.max(1));
            (index as f32, index)
        }
    };
    let magnitude = integer.unsigned_abs();
    match dtype {
        DType::F32 => bytes.copy_from_slice(&float.to_le_bytes()),
        DType::F16 => bytes.copy_from_slice(&f16::from_f32(float).to_le_bytes()),
        DType::Bf16 => bytes.copy_from_slice(&bf16::from_f32(float).to_le_bytes()),
        DType::F64 => bytes.copy_from_slice(&f64::from(float).to_le_bytes()),
        DType::I8 => bytes.copy_from_slice(&(integer as i8).to_le_bytes()),
        DType::I16 => bytes.copy_from_slice(&(integer as i16).to_le_bytes()),
        DType::I32 => bytes.copy_from_slice(&(integer as i32).to_le_bytes()),
        DType::I64 => bytes.copy_from_slice(&integer.to_le_bytes()),
        DType::U8 => bytes.copy_from_slice(&(magnitude as u8).to_le_bytes()),
        DType::U16 => bytes.copy_from_slice(&(magnitude as u16).to_le_bytes()),
        DType::U32 => bytes.copy_from_slice(&(magnitude as u32).to_le_bytes()),
        DType::U64 => bytes.copy_from_slice(&magnitude.to_le_bytes()),
        DType::F8E4M3 if matches!(range, Range::Finite(_)) => bytes.fill(F8E4M3::from_f32(float).0),
        DType::F8E5M2 if matches!(range, Range::Finite(_)) => bytes.fill(F8E5M2::from_f32(float).0),
        // The upper half of a byte that holds 4 bits does not count.
        narrow if narrow.is_narrow() => bytes.fill(generator.bits() as u8),
        _ => bytes.fill((magnitude & 1) as u8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_can_be_prepared() {
        for (number, kernel) in floe_kernels::codegen::all_cases().iter().enumerate() {
            // Small ones only: this runs in every test round.
            if kernel.family().flops() < 1_000_000 {
                Prepared::new(kernel, number).unwrap_or_else(|error| panic!("{number} {kernel:?}: {error}"));
            }
        }
    }
}
