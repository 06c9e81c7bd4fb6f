//! Where the operands of a kernel lie in one block of memory, with guards between them.

use crate::operands::Buffer;
use floe::selftest::operand::POISON;
use floe_kernels::codegen::Argument;
use std::ops::Range;

/// Least bytes between operands, which nobody may touch; also the alignment of operands.
const GUARD: usize = 256;

/// The places of a kernel's operands in a block of memory, and the block as it is before the first run.
#[derive(Debug)]
pub struct Layout {
    /// Bytes of each input.
    pub inputs: Vec<Range<usize>>,
    /// Bytes of each output.
    pub outputs: Vec<Range<usize>>,
    /// Bytes of the workspace.
    pub workspace: Range<usize>,
    /// Bytes of the counters.
    pub counters: Range<usize>,
    /// The whole block: inputs with their contents, counters of zero, [`POISON`] elsewhere.
    pub image: Vec<u8>,
}

impl Layout {
    /// Lays out inputs, then outputs, workspace and counters of these numbers of bytes.
    pub fn new(inputs: &[Buffer], outputs: &[usize], workspace: usize, counters: usize) -> Self {
        let mut image = vec![POISON; GUARD];
        let mut place = |contents: &[u8]| {
            let start = image.len();
            image.extend_from_slice(contents);
            let end = image.len();
            image.resize((end + GUARD).next_multiple_of(GUARD), POISON);
            start..end
        };
        Self {
            inputs: inputs.iter().map(|input| place(input.bytes())).collect(),
            outputs: outputs.iter().map(|&length| place(&vec![POISON; length])).collect(),
            workspace: place(&vec![POISON; workspace]),
            counters: place(&vec![0; counters]),
            image,
        }
    }

    /// The bytes that a pointer argument stands for, and whether they may be written.
    pub fn operand(&self, argument: Argument) -> (Range<usize>, bool) {
        let from = |whole: &Range<usize>, offset: u64| whole.start + offset as usize..whole.end;
        match argument {
            Argument::Input(index) => (self.inputs[index].clone(), false),
            Argument::Output(index) => (self.outputs[index].clone(), true),
            Argument::Workspace(offset) => (from(&self.workspace, offset), true),
            Argument::Counters(offset) => (from(&self.counters, offset), true),
        }
    }
}
