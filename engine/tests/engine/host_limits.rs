//! What bounds a replay on the host: being asked before each step, and a number of operations that is known before.

use crate::support::{Aligned, floats, host_parts, kernel_parts, write};
use floe_engine::{
    host::{self, Block, ReplayError, Session},
    plan::Plan,
};
use floe_kernels::{
    DType, Kernel, View,
    reduce::{Reduce, Reduction},
};

fn with_session<R>(file: &Aligned, body: impl FnOnce(&mut Session<'_, '_>) -> R) -> R {
    let variant = Plan::parse(file).unwrap().variant(0).unwrap();
    let mut memory = vec![Block::ZERO; host::blocks(&variant)];
    body(&mut Session::init(variant, bytemuck::cast_slice_mut(&mut memory)).unwrap())
}

#[test]
fn a_replay_stops_where_its_caller_says_so() {
    with_session(&write([host_parts()]), |session| {
        let steps: Vec<u64> = session.variant().steps().map(|step| step.host_operations()).collect();
        session.write("x", &floats([1.0; 4])).unwrap();
        for last in 0..=steps.len() {
            session.reset();
            let mut asked = Vec::new();
            let result = session.replay_while(|operations| {
                asked.push(operations);
                asked.len() <= last
            });
            match last < steps.len() {
                true => assert_eq!(result, Err(ReplayError::Stopped { step: last as u32 })),
                false => assert_eq!(result, Ok(())),
            }
            assert_eq!(asked[..], steps[..steps.len().min(last + 1)]);
        }
        // After a reset nothing is left of what was stopped.
        let _ = session.replay_while(|_| false);
        session.reset();
        session.replay().unwrap();
        let mut y = floats([0.0; 4]);
        session.read("y", &mut y).unwrap();
        assert_eq!(y, floats([1.0, 2.0, 3.0, 4.0]));
    });
}

#[test]
fn a_small_plan_that_takes_long_is_known_by_its_operations() {
    // One element, read again and again.
    let mut input = View::contiguous(DType::F32, &[1, 1]).unwrap();
    (input.shape, input.strides) = ([1 << 15, 1 << 15].into_iter().collect(), [0, 0].into_iter().collect());
    let output = View::contiguous(DType::F32, &[1, 1]).unwrap();
    let kernel = Kernel::Reduce(Reduce { kind: Reduction::Sum, input, output });
    let file = write([kernel_parts(kernel)]);
    assert!(file.len() <= 1024);
    with_session(&file, |session| {
        assert!(session.variant().host_operations() >= 1 << 30);
        assert_eq!(session.replay_while(|operations| operations < 1 << 20), Err(ReplayError::Stopped { step: 0 }));
    });
}

#[test]
fn the_guard_sees_what_is_not_finite() {
    with_session(&write([host_parts()]), |session| {
        let mut hit = |x: f32| {
            session.reset();
            session.write("x", &floats([1.0, x, 1.0, 1.0])).unwrap();
            session.replay().unwrap();
            session.guard().collect::<Vec<_>>()
        };
        assert!(hit(1.0).is_empty());
        // The state and the output; the input is not watched.
        assert_eq!(hit(f32::NAN), [1, 2]);
        assert_eq!(hit(f32::NEG_INFINITY), [1, 2]);
        assert_eq!(hit(f32::MAX), [1, 2], "what overflows");
        assert!(hit(f32::MIN_POSITIVE).is_empty());
    });
}
