//! Any bytes as a plan: checked, and replayed where they pass. The mutator begins with the cases of every kernel family and
//! changes their parameters as values, so that most stay valid; or bytes of one section, with table and digests mended.
#![no_main]

#[path = "../../engine/tests/support/mod.rs"]
mod support;

use floe_engine::plan::{Plan, format::Action};
use floe_fuzz::{
    hostile, layout,
    random::Random,
    replay::{self, File},
};
use floe_kernels::Kernel;
use libfuzzer_sys::{Corpus, fuzz_mutator, fuzz_target, fuzzer_mutate};
use support::{candidates_parts, cuda_parts, host_parts, kernel_parts, write};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let mut bytes = bytes.to_vec();
    layout::sign(&mut bytes);
    replay::plan(&File::new(&bytes));
    Corpus::Keep
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut random = Random::new(seed);
    let changed = match random.below(16) {
        0 => None,
        1..6 => section(&data[..size], &mut random),
        6..14 => kernel(&data[..size]).map(|old| plan_of(hostile::kernel(&old, &mut random))),
        _ => Some(fresh(&mut random)),
    };
    let changed = changed.or_else(|| Plan::parse(&data[..size]).is_err().then(|| fresh(&mut random)));
    match changed {
        Some(changed) if changed.len() <= max_size => {
            data[..changed.len()].copy_from_slice(&changed);
            changed.len()
        }
        _ => fuzzer_mutate(data, size, max_size),
    }
});

/// A plan to begin with.
fn fresh(random: &mut Random) -> Vec<u8> {
    match random.below(32) {
        0 => write([host_parts(), cuda_parts()]).to_vec(),
        1 => write([candidates_parts()]).to_vec(),
        _ => plan_of(hostile::case(random)),
    }
}

/// A plan of one kernel with the operands that it needs; a kernel that its check refuses has none to speak of.
fn plan_of(kernel: Kernel) -> Vec<u8> {
    match kernel.family().check() {
        Ok(()) => write([kernel_parts(kernel)]).to_vec(),
        Err(_) => Vec::new(),
    }
}

/// The kernel of a plan's first step.
fn kernel(file: &[u8]) -> Option<Kernel> {
    let file = File::new(file);
    let plan = Plan::parse(file.bytes()).ok()?;
    let step = plan.variants().next()?.steps().next()?;
    match step.action {
        Action::Host(kernel) => Some(kernel),
        Action::Launch { .. } => None,
    }
}

/// Changes one section.
fn section(file: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let mut sections = layout::split(file)?;
    let section = random.pick_mut(&mut sections)?;
    let length = section.bytes.len();
    section.bytes.resize(length + 64, 0);
    let longest = section.bytes.len();
    let length = fuzzer_mutate(&mut section.bytes, length, longest);
    section.bytes.truncate(length);
    let mut changed = layout::join(file, &sections)?;
    layout::sign(&mut changed);
    Some(changed)
}
