//! Any bytes as a plan whose GPU variants go through INIT and RUN on a driver that checks what it is asked. The mutator begins
//! with the plans of the engine's tests and changes their steps as values, their images, or bytes of one section, with table and
//! digests mended.
#![no_main]

use floe_engine::plan::{OwnedImage, Plan, PlanWriter};
use floe_fuzz::{
    gpu, hostile, layout, plan,
    random::Random,
    replay::File,
    support::{candidates_parts, cuda_parts, parts, signalling_parts, two_shapes, write},
};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use miniz_oxide::deflate::compress_to_vec;

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
        change(random.pick_mut(&mut parts.images)?, random.below(2) == 0);
    } else {
        parts.steps = hostile::value(&parts.steps, random)?;
        parts.notes.clear();
    }
    Some(PlanWriter::new(plan.model(), plan.compiler()).variant(parts).finish())
}

/// Changes bytes of an image, or of a packed one those that it unpacks to.
fn change(image: &mut OwnedImage, unpacked: bool) {
    let packed = image.stored().is_packed();
    match image.stored().to_vec() {
        Some(mut contents) if packed && unpacked => {
            change_bytes(&mut contents);
            *image = OwnedImage { bytes: compress_to_vec(&contents, 9), unpacked: contents.len() as u64 };
        }
        _ => {
            change_bytes(&mut image.bytes);
            if !packed {
                image.unpacked = image.bytes.len() as u64;
            }
        }
    }
}

fn change_bytes(bytes: &mut Vec<u8>) {
    let length = bytes.len();
    bytes.resize(length + 64, 0);
    let longest = bytes.len();
    let length = fuzzer_mutate(bytes, length, longest);
    bytes.truncate(length);
}
