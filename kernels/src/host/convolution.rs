//! What convolutions of both directions share: operands, the check of their parameters, and the epilogue's inputs.

use super::epilogue::{self, is_f32_class};
use super::window::{self, Window};
use crate::{DType, KernelError, View, pointwise::Epilogue};

/// The parameters of a convolution, transposed or not.
pub(crate) struct Convolution<'a> {
    pub(crate) input: &'a View,
    pub(crate) weights: &'a View,
    pub(crate) output: &'a View,
    pub(crate) window: Window,
    pub(crate) groups: u32,
    pub(crate) epilogue: &'a Epilogue,
    /// Whether the weights are `[c, m / groups, …]` instead of `[m, c / groups, …]`.
    pub(crate) transposed: bool,
}

impl<'a> Convolution<'a> {
    /// Channels of one group: of the output and of the input.
    pub(crate) fn group(&self) -> (u32, u32) {
        let groups = self.groups.max(1);
        let extent = |view: &View| view.shape.get(1).copied().unwrap_or(0) / groups;
        (extent(self.output), extent(self.input))
    }

    /// The family's check.
    ///
    /// # Errors
    /// What is wrong with the parameters.
    pub(crate) fn check(&self) -> Result<(), KernelError> {
        let Self { input, weights, output, .. } = *self;
        if weights.rank() != input.rank() || output.rank() != input.rank() {
            return Err(KernelError::Shape("rank"));
        }
        self.window.check(input, output)?;
        let views = [input, weights, output];
        for view in views {
            view.bytes()?;
        }
        if !views.iter().all(|view| view.dtype == DType::F64) && !views.iter().all(|view| is_f32_class(view.dtype)) {
            return Err(KernelError::Type("convolution operands"));
        }
        if input.shape[0] != output.shape[0] {
            return Err(KernelError::Shape("batch"));
        }
        if input.shape[1] == 0 {
            return Err(KernelError::Shape("channels"));
        }
        let whole = |view: &View| view.shape[1].is_multiple_of(self.groups);
        if self.groups == 0 || !whole(input) || !whole(output) {
            return Err(KernelError::Parameter("groups"));
        }
        let (m, c) = self.group();
        let (rows, columns) = if self.transposed { (input.shape[1], m) } else { (output.shape[1], c) };
        if weights.shape[0] < rows || weights.shape[1] < columns {
            return Err(KernelError::Shape("channels of the weights"));
        }
        let [depth, height, width] = self.window.taps;
        window::check_product(&[output.shape[1], c, depth, height, width])?;
        epilogue::check(self.epilogue, output)
    }

    /// View of input operand `index`.
    pub(crate) fn input(&self, index: usize) -> Option<&'a View> {
        epilogue::input([self.input, self.weights], self.epilogue, index)
    }

    /// Bytes of input operand `index`.
    ///
    /// # Errors
    /// Those of [`View::bytes`].
    pub(crate) fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        let channels = self.output.shape.get(1).copied().unwrap_or(0);
        epilogue::input_bytes([self.input, self.weights], self.epilogue, index, channels)
    }
}
