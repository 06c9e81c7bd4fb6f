//! Kernels that are chains of others: each stage reads what the one before it wrote.

use crate::conv::Conv;
use crate::{Family, KernelError, MAX_INPUTS, View};

/// Alignment of what lies in the workspace.
const ALIGNMENT: u64 = 64;

/// One member of a chain.
#[derive(Clone, Copy)]
pub(crate) struct Stage<'a> {
    /// What it computes.
    pub(crate) family: &'a dyn Family,
    /// Input operands after the first.
    pub(crate) parameters: usize,
    /// Where its result goes; the next stage's input.
    pub(crate) output: &'a View,
}

impl<'a> Stage<'a> {
    /// A convolution without extras.
    pub(crate) fn of_conv(conv: &'a Conv) -> Self {
        Self { family: conv, parameters: 1 + usize::from(conv.epilogue.bias), output: &conv.output }
    }
}

/// The operands of a convolution after its input: weights and, where it has one, the bias, each by its number.
pub(crate) fn parameters(conv: &Conv) -> impl Iterator<Item = (&Conv, usize)> {
    (1..2 + usize::from(conv.epilogue.bias)).map(move |i| (conv, i))
}

/// Checks every stage by itself. How they fit together is for the family to say.
///
/// # Errors
/// Those of the stages.
pub(crate) fn check(stages: &[Stage<'_>]) -> Result<(), KernelError> {
    stages.iter().try_for_each(|stage| stage.family.check())
}

/// Checks that a convolution is a fully connected layer over channels, without extras.
///
/// # Errors
/// `Parameter` naming what it is not.
pub(crate) fn check_pointwise(conv: &Conv) -> Result<(), KernelError> {
    check_fully_connected(conv)?;
    if !conv.epilogue.extras.is_empty() {
        return Err(KernelError::Parameter("extras inside a chain"));
    }
    Ok(())
}

/// Checks that a convolution is a fully connected layer over channels.
///
/// # Errors
/// `Parameter` naming what it is not.
pub(crate) fn check_fully_connected(conv: &Conv) -> Result<(), KernelError> {
    let one = conv.weights.shape.iter().skip(2).all(|&extent| extent == 1);
    let plain = conv.strides == [1; 3] && conv.pads == [0; 3] && conv.groups == 1;
    if !one || !plain {
        return Err(KernelError::Parameter("a pointwise convolution"));
    }
    Ok(())
}

/// Bytes of a region of the workspace.
pub(crate) fn padded(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX)
}

/// Bytes of the results between the stages, and the largest workspace of a stage.
pub(crate) fn workspace(stages: &[Stage<'_>]) -> u64 {
    let between = stages.split_last().map_or(&[][..], |(_, rest)| rest);
    let results = between.iter().map(|stage| padded(stage.output.bytes().unwrap_or(u64::MAX)));
    let own = stages.iter().map(|stage| stage.family.host_workspace()).max().unwrap_or(0);
    results.fold(own, u64::saturating_add)
}

/// Runs checked stages in order on operands of the required length: `first` is the first stage's input, `parameters`
/// the further inputs of all of them.
///
/// # Errors
/// Those of the stages; `OperandCount` where parameters are missing.
pub(crate) fn run(
    stages: &[Stage<'_>],
    first: &[u8],
    mut parameters: &[&[u8]],
    output: &mut [u8],
    mut workspace: &mut [u8],
) -> Result<(), KernelError> {
    let Some((last, between)) = stages.split_last() else { return Err(KernelError::OperandCount) };
    let mut input: &[u8] = first;
    for stage in between {
        let bytes = usize::try_from(padded(stage.output.bytes()?)).map_err(|_| KernelError::Shape("size"))?;
        let (result, rest) = workspace.split_at_mut_checked(bytes).ok_or(KernelError::OperandCount)?;
        parameters = run_one(stage, input, parameters, result, rest)?;
        (input, workspace) = (result, rest);
    }
    run_one(last, input, parameters, output, workspace).map(|_| ())
}

/// Runs one stage; what remains of the parameters.
fn run_one<'a, 'p>(
    stage: &Stage<'_>,
    input: &[u8],
    parameters: &'p [&'a [u8]],
    output: &mut [u8],
    workspace: &mut [u8],
) -> Result<&'p [&'a [u8]], KernelError> {
    let (own, rest) = parameters.split_at_checked(stage.parameters).ok_or(KernelError::OperandCount)?;
    let mut inputs = heapless::Vec::<&[u8], MAX_INPUTS>::new();
    inputs.push(input).map_err(|_| KernelError::OperandCount)?;
    inputs.extend_from_slice(own).map_err(|_| KernelError::OperandCount)?;
    stage.family.run(&inputs, &mut [output], workspace)?;
    Ok(rest)
}
