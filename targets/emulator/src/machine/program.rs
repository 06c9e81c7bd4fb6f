//! A kernel, decoded: every operand a slot, every label an index.

use super::lanes::{Row, Slot};
use super::reader::{Constants, Reader, Result};
use super::{
    access, arrival, barrier, bits, carry, cluster, compare, convert, float, half, integer, matrix, moves, registers,
    roots, warp, wgmma,
};
use crate::ptx::{Kernel, Module, Operand, Parameter, StateSpace, Symbol, Type};

/// Generic addresses of shared memory.
pub(super) const SHARED_WINDOW: u64 = 0xf1 << 56;
/// Generic addresses of local memory.
pub(super) const LOCAL_WINDOW: u64 = 0xf2 << 56;
/// Addresses of variables of the module.
pub(super) const MODULE_WINDOW: u64 = 0xf3 << 56;

/// Why a kernel is not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The module has no such kernel.
    #[error("the module has no kernel '{0}'")]
    NoKernel(String),
    /// An instruction that the machine does not cover.
    #[error("kernel '{kernel}', line {line}: '{instruction}' is not covered: {reason}")]
    Instruction {
        /// Name of the kernel.
        kernel: String,
        /// Line in the PTX.
        line: u32,
        /// Opcode with all modifiers.
        instruction: String,
        /// What about it.
        reason: String,
    },
    /// Variables that the machine does not hold.
    #[error("kernel '{kernel}': {reason}")]
    Variables {
        /// Name of the kernel.
        kernel: String,
        /// What about them.
        reason: String,
    },
}

/// Kernel parameters that an address may derive from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roots<'a> {
    /// Something else than parameters is among them, such as an address that was loaded from memory, or the
    /// instruction accesses no global memory.
    Unknown,
    /// Offsets in the block of parameters of the 64-bit values that it may derive from, ascending. There are several
    /// where the kernel chooses a pointer at run time, or where a 64-bit size goes into the address.
    Parameters(&'a [u32]),
}

/// A kernel, ready to run.
#[derive(Debug)]
pub struct Program {
    name: String,
    pub(super) parameters: Vec<Parameter>,
    pub(super) layout: Layout,
    pub(super) code: Vec<Step>,
    pub(super) constants: Vec<Row>,
    /// Rows and predicates of a warp.
    pub(super) rows: u32,
    pub(super) predicates: u32,
    /// Rows that each instruction reads or writes, sums of `wgmma` aside; empty in a kernel without that.
    pub(super) rows_used: Vec<Box<[u32]>>,
    /// Rows and predicates that may be read before they are written.
    pub(super) cleared: (Vec<u32>, Vec<u32>),
    pub(super) max_threads: Option<[u32; 3]>,
    pub(super) required_threads: Option<[u32; 3]>,
    /// Blocks of a cluster along x, y and z.
    pub(super) cluster: [u32; 3],
    /// Whether blocks may talk to one another.
    pub(super) communicates: bool,
    texts: Vec<Box<str>>,
    lines: Vec<(u32, Option<(u32, u32)>)>,
    files: Vec<(u32, String)>,
    roots: roots::Analysis,
}

/// Where variables are.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    pub parameters: Vec<Parameter>,
    kernel: Vec<Option<u64>>,
    module: Vec<Option<u64>>,
    pub static_shared: u32,
    pub dynamic_alignment: u32,
    pub local_bytes: u32,
    /// Variables of the module.
    pub image: Vec<u8>,
}

/// One instruction.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// Predicate that it is executed under; the constant "true" if none.
    pub guard: Slot,
    pub negated: bool,
    pub op: Op,
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Carry(carry::Op),
    Integer(integer::Op),
    Bits(bits::Op),
    Float(float::Op),
    Half(half::Op),
    Convert(convert::Op),
    Compare(compare::Op),
    Move(moves::Op),
    Access(access::Op),
    Multiply(Box<matrix::Multiply>),
    LoadMatrix(Box<matrix::Load>),
    Warp(warp::Op),
    Barrier(barrier::Op),
    Arrival(arrival::Op),
    Cluster(cluster::Op),
    Group(wgmma::Op),
    Branch(u32),
    Return,
    Trap,
}

impl Layout {
    fn new(module: &Module, kernel: &Kernel) -> Result<Self> {
        let mut layout = Self { parameters: kernel.parameters.clone(), dynamic_alignment: 16, ..Self::default() };
        // Shared variables of the module that other kernels use take no place in this one.
        let mut used = vec![false; module.variables().len()];
        for operand in kernel.instructions.iter().flat_map(|instruction| instruction.operands.iter()) {
            each_symbol(operand, &mut |symbol| {
                if let Symbol::Module(index) = symbol {
                    used[index as usize] = true;
                }
            });
        }
        let mut dynamic = Vec::new();
        let module_variables = module.variables().iter().zip(used.iter().copied());
        let all = kernel.variables.iter().map(|variable| (variable, true)).chain(module_variables);
        for (i, (variable, used)) in all.enumerate() {
            let place = |end: &mut u32| -> Result<u64> {
                let start = u64::from(*end).next_multiple_of(u64::from(variable.alignment));
                *end = u32::try_from(start + u64::from(variable.bytes)).map_err(|_| "variables that are too large")?;
                Ok(start)
            };
            let address = match variable.space {
                _ if !used => None,
                StateSpace::Shared if variable.bytes == 0 => {
                    layout.dynamic_alignment = layout.dynamic_alignment.max(variable.alignment);
                    dynamic.push(i);
                    None
                }
                StateSpace::Shared => Some(place(&mut layout.static_shared)?),
                StateSpace::Local | StateSpace::Parameter => Some(place(&mut layout.local_bytes)?),
                StateSpace::Global | StateSpace::Constant => {
                    let mut end = layout.image.len() as u32;
                    let start = place(&mut end)?;
                    if end > 16 << 20 {
                        return Err("variables that are too large".to_owned());
                    }
                    layout.image.resize(end as usize, 0);
                    let at = start as usize;
                    layout.image[at..at + variable.initial.len()].copy_from_slice(&variable.initial);
                    Some(MODULE_WINDOW + start)
                }
            };
            if i < kernel.variables.len() { layout.kernel.push(address) } else { layout.module.push(address) }
        }
        let start = u64::from(layout.dynamic_start());
        for i in dynamic {
            let count = layout.kernel.len();
            if i < count { layout.kernel[i] = Some(start) } else { layout.module[i - count] = Some(start) }
        }
        Ok(layout)
    }

    /// Offset of dynamic shared memory.
    pub fn dynamic_start(&self) -> u32 {
        self.static_shared.next_multiple_of(self.dynamic_alignment)
    }

    /// Address of a variable in its space.
    pub fn address(&self, symbol: Symbol) -> Result<u64> {
        let address = match symbol {
            Symbol::Kernel(index) => self.kernel[index as usize],
            Symbol::Module(index) => self.module[index as usize],
            Symbol::Parameter(_) => return Err("the address of a parameter".to_owned()),
        };
        address.ok_or_else(|| "a variable without a place".to_owned())
    }
}

fn each_symbol(operand: &Operand, found: &mut impl FnMut(Symbol)) {
    match operand {
        Operand::Symbol(symbol, _) | Operand::Address(crate::ptx::Base::Symbol(symbol), _) => found(*symbol),
        Operand::Vector(elements) => elements.iter().for_each(|element| each_symbol(element, found)),
        _ => {}
    }
}

/// What the analyses know of an instruction.
#[derive(Clone, Debug, Default)]
pub(super) struct Effects {
    pub uses: Vec<u32>,
    pub definitions: Vec<u32>,
    pub guarded: bool,
    /// Where it may go besides the next instruction.
    pub target: Option<u32>,
    /// Whether it may go on to the next instruction.
    pub falls: bool,
}

impl Program {
    /// Decodes a kernel for a device of the architecture that the module is for.
    ///
    /// # Errors
    /// Names what the machine does not cover: nothing of a kernel runs unless all of it can.
    pub fn decode(module: &Module, kernel: &str) -> std::result::Result<Self, DecodeError> {
        Self::decode_on(module, kernel, module.capability())
    }

    /// Decodes a kernel for a device of a compute capability, such as 87: it decides how tensor cores add.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn decode_on(module: &Module, kernel: &str, capability: u32) -> std::result::Result<Self, DecodeError> {
        let found = module.kernel(kernel).ok_or_else(|| DecodeError::NoKernel(kernel.to_owned()))?;
        let refuse = |reason| DecodeError::Variables { kernel: kernel.to_owned(), reason };
        let layout = Layout::new(module, found).map_err(refuse)?;
        // Every register in a slot of its own shows which are alive when; then they share.
        let apart = registers::apart(&found.registers);
        let (_, first, _) = decode_all(found, (&layout, capability), &apart.slots)?;
        let allocation = registers::allocate(&found.registers, &first);
        let (code, effects, constants) = decode_all(found, (&layout, capability), &allocation.slots)?;
        let roots = roots::Analysis::new(&code, &effects, &found.registers);
        let communicates = code.iter().any(|step| match &step.op {
            Op::Access(access::Op::Atomic { to, .. }) => *to != access::To::Shared,
            Op::Access(access::Op::Load(load)) => {
                load.order != super::Order::Weak && matches!(load.to, access::To::Global | access::To::Generic)
            }
            _ => false,
        });
        let rows_used = rows_used(&code, &effects, &found.registers, &allocation.slots);
        let instructions = &found.instructions;
        let mut files: Vec<(u32, String)> = Vec::new();
        for (number, _) in instructions.iter().filter_map(|instruction| instruction.source) {
            if files.iter().all(|(known, _)| *known != number) {
                files.push((number, module.file(number).unwrap_or_default().to_owned()));
            }
        }
        Ok(Self {
            name: found.name.clone(),
            parameters: found.parameters.clone(),
            layout,
            code,
            constants: constants.rows,
            rows: allocation.rows,
            predicates: allocation.predicates,
            rows_used,
            cleared: allocation.cleared,
            max_threads: found.max_threads,
            required_threads: found.required_threads,
            cluster: found.required_cluster.unwrap_or([1; 3]),
            communicates,
            texts: instructions.iter().map(|instruction| instruction.name.clone()).collect(),
            lines: instructions.iter().map(|instruction| (instruction.line, instruction.source)).collect(),
            files,
            roots,
        })
    }

    /// Name of the kernel.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Parameters in order.
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Bytes of the block of parameters.
    #[must_use]
    pub fn parameter_bytes(&self) -> u32 {
        self.parameters.last().map_or(0, |last| last.offset + last.bytes)
    }

    /// Bytes of shared memory before the dynamic part.
    #[must_use]
    pub fn static_shared(&self) -> u32 {
        self.layout.static_shared
    }

    /// Number of instructions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there is no instruction.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Line of the PTX that an instruction stands on.
    ///
    /// # Panics
    /// As the other functions of instructions: if there is none of that index.
    #[must_use]
    pub fn ptx_line(&self, instruction: u32) -> u32 {
        self.lines[instruction as usize].0
    }

    /// File and line of the CUDA source that an instruction comes from, if the PTX says so.
    #[must_use]
    pub fn cuda_line(&self, instruction: u32) -> Option<(&str, u32)> {
        let (file, line) = self.lines[instruction as usize].1?;
        let (_, name) = self.files.iter().find(|(number, _)| *number == file)?;
        Some((name, line))
    }

    /// Opcode of an instruction with all modifiers, such as `ld.global.nc.v4.u32`.
    #[must_use]
    pub fn text(&self, instruction: u32) -> &str {
        &self.texts[instruction as usize]
    }

    /// Returns whether blocks may wait for one another, so that they run on one thread, in an order that is always the same.
    pub fn communicates(&self) -> bool {
        self.communicates
    }

    /// Whether an instruction is a branch that may or may not be taken.
    #[must_use]
    pub fn is_branch(&self, instruction: u32) -> bool {
        self.code
            .get(instruction as usize)
            .is_some_and(|step| matches!(step.op, Op::Branch(_)) && step.guard != Slot::TRUE)
    }

    /// Parameters that the address of a global access derives from.
    #[must_use]
    pub fn roots(&self, instruction: u32) -> Roots<'_> {
        match self.roots.of(instruction) {
            Some(offsets) if !offsets.is_empty() => Roots::Parameters(offsets),
            _ => Roots::Unknown,
        }
    }
}

/// Rows that each instruction reads or writes, where there are products whose sums nobody may use meanwhile.
fn rows_used(code: &[Step], effects: &[Effects], types: &[Type], slots: &[Slot]) -> Vec<Box<[u32]>> {
    let sums = |step: &Step| -> Vec<u32> {
        match &step.op {
            Op::Group(wgmma::Op::Multiply(op)) => op.rows_of_sums().collect(),
            _ => Vec::new(),
        }
    };
    if !code.iter().any(|step| matches!(step.op, Op::Group(wgmma::Op::Multiply(_)))) {
        return Vec::new();
    }
    let rows = |(step, effects): (&Step, &Effects)| {
        let sums = sums(step);
        let registers = effects.uses.iter().chain(&effects.definitions).map(|&register| register as usize);
        let rows = registers.filter(|&register| types[register] != Type::Pred).flat_map(|register| {
            let Slot(row) = slots[register];
            row..=row + u32::from(is_long(types[register]))
        });
        rows.filter(|row| !sums.contains(row)).collect()
    };
    code.iter().zip(effects).map(rows).collect()
}

type Decoded = (Vec<Step>, Vec<Effects>, Constants);

fn decode_all(kernel: &Kernel, layout: (&Layout, u32), slots: &[Slot]) -> std::result::Result<Decoded, DecodeError> {
    let mut constants = Constants::default();
    let (mut code, mut effects) = (Vec::new(), Vec::new());
    for instruction in &kernel.instructions {
        let mut reader = Reader::new(instruction, &kernel.registers, slots, layout, &mut constants);
        let op = decode(&mut reader, kernel).and_then(|op| reader.finish().map(|()| op)).map_err(|reason| {
            DecodeError::Instruction {
                kernel: kernel.name.clone(),
                line: instruction.line,
                instruction: instruction.name.to_string(),
                reason,
            }
        })?;
        let (mut uses, definitions) = (std::mem::take(&mut reader.uses), std::mem::take(&mut reader.definitions));
        let (guard, negated) = match instruction.guard {
            Some((register, negated)) => {
                uses.push(register);
                (slots[register as usize], negated)
            }
            None => (Slot::TRUE, false),
        };
        let guarded = instruction.guard.is_some();
        let target = if let Op::Branch(target) = op { Some(target) } else { None };
        let falls = guarded || !matches!(op, Op::Branch(_) | Op::Return | Op::Trap);
        effects.push(Effects { uses, definitions, guarded, target, falls });
        code.push(Step { guard, negated, op });
    }
    // Threads that run past the end return.
    code.push(Step { guard: Slot::TRUE, negated: false, op: Op::Return });
    Ok((code, effects, constants))
}

fn decode(reader: &mut Reader<'_>, kernel: &Kernel) -> Result<Op> {
    match reader.opcode {
        "bra" => {
            reader.takes("uni");
            let [Operand::Label(label)] = reader.operands() else { return Err("no label".to_owned()) };
            return Ok(Op::Branch(kernel.labels[*label as usize]));
        }
        "ret" | "exit" => {
            reader.takes("uni");
            return Ok(Op::Return);
        }
        "trap" => return Ok(Op::Trap),
        _ => {}
    }
    macro_rules! first {
        ($($group:ident::$decode:ident => $wrap:expr;)*) => {$(
            if let Some(op) = $group::$decode(reader)? {
                return Ok($wrap(op));
            }
        )*};
    }
    first! {
        carry::decode => Op::Carry;
        integer::decode => Op::Integer;
        float::decode => Op::Float;
        half::decode => Op::Half;
        moves::decode => Op::Move;
        convert::decode => Op::Convert;
        compare::decode => Op::Compare;
        cluster::decode => Op::Cluster;
        access::decode => Op::Access;
        bits::decode => Op::Bits;
        matrix::decode_multiply => |op| Op::Multiply(Box::new(op));
        matrix::decode_load => |op| Op::LoadMatrix(Box::new(op));
        warp::decode => Op::Warp;
        barrier::decode => Op::Barrier;
        arrival::decode => Op::Arrival;
        wgmma::decode => Op::Group;
    }
    Err("this instruction".to_owned())
}

/// Whether a register takes two rows.
pub(super) fn is_long(r#type: Type) -> bool {
    r#type.bytes() == 8
}
