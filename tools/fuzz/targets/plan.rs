//! Any bytes as a plan: checked, and replayed where they pass. The mutator begins with the cases of every kernel family and
//! changes their parameters as values, so that most stay valid; or bytes of one section, with table and digests mended.
#![no_main]

use floe_engine::plan::{Plan, format::Action};
use floe_fuzz::{
    hostile, layout, plan,
    random::Random,
    replay::{self, File},
    support::{candidates_parts, cuda_parts, host_parts, kernel_parts, two_shapes, write},
};
use floe_kernels::Kernel;
use libfuzzer_sys::{Corpus, fuzz_mutator, fuzz_target};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let mut bytes = bytes.to_vec();
    layout::sign(&mut bytes);
    replay::plan(&File::new(&bytes));
    Corpus::Keep
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    plan::mutate((data, size, max_size, seed), fresh, |file, random| {
        kernel(file).map(|old| plan_of(hostile::kernel(&old, random)))
    })
});

/// A plan to begin with.
fn fresh(random: &mut Random) -> Vec<u8> {
    match random.below(32) {
        0 => write([host_parts(), cuda_parts()]).to_vec(),
        1 => write([candidates_parts()]).to_vec(),
        2 => two_shapes(),
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
