//! Several shapes of one target in one plan: what the check refuses, and sessions that choose among them.

use crate::support::{
    Aligned, ELEMENTS, cubin, cuda_parts,
    driver::{self, API},
    floats, host_parts, image, round_trip, signalling_parts, two_shapes, wide_cuda_parts, write,
};
use floe_engine::{
    BindingError, ShapeError, ShapeRef,
    cuda::{InitError, InitOptions, Scratch, Session, Shared, Wait, Weights, recording},
    host::{self, Block},
    plan::{Plan, PlanError, PlanWriter, ShapesProblem, Variant, VariantParts, format::MAX_SHAPES},
};
use floe_kernels::{DType, Dims};

fn leaked(bytes: Vec<u8>) -> Plan<'static> {
    let bytes: &'static Aligned = Box::leak(Box::new(Aligned::new(&bytes)));
    Plan::parse(bytes).unwrap()
}

/// The number of a variant, and what the check says of it beside the others of its target.
fn refused(writer: PlanWriter<'static>) -> (u32, ShapesProblem) {
    match Plan::parse(&Aligned::new(&writer.finish())) {
        Err(PlanError::Shapes { variant, problem }) => (variant, problem),
        other => panic!("expected an error of shapes, got {other:?}"),
    }
}

fn writer() -> PlanWriter<'static> {
    PlanWriter::new("tiny", "tests 1.0")
}

type Change = fn(&mut VariantParts<'static>);

#[test]
fn variants_of_one_target_differ_in_shapes_alone() {
    let changed = |change: Change| {
        let mut parts = wide_cuda_parts();
        change(&mut parts);
        refused(writer().variant(cuda_parts()).shape(parts))
    };
    let cases: [(Change, ShapesProblem); 7] = [
        (|parts| parts.header.architecture = 90, ShapesProblem::Field("architecture")),
        (|parts| parts.header.multiprocessors = 1, ShapesProblem::Field("multiprocessors")),
        (|parts| parts.bindings[0].name = "z", ShapesProblem::Binding(0)),
        (|parts| parts.bindings[2].dtype = DType::I32, ShapesProblem::Binding(2)),
        (|parts| parts.bindings[2].shape = Dims::from_slice(&[8]).unwrap(), ShapesProblem::Binding(2)),
        (|parts| parts.bindings[1].shape = Dims::from_slice(&[2, 4]).unwrap(), ShapesProblem::Binding(1)),
        (|parts| *parts = cuda_parts(), ShapesProblem::Equal { other: 0 }),
    ];
    for (change, problem) in cases {
        assert_eq!(changed(change), (1, problem));
    }
    let sections: [(Change, &str); 4] = [
        (|parts| parts.kernels[0].name = "other", "KERNELS"),
        (|parts| parts.images[1] = image(cubin(b"longer than the second")), "IMAGE_TABLE"),
        (|parts| parts.weights[0] ^= 1, "WEIGHTS"),
        (|parts| parts.images[1].bytes[64] ^= 1, "IMAGES"),
    ];
    for (change, section) in sections {
        let mut parts = wide_cuda_parts();
        change(&mut parts);
        let found = refused(writer().variant(cuda_parts()).variant(parts));
        assert_eq!(found, (1, ShapesProblem::Section(section)));
    }
}

#[test]
fn variants_of_one_target_are_together_and_not_too_many() {
    let apart = writer().variant(cuda_parts()).variant(host_parts()).variant(wide_cuda_parts());
    assert_eq!(refused(apart), (2, ShapesProblem::Apart));
    let numbered = |number: usize| {
        let mut parts = cuda_parts();
        // Long enough for the steps, which use the first four elements.
        parts.bindings[0].shape = Dims::from_slice(&[1, (ELEMENTS + number) as u32]).unwrap();
        parts
    };
    let all = |count: usize| (1..count).fold(writer().variant(numbered(0)), |writer, n| writer.shape(numbered(n)));
    let plan = leaked(all(MAX_SHAPES).finish());
    assert_eq!(plan.variant(3).unwrap().shapes().len(), MAX_SHAPES);
    assert_eq!(refused(all(MAX_SHAPES + 1)), (MAX_SHAPES as u32, ShapesProblem::TooMany));
}

#[test]
fn the_sizes_of_all_shapes_are_bounded() {
    let huge = |rows: u32| {
        let mut parts = wide_cuda_parts();
        parts.bindings[0].shape = Dims::from_slice(&[1 << 31, rows]).unwrap();
        parts
    };
    Plan::parse(&write([huge(1 << 28)])).unwrap();
    Plan::parse(&write([huge((1 << 28) + 1)])).unwrap();
    let both = writer().variant(huge(1 << 28)).shape(huge((1 << 28) + 1));
    assert_eq!(refused(both), (1, ShapesProblem::TooLarge));
}

#[test]
fn a_further_shape_adds_steps_and_no_weights() {
    let mut parts = cuda_parts();
    parts.weights = vec![7; 1 << 16];
    let one = writer().variant(parts.clone()).finish().len();
    let two = writer().variant(parts).shape(wide_cuda_parts()).finish();
    assert!(two.len() - one < 1024, "{} bytes more", two.len() - one);
    let plan = leaked(two);
    plan.verify_blobs().unwrap();
    let memory = plan.variant(0).unwrap().memory();
    assert_eq!(memory, plan.variant(1).unwrap().memory());
    // The wide shape's arena without its counters behind one block of counters; x and y of two rows, one state.
    assert_eq!((memory.weights, memory.arena, memory.bindings), (1 << 16, 512, 3 * 256));
}

#[test]
fn a_shape_is_found_by_its_extents() {
    let plan = leaked(two_shapes());
    let variant = plan.variant_for("gpu").unwrap();
    let find = |shape: ShapeRef<'_>| variant.find_shape(shape).map(|shape| shape.number());
    let row = |rows: u32| [rows, 4];
    assert_eq!(variant.shapes().map(|shape| shape.number()).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(find(ShapeRef::Number(3)), Ok(3));
    // The host's.
    assert_eq!(find(ShapeRef::Number(0)), Err(ShapeError::NotFound { number: 0 }));
    assert_eq!(find(ShapeRef::Number(4)), Err(ShapeError::NotFound { number: 4 }));
    assert_eq!(find(ShapeRef::Exactly(&[("x", &row(1))])), Ok(2));
    assert_eq!(find(ShapeRef::Exactly(&[("x", &row(2))])), Ok(3));
    assert_eq!(find(ShapeRef::Exactly(&[("x", &row(3))])), Err(ShapeError::NoneFits));
    assert_eq!(find(ShapeRef::Exactly(&[])), Ok(2));
    assert_eq!(find(ShapeRef::Holding(&[("x", &[1, 3])])), Ok(2));
    assert_eq!(find(ShapeRef::Holding(&[("x", &[2, 3])])), Ok(3));
    assert_eq!(find(ShapeRef::Holding(&[("x", &[2, 5])])), Err(ShapeError::NoneFits));
    assert_eq!(find(ShapeRef::Holding(&[("x", &row(1)), ("y", &row(1))])), Err(ShapeError::Input { given: 1 }));
    assert_eq!(find(ShapeRef::Holding(&[("x", &[4])])), Err(ShapeError::Input { given: 0 }));
    let by_number = |extents| variant.find_holding([(0.into(), extents)].into_iter()).map(|shape| shape.number());
    assert_eq!((by_number(&[1, 1]), by_number(&[2, 1])), (Ok(2), Ok(3)));
}

fn init(variant: &Variant<'static>, options: InitOptions) -> Result<Session<'static, 'static>, InitError> {
    // SAFETY: the simulated driver keeps the contract of the real one.
    unsafe { Session::init(variant.clone(), &API, options) }
}

/// Both rows of `x` as `value`: what `y` is then, after one replay of the wide shape.
fn wide_round_trip(session: &mut Session<'_, '_>, value: f32) -> [f32; 8] {
    let mut y = [0u8; 32];
    session.write("x", bytemuck::cast_slice(&[value; 8])).unwrap();
    session.replay().unwrap();
    session.read("y", &mut y).unwrap();
    bytemuck::cast(y)
}

#[test]
fn a_cuda_session_chooses_without_a_call() {
    let plan = leaked(two_shapes());
    for mapped in [false, true] {
        for first in [2, 3] {
            let variant = plan.variant(first).unwrap();
            let options = InitOptions { mapped, ..InitOptions::default() };
            driver::with(|state| state.allocations.clear());
            let said = variant.requirements(options);
            let api = recording::wrap(API, 256);
            // SAFETY: as in `init`.
            let mut session = unsafe { Session::init(variant, &api, options) }.unwrap();
            driver::with(|state| assert_eq!(state.allocations, [said.device as usize]));
            assert_eq!(session.variant().number(), first);
            recording::take();
            session.choose(2).unwrap();
            assert!(recording::take().is_empty(), "choosing is no affair of the driver");
            // The state begins with zeros, whatever the warm-up of both shapes left there.
            assert_eq!(round_trip(&mut session, 1.0), floats([2.0, 3.0, 4.0, 5.0]));
            let lent = session.input_mut("x").unwrap().as_ptr();
            session.choose(ShapeRef::Exactly(&[("x", &[2, 4])])).unwrap();
            assert_eq!(session.input_mut("x").unwrap().as_ptr(), lent);
            // The state is what the small shape left: twice the sum.
            let grown = [6.0, 9.0, 12.0, 15.0];
            assert_eq!(wide_round_trip(&mut session, 1.0), [[4.0, 6.0, 8.0, 10.0], grown].concat()[..]);
            assert_eq!(
                session.write("x", &floats([0.0; 4])),
                Err(BindingError::Length { expected: 32, found: 16 }.into())
            );
            assert_eq!(session.choose(9), Err(ShapeError::NotFound { number: 9 }));
            assert_eq!(session.variant().number(), 3);
            session.choose(2).unwrap();
            assert_eq!(round_trip(&mut session, 1.0), floats(grown));
            drop(session);
            driver::with(|state| assert!(state.live.is_empty(), "{:?}", state.live));
        }
    }
}

#[test]
fn shapes_share_weights_scratch_guard_and_signal() {
    let mut wide = wide_cuda_parts();
    let narrow = signalling_parts();
    wide.steps.extend(narrow.steps[3..].iter().cloned());
    let silent = leaked(writer().variant(narrow.clone()).shape(wide_cuda_parts()).finish());
    let options = InitOptions { guard: true, wait: Wait::Poll, mapped: true, ..InitOptions::default() };
    assert!(matches!(init(&silent.variant(0).unwrap(), options), Err(InitError::NoSignal)));

    let plan = leaked(writer().variant(narrow).shape(wide).finish());
    let variant = plan.variant(0).unwrap();
    // SAFETY: as in `init`.
    let weights = unsafe { Weights::upload(&variant, &API) }.unwrap();
    // SAFETY: as in `init`.
    let scratch = unsafe { Scratch::allocate(variant.memory().arena, &API, None) }.unwrap();
    let shared = Shared { weights: Some(&weights), scratch: Some(&scratch) };
    // SAFETY: as in `init`.
    let mut session = unsafe { Session::init_shared(variant, &API, options, shared) }.unwrap();
    for turn in 0..3 {
        session.reset().unwrap();
        session.choose(0).unwrap();
        assert_eq!(round_trip(&mut session, 1.0), floats([2.0, 3.0, 4.0, 5.0]), "turn {turn}");
        assert_eq!(session.guard().unwrap().count(), 0);
        session.choose(1).unwrap();
        assert_eq!(wide_round_trip(&mut session, 1.0)[4..], [6.0, 9.0, 12.0, 15.0], "turn {turn}");
        assert_eq!(session.guard().unwrap().count(), 0);
        session.replay().unwrap();
        session.choose(0).unwrap();
        session.synchronize_while(|| true).unwrap();
    }
}

#[test]
fn a_host_session_chooses() {
    let plan = leaked(two_shapes());
    let variant = plan.variant(1).unwrap();
    assert_eq!(host::memory_bytes(&variant), host::memory_bytes(&plan.variant(0).unwrap()));
    let mut memory = vec![Block([0xff; 64]); host::blocks(&variant)];
    let mut session = host::Session::init(variant, bytemuck::cast_slice_mut(&mut memory)).unwrap();
    assert_eq!(session.variant().number(), 1);
    session.write("total", &floats([1.0; 4])).unwrap();
    session.write("x", bytemuck::cast_slice(&[3.0f32; 8])).unwrap();
    session.replay().unwrap();
    assert_eq!(session.output("y").unwrap(), bytemuck::cast_slice::<f32, u8>(&[3.0; 8]));
    let lent = session.output("y").unwrap().as_ptr();
    session.choose(ShapeRef::Holding(&[("x", &[1, 2])])).unwrap();
    session.write("x", &floats([1.0; 4])).unwrap();
    session.replay().unwrap();
    // Constants times one, and the state that the wide shape had.
    assert_eq!(session.output("y").unwrap(), floats([2.0, 3.0, 4.0, 5.0]));
    assert_eq!(session.output("y").unwrap().as_ptr(), lent);
    assert_eq!(session.choose(2), Err(ShapeError::NotFound { number: 2 }));
    assert_eq!(session.variant().number(), 0);
}

#[test]
fn a_plan_of_one_shape_is_as_it_was() {
    let bytes = write([host_parts(), cuda_parts()]);
    let plan = Plan::parse(&bytes).unwrap();
    for (number, variant) in plan.variants().enumerate() {
        assert_eq!((variant.number(), variant.shapes().len()), (number, 1));
    }
}
