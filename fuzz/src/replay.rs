//! Replays on the host of what is small enough.

use floe_engine::{
    host::{self, Block},
    plan::{
        Plan,
        format::{Action, Direction, Step},
    },
};

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
}

fn work(step: &Step) -> u64 {
    let Action::Host(kernel) = &step.action else { return 0 };
    let family = kernel.family();
    let views = (0..8).map_while(|i| family.input(i)).chain((0..4).map_while(|i| family.output(i)));
    views.map(|view| view.elements()).fold(family.flops(), u64::saturating_add)
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
        assert!(variant.images().all(|image| !image.is_empty()));
        let _ = (variant.notes().count(), variant.memory());
        if !variant.is_host() || header.steps > STEPS || host::memory_bytes(&variant) > WORK {
            continue;
        }
        if variant.steps().map(|step| work(&step)).fold(0, u64::saturating_add) > WORK {
            continue;
        }
        let mut memory = vec![Block::ZERO; host::blocks(&variant)];
        let bindings: Vec<_> = variant.bindings().map(|binding| (binding.direction, binding.bytes())).collect();
        let mut session = host::Session::init(variant, bytemuck::cast_slice_mut(&mut memory)).expect("fitting memory");
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
    }
    true
}
