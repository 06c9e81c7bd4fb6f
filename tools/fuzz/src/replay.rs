//! Replays on the host of what is small enough.

use crate::random::Random;
use floe_engine::{
    host::{self, Block},
    plan::{
        Plan,
        format::{Action, Direction, Step},
    },
};
use floe_kernels::Kernel;

/// Elements and operations of a step, or bytes of a session, beyond which a plan is legal but too much for a fuzzer.
pub const WORK: u64 = 1 << 20;
/// Steps beyond which it is so.
const STEPS: u32 = 256;

/// A file's bytes, aligned as a mapped file's are.
pub struct File {
    blocks: Vec<Block>,
    length: usize,
}

impl File {
    /// A copy.
    pub fn new(bytes: &[u8]) -> Self {
        let mut blocks = vec![Block::ZERO; bytes.len().div_ceil(host::ALIGNMENT)];
        bytemuck::cast_slice_mut(&mut blocks)[..bytes.len()].copy_from_slice(bytes);
        Self { blocks, length: bytes.len() }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.blocks)[..self.length]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.blocks)[..self.length]
    }
}

fn work(step: &Step) -> u64 {
    match &step.action {
        Action::Host(kernel) => kernel.family().host_operations(),
        Action::Launch { .. } => 0,
    }
}

/// Functions for operators of all names.
struct Any;

impl host::Operators for Any {
    fn has(&self, _: &str) -> bool {
        true
    }

    fn run(&self, call: &mut host::Call<'_, '_>) -> Result<(), u32> {
        let sum = call.inputs.iter().flat_map(|input| *input).fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        call.outputs.iter_mut().for_each(|output| output.fill(sum));
        call.workspace.fill(sum);
        Ok(())
    }
}

/// Runs a checked kernel on operands that are exactly as long as they must be and hold anything.
fn run(kernel: &Kernel, random: &mut Random) {
    let family = kernel.family();
    let bytes = |bytes: Option<u64>| usize::try_from(bytes.expect("a checked operand")).expect("little work");
    let inputs = (0..kernel.inputs()).map(|i| bytes(family.input_bytes(i).expect("a checked operand")));
    let outputs = (0..kernel.outputs()).map(|i| bytes(family.output(i).and_then(|view| view.bytes().ok())));
    let sizes: Vec<usize> = inputs.chain(outputs).chain([bytes(Some(family.host_workspace()))]).collect();
    if sizes.iter().sum::<usize>() as u64 > 16 * WORK {
        return;
    }
    let mut operands: Vec<File> = sizes.iter().map(|&bytes| File::new(&random.elements(bytes))).collect();
    let mut operands: Vec<&mut [u8]> = operands.iter_mut().map(File::bytes_mut).collect();
    let workspace = operands.pop().unwrap_or_default();
    let mut outputs = operands.split_off(kernel.inputs());
    let inputs: Vec<&[u8]> = operands.iter().map(|bytes| &**bytes).collect();
    family.run(&inputs, &mut outputs, workspace).expect("a checked kernel");
}

/// Whether a plan is legal; all that it says is read, and its host variants are replayed where they are small.
///
/// # Panics
/// Where a checked plan does not keep what the check has promised.
pub fn plan(file: &File) -> bool {
    let Ok(plan) = Plan::parse(file.bytes()) else { return false };
    let _ = plan.verify_blobs();
    for variant in plan.variants() {
        let header = variant.header();
        assert_eq!(variant.steps().count(), header.steps as usize);
        assert_eq!(variant.bindings().count(), header.bindings as usize);
        assert_eq!(variant.kernels().count(), header.kernels as usize);
        assert_eq!(variant.candidates().count(), header.candidates as usize);
        assert!(variant.images().all(|image| !image.bytes().is_empty()));
        let _ = (variant.notes().count(), variant.memory());
        if !variant.is_host() || header.steps > STEPS || host::memory_bytes(&variant) > WORK {
            continue;
        }
        if variant.steps().map(|step| work(&step)).fold(0, u64::saturating_add) > WORK {
            continue;
        }
        let mut random = Random::new(header.steps.wrapping_mul(31).wrapping_add(file.bytes().len() as u32));
        for step in variant.steps() {
            // An operator from outside has no reference kernel.
            if let Action::Host(kernel) = &step.action
                && !matches!(kernel, Kernel::Custom(_))
            {
                run(kernel, &mut random);
            }
        }
        let mut memory = vec![Block::ZERO; host::blocks(&variant)];
        let bindings: Vec<_> = variant.bindings().map(|binding| (binding.direction, binding.bytes())).collect();
        let memory: &mut [u8] = bytemuck::cast_slice_mut(&mut memory);
        let mut session = host::Session::init_with(variant, memory, &Any).expect("fitting memory");
        for (number, &(direction, bytes)) in bindings.iter().enumerate() {
            let mut data = vec![0x3c; bytes.expect("a checked binding") as usize];
            if direction != Direction::Output {
                session.write(number, &data).expect("an input");
            }
            session.replay().expect("a checked plan");
            if direction != Direction::Input {
                session.read(number, &mut data).expect("an output");
            }
        }
        session.replay().expect("a checked plan");
        session.reset();
        let shapes: Vec<_> = session.variant().shapes().collect();
        for shape in shapes {
            session.choose(shape.number()).expect("a shape of the plan");
            if shape.steps().map(|step| work(&step)).fold(0, u64::saturating_add) <= WORK {
                session.replay().expect("a checked plan");
            }
        }
    }
    true
}
