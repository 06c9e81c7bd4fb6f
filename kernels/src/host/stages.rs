//! Kernels that are chains of others: each stage reads what the one before it wrote.

use crate::conv::{Conv, Parameters};
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
    /// A convolution.
    pub(crate) fn of_conv(conv: &'a (impl Parameters + Family)) -> Self {
        let convolution = conv.convolution();
        Self { family: conv, parameters: convolution.parameters(), output: &convolution.geometry.output }
    }
}

/// View of input operand `index` of a chain: `first`, then the further inputs of all stages.
pub(crate) fn input<'a>(
    first: &'a View,
    stages: impl IntoIterator<Item = Stage<'a>>,
    index: usize,
) -> Option<&'a View> {
    match index.checked_sub(1) {
        None => Some(first),
        Some(index) => parameter(stages, index).and_then(|(family, i)| family.input(i)),
    }
}

/// Bytes of that operand.
///
/// # Errors
/// Those of [`View::bytes`].
pub(crate) fn input_bytes<'a>(
    first: &View,
    stages: impl IntoIterator<Item = Stage<'a>>,
    index: usize,
) -> Result<Option<u64>, KernelError> {
    match index.checked_sub(1) {
        None => first.bytes().map(Some),
        Some(index) => parameter(stages, index).map_or(Ok(None), |(family, i)| family.input_bytes(i)),
    }
}

/// The stage that has a chain's parameter, and the parameter's number there.
fn parameter<'a>(stages: impl IntoIterator<Item = Stage<'a>>, mut index: usize) -> Option<(&'a dyn Family, usize)> {
    for stage in stages {
        match index.checked_sub(stage.parameters) {
            None => return Some((stage.family, index + 1)),
            Some(rest) => index = rest,
        }
    }
    None
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
    conv.geometry.check_fully_connected()?;
    if !conv.epilogue.extras.is_empty() {
        return Err(KernelError::Parameter("extras inside a chain"));
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
        parameters = run_stage(stage, input, parameters, result, rest)?;
        (input, workspace) = (result, rest);
    }
    run_stage(last, input, parameters, output, workspace).map(|_| ())
}

/// As [`run`], and then a gate where there is one: its first input is what the stages made, its others follow theirs, and its
/// result is the second output.
///
/// # Errors
/// Those of the stages and of the gate; `OperandCount` where operands are missing.
pub(crate) fn run_gated(
    stages: &[Stage<'_>],
    gate: Option<&dyn Family>,
    inputs: &[&[u8]],
    outputs: &mut [&mut [u8]],
    workspace: &mut [u8],
) -> Result<(), KernelError> {
    let [image, parameters @ ..] = inputs else { return Err(KernelError::OperandCount) };
    let [output, gates @ ..] = outputs else { return Err(KernelError::OperandCount) };
    let count = stages.iter().map(|stage| stage.parameters).sum();
    let (own, of_gate) = parameters.split_at_checked(count).ok_or(KernelError::OperandCount)?;
    run(stages, image, own, output, workspace)?;
    match (gate, gates) {
        (Some(gate), [result]) => run_one(gate, output, of_gate, result, workspace),
        _ => Ok(()),
    }
}

/// Runs a kernel of one output on its first input and the others.
fn run_one(
    family: &dyn Family,
    input: &[u8],
    parameters: &[&[u8]],
    output: &mut [u8],
    workspace: &mut [u8],
) -> Result<(), KernelError> {
    let mut inputs = heapless::Vec::<&[u8], MAX_INPUTS>::new();
    inputs.push(input).map_err(|_| KernelError::OperandCount)?;
    inputs.extend_from_slice(parameters).map_err(|_| KernelError::OperandCount)?;
    family.run(&inputs, &mut [output], workspace)
}

/// Runs one stage; what remains of the parameters.
fn run_stage<'a, 'p>(
    stage: &Stage<'_>,
    input: &[u8],
    parameters: &'p [&'a [u8]],
    output: &mut [u8],
    workspace: &mut [u8],
) -> Result<&'p [&'a [u8]], KernelError> {
    let (own, rest) = parameters.split_at_checked(stage.parameters).ok_or(KernelError::OperandCount)?;
    run_one(stage.family, input, own, output, workspace)?;
    Ok(rest)
}
