//! The host as a device: replays a plan with the reference kernels.

mod custom;
mod memory;
mod split;

use crate::{
    BindingError, BindingRef, ShapeError, ShapeRef,
    bindings::{Access, Slots},
    plan::{
        Variant,
        format::{Action, Direction, MAX_OPERANDS, Operand, Region, Step},
    },
};
use core::fmt;
use custom::Table;
pub use custom::{Call, Function, Operator, Operators};
use floe_kernels::{DType, Kernel, KernelError, MAX_INPUTS, custom::MAX_NAME};
use memory::Memory;
use split::{Range, Split};

/// Alignment of a session's memory, of its arena and of every binding in it.
pub const ALIGNMENT: usize = 64;
/// Alignment that the weights need in the caller's memory, so in effect the plan file's.
pub const WEIGHTS_ALIGNMENT: usize = 16;

/// A piece of session memory; a slice of them, cast by `bytemuck::cast_slice_mut`, has the right alignment.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub struct Block(pub [u8; ALIGNMENT]);

impl Block {
    /// All bytes zero.
    pub const ZERO: Self = Self([0; ALIGNMENT]);
}

/// Bytes of memory that a session of `variant` needs: arena and bindings, each rounded up to [`ALIGNMENT`] and with room for
/// the largest of the variant's shapes.
pub fn memory_bytes(variant: &Variant<'_>) -> u64 {
    arena_bytes(variant) + Slots::new(variant, ALIGNMENT as u64).bytes
}

/// As [`memory_bytes`], in [`Block`]s; `usize::MAX` where no such memory can exist on this machine.
pub fn blocks(variant: &Variant<'_>) -> usize {
    usize::try_from(memory_bytes(variant) / ALIGNMENT as u64).unwrap_or(usize::MAX)
}

fn arena_bytes(variant: &Variant<'_>) -> u64 {
    variant.shapes().map(|shape| shape.header().arena_bytes).max().unwrap_or(0).next_multiple_of(ALIGNMENT as u64)
}

/// A ready session. Weights stay in the plan's bytes; everything else is in the caller's memory.
#[derive(Debug)]
pub struct Session<'p, 'm> {
    variant: Variant<'p>,
    memory: Memory<'m>,
    /// Where the bindings start in `memory`.
    bindings: usize,
    slots: Slots,
    operators: Table<'m>,
}

impl<'p, 'm> Session<'p, 'm> {
    /// Binds a host variant, and the other shapes of its target, to memory of at least [`memory_bytes`] bytes, aligned to [`ALIGNMENT`], and zeroes that memory.
    ///
    /// # Errors
    /// Where the variant is for a GPU, or memory or plan bytes do not fit.
    pub fn init(variant: Variant<'p>, memory: &'m mut [u8]) -> Result<Self, InitError> {
        Self::init_with(variant, memory, &NO_OPERATORS)
    }

    /// As [`Self::init`], with functions for the variant's operators from outside of Floe.
    ///
    /// ```no_run
    /// # use floe_engine::{host::{Call, Operator, Session}, plan::Variant};
    /// # fn run(variant: Variant<'_>, memory: &mut [u8]) -> Result<(), Box<dyn core::error::Error>> {
    /// let double = |call: &mut Call<'_, '_>| {
    ///     let x = call.input::<f32>(0).ok_or(1u32)?;
    ///     call.output(0).ok_or(2u32)?.iter_mut().zip(x).for_each(|(y, x): (&mut f32, _)| *y = 2.0 * x);
    ///     Ok(())
    /// };
    /// let operators = [Operator { name: "example.Double", function: &double }];
    /// let session = Session::init_with(variant, memory, &operators)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Self::init`], and where an operator has no function.
    pub fn init_with(
        variant: Variant<'p>,
        memory: &'m mut [u8],
        operators: &'m dyn Operators,
    ) -> Result<Self, InitError> {
        check_functions(&variant, operators)?;
        Self::made(variant, memory, operators)
    }

    /// The session itself. Apart from the check before it, so that the stack holds one of the two at a time.
    #[inline(never)]
    fn made(variant: Variant<'p>, memory: &'m mut [u8], operators: &'m dyn Operators) -> Result<Self, InitError> {
        if !variant.is_host() {
            return Err(InitError::OtherDevice { architecture: variant.header().architecture });
        }
        let needed = memory_bytes(&variant);
        let found = memory.len() as u64;
        let memory = usize::try_from(needed).ok().and_then(|needed| memory.get_mut(..needed));
        let memory = memory.ok_or(InitError::MemoryTooSmall { needed, found })?;
        if !memory.is_empty() && !memory.as_ptr().addr().is_multiple_of(ALIGNMENT) {
            return Err(InitError::MemoryMisaligned);
        }
        let weights = variant.weights();
        if !weights.is_empty() && !weights.as_ptr().addr().is_multiple_of(WEIGHTS_ALIGNMENT) {
            return Err(InitError::PlanMisaligned);
        }
        memory.fill(0);
        let slots = Slots::new(&variant, ALIGNMENT as u64);
        let bindings = arena_bytes(&variant) as usize;
        log::debug!("host session of {}: {needed} bytes, {} of them bindings", variant.header().target, slots.bytes);
        Ok(Self { variant, memory: Memory::new(memory), bindings, slots, operators: Table(operators) })
    }

    /// The variant that is replayed: its shapes are the chosen ones.
    pub fn variant(&self) -> &Variant<'p> {
        &self.variant
    }

    /// Chooses the shape of the replays from now on. Bindings keep their addresses, and states what they hold. So does an input
    /// whose shape is equal; any other is to be written before the next replay, and outputs are read after it.
    ///
    /// # Errors
    /// Where the variant's target has no such shape; the session is as it was.
    pub fn choose<'s>(&mut self, shape: impl Into<ShapeRef<'s>>) -> Result<(), ShapeError> {
        let shape = self.variant.find_shape(shape.into())?;
        self.slots.choose(&shape);
        self.variant = shape;
        Ok(())
    }

    /// Copies `bytes` into an input or state: row-major, in the binding's element type.
    ///
    /// # Errors
    /// Where there is no such binding or the length is not its.
    pub fn write<'n>(&mut self, binding: impl Into<BindingRef<'n>>, bytes: &[u8]) -> Result<(), BindingError> {
        let (_, slot) = self.slots.find(&self.variant, binding.into(), Access::Write, Some(bytes.len()))?;
        let start = self.bindings + slot.offset as usize;
        // Every slot lies inside the memory that `init` took.
        if let Some(target) = self.memory.get_mut(start, bytes.len()) {
            target.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Copies an output or state into `bytes`: row-major, in the binding's element type.
    ///
    /// # Errors
    /// Where there is no such binding or the length is not its.
    pub fn read<'n>(&self, binding: impl Into<BindingRef<'n>>, bytes: &mut [u8]) -> Result<(), BindingError> {
        let (_, slot) = self.slots.find(&self.variant, binding.into(), Access::Read, Some(bytes.len()))?;
        let start = self.bindings + slot.offset as usize;
        if let Some(source) = self.memory.get(start, bytes.len()) {
            bytes.copy_from_slice(source);
        }
        Ok(())
    }

    /// Lends an input's bytes, to be filled in place.
    ///
    /// # Errors
    /// Where there is no such input.
    pub fn input_mut<'n>(&mut self, binding: impl Into<BindingRef<'n>>) -> Result<&mut [u8], BindingError> {
        let (_, slot) = self.slots.find(&self.variant, binding.into(), Access::Lend, None)?;
        let start = self.bindings + slot.offset as usize;
        // Every slot lies inside the memory that `init` took, here and below.
        Ok(self.memory.get_mut(start, slot.bytes as usize).unwrap_or_default())
    }

    /// Lends an output's bytes.
    ///
    /// # Errors
    /// Where there is no such output.
    pub fn output<'n>(&self, binding: impl Into<BindingRef<'n>>) -> Result<&[u8], BindingError> {
        let (_, slot) = self.slots.find(&self.variant, binding.into(), Access::Borrow, None)?;
        let start = self.bindings + slot.offset as usize;
        Ok(self.memory.get(start, slot.bytes as usize).unwrap_or_default())
    }

    /// Runs all steps once, in order. How long that takes is up to the plan: [`Variant::host_operations`] bounds it.
    ///
    /// # Errors
    /// Where a kernel refuses its operands; no checked plan makes one do so.
    pub fn replay(&mut self) -> Result<(), ReplayError> {
        self.replay_steps(&mut |_| true)
    }

    /// As [`Self::replay`], as long as `go_on` says so: it is asked before each step, with a bound of the step's operations
    /// ([`Step::host_operations`]), and may look at a clock, at a flag, or at that number. A step that has begun runs to its
    /// end, so who wants to be asked often refuses steps of many operations.
    ///
    /// After [`ReplayError::Stopped`] inputs are as they were, and states and outputs hold parts of two replays: the session is
    /// as good as new after [`Self::reset`].
    ///
    /// ```no_run
    /// # use floe_engine::host::{ReplayError, Session};
    /// # use std::time::{Duration, Instant};
    /// # fn run(session: &mut Session<'_, '_>) -> Result<(), ReplayError> {
    /// let deadline = Instant::now() + Duration::from_millis(200);
    /// session.replay_while(|operations| operations < 1 << 30 && Instant::now() < deadline)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ReplayError::Stopped`] where `go_on` said no; else as for [`Self::replay`].
    pub fn replay_while(&mut self, mut go_on: impl FnMut(u64) -> bool) -> Result<(), ReplayError> {
        self.replay_steps(&mut |step| go_on(step.host_operations()))
    }

    fn replay_steps(&mut self, go_on: &mut dyn FnMut(&Step) -> bool) -> Result<(), ReplayError> {
        let steps = self.variant.steps();
        for (number, step) in (0..).zip(steps) {
            if !go_on(&step) {
                return Err(ReplayError::Stopped { step: number });
            }
            self.run(&step).map_err(|failure| failure.at(number))?;
        }
        Ok(())
    }

    /// Numbers of the float outputs and states that hold a NaN or an infinity, ascending: what the guards of a GPU's plan watch.
    /// It looks when it is called, so at what the last replay left, or what was written into a state since.
    pub fn guard(&self) -> impl Iterator<Item = usize> + '_ {
        let bindings = self.variant.bindings().zip(self.slots.iter()).enumerate();
        bindings.filter_map(|(number, (binding, slot))| {
            let start = self.bindings + slot.offset as usize;
            let bytes = self.memory.get(start, slot.bytes as usize).unwrap_or_default();
            let hit = slot.direction != Direction::Input && any_non_finite(binding.dtype, bytes);
            hit.then_some(number)
        })
    }

    /// Zeroes every state.
    pub fn reset(&mut self) {
        for slot in self.slots.iter().filter(|slot| slot.direction == Direction::State) {
            let start = self.bindings + slot.offset as usize;
            if let Some(state) = self.memory.get_mut(start, slot.bytes as usize) {
                state.fill(0);
            }
        }
    }

    fn run(&mut self, step: &Step) -> Result<(), Failure> {
        let Action::Host(kernel) = &step.action else { return Err(KernelError::Parameter("action").into()) };
        let Self { variant, memory, bindings, slots, operators } = self;
        // Where an operand lies in the memory; `None` for the weights.
        let place = |operand: &Operand| -> Option<Range> {
            let base = match operand.region {
                Region::Weights | Region::Counter | Region::Report => return None,
                Region::Arena => 0,
                Region::Binding(number) => *bindings + slots.get(usize::from(number))?.offset as usize,
            };
            Some(Range { start: base + operand.offset as usize, bytes: operand.bytes as usize })
        };
        let mut written = heapless::Vec::<Range, MAX_OPERANDS>::new();
        for operand in step.operands.iter().filter(|operand| operand.written) {
            let range = place(operand).ok_or(KernelError::OperandCount)?;
            written.push(range).map_err(|_| KernelError::OperandCount)?;
        }
        let mut split = Split::new(memory.all(), &written).ok_or(KernelError::OperandCount)?;
        let mut inputs = heapless::Vec::<&[u8], MAX_INPUTS>::new();
        for operand in step.operands.iter().filter(|operand| !operand.written) {
            let bytes = match place(operand) {
                Some(range) => split.read(range),
                None => weights(variant.weights(), operand),
            };
            inputs.push(bytes.ok_or(KernelError::OperandCount)?).map_err(|_| KernelError::OperandCount)?;
        }
        let count = kernel.outputs().min(split.written.len());
        let (outputs, workspace) = split.written.split_at_mut(count);
        let workspace = workspace.first_mut().map_or(&mut [][..], |workspace| &mut **workspace);
        match kernel {
            Kernel::Custom(custom) => operators.call(custom, &inputs, outputs, workspace),
            kernel => Ok(kernel.family().run(&inputs, outputs, workspace)?),
        }
    }
}

/// Every operator from outside has a function.
#[inline(never)]
fn check_functions(variant: &Variant<'_>, operators: &dyn Operators) -> Result<(), InitError> {
    for (number, step) in (0..).zip(variant.steps()) {
        if let Action::Host(Kernel::Custom(custom)) = &step.action
            && !operators.has(&custom.name)
        {
            return Err(InitError::NoFunction { step: number, operator: custom.name.clone() });
        }
    }
    Ok(())
}

/// For plans without operators from outside.
const NO_OPERATORS: [Operator<'_>; 0] = [];

/// Why a step failed.
enum Failure {
    Kernel(KernelError),
    Operator(u32),
}

impl From<KernelError> for Failure {
    fn from(error: KernelError) -> Self {
        Self::Kernel(error)
    }
}

impl Failure {
    fn at(self, step: u32) -> ReplayError {
        match self {
            Self::Kernel(error) => ReplayError::Kernel { step, error },
            Self::Operator(code) => ReplayError::Operator { step, code },
        }
    }
}

/// Whether any element is a NaN or an infinity: its exponent has all bits set. Integers have none.
fn any_non_finite(dtype: DType, bytes: &[u8]) -> bool {
    fn any<const N: usize>(bytes: &[u8], exponent: [u8; 2]) -> bool {
        // The exponent lies in the highest two bytes of every float.
        let high = |element: &[u8; N]| element.last_chunk::<2>().copied().unwrap_or_default();
        bytes.as_chunks::<N>().0.iter().map(high).any(|high| [high[0] & exponent[0], high[1] & exponent[1]] == exponent)
    }
    match dtype {
        DType::F32 => any::<4>(bytes, [0x80, 0x7f]),
        DType::F16 => any::<2>(bytes, [0x00, 0x7c]),
        DType::Bf16 => any::<2>(bytes, [0x80, 0x7f]),
        DType::F64 => any::<8>(bytes, [0xf0, 0x7f]),
        _ => false,
    }
}

fn weights<'p>(weights: &'p [u8], operand: &Operand) -> Option<&'p [u8]> {
    let start = usize::try_from(operand.offset).ok()?;
    weights.get(start..start.checked_add(usize::try_from(operand.bytes).ok()?)?)
}

/// Why a host session cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InitError {
    /// The variant is for a GPU.
    OtherDevice {
        /// Compute capability times ten.
        architecture: u32,
    },
    /// Less memory than [`memory_bytes`].
    MemoryTooSmall {
        /// Bytes that are needed.
        needed: u64,
        /// Bytes that were given.
        found: u64,
    },
    /// The memory does not start at a multiple of [`ALIGNMENT`].
    MemoryMisaligned,
    /// The plan's weights do not lie at a multiple of [`WEIGHTS_ALIGNMENT`].
    PlanMisaligned,
    /// An operator from outside of Floe has no function.
    NoFunction {
        /// Number of the first step that needs it.
        step: u32,
        /// The operator, `DOMAIN.NAME`.
        operator: heapless::String<MAX_NAME>,
    },
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherDevice { architecture } => {
                write!(
                    f,
                    "variant is for compute capability {}.{}, not for the host",
                    architecture / 10,
                    architecture % 10
                )
            }
            Self::MemoryTooSmall { needed, found } => {
                write!(f, "session needs {needed} bytes of memory, but was given {found}")
            }
            Self::MemoryMisaligned => write!(f, "session memory must start at a multiple of {ALIGNMENT} bytes"),
            Self::PlanMisaligned => write!(
                f,
                "plan must start at a multiple of {WEIGHTS_ALIGNMENT} bytes (better 256) in memory: map the file, or use \
                 `include_plan!`"
            ),
            Self::NoFunction { step, operator } => write!(
                f,
                "step {step} is the operator {operator}, which is not Floe's: register a function of this name when the session \
                 is made, or run a GPU variant"
            ),
        }
    }
}

impl core::error::Error for InitError {}

/// Why a replay did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayError {
    /// A step's kernel refused its operands.
    Kernel {
        /// Number of the step.
        step: u32,
        /// Why.
        error: KernelError,
    },
    /// The function of an operator from outside of Floe failed.
    Operator {
        /// Number of the step.
        step: u32,
        /// What the function said.
        code: u32,
    },
    /// The caller of [`Session::replay_while`] wanted no more of it.
    Stopped {
        /// Number of the first step that did not run.
        step: u32,
    },
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel { step, error } => write!(f, "step {step}: {error}"),
            Self::Operator { step, code } => {
                write!(f, "step {step}: the operator's own function failed with code {code}")
            }
            Self::Stopped { step } => write!(f, "replay was stopped before step {step}: reset the session"),
        }
    }
}

impl core::error::Error for ReplayError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Kernel { error, .. } => Some(error),
            Self::Operator { .. } | Self::Stopped { .. } => None,
        }
    }
}
