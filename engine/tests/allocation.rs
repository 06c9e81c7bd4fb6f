//! No heap: counts every allocation of this thread while sessions work.

mod support;

use floe_engine::{
    cuda,
    host::{self, Block},
    plan::Plan,
};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};
use support::{cuda_parts, driver::API, floats, host_parts, write};

/// Replays of each session.
const REPLAYS: usize = 10_000;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(body: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    body();
    ALLOCATIONS.get() - before
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
}

#[test]
fn a_host_session_never_allocates() {
    let bytes = write([host_parts()]);
    let mut memory = vec![Block::ZERO; 4];
    let (x, mut y) = (floats([1.0; 4]), floats([0.0; 4]));
    let count = allocations(|| {
        let plan = Plan::parse(&bytes).unwrap();
        plan.verify_blobs().unwrap();
        let variant = plan.variant(0).unwrap();
        let mut session = host::Session::init(variant, bytemuck::cast_slice_mut(&mut memory)).unwrap();
        for _ in 0..REPLAYS {
            session.write("x", &x).unwrap();
            session.replay().unwrap();
            session.read("y", &mut y).unwrap();
        }
        session.reset();
    });
    assert_eq!(count, 0);
    assert_eq!(y, floats([1.0, 2.0, 3.0, 4.0].map(|weight| weight * REPLAYS as f32)));
}

#[test]
fn a_ready_cuda_session_never_allocates() {
    let bytes = write([cuda_parts()]);
    let variant = Plan::parse(&bytes).unwrap().variant(0).unwrap();
    let api = cuda::recording::wrap(API, 20 * REPLAYS);
    // SAFETY: the simulated driver keeps the contract of the real one.
    let mut session = unsafe { cuda::Session::init(variant, &api, cuda::InitOptions::default()) }.unwrap();
    let (x, mut y) = (floats([1.0; 4]), floats([0.0; 4]));
    let count = allocations(|| {
        for _ in 0..REPLAYS {
            session.write("x", &x).unwrap();
            session.replay().unwrap();
            session.replay_timed().unwrap();
            session.is_done().unwrap();
            session.read("y", &mut y).unwrap();
            session.reset().unwrap();
        }
        session.synchronize().unwrap();
    });
    assert_eq!(count, 0);
}
