//! The host device: what a replay computes, and what a session refuses.

use crate::support::{cuda_parts, floats, host_parts, write};
use floe_engine::{
    BindingError,
    host::{self, Block, InitError, Session},
    plan::{Plan, format::Direction},
};

fn memory(plan: &Plan<'_>) -> Vec<Block> {
    vec![Block([0xff; 64]); host::blocks(&plan.variant(0).unwrap())]
}

#[test]
fn replays_with_a_state() {
    let bytes = write([host_parts()]);
    let plan = Plan::parse(&bytes).unwrap();
    let mut memory = memory(&plan);
    assert_eq!(memory.len(), 1 + 3);
    let mut session = Session::init(plan.variant(0).unwrap(), bytemuck::cast_slice_mut(&mut memory)).unwrap();
    let mut y = floats([0.0; 4]);

    session.write("x", &floats([1.0, 1.0, 1.0, -1.0])).unwrap();
    session.replay().unwrap();
    session.read("y", &mut y).unwrap();
    assert_eq!(y, floats([1.0, 2.0, 3.0, -4.0]));
    session.replay().unwrap();
    session.read(2, &mut y).unwrap();
    assert_eq!(y, floats([2.0, 4.0, 6.0, -8.0]));

    session.read("total", &mut y).unwrap();
    assert_eq!(y, floats([2.0, 4.0, 6.0, -8.0]));
    session.reset();
    session.read("total", &mut y).unwrap();
    assert_eq!(y, floats([0.0; 4]));
    session.write("total", &floats([10.0; 4])).unwrap();
    session.replay().unwrap();
    session.read("y", &mut y).unwrap();
    assert_eq!(y, floats([11.0, 12.0, 13.0, 6.0]));
}

#[test]
fn refuses_wrong_bindings() {
    let bytes = write([host_parts()]);
    let plan = Plan::parse(&bytes).unwrap();
    let mut memory = memory(&plan);
    let mut session = Session::init(plan.variant(0).unwrap(), bytemuck::cast_slice_mut(&mut memory)).unwrap();
    assert_eq!(session.write("z", &[0; 16]), Err(BindingError::NotFound));
    assert_eq!(session.write(3, &[0; 16]), Err(BindingError::NotFound));
    assert_eq!(session.write("x", &[0; 15]), Err(BindingError::Length { expected: 16, found: 15 }));
    assert_eq!(session.write("y", &[0; 16]), Err(BindingError::Direction { found: Direction::Output }));
    assert_eq!(session.read("x", &mut [0; 16]), Err(BindingError::Direction { found: Direction::Input }));
}

#[test]
fn an_input_and_an_output_of_one_name_are_told_apart() {
    let mut parts = host_parts();
    parts.bindings[2].name = "x";
    let bytes = write([parts]);
    let plan = Plan::parse(&bytes).unwrap();
    let mut memory = memory(&plan);
    let mut session = Session::init(plan.variant(0).unwrap(), bytemuck::cast_slice_mut(&mut memory)).unwrap();
    session.write("x", &floats([1.0; 4])).unwrap();
    session.replay().unwrap();
    let mut y = floats([0.0; 4]);
    session.read("x", &mut y).unwrap();
    assert_eq!(y, floats(crate::support::WEIGHTS));
}

#[test]
fn refuses_memory_that_does_not_fit() {
    let bytes = write([host_parts(), cuda_parts()]);
    let plan = Plan::parse(&bytes).unwrap();
    let variant = plan.variant(0).unwrap();
    let mut blocks = vec![Block::ZERO; host::blocks(&variant) + 1];
    let memory: &mut [u8] = bytemuck::cast_slice_mut(&mut blocks);
    let needed = host::memory_bytes(&variant);
    assert_eq!(needed, 64 * 4);

    let short = Session::init(variant.clone(), &mut memory[..255]).map(drop);
    assert_eq!(short, Err(InitError::MemoryTooSmall { needed, found: 255 }));
    let crooked = Session::init(variant, &mut memory[32..]).map(drop);
    assert_eq!(crooked, Err(InitError::MemoryMisaligned));
    let gpu = Session::init(plan.variant(1).unwrap(), memory).map(drop);
    assert_eq!(gpu, Err(InitError::OtherDevice { architecture: 87 }));
}

#[test]
fn refuses_a_plan_at_a_crooked_address() {
    let bytes = write([host_parts()]);
    let mut shifted = crate::support::Aligned::new(&[&[0; 8], &bytes[..]].concat());
    shifted[..8].fill(0);
    let plan = Plan::parse(&shifted[8..]).unwrap();
    let mut memory = memory(&plan);
    let session = Session::init(plan.variant(0).unwrap(), bytemuck::cast_slice_mut(&mut memory)).map(drop);
    assert_eq!(session, Err(InitError::PlanMisaligned));
}

#[test]
fn an_included_plan_is_aligned() {
    let included = floe_engine::include_plan!("host.rs");
    assert_eq!(included, include_bytes!("host.rs"));
    assert!(included.as_ptr().addr().is_multiple_of(256));
}

#[test]
fn the_guard_sees_outputs_and_states_and_no_input() {
    let bytes = write([host_parts()]);
    let plan = Plan::parse(&bytes).unwrap();
    let mut memory = memory(&plan);
    let mut session = Session::init(plan.variant(0).unwrap(), bytemuck::cast_slice_mut(&mut memory)).unwrap();
    let nan: Vec<u8> = [f32::NAN; 4].iter().flat_map(|value| value.to_le_bytes()).collect();
    session.write("x", &nan).unwrap();
    assert_eq!(session.guard().count(), 0, "nothing has been computed yet");
    session.replay().unwrap();
    assert_eq!(session.guard().collect::<Vec<_>>(), [1, 2]);
}
