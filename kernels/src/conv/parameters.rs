//! The one convolution: everything that its families differ in, as parameters.

use super::Geometry;
use super::quantized::is_float_factor;
use crate::host::epilogue::{self, is_f32_class};
use crate::host::window::{self, Window};
use crate::{DType, KernelError, View, pointwise::Epilogue};

/// What a convolution multiplies, and what it adds up in.
#[derive(Clone, Copy)]
pub(crate) enum Arithmetic {
    /// f32, f16 and bf16 in f32, or f64 in f64.
    Floats,
    /// E4M3 and E5M2, in f32.
    NarrowFloats,
    /// i8, u8 and i16, in i32, which wraps.
    Integers,
}

/// A convolution with all its parameters.
#[derive(Clone, Copy)]
pub(crate) struct Convolution<'a> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) arithmetic: Arithmetic,
    /// The padding value of the input.
    pub(crate) padding_value: i16,
    /// One i32 for each output channel, added to sums of integers.
    pub(crate) bias: Option<&'a View>,
    pub(crate) epilogue: &'a Epilogue,
    /// Whether it spreads the inputs by the strides and not the outputs.
    pub(crate) transposed: bool,
}

/// A family whose parameters are those of a convolution.
pub(crate) trait Parameters {
    /// Those parameters.
    fn convolution(&self) -> Convolution<'_>;
}

impl Geometry {
    /// Kernel extents, three of them.
    pub(super) fn taps(&self) -> [u32; 3] {
        window::spatial(&self.weights).unwrap_or([1; 3])
    }

    /// The window.
    pub(super) fn window(&self) -> Window {
        Window { taps: self.taps(), strides: self.strides, dilations: self.dilations, pads: self.pads }
    }

    /// Channels of one group: of the output and of the input.
    pub(crate) fn group(&self) -> (u32, u32) {
        let groups = self.groups.max(1);
        let extent = |view: &View| view.shape.get(1).copied().unwrap_or(0) / groups;
        (extent(&self.output), extent(&self.input))
    }

    /// Whether it has one filter for each channel.
    pub fn is_depthwise(&self) -> bool {
        let channels = |view: &View| view.shape.get(1) == Some(&self.groups);
        channels(&self.input) && channels(&self.output)
    }

    /// Checks that it is a fully connected layer over channels.
    ///
    /// # Errors
    /// `Parameter` naming what it is not.
    pub(crate) fn check_fully_connected(&self) -> Result<(), KernelError> {
        let one = self.weights.shape.iter().skip(2).all(|&extent| extent == 1);
        let plain = self.strides == [1; 3] && self.pads == [0; 3] && self.groups == 1;
        if one && plain { Ok(()) } else { Err(KernelError::Parameter("a pointwise convolution")) }
    }
}

impl<'a> Convolution<'a> {
    /// A convolution outside of whose input there are zeros, without a bias of integers.
    pub(crate) fn new(geometry: &'a Geometry, arithmetic: Arithmetic, epilogue: &'a Epilogue) -> Self {
        Self { geometry, arithmetic, padding_value: 0, bias: None, epilogue, transposed: false }
    }

    /// Whether sums are integers.
    pub(super) fn is_integer(&self) -> bool {
        matches!(self.arithmetic, Arithmetic::Integers)
    }

    /// The check of all families.
    ///
    /// # Errors
    /// What is wrong with the parameters.
    pub(crate) fn check(&self) -> Result<(), KernelError> {
        let Geometry { input, weights, output, groups, .. } = self.geometry;
        if weights.rank() != input.rank() || output.rank() != input.rank() {
            return Err(KernelError::Shape("rank"));
        }
        self.geometry.window().check(input, output)?;
        for view in [input, weights, output] {
            view.bytes()?;
        }
        self.check_types()?;
        if input.shape[0] != output.shape[0] {
            return Err(KernelError::Shape("batch"));
        }
        // Of no channels there are only plain sums.
        if input.shape[1] == 0 && !(self.is_integer() && self.epilogue.program.is_none()) {
            return Err(KernelError::Shape("channels"));
        }
        let whole = |view: &View| view.shape[1].is_multiple_of(*groups);
        if *groups == 0 || !whole(input) || !whole(output) {
            return Err(KernelError::Parameter("groups"));
        }
        let (m, c) = self.geometry.group();
        let (rows, columns) = if self.transposed { (input.shape[1], m) } else { (output.shape[1], c) };
        let padded = weights.shape[0] >= rows && weights.shape[1] >= columns;
        let fits = match self.arithmetic {
            Arithmetic::Floats => padded,
            _ => weights.shape[..2] == [rows, columns],
        };
        if !fits {
            return Err(KernelError::Shape("channels of the weights"));
        }
        let [depth, height, width] = self.geometry.taps();
        window::check_product(&[output.shape[1], c, depth, height, width])?;
        self.check_epilogue()
    }

    /// Checks what is multiplied and what stands outside.
    fn check_types(&self) -> Result<(), KernelError> {
        let Geometry { input, weights, output, .. } = self.geometry;
        let both = |known: &dyn Fn(DType) -> bool| known(input.dtype) && known(weights.dtype);
        let fits = match self.arithmetic {
            Arithmetic::Floats => {
                both(&|dtype| dtype == DType::F64) && output.dtype == DType::F64
                    || both(&is_f32_class) && is_f32_class(output.dtype)
            }
            Arithmetic::NarrowFloats => both(&is_float_factor),
            Arithmetic::Integers => both(&|dtype| dtype.is_byte() || dtype == DType::I16),
        };
        if !fits {
            return Err(KernelError::Type("convolution operands"));
        }
        let range = match input.dtype {
            DType::U8 => 0..=255,
            DType::I8 => -128..=127,
            DType::I16 => i16::MIN..=i16::MAX,
            _ => 0..=0,
        };
        if !range.contains(&self.padding_value) {
            return Err(KernelError::Parameter("what stands outside"));
        }
        Ok(())
    }

    /// Checks what happens to the sums.
    fn check_epilogue(&self) -> Result<(), KernelError> {
        let (epilogue, output) = (self.epilogue, &self.geometry.output);
        if let Some(bias) = self.bias
            && (!self.is_integer() || *bias != View::contiguous(DType::I32, &output.shape[1..2])?)
        {
            return Err(KernelError::Shape("bias"));
        }
        let (sums, known): (_, fn(DType) -> bool) = match self.arithmetic {
            Arithmetic::Floats => return epilogue::check(epilogue, output),
            Arithmetic::NarrowFloats => (DType::F32, |dtype| is_f32_class(dtype) || is_float_factor(dtype)),
            Arithmetic::Integers => (DType::I32, |dtype| dtype.size() <= 4),
        };
        if epilogue.bias {
            return Err(KernelError::Parameter("float bias of a quantised convolution"));
        }
        if epilogue.program.is_none() && output.dtype != sums {
            return Err(KernelError::Type("sums of a quantised convolution"));
        }
        epilogue::check_of(epilogue, output, known, known)
    }

    /// View of input operand `index`: input, weights, bias (of floats it has no view), extras.
    pub(crate) fn input(&self, index: usize) -> Option<&'a View> {
        match (index, self.bias) {
            (2, Some(bias)) => Some(bias),
            (3.., Some(_)) => self.epilogue.extras.get(index - 3),
            _ => epilogue::input([&self.geometry.input, &self.geometry.weights], self.epilogue, index),
        }
    }

    /// Bytes of input operand `index`.
    ///
    /// # Errors
    /// Those of [`View::bytes`].
    pub(crate) fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        if index == 2 && self.bias.is_none() && self.epilogue.bias {
            let channels = self.geometry.output.shape.get(1).copied().unwrap_or(0);
            return Ok(Some(u64::from(channels) * 4));
        }
        self.input(index).map(View::bytes).transpose()
    }

    /// Input operands after the first.
    pub(crate) fn parameters(&self) -> usize {
        1 + usize::from(self.has_bias()) + self.epilogue.extras.len()
    }

    /// Whether there is a bias, of floats or of integers.
    pub(crate) fn has_bias(&self) -> bool {
        self.epilogue.bias || self.bias.is_some()
    }
}
