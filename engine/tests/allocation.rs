//! No heap: counts every allocation of this thread while sessions work.

#[path = "support/counting.rs"]
mod counting;
mod support;

use counting::allocations;
use floe_engine::{
    cuda,
    host::{self, Block},
    plan::Plan,
};
use support::{cuda_parts, driver::API, floats, host_parts, write};

/// Replays of each session.
const REPLAYS: usize = 10_000;

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
