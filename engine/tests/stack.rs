//! Stack use of reading a plan, of INIT and of RUN, measured on painted stacks. The bounds are those that the documentation
//! states. They hold with the release profile, in which `targets/cross/check` and `.ci/long` run this too; without it code takes up
//! to twice as much.

mod support;

use floe_engine::{
    cuda::{self, InitOptions, SizedSession},
    host::{self, Block},
    plan::Plan,
};
use floe_kernels::{Kernel, codegen::all_cases};
use std::collections::BTreeMap;
use support::{Aligned, candidates_parts, cuda_parts, driver::API, floats, host_parts, kernel_parts, stack, write};

const KIB: usize = 1024;
/// Frames of the same code are larger on aarch64.
const AARCH64: bool = cfg!(target_arch = "aarch64");
/// `Plan::parse`, `Plan::verify_blobs` and `Plan::variant` of any plan.
const READ: usize = if AARCH64 { 128 } else { 112 } * KIB;
/// INIT of a host session, which reads its steps.
const HOST_INIT: usize = if AARCH64 { 144 } else { 136 } * KIB;
/// A replay on the host.
const HOST_RUN: usize = if AARCH64 { 128 } else { 120 } * KIB;
/// INIT of a CUDA session of the default size.
const CUDA_INIT: usize = if AARCH64 { 208 } else { 200 } * KIB;
/// INIT, RUN and end of a CUDA session for 16 steps, the session itself included.
const CUDA_SMALL: usize = 112 * KIB;

/// Prints a measurement and compares it with its bound.
fn within(what: &str, bytes: usize, bound: usize) {
    let bound = if cfg!(debug_assertions) { 2 * bound } else { bound };
    println!("{what}: {bytes} bytes of stack, bound {bound}");
    assert!(bytes > 0 && bytes <= bound, "{what} takes {bytes} bytes of stack, more than {bound}");
}

fn small(kernel: &Kernel) -> bool {
    kernel.family().flops() < 1 << 20 && kernel_parts(kernel.clone()).header.arena_bytes < 1 << 18
}

#[test]
fn the_measurement_measures() {
    fn deep(bytes: usize) -> usize {
        let area = std::hint::black_box([1u8; 1000]);
        if bytes == 0 { 0 } else { usize::from(area[bytes % 1000]) + std::hint::black_box(deep(bytes - 1)) }
    }
    let used = stack::used(|| {
        std::hint::black_box(deep(99));
    });
    assert!((100_000..400_000).contains(&used), "{used}");
}

#[test]
fn reading_a_plan() {
    let mut worst = (0, "");
    let mut read = |name: &'static str, file: &Aligned| {
        let used = stack::used(|| {
            let plan = Plan::parse(file).unwrap();
            plan.verify_blobs().unwrap();
            std::hint::black_box(plan.variant(0));
        });
        worst = worst.max((used, name));
    };
    read("small plans", &write([host_parts(), cuda_parts()]));
    read("candidates", &write([candidates_parts()]));
    for kernel in all_cases() {
        let name = kernel.family().name();
        read(name, &write([kernel_parts(kernel)]));
    }
    within(&format!("reading a plan ({})", worst.1), worst.0, READ);
}

#[test]
fn host_session() {
    let mut init = (0, "");
    let mut run = BTreeMap::<&str, usize>::new();
    for kernel in all_cases().into_iter().filter(small) {
        let name = kernel.family().name();
        let file = write([kernel_parts(kernel)]);
        let variant = Plan::parse(&file).unwrap().variant(0).unwrap();
        let mut memory = vec![Block::ZERO; host::blocks(&variant)];
        let memory = bytemuck::cast_slice_mut(&mut memory);
        let mut session = None;
        let used = stack::used(|| session = Some(host::Session::init(variant, memory).unwrap()));
        init = init.max((used, name));
        let mut session = session.unwrap();
        let used = stack::used(|| session.replay_while(|operations| operations < u64::MAX).unwrap());
        let worst = run.entry(name).or_default();
        *worst = used.max(*worst);
    }
    within("INIT of a host session", init.0, HOST_INIT);
    for (family, used) in run {
        within(&format!("replay of {family} on the host"), used, HOST_RUN);
    }
}

#[test]
fn cuda_session() {
    let file = write([cuda_parts()]);
    let variant = Plan::parse(&file).unwrap().variant(0).unwrap();
    for mapped in [false, true] {
        let options = InitOptions { mapped, ..InitOptions::default() };
        // The simulated driver belongs to a thread, so the session ends where it began.
        let used = stack::used(|| {
            // SAFETY: the simulated driver keeps the contract of the real one.
            drop(unsafe { cuda::Session::init(variant.clone(), &API, options) }.unwrap());
        });
        within("INIT and end of a CUDA session", used, CUDA_INIT);
    }
    let used = stack::used(|| {
        // SAFETY: as above.
        let mut session =
            unsafe { SizedSession::<16, 4, 4>::init(variant.clone(), &API, InitOptions::default()) }.unwrap();
        let mut y = floats([0.0; 4]);
        session.write("x", &floats([1.0; 4])).unwrap();
        session.replay().unwrap();
        session.replay_timed().unwrap();
        session.is_done().unwrap();
        session.synchronize_while(|| true).unwrap();
        session.read("y", &mut y).unwrap();
        session.reset().unwrap();
        session.synchronize().unwrap();
    });
    within("INIT and RUN of a CUDA session for 16 steps, the session itself included", used, CUDA_SMALL);
}
