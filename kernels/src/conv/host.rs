//! The reference kernel of all convolutions: implicit GEMM, with direct loops for most depthwise ones, and plain loops for f64.

use super::parameters::{Arithmetic, Convolution, Parameters};
use super::{depthwise, transposed};
use crate::host::axis::Axis;
use crate::host::correlate::{self, Correlation};
use crate::host::cpu::Pair;
use crate::host::epilogue::Finish;
use crate::host::window::{self, positions};
use crate::host::{cast, check_operands, clear_padding};
use crate::{DType, Family, KernelError, Named, View};

impl<T: Parameters + Named> Family for T {
    fn check(&self) -> Result<(), KernelError> {
        self.convolution().check()
    }

    fn input(&self, index: usize) -> Option<&View> {
        self.convolution().input(index)
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.convolution().geometry.output)
    }

    fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        self.convolution().input_bytes(index)
    }

    fn host_workspace(&self) -> u64 {
        self.convolution().workspace()
    }

    fn flops(&self) -> u64 {
        self.convolution().flops()
    }

    fn host_arithmetic(&self) -> u64 {
        self.convolution().arithmetic()
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let [output] = outputs else { return Err(KernelError::OperandCount) };
        self.convolution().run(inputs, output, workspace)
    }
}

impl Convolution<'_> {
    /// Whether sums are f64.
    fn is_f64(&self) -> bool {
        matches!(self.arithmetic, Arithmetic::Floats) && self.geometry.output.dtype == DType::F64
    }

    /// Whether the direct loops take it.
    fn is_direct(&self) -> bool {
        depthwise::applies(self)
    }

    /// Bytes of workspace.
    fn workspace(&self) -> u64 {
        if self.is_f64() {
            return 0;
        }
        if self.is_direct() {
            return depthwise::workspace(self.geometry);
        }
        let (m, c) = self.geometry.group();
        let taps =
            if self.transposed { transposed::most_taps(self.geometry) } else { positions(&self.geometry.weights) };
        let workspace = if self.is_integer() { correlate::workspace::<Pair> } else { correlate::workspace::<f32> };
        workspace(m.into(), positions(&self.geometry.output), c.into(), taps)
    }

    /// Operations; transposed, products that fall outside the output are counted too.
    fn flops(&self) -> u64 {
        let (m, c) = self.geometry.group();
        let (view, channels) = if self.transposed { (&self.geometry.input, m) } else { (&self.geometry.output, c) };
        let extents = view.shape.iter().copied().chain(self.geometry.taps()).chain([channels]);
        extents.fold(2, |flops: u64, extent| flops.saturating_mul(extent.into()))
    }

    /// Operations of the reference kernel, which walks outputs also where it is transposed, and looks for the first tap of each phase.
    fn arithmetic(&self) -> u64 {
        if !self.transposed {
            return self.flops();
        }
        let (_, c) = self.geometry.group();
        let products = u64::from(c).saturating_mul(transposed::most_taps(self.geometry)).saturating_mul(2);
        let search = self.geometry.taps().into_iter().map(u64::from).sum();
        self.geometry.output.elements().saturating_mul(products.saturating_add(search))
    }

    /// The spatial dimensions for the outputs of one phase, of which only a transposed convolution has several.
    fn axes(&self, phase: [u32; 3]) -> Result<[Axis; 3], KernelError> {
        let geometry = self.geometry;
        if !self.transposed {
            return geometry.window().axes(&geometry.input, &geometry.output);
        }
        let [depth, height, width] = phase;
        let axis = |d: usize, phase: u32| transposed::axis(geometry, d, phase);
        Ok([axis(0, depth)?, axis(1, height)?, axis(2, width)?])
    }

    /// Runs a checked convolution on operands of the required length.
    fn run(&self, inputs: &[&[u8]], output: &mut [u8], workspace: &mut [u8]) -> Result<(), KernelError> {
        let [input, weights, operands @ ..] = inputs else { return Err(KernelError::OperandCount) };
        let geometry = self.geometry;
        if geometry.output.shape.contains(&0) {
            return Ok(());
        }
        clear_padding(&geometry.output, output);
        let (bias, operands) = match (self.bias, operands) {
            (Some(_), [bias, extras @ ..]) => (Some(cast(bias, 2)?), extras),
            _ => (None, operands),
        };
        let mut finish = Finish::new(self.epilogue, operands)?;
        if self.is_direct() {
            return depthwise::run(self, inputs, bias, &mut finish, output, workspace);
        }
        let extents = window::spatial(&geometry.output)?;
        let phases = |d: usize| if self.transposed { geometry.strides[d].min(extents[d]) } else { 1 };
        for i in 0..phases(0) {
            for j in 0..phases(1) {
                for k in 0..phases(2) {
                    let correlation = Correlation {
                        geometry,
                        axes: self.axes([i, j, k])?,
                        transposed: self.transposed,
                        padding_value: self.padding_value.into(),
                    };
                    if self.is_integer() {
                        let finish = self.epilogue.program.is_some().then_some(&mut finish);
                        correlation.run_integers([input, weights], bias, finish, output, workspace)?;
                    } else if self.is_f64() {
                        correlation.run_f64(inputs, &finish, output)?;
                    } else {
                        correlation.run(inputs, &mut finish, output, workspace)?;
                    }
                }
            }
        }
        Ok(())
    }
}
