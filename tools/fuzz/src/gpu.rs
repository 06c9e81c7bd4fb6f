//! Sessions of any plan's GPU variants on a driver that checks what it is asked: every argument of a launch is an operand of its
//! step that lies whole inside one allocation, every copy too, an image lies inside the plan, and in the end nothing is left.

use crate::{
    random::Random,
    replay::File,
    support::driver::{self, API},
};
use floe_engine::{
    cuda::{
        CUDA_SUCCESS, CUgraph, CUgraphExec, CUgraphNode, CUmodule, CUresult, CUstream, CudaGraphEdgeData,
        CudaKernelNodeParams, DriverApi, InitError, InitOptions, Pool, RunError, Session, Trial, Wait,
    },
    plan::{
        Plan, StoredImage, Variant,
        format::{Candidate, Direction, Purpose, Region},
    },
};
use std::{cell::RefCell, collections::VecDeque, ffi::c_void, ptr::read_volatile, slice};

/// Steps, and bytes of a session, beyond which a plan is legal but too much for a fuzzer.
const STEPS: u32 = 256;
const BYTES: u64 = 1 << 22;
/// Bytes of the memory in which candidates run, and from one of their operands there to the next.
const POOL: u64 = 1 << 18;
const STRIDE: u64 = 1 << 12;

/// An argument of a launch.
#[derive(Clone, Debug)]
struct Argument {
    address: usize,
    bytes: usize,
    written: bool,
}

/// A launch that the driver is to be asked for.
#[derive(Clone, Debug)]
struct Launch {
    arguments: Vec<Argument>,
    purpose: Purpose,
    /// Which arguments are the counter and the report, where it has both.
    signal: Option<(usize, usize)>,
}

/// An image that the driver is to be given.
struct Image {
    /// Where it lies, unless it is packed.
    address: Option<usize>,
    /// What it holds; nothing where it cannot be unpacked.
    bytes: Vec<u8>,
}

impl Image {
    fn of(image: StoredImage<'_>) -> Self {
        let address = (!image.is_packed()).then(|| image.bytes().as_ptr().addr());
        Self { address, bytes: image.to_vec().unwrap_or_default() }
    }
}

/// What the driver is to be asked for next.
#[derive(Default)]
struct Expected {
    images: VecDeque<Image>,
    launches: VecDeque<Launch>,
    /// The launches of the graph.
    nodes: Vec<Launch>,
}

thread_local! {
    static EXPECTED: RefCell<Expected> = RefCell::default();
}

/// The simulated driver of the engine's tests, for any kernels.
static DEVICE: DriverApi =
    DriverApi { module_load_data, graph_add_kernel_node, graph_add_dependencies, graph_launch, ..API };

/// Runs sessions of every GPU variant of a plan, and some of its candidates; whether the file is a plan.
///
/// # Panics
/// Where the engine asks the driver for something else than the plan says, or leaves something there.
pub fn plan(file: &File) -> bool {
    let Ok(plan) = Plan::parse(file.bytes()) else { return false };
    let mut random = Random::new(plan.digest()[0].into());
    for variant in plan.variants().filter(|variant| !variant.is_host() && variant.header().steps <= STEPS) {
        if variant.memory().total <= BYTES {
            session(&variant, &mut random);
        }
        for candidate in variant.candidates().take(4) {
            trial(&variant, &candidate);
        }
        driver::with(|state| assert!(state.live.is_empty(), "left at the driver: {:?}", state.live));
    }
    true
}

fn session(variant: &Variant<'_>, random: &mut Random) {
    let (mapped, guard) = (random.below(2) == 0, random.below(2) == 0);
    let options = InitOptions { mapped, guard, wait: Wait::ALL[random.below(4)], ..InitOptions::default() };
    let signals = guard || options.wait == Wait::Poll;
    // A launch of one graph runs those of all shapes, which does no harm.
    let launches = variant.shapes().flat_map(|shape| shape.steps()).filter_map(|step| {
        let purpose = step.purpose();
        let wanted = match purpose {
            Purpose::Network => true,
            Purpose::Guard => guard,
            Purpose::Signal => signals,
        };
        let argument = |bytes: u64, written| Argument { address: 0, bytes: bytes as usize, written };
        let arguments = step.operands.iter().map(|operand| argument(operand.bytes, operand.written)).collect();
        let find = |region, bytes| {
            step.operands
                .iter()
                .position(|operand| operand.region == region && operand.bytes >= bytes && operand.written)
        };
        let signal = find(Region::Counter, 4).zip(find(Region::Report, 4)).filter(|_| purpose == Purpose::Signal);
        wanted.then_some(Launch { arguments, purpose, signal })
    });
    let expected = Expected {
        images: variant.images().map(Image::of).collect(),
        launches: launches.collect(),
        nodes: Vec::new(),
    };
    EXPECTED.set(expected);
    // SAFETY: the driver keeps the contract of the real one.
    let session = unsafe { Session::init(variant.clone(), &DEVICE, options) };
    let mut session = match session {
        Ok(session) => session,
        Err(error @ (InitError::Call(_) | InitError::OutOfMemory { .. })) => panic!("{error}"),
        Err(_) => return,
    };
    EXPECTED.with_borrow(|expected| assert!(expected.launches.is_empty() && expected.images.is_empty()));
    // A signal that is none makes each replay under `Wait::Poll` wait for some milliseconds.
    for (number, binding) in variant.bindings().enumerate().take(4) {
        let mut bytes = vec![0x3c; binding.bytes().expect("a checked binding") as usize];
        if binding.direction != Direction::Output {
            session.write(number, &bytes).expect("an input");
        }
        session.replay().expect("a checked plan");
        if binding.direction != Direction::Input {
            session.read(number, &mut bytes).expect("an output");
        }
    }
    session.replay().expect("a checked plan");
    if guard {
        match session.guard().map(Iterator::count) {
            Ok(0) | Err(RunError::Miscounted) => {}
            other => panic!("{other:?}"),
        }
    }
    session.reset().expect("a checked plan");
    for shape in variant.shapes() {
        session.choose(shape.number()).expect("a shape of the plan");
        session.replay().expect("a checked plan");
    }
    session.synchronize().expect("a checked plan");
}

fn trial(variant: &Variant<'_>, candidate: &Candidate<'_>) {
    let arguments = |launch: usize| {
        let operand = |number: u8| &candidate.operands[usize::from(number)];
        let of = |number, offset| Argument {
            address: 0,
            bytes: (operand(number).bytes - offset) as usize,
            // What lies behind one operand may be another.
            written: false,
        };
        candidate.launches[launch].arguments.iter().map(|argument| of(argument.operand, argument.offset)).collect()
    };
    let network = |launch| Launch { arguments: arguments(launch), purpose: Purpose::Network, signal: None };
    const COPIES: u32 = 2;
    let launches = (0..COPIES).flat_map(|_| 0..candidate.launches.len());
    let images = candidate.launches.iter().map(|launch| Image::of(variant.candidate_image(launch.image)));
    let expected = Expected { images: images.collect(), launches: launches.map(network).collect(), nodes: Vec::new() };
    EXPECTED.set(expected);
    // SAFETY: the driver keeps the contract of the real one.
    let pool = unsafe { Pool::new(&DEVICE, POOL) }.expect("enough memory");
    let place = |copy, operand| STRIDE * (u64::from(copy) + operand as u64);
    match Trial::new(&pool, variant, candidate, COPIES, place) {
        Ok(trial) => drop(trial.run(true).expect("a checked candidate")),
        Err(error @ InitError::Call(_)) => panic!("{error}"),
        Err(_) => {}
    }
}

/// Reads what the driver reads, as it does: it is given no length.
extern "C" fn module_load_data(module: *mut CUmodule, image: *const c_void) -> CUresult {
    let expected =
        EXPECTED.with_borrow_mut(|expected| expected.images.pop_front()).expect("no more images than the plan has");
    assert!(expected.address.is_none_or(|address| address == image.addr()), "another image");
    // SAFETY: the images of a plan lie inside its file, and unpacked ones inside memory for the largest.
    let bytes = unsafe { slice::from_raw_parts(image.cast::<u8>(), expected.bytes.len()) };
    assert!(bytes == expected.bytes, "an image of other bytes");
    if bytes.starts_with(b"\x7fELF") {
        let number = |at: usize, count: usize| {
            bytes[at..at + count].iter().rev().fold(0, |number: usize, &byte| number << 8 | usize::from(byte))
        };
        for (table, count, entry_bytes, offset) in [(40, 60, 64, 24), (32, 56, 56, 8)] {
            for entry in (0..number(count, 2)).map(|entry| number(table, 8) + entry * entry_bytes) {
                if entry_bytes == 56 || number(entry + 4, 4) != 8 {
                    let start = number(entry + offset, 8);
                    assert!(bytes[start..].len() >= number(entry + 32, 8), "a part outside the image");
                }
            }
        }
    } else {
        assert!(bytes[0].is_ascii() && bytes.contains(&0), "text without an end");
    }
    // SAFETY: as for this function.
    unsafe { (API.module_load_data)(module, image) }
}

extern "C" fn graph_add_kernel_node(
    node: *mut CUgraphNode,
    _: CUgraph,
    after: *const CUgraphNode,
    count: usize,
    parameters: *const CudaKernelNodeParams,
) -> CUresult {
    EXPECTED.with_borrow_mut(|expected| {
        let mut launch = expected.launches.pop_front().expect("no more launches than the plan has");
        for (number, argument) in launch.arguments.iter_mut().enumerate() {
            // SAFETY: the engine passes one pointer for each argument.
            let address = unsafe { **(*parameters).kernelParams.add(number).cast::<*const usize>() };
            if argument.bytes > 0 {
                driver::with(|state| state.assert_inside(address, argument.bytes));
            }
            argument.address = address;
        }
        for number in 0..count {
            // SAFETY: the engine passes `count` nodes.
            let earlier = unsafe { *after.add(number) }.addr();
            assert!((1..=expected.nodes.len()).contains(&earlier), "waits for a node that is none");
        }
        expected.nodes.push(launch);
        // SAFETY: the engine passes a place for a handle.
        unsafe { *node = expected.nodes.len() as CUgraphNode };
    });
    CUDA_SUCCESS
}

extern "C" fn graph_add_dependencies(
    _: CUgraph,
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    _: *const CudaGraphEdgeData,
    count: usize,
) -> CUresult {
    let nodes = EXPECTED.with_borrow(|expected| expected.nodes.len());
    for number in 0..count {
        // SAFETY: the engine passes `count` of each.
        let (from, to) = unsafe { ((*from.add(number)).addr(), (*to.add(number)).addr()) };
        assert!(0 < from && from < to && to <= nodes, "an edge from {from} to {to} among {nodes} nodes");
    }
    CUDA_SUCCESS
}

/// Runs what the launches stand for: reads what they read, and writes over what they write.
extern "C" fn graph_launch(_: CUgraphExec, _: CUstream) -> CUresult {
    EXPECTED.with_borrow(|expected| {
        for Launch { arguments, purpose, signal } in &expected.nodes {
            driver::with(|state| state.enqueue(arguments.iter().map(|argument| argument.address)));
            // SAFETY: every operand lies inside an allocation, at a multiple of 16.
            unsafe {
                if let Some((counter, report)) = signal.map(|(counter, report)| {
                    (arguments[counter].address as *mut u32, arguments[report].address as *mut u32)
                }) {
                    *counter = (*counter).wrapping_add(1);
                    *report = *counter;
                }
                for argument in arguments.iter().filter(|argument| argument.bytes > 0) {
                    let start = argument.address as *mut u8;
                    read_volatile(start.add(argument.bytes - 1));
                    if argument.written && *purpose == Purpose::Network {
                        start.write_bytes(0x3c, argument.bytes);
                    }
                }
            }
        }
    });
    CUDA_SUCCESS
}
