//! Any bytes as a plan whose GPU variants go through INIT and RUN on a driver that checks what it is asked. The mutator begins
//! with the plans of the engine's tests and changes their steps as values, their images, or bytes of one section, with table and
//! digests mended.
#![no_main]

use floe_engine::plan::{Plan, PlanWriter};
use floe_fuzz::{
    gpu, hostile, layout, plan,
    random::Random,
    replay::File,
    support::{candidates_parts, cuda_parts, parts, signalling_parts, two_shapes, write},
};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    layout::sign(&mut bytes);
    gpu::plan(&File::new(&bytes));
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    plan::mutate((data, size, max_size, seed), fresh, steps_or_image)
});

/// A plan to begin with.
fn fresh(random: &mut Random) -> Vec<u8> {
    let parts = match random.below(4) {
        0 => cuda_parts(),
        1 => candidates_parts(),
        2 => return two_shapes(),
        _ => signalling_parts(),
    };
    write([parts]).to_vec()
}

/// Changes the steps of a variant as values, or bytes of one of its images.
fn steps_or_image(file: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let file = File::new(file);
    let plan = Plan::parse(file.bytes()).ok()?;
    let mut parts = parts(&plan, file.bytes(), random.below(plan.variants().len()));
    if random.below(4) == 0 {
        let image = random.pick_mut(&mut parts.images)?;
        let length = image.len();
        image.resize(length + 64, 0);
        let longest = image.len();
        let length = fuzzer_mutate(image, length, longest);
        image.truncate(length);
    } else {
        parts.steps = hostile::value(&parts.steps, random)?;
        parts.notes.clear();
    }
    Some(PlanWriter::new(plan.model(), plan.compiler()).variant(parts).finish())
}
