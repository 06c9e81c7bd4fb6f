//! INIT: from a checked plan to a graph that has run once.

use super::{
    api::{CUDA_ERROR_OUT_OF_MEMORY, CUdeviceptr, CUfunction, CUgraphNode, CUstream, DriverApi},
    error::{InitError, Subject},
    resources::{Node, Resources},
    session::SizedSession,
};
use crate::{
    bindings::Slots,
    plan::{
        Memory, Variant,
        format::{Action, BLOB_ALIGNMENT, MAX_AFTER, MAX_OPERANDS, Operand, Region},
    },
};

/// How a session is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InitOptions {
    /// Stream to replay in; without one the session creates its own.
    pub stream: Option<CUstream>,
    /// Whether bindings live in mapped page-locked host memory: right where GPU and CPU share memory (Jetson).
    pub mapped: bool,
}

/// Device addresses of a session's regions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    pub weights: CUdeviceptr,
    pub arena: CUdeviceptr,
    pub bindings: CUdeviceptr,
}

impl Addresses {
    fn of(&self, operand: &Operand, slots: &Slots) -> CUdeviceptr {
        let base = match operand.region {
            Region::Weights => self.weights,
            Region::Arena => self.arena,
            // The check has proven that the binding exists.
            Region::Binding(number) => self.bindings + slots.get(usize::from(number)).map_or(0, |slot| slot.offset),
        };
        base + operand.offset
    }
}

impl<'p, 'd, const STEPS: usize, const KERNELS: usize, const IMAGES: usize>
    SizedSession<'p, 'd, STEPS, KERNELS, IMAGES>
{
    /// INIT: loads, allocates, uploads, builds the graph and replays it once, then zeroes the states. The module's
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
        check_capacities::<STEPS, KERNELS, IMAGES>(&variant)?;
        let memory = variant.memory();
        let slots = Slots::new(&variant, BLOB_ALIGNMENT);
        let mut resources = Resources::<IMAGES>::new(api, options.stream)?;
        for image in variant.images() {
            resources.load_module(image)?;
        }
        let functions = find_functions::<KERNELS, IMAGES>(&variant, &resources)?;
        let addresses = allocate(&mut resources, &variant, memory, options.mapped)?;
        let all = Extent { steps: u32::MAX, serial: false };
        build_graph::<STEPS, KERNELS, IMAGES>(&mut resources, &variant, &functions, &addresses, &slots, all)?;
        log::debug!("CUDA session of {}: {memory:?}", variant.header().target);

        let mut session = Self::new(variant, resources, slots, addresses, options.mapped);
        session.warm_up()?;
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
    let capacities =
        [("STEPS", STEPS, header.steps), ("KERNELS", KERNELS, header.kernels), ("IMAGES", IMAGES, header.images)];
    for (parameter, capacity, needed) in capacities {
        let needed = needed as usize;
        if needed > capacity {
            return Err(InitError::Capacity { parameter, capacity, needed });
        }
    }
    Ok(())
}

/// Finds every kernel and allows it the most dynamic shared memory that any of its steps uses.
pub(super) fn find_functions<const KERNELS: usize, const IMAGES: usize>(
    variant: &Variant<'_>,
    resources: &Resources<'_, IMAGES>,
) -> Result<heapless::Vec<CUfunction, KERNELS>, InitError> {
    let mut most = [0; KERNELS];
    for step in variant.steps() {
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

/// Allocates device and host memory, uploads the weights and zeroes the rest.
fn allocate<const IMAGES: usize>(
    resources: &mut Resources<'_, IMAGES>,
    variant: &Variant<'_>,
    memory: Memory,
    mapped: bool,
) -> Result<Addresses, InitError> {
    let on_device = memory.weights + memory.arena + if mapped { 0 } else { memory.bindings };
    // The driver refuses to allocate nothing.
    let bytes =
        usize::try_from(on_device.max(BLOB_ALIGNMENT)).map_err(|_| InitError::TooLarge { needed: on_device })?;
    let host_bytes = usize::try_from(memory.bindings).map_err(|_| InitError::TooLarge { needed: memory.bindings })?;
    let weights = match resources.allocate(bytes) {
        Err(error) if error.result == CUDA_ERROR_OUT_OF_MEMORY => {
            let (free, total) = resources.memory_info()?;
            return Err(InitError::OutOfMemory { needed: on_device, free: free as u64, total: total as u64 });
        }
        allocated => allocated?,
    };
    if host_bytes > 0 {
        resources.allocate_host(host_bytes)?;
    }
    let arena = weights + memory.weights;
    let bindings = if mapped && host_bytes > 0 { resources.host_device_address()? } else { arena + memory.arena };
    if !variant.weights().is_empty() {
        resources.upload(Subject::Session, weights, variant.weights())?;
    }
    // All of the arena, not only its counters: a replay never meets what another program left in memory.
    if on_device > memory.weights {
        resources.zero(Subject::Session, arena, on_device - memory.weights)?;
    }
    Ok(Addresses { weights, arena, bindings })
}

/// How much of a plan a graph holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Leading steps.
    pub steps: u32,
    /// Whether each step waits for the one before it instead of those that it depends on.
    pub serial: bool,
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
    for (number, step) in (0..extent.steps).zip(variant.steps()) {
        // The check has proven that GPU variants only launch, that kernels exist, and that `after` names earlier steps.
        let Action::Launch { kernel, grid, block, shared } = step.action else { continue };
        let Some(&function) = functions.get(kernel as usize) else { continue };
        let after: heapless::Vec<CUgraphNode, MAX_AFTER> = match extent.serial {
            true => nodes.last().copied().into_iter().collect(),
            false => step.after.iter().filter_map(|&earlier| nodes.get(earlier as usize).copied()).collect(),
        };
        let arguments: heapless::Vec<CUdeviceptr, MAX_OPERANDS> =
            step.operands.iter().map(|operand| addresses.of(operand, slots)).collect();
        let node =
            Node { step: number, function, grid, block, shared, arguments, after: &after, overlaps: step.overlaps };
        let _ = nodes.push(resources.add_node(node)?);
    }
    Ok(resources.finish_graph()?)
}
