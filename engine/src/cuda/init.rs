//! INIT: from a checked plan to a graph that has run once.

use super::{
    addresses::{Addresses, Arena},
    api::{CUdeviceptr, CUfunction, CUgraphNode, DriverApi},
    completion::{Completion, Wait},
    error::{InitError, Subject},
    options::{Extras, InitOptions, Stage},
    resources::{Node, Resources},
    session::SizedSession,
    shared::{self, Scratch, Shared, Weights},
};
use crate::{
    bindings::Slots,
    plan::{
        Memory, Variant,
        format::{Action, BLOB_ALIGNMENT, COUNTER_BYTES, MAX_AFTER, MAX_OPERANDS, Purpose},
    },
};

impl<'p, 'd, const STEPS: usize, const KERNELS: usize, const IMAGES: usize>
    SizedSession<'p, 'd, STEPS, KERNELS, IMAGES>
{
    /// INIT: loads, allocates, uploads, builds a graph for each shape of the variant's target and replays it once, then zeroes
    /// the states. The variant's own shape is chosen. The module's
    /// documentation lists what it allocates; [`Variant::memory`] says how much. Bindings are zero afterwards, except
    /// outputs, which hold what the network makes of zeros.
    ///
    /// # Safety
    /// `api` must hold the functions of the CUDA driver, or functions that keep the driver's contract. A CUDA context
    /// must be current on this thread now and whenever the session is used or dropped; the stream in `options`, if any,
    /// must belong to it and outlive the session. Whoever may not trust the file's kernel images calls
    /// [`Plan::verify_blobs`](crate::plan::Plan::verify_blobs) before, and must trust whoever wrote the plan: a kernel
    /// can do anything on the device.
    ///
    /// # Errors
    /// What was too small or which driver call failed; everything made so far is freed.
    pub unsafe fn init(variant: Variant<'p>, api: &'d DriverApi, options: InitOptions) -> Result<Self, InitError> {
        // SAFETY: the caller's promise.
        unsafe { Self::init_shared(variant, api, options, Shared::default()) }
    }

    /// As [`Self::init`], with constants or scratch that other sessions use too. Over a shared scratch the session replays in
    /// its stream, in turn with the others; [`InitOptions::stream`] must be `None` then.
    ///
    /// # Safety
    /// As for [`Self::init`]; what is shared must have been made with functions of the same driver in the same context.
    ///
    /// # Errors
    /// As for [`Self::init`], and where what is shared does not fit the variant.
    pub unsafe fn init_shared(
        variant: Variant<'p>,
        api: &'d DriverApi,
        options: InitOptions,
        shared: Shared<'d>,
    ) -> Result<Self, InitError> {
        if shared.scratch.is_some() && options.stream.is_some() {
            return Err(InitError::TwoStreams);
        }
        let stream = shared.scratch.map(Scratch::stream).or(options.stream);
        check_capacities::<STEPS, KERNELS, IMAGES>(&variant)?;
        let extras = options.extras();
        let signals = |shape: Variant<'_>| shape.steps().any(|step| step.purpose() == Purpose::Signal);
        if extras.signal && !variant.shapes().all(signals) {
            return Err(InitError::NoSignal);
        }
        let enter = |stage| {
            if let Some(observe) = options.observe {
                observe(stage);
            }
        };
        enter(Stage::Modules);
        let memory = variant.memory();
        let slots = Slots::new(&variant, BLOB_ALIGNMENT);
        let mut resources = Resources::<IMAGES>::new(api, stream)?;
        resources.create_done(options.wait == Wait::Block)?;
        resources.share(shared.weights.map(Weights::stuck), shared.scratch.map(Scratch::stuck));
        // Before the modules, since packed images are unpacked there.
        let page_locked = variant.page_locked_bytes(options);
        let host_bytes = usize::try_from(page_locked).map_err(|_| InitError::TooLarge { needed: page_locked })?;
        if host_bytes > 0 {
            resources.allocate_host(host_bytes)?;
        }
        for image in variant.images() {
            resources.load_module(variant.header().image_kind, image)?;
        }
        resources.host_memory(0, variant.unpacked_bytes()).fill(0);
        let functions = find_functions::<KERNELS, IMAGES>(&variant, &resources)?;
        enter(Stage::Memory);
        let addresses = allocate(&mut resources, &variant, memory, options, shared)?;
        enter(Stage::Graph);
        let all = Extent { steps: u32::MAX, serial: false, extras };
        for shape in variant.shapes() {
            build_graph::<STEPS, KERNELS, IMAGES>(&mut resources, &shape, &functions, &addresses, &slots, all)?;
        }
        log::debug!("CUDA session of {}: {memory:?}", variant.header().target);

        let completion = Completion {
            wait: options.wait,
            guard: options.guard,
            report: memory.bindings,
            launched: 0,
            other_work: true,
            miscounted: false,
            marked: false,
        };
        let mut session = Self::new(variant, resources, slots, addresses, options.mapped, completion);
        enter(Stage::WarmUp);
        session.warm_up()?;
        enter(Stage::Ready);
        Ok(session)
    }
}

/// Compares what the plan needs with what the session's type can hold.
fn check_capacities<const STEPS: usize, const KERNELS: usize, const IMAGES: usize>(
    variant: &Variant<'_>,
) -> Result<(), InitError> {
    if variant.is_host() {
        return Err(InitError::HostVariant);
    }
    let header = variant.header();
    let steps = variant.shapes().map(|shape| shape.header().steps).max().unwrap_or(0);
    let capacities = [("STEPS", STEPS, steps), ("KERNELS", KERNELS, header.kernels), ("IMAGES", IMAGES, header.images)];
    for (parameter, capacity, needed) in capacities {
        let needed = needed as usize;
        if needed > capacity {
            return Err(InitError::Capacity { parameter, capacity, needed });
        }
    }
    Ok(())
}

/// Finds every kernel and allows it the most dynamic shared memory that any of its steps uses in any shape.
pub(super) fn find_functions<const KERNELS: usize, const IMAGES: usize>(
    variant: &Variant<'_>,
    resources: &Resources<'_, IMAGES>,
) -> Result<heapless::Vec<CUfunction, KERNELS>, InitError> {
    let mut most = [0; KERNELS];
    for step in variant.shapes().flat_map(|shape| shape.steps()) {
        if let Action::Launch { kernel, shared, .. } = step.action
            && let Some(most) = most.get_mut(kernel as usize)
        {
            *most = shared.max(*most);
        }
    }
    let mut functions = heapless::Vec::new();
    for ((number, kernel), shared) in (0..).zip(variant.kernels()).zip(most) {
        let function = resources.function(number, kernel.image, kernel.name, shared)?;
        // Cannot fail: `check_capacities` compared the number of kernels.
        let _ = functions.push(function);
    }
    Ok(functions)
}

/// Allocates device memory, uploads the weights and zeroes the rest.
fn allocate<const IMAGES: usize>(
    resources: &mut Resources<'_, IMAGES>,
    variant: &Variant<'_>,
    memory: Memory,
    options: InitOptions,
    shared: Shared<'_>,
) -> Result<Addresses, InitError> {
    let InitOptions { mapped, .. } = options;
    let signal = options.extras().signal;
    let shared_weights = shared.weights.map(|weights| weights.address(variant)).transpose()?;
    let scratch = shared.scratch.map(|scratch| scratch.address(memory.arena)).transpose()?;
    let weights_bytes = if shared_weights.is_some() { 0 } else { memory.weights };
    let arena_bytes = if scratch.is_some() { variant.counter_bytes() } else { memory.arena };
    let counter_bytes = if signal { COUNTER_BYTES } else { 0 };
    let bindings_bytes = if mapped { 0 } else { memory.bindings };
    // The sum cannot overflow: the check keeps the plan's part below 2^62.
    let on_device = weights_bytes + arena_bytes + bindings_bytes + counter_bytes;
    let start = shared::allocate(resources, on_device)?;
    let counters = start + weights_bytes;
    let behind_arena = counters + arena_bytes;
    let host = if signal || (mapped && memory.bindings > 0) { resources.host_device_address()? } else { behind_arena };
    let bindings = if mapped { host } else { behind_arena };
    let (counter, report) = (behind_arena + bindings_bytes, host + memory.bindings);
    if shared_weights.is_none() && !variant.weights().is_empty() {
        resources.upload(Subject::Session, start, variant.weights())?;
    }
    // All of the arena, not only its counters: a replay never meets what another program left in memory.
    if on_device > weights_bytes {
        resources.zero(Subject::Session, counters, on_device - weights_bytes)?;
    }
    let weights = shared_weights.unwrap_or(start);
    let arena = scratch.map_or(Arena::Behind(counters + variant.counter_bytes()), Arena::Scratch);
    Ok(Addresses { weights, counters, arena, bindings, counter, report })
}

/// How much of a plan a graph holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Leading steps.
    pub steps: u32,
    /// Whether each step waits for the one before it instead of those that it depends on.
    pub serial: bool,
    pub extras: Extras,
}

/// One kernel node for each step, its edges from `after`.
pub(super) fn build_graph<const STEPS: usize, const KERNELS: usize, const IMAGES: usize>(
    resources: &mut Resources<'_, IMAGES>,
    variant: &Variant<'_>,
    functions: &heapless::Vec<CUfunction, KERNELS>,
    addresses: &Addresses,
    slots: &Slots,
    extent: Extent,
) -> Result<(), InitError> {
    resources.create_graph()?;
    let mut nodes = heapless::Vec::<CUgraphNode, STEPS>::new();
    // Whether a later step waits for the node of the same number.
    let mut awaited = [false; STEPS];
    for (number, step) in (0..extent.steps).zip(variant.steps()) {
        // The check has proven that GPU variants only launch, that kernels exist, and that `after` names earlier steps.
        let Action::Launch { kernel, grid, block, shared } = step.action else { continue };
        let Some(&function) = functions.get(kernel as usize) else { continue };
        let purpose = step.purpose();
        match purpose {
            Purpose::Network => {}
            Purpose::Guard if extent.extras.guard => {}
            Purpose::Signal if extent.extras.signal => {}
            Purpose::Guard | Purpose::Signal => continue,
        }
        let named: heapless::Vec<CUgraphNode, MAX_AFTER> = match extent.serial {
            true => gather(nodes.last().copied()),
            false => gather(step.after.iter().filter_map(|&earlier| nodes.get(earlier as usize).copied())),
        };
        if purpose == Purpose::Network {
            step.after.iter().for_each(|&earlier| {
                if let Some(awaited) = awaited.get_mut(earlier as usize) {
                    *awaited = true;
                }
            });
        } else {
            // Everything that nobody waits for: the ends of the network, or the guard before.
            let mut awaited = awaited.iter_mut();
            nodes.retain(|_| awaited.next().is_some_and(|awaited| !core::mem::replace(awaited, false)));
        }
        let after = if purpose == Purpose::Network { &named[..] } else { &nodes[..] };
        let arguments: heapless::Vec<CUdeviceptr, MAX_OPERANDS> =
            gather(step.operands.iter().map(|operand| addresses.of(operand, variant, slots)));
        let node = Node { step: number, function, grid, block, shared, arguments, after, overlaps: step.overlaps };
        let node = resources.add_node(node)?;
        if purpose != Purpose::Network {
            nodes.clear();
        }
        let _ = nodes.push(node);
    }
    Ok(resources.finish_graph()?)
}

/// As `collect`, but without the panic that heapless has there: what does not fit is left out, and the format's own limits
/// make everything fit.
fn gather<T, const N: usize>(items: impl IntoIterator<Item = T>) -> heapless::Vec<T, N> {
    let mut vector = heapless::Vec::new();
    for item in items {
        let _ = vector.push(item);
    }
    vector
}
