//! The CUDA device over a simulated driver: which calls INIT and RUN make, what they compute, and that every failure is
//! reported and frees everything.

use crate::support::{
    Aligned, cubin, cuda_parts,
    driver::{self, API, INJECTED},
    floats, host_parts, write,
};
use floe_engine::{
    BindingError,
    cuda::{
        Call::{self, *},
        DriverApi, ImageProblem, InitError, InitOptions, Part, Phase, RunError, Session, SizedSession, Subject, Wait,
        recording,
    },
    plan::{OwnedImage, Plan, Variant, VariantParts, format::ImageKind},
};

fn init<'p, 'd>(variant: Variant<'p>, api: &'d DriverApi, options: InitOptions) -> Result<Session<'p, 'd>, InitError> {
    // SAFETY: the simulated driver keeps the contract of the real one.
    unsafe { Session::init(variant, api, options) }
}

/// A plan with the one variant, leaked: sessions borrow it.
fn variant(parts: VariantParts<'static>) -> Variant<'static> {
    let bytes: &'static Aligned = Box::leak(Box::new(write([parts])));
    Plan::parse(bytes).unwrap().variant(0).unwrap()
}

const MAPPED: InitOptions = InitOptions { stream: None, mapped: true, wait: Wait::Driver, guard: false, observe: None };

const INIT_BEGIN: [Call; 10] = [
    cuStreamCreate,
    cuEventCreate,
    cuEventCreate,
    cuEventCreate,
    cuMemHostAlloc,
    cuModuleLoadData,
    cuModuleLoadData,
    cuModuleGetFunction,
    cuModuleGetFunction,
    cuFuncSetAttribute,
];
const INIT_GRAPH: [Call; 9] = [
    cuGraphCreate,
    cuGraphAddKernelNode_v2,
    cuGraphAddKernelNode_v2,
    cuGraphAddKernelNode_v2,
    cuGraphInstantiateWithFlags,
    cuGraphDestroy,
    cuGraphUpload,
    cuGraphLaunch,
    cuStreamSynchronize,
];

#[test]
fn init_makes_exactly_these_calls() {
    let api = recording::wrap(API, 64);
    let session = init(variant(cuda_parts()), &api, InitOptions::default()).unwrap();
    let memory = [cuMemAlloc_v2, cuMemcpyHtoDAsync_v2, cuMemsetD8Async];
    let end = [cuMemsetD8Async, cuStreamSynchronize];
    assert_eq!(recording::take(), [&INIT_BEGIN[..], &memory, &INIT_GRAPH, &end].concat());
    drop(session);
    let freed = [
        cuStreamSynchronize,
        cuGraphExecDestroy,
        cuMemFreeHost,
        cuMemFree_v2,
        cuModuleUnload,
        cuModuleUnload,
        cuEventDestroy_v2,
        cuEventDestroy_v2,
        cuEventDestroy_v2,
        cuStreamDestroy_v2,
    ];
    assert_eq!(recording::take(), freed);
    driver::with(|state| assert!(state.live.is_empty()));

    let session = init(variant(cuda_parts()), &api, MAPPED).unwrap();
    let memory = [cuMemAlloc_v2, cuMemHostGetDevicePointer_v2, cuMemcpyHtoDAsync_v2, cuMemsetD8Async];
    assert_eq!(recording::take(), [&INIT_BEGIN[..], &memory, &INIT_GRAPH].concat());
    drop(session);
}

#[test]
fn run_makes_exactly_these_calls() {
    let api = recording::wrap(API, 64);
    let mut session = init(variant(cuda_parts()), &api, InitOptions::default()).unwrap();
    recording::take();
    let mut y = floats([0.0; 4]);
    let calls = |expected: &[Call]| assert_eq!(recording::take(), expected);

    session.write("x", &floats([1.0; 4])).unwrap();
    calls(&[cuMemcpyHtoDAsync_v2]);
    session.replay().unwrap();
    calls(&[cuGraphLaunch]);
    // The first copy may still be reading the host side.
    session.write("x", &floats([1.0; 4])).unwrap();
    calls(&[cuStreamSynchronize, cuMemcpyHtoDAsync_v2]);
    session.replay_timed().unwrap();
    calls(&[cuEventRecord, cuGraphLaunch, cuEventRecord]);
    assert!(!session.is_done().unwrap());
    calls(&[cuEventQuery]);
    session.read("y", &mut y).unwrap();
    calls(&[cuMemcpyDtoHAsync_v2, cuStreamSynchronize]);
    session.write("x", &floats([1.0; 4])).unwrap();
    calls(&[cuMemcpyHtoDAsync_v2]);
    session.reset().unwrap();
    calls(&[cuMemsetD8Async]);
    session.synchronize().unwrap();
    calls(&[cuStreamSynchronize]);
    assert_eq!(session.device_time().unwrap(), 0.5);
    calls(&[cuEventSynchronize, cuEventElapsedTime]);
    session.write("nothing", &[]).unwrap_err();
    calls(&[]);

    let mut session = init(variant(cuda_parts()), &api, MAPPED).unwrap();
    recording::take();
    session.write("x", &floats([1.0; 4])).unwrap();
    session.write("x", &floats([1.0; 4])).unwrap();
    calls(&[]);
    session.replay().unwrap();
    session.read("y", &mut y).unwrap();
    session.read("total", &mut y).unwrap();
    calls(&[cuGraphLaunch, cuStreamSynchronize]);
    session.replay().unwrap();
    session.reset().unwrap();
    calls(&[cuGraphLaunch, cuStreamSynchronize]);
}

#[test]
fn phases_mark_what_run_may_call() {
    let run: Vec<&str> = Call::ALL.iter().filter(|call| call.phase() == Phase::Run).map(|call| call.name()).collect();
    let permitted = [
        "cuGraphLaunch",
        "cuMemcpyHtoDAsync_v2",
        "cuMemcpyDtoHAsync_v2",
        "cuMemsetD8Async",
        "cuEventRecord",
        "cuEventQuery",
        "cuStreamSynchronize",
        "cuEventSynchronize",
    ];
    assert_eq!(run, permitted);
}

#[test]
fn replays_compute_what_the_graph_says() {
    for mapped in [false, true] {
        let mut session = init(variant(cuda_parts()), &API, InitOptions { mapped, ..InitOptions::default() }).unwrap();
        let mut y = floats([0.0; 4]);
        // Warm-up left nothing behind in the state.
        session.read("total", &mut y).unwrap();
        assert_eq!(y, floats([0.0; 4]));
        session.write("x", &floats([1.0; 4])).unwrap();
        session.replay().unwrap();
        session.read("y", &mut y).unwrap();
        assert_eq!(y, floats([2.0, 3.0, 4.0, 5.0]));
        session.replay().unwrap();
        session.read("y", &mut y).unwrap();
        assert_eq!(y, floats([6.0, 9.0, 12.0, 15.0]));
        session.reset().unwrap();
        session.replay().unwrap();
        session.read(2, &mut y).unwrap();
        assert_eq!(y, floats([2.0, 3.0, 4.0, 5.0]));
        session.write("total", &floats([1.0; 4])).unwrap();
        session.replay().unwrap();
        session.read("y", &mut y).unwrap();
        assert_eq!(y, floats([3.0, 4.0, 5.0, 6.0]));
        let error = session.read("x", &mut y).unwrap_err();
        assert!(matches!(error, RunError::Binding(BindingError::Direction { .. })));
    }
}

#[test]
fn nodes_are_as_the_plan_says() {
    let session = init(variant(cuda_parts()), &API, InitOptions::default()).unwrap();
    driver::with(|state| {
        assert_eq!(state.names, ["add", "add"]);
        assert_eq!(state.attributes, [64 << 10]);
        assert_eq!(state.allocations, [256 + 256 + 3 * 256]);
        let [a, b, c] = &state.nodes[..] else { panic!("three nodes") };
        let base = a.arguments[1];
        assert_eq!(a.arguments, [base + 512, base, base + 256 + 16]);
        assert_eq!(b.arguments, [base + 272, base + 512 + 256, base + 512 + 512]);
        assert_eq!((a.grid, a.block, a.shared), ([2, 1, 1], [32, 2, 1], 0));
        assert_eq!(b.shared, 64 << 10);
        assert_eq!((&a.after[..], &b.after[..], &c.after[..]), (&[][..], &[1][..], &[1, 2][..]));
    });
    drop(session);
}

#[test]
fn kernels_ask_for_less_shared_memory_than_any_may_use_by_default() {
    let mut parts = cuda_parts();
    // With a kilobyte of static shared memory, which the plan does not know, a driver refuses it unless it was asked for.
    let floe_engine::plan::format::Action::Launch { shared, .. } = &mut parts.steps[1].action else {
        panic!("a launch")
    };
    *shared = 47 << 10;
    let _session = init(variant(parts), &API, InitOptions::default()).unwrap();
    driver::with(|state| assert_eq!(state.attributes, [47 << 10]));
}

#[test]
fn overlapping_steps_get_programmatic_edges() {
    let mut parts = cuda_parts();
    parts.header.architecture = 90;
    parts.steps[1].overlaps = true;
    parts.steps[2].overlaps = true;
    let session = init(variant(parts), &API, InitOptions::default()).unwrap();
    driver::with(|state| {
        let [a, b, c] = &state.nodes[..] else { panic!("three nodes") };
        assert_eq!((&a.after[..], &b.after[..], &c.after[..]), (&[][..], &[1][..], &[1, 2][..]));
        assert_eq!((&a.overlapped[..], &b.overlapped[..], &c.overlapped[..]), (&[][..], &[1][..], &[1, 2][..]));
    });
    drop(session);
}

#[test]
fn an_external_stream_is_used_and_kept() {
    let api = recording::wrap(API, 64);
    let options = InitOptions { stream: Some(driver::EXTERNAL_STREAM), ..InitOptions::default() };
    drop(init(variant(cuda_parts()), &api, options).unwrap());
    let calls = recording::take();
    assert!(!calls.contains(&cuStreamCreate) && !calls.contains(&cuStreamDestroy_v2));
    driver::with(|state| assert!(state.live.is_empty()));
}

#[test]
fn every_failure_of_init_is_reported_and_frees_everything() {
    for mapped in [false, true] {
        let api = recording::wrap(API, 64);
        let options = InitOptions { mapped, ..InitOptions::default() };
        let session = init(variant(cuda_parts()), &api, options).unwrap();
        let calls = recording::take();
        drop(session);
        for (number, &call) in calls.iter().enumerate() {
            driver::with(|state| state.fail_in = Some(number));
            let error = init(variant(cuda_parts()), &API, options).expect_err("a failed call went unnoticed");
            let InitError::Call(error) = error else { panic!("{error:?}") };
            assert_eq!((error.call, error.result), (call, INJECTED));
            assert_eq!(error.name, "CUDA_ERROR_LAUNCH_FAILED");
            driver::with(|state| assert!(state.live.is_empty(), "{call:?} left {:?}", state.live));
        }
        // The second node is that of step 1.
        let second = calls.iter().position(|&call| call == cuGraphAddKernelNode_v2).unwrap() + 1;
        driver::with(|state| state.fail_in = Some(second));
        let Err(InitError::Call(error)) = init(variant(cuda_parts()), &API, options) else { panic!("no error") };
        assert_eq!(error.subject, Subject::Step(1));
        assert_eq!(error.to_string(), "cuGraphAddKernelNode_v2 failed for step 1 with CUDA_ERROR_LAUNCH_FAILED (719)");
    }
}

#[test]
fn failures_of_run_and_drop_are_survived() {
    let mut session = init(variant(cuda_parts()), &API, InitOptions::default()).unwrap();
    type Use = fn(&mut Session<'static, 'static>) -> Result<(), RunError>;
    let uses: [(Call, Use); 5] = [
        (cuMemcpyHtoDAsync_v2, |session| session.write("x", &[0; 16])),
        (cuGraphLaunch, |session| session.replay()),
        (cuMemcpyDtoHAsync_v2, |session| session.read("y", &mut [0; 16])),
        (cuMemsetD8Async, |session| session.reset()),
        (cuStreamSynchronize, |session| session.synchronize()),
    ];
    for (call, usage) in uses {
        session.synchronize().unwrap();
        driver::with(|state| state.fail_in = Some(0));
        let Err(RunError::Call(error)) = usage(&mut session) else { panic!("{call:?} went unnoticed") };
        assert_eq!((error.call, error.result), (call, INJECTED));
        usage(&mut session).unwrap();
    }
    drop(session);
    for number in 0..9 {
        let session = init(variant(cuda_parts()), &API, InitOptions::default()).unwrap();
        driver::with(|state| state.fail_in = Some(number));
        drop(session);
        driver::with(|state| {
            assert!(state.live.is_empty());
            assert!(state.fail_in.is_none(), "drop made fewer calls");
        });
    }
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_made() {
    fn sized<const STEPS: usize, const KERNELS: usize, const IMAGES: usize>(api: &DriverApi) -> Result<(), InitError> {
        let (variant, options) = (variant(cuda_parts()), InitOptions::default());
        // SAFETY: as in `init`.
        unsafe { SizedSession::<STEPS, KERNELS, IMAGES>::init(variant, api, options) }.map(drop)
    }
    let api = recording::wrap(API, 64);
    let error = |parameter, capacity, needed| Err(InitError::Capacity { parameter, capacity, needed });
    assert_eq!(sized::<2, 4, 4>(&api), error("STEPS", 2, 3));
    assert_eq!(sized::<3, 1, 4>(&api), error("KERNELS", 1, 2));
    assert_eq!(sized::<3, 2, 1>(&api), error("IMAGES", 1, 2));
    assert_eq!(init(variant(host_parts()), &api, InitOptions::default()).map(drop), Err(InitError::HostVariant));
    assert_eq!(recording::take(), []);
    assert_eq!(sized::<3, 2, 2>(&api), Ok(()));
}

#[test]
fn an_image_that_is_none_never_reaches_the_driver() {
    let api = recording::wrap(API, 64);
    let refused = |kind, second: Vec<u8>| {
        let mut parts = cuda_parts();
        parts.header.image_kind = kind;
        let first = if kind == ImageKind::Ptx { b".version 8.0".to_vec() } else { cubin(b"") };
        parts.images = [first, second].map(|image| OwnedImage::plain(kind, image)).to_vec();
        recording::take();
        let error = init(variant(parts), &api, InitOptions::default()).unwrap_err();
        let loaded = recording::take().iter().filter(|&&call| call == cuModuleLoadData).count();
        assert_eq!(loaded, 1, "only the first image");
        assert!(driver::with(|state| state.live.is_empty()));
        match error {
            InitError::Image { number: 1, problem } => problem,
            error => panic!("{error}"),
        }
    };
    assert_eq!(refused(ImageKind::Cubin, vec![b'x'; 64]), ImageProblem::Header("the magic number"));
    assert_eq!(refused(ImageKind::Cubin, b".version 8.0".to_vec()), ImageProblem::Header("the length"));
    let mut outside = cubin(&[0; 64]);
    // One section header, of 64 bytes, one byte further than it may be.
    (outside[40], outside[58], outside[60]) = (65, 64, 1);
    assert_eq!(refused(ImageKind::Cubin, outside), ImageProblem::Table(Part::Section));
    let mut code = cubin(b"");
    code.push(0);
    assert_eq!(refused(ImageKind::Ptx, code), ImageProblem::NotText);
}

#[test]
fn too_little_device_memory_is_said_in_bytes() {
    driver::with(|state| state.limit = Some(1000));
    let error = init(variant(cuda_parts()), &API, InitOptions::default()).map(drop).unwrap_err();
    assert_eq!(error, InitError::OutOfMemory { needed: 1280, free: 1000, total: 1 << 30 });
    driver::with(|state| assert!(state.live.is_empty()));
}

#[test]
fn a_plan_without_weights_and_bindings_still_runs() {
    let mut parts = cuda_parts();
    (parts.steps, parts.bindings, parts.weights) = (vec![], vec![], vec![]);
    parts.header.arena_bytes = 0;
    for mapped in [false, true] {
        let mut session = init(variant(parts.clone()), &API, InitOptions { mapped, ..InitOptions::default() }).unwrap();
        session.replay().unwrap();
        session.synchronize().unwrap();
    }
}

#[test]
fn tables_load_by_symbol_and_name_the_missing_one() {
    let mut asked = Vec::new();
    // SAFETY: the table is never called.
    let result = unsafe {
        DriverApi::load(|name| {
            asked.push(name.to_str().unwrap());
            (name != c"cuGraphUpload").then_some(std::ptr::NonNull::dangling())
        })
    };
    assert_eq!(result.err(), Some("cuGraphUpload"));
    let names: Vec<&str> = Call::ALL.iter().map(|call| call.name()).collect();
    assert_eq!(asked, names[..asked.len()]);
}
