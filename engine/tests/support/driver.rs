//! A CUDA driver made of host memory: device addresses are host addresses, every kernel is `add` over four floats
//! (`third = first + second`) unless it is called `guard` (of binding 2) or `signal`, and one call can be told to fail. It
//! aborts where the real one would be misused: handles that are not alive, memory that the device may still use when it is
//! freed. One driver for each thread.

use floe_engine::{cuda::*, plan::format::REPORT_GUARD};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};

/// What the failing call returns.
pub const INJECTED: CUresult = 719;

/// A stream that is not the session's.
pub const EXTERNAL_STREAM: CUstream = 0x50 as CUstream;

/// What a handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Module,
    Memory,
    HostMemory,
    Stream,
    Event,
    Graph,
    Exec,
}

/// What becomes of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// It runs.
    #[default]
    Runs,
    /// It is refused.
    Refused,
    /// It is said to be refused, and runs all the same.
    RefusedYetRuns,
    /// It runs, but its signal does nothing.
    Unsignalled,
    /// The device never finishes from then on.
    Hangs,
}

/// A node as it was added.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub function: usize,
    pub arguments: [usize; 3],
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub after: Vec<usize>,
    /// Those of `after` that it overlaps with.
    pub overlapped: Vec<usize>,
}

struct Memory {
    words: Vec<u128>,
    /// Whether work that was enqueued uses it.
    used: bool,
}

#[derive(Default)]
pub struct State {
    /// Handles that were made and not freed.
    pub live: BTreeMap<usize, Kind>,
    /// Memory behind addresses.
    memory: BTreeMap<usize, Memory>,
    next: usize,
    /// Whether the device may be at work: something was enqueued and nobody has waited since.
    busy: bool,
    /// Calls until one fails.
    pub fail_in: Option<usize>,
    /// Largest allocation that succeeds.
    pub limit: Option<usize>,
    /// All nodes of the last graph; a node's handle is its number plus one.
    pub nodes: Vec<Node>,
    /// The nodes of each graph that is ready for launch.
    ready: BTreeMap<usize, Vec<Node>>,
    /// Kernel names that were asked for.
    pub names: Vec<String>,
    /// Values of the shared memory attribute that were set.
    pub attributes: Vec<c_int>,
    /// Sizes of device allocations.
    pub allocations: Vec<usize>,
    /// Sizes of allocations of page-locked host memory.
    pub host_allocations: Vec<usize>,
    /// What becomes of the next launch.
    pub next_launch: Outcome,
    /// Whether signals do nothing, as if the device were dead.
    pub silent: bool,
    /// Whether the device never finishes: signals do nothing, events do not pass, and what would wait for it panics.
    pub hung: bool,
    /// Counters and reports of signals that a device owes which has not finished.
    unsignalled: Vec<(usize, usize)>,
    /// Queries of an event until it has passed.
    pending: usize,
}

const ADD: usize = 0x0f;
const GUARD: usize = 0x1f;
const SIGNAL: usize = 0x2f;

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// Looks at or changes this thread's driver.
pub fn with<R>(body: impl FnOnce(&mut State) -> R) -> R {
    STATE.with_borrow_mut(body)
}

impl State {
    /// Whether this call is the one that fails.
    fn fails(&mut self) -> bool {
        match &mut self.fail_in {
            Some(0) => {
                self.fail_in = None;
                true
            }
            Some(calls) => {
                *calls -= 1;
                false
            }
            None => false,
        }
    }

    fn handle(&mut self, kind: Kind) -> usize {
        self.next += 0x10;
        let handle = 0xfee0_0000 + self.next;
        self.live.insert(handle, kind);
        handle
    }

    fn free(&mut self, handle: usize, kind: Kind) {
        assert!(!self.hung, "would wait for ever, freeing {kind:?}");
        // What else there is the driver frees later, when the work is done.
        let used = match kind {
            Kind::Memory | Kind::HostMemory => self.memory[&handle].used,
            kind => kind == Kind::Module,
        };
        assert!(!(used && self.busy), "{kind:?} freed while in use");
        assert_eq!(self.live.remove(&handle), Some(kind), "freed something that is not alive");
        self.memory.remove(&handle);
    }

    fn allocate(&mut self, bytes: usize, kind: Kind) -> usize {
        assert!(bytes > 0, "allocated nothing");
        // Filled with ones: a session may rely on nothing.
        let words = vec![u128::MAX; bytes.div_ceil(16)];
        let address = words.as_ptr() as usize;
        self.memory.insert(address, Memory { words, used: false });
        self.live.insert(address, kind);
        address
    }

    /// Notes that work on some memory was enqueued.
    pub fn enqueue(&mut self, addresses: impl IntoIterator<Item = usize>) {
        self.busy = true;
        addresses.into_iter().for_each(|address| mark_used(&mut self.memory, address));
    }

    /// Notes that somebody has waited.
    fn idle(&mut self) {
        assert!(!self.hung, "would wait for ever");
        self.busy = false;
        self.memory.values_mut().for_each(|memory| memory.used = false);
    }

    /// Panics unless the handle is alive.
    fn assert_alive(&self, handle: *mut c_void, kind: Kind) {
        assert_eq!(self.live.get(&(handle as usize)), Some(&kind), "used something that is not alive");
    }

    /// The device finishes after all, and replays signal their end.
    pub fn finish(&mut self) {
        (self.hung, self.pending) = (false, 0);
        for (counter, report) in std::mem::take(&mut self.unsignalled) {
            // SAFETY: as in `graph_launch`.
            unsafe { signal(counter as *mut u32, report as *mut u32) };
        }
    }

    fn assert_stream(&self, stream: CUstream) {
        if stream != EXTERNAL_STREAM {
            self.assert_alive(stream, Kind::Stream);
        }
    }

    /// Panics unless the range lies inside one allocation.
    pub fn assert_inside(&self, address: usize, bytes: usize) {
        let (start, memory) = self.memory.range(..=address).next_back().expect("address below all allocations");
        assert!(address + bytes <= start + memory.words.len() * 16, "range reaches outside its allocation");
    }
}

/// What the kernel `signal` does.
///
/// # Safety
/// Both must be valid.
unsafe fn signal(counter: *mut u32, report: *mut u32) {
    // SAFETY: promise of the caller.
    unsafe {
        *counter += 1;
        *report = *counter;
    }
}

/// Notes that enqueued work uses the memory around an address, if it is the driver's.
fn mark_used(memory: &mut BTreeMap<usize, Memory>, address: usize) {
    let below = memory.range_mut(..=address).next_back();
    if let Some((_, memory)) = below.filter(|(start, memory)| address < *start + memory.words.len() * 16) {
        memory.used = true;
    }
}

/// Runs the body unless the call is to fail.
fn call(body: impl FnOnce(&mut State) -> CUresult) -> CUresult {
    with(|state| if state.fails() { INJECTED } else { body(state) })
}

/// Frees even when told to fail, as the driver's functions do that report an earlier error.
fn free(handle: usize, kind: Kind) -> CUresult {
    with(|state| {
        let failed = state.fails();
        state.free(handle, kind);
        if failed { INJECTED } else { CUDA_SUCCESS }
    })
}

fn make(place: *mut *mut c_void, kind: Kind) -> CUresult {
    call(|state| {
        // SAFETY: the engine passes a place for a handle.
        unsafe { *place = state.handle(kind) as *mut c_void };
        CUDA_SUCCESS
    })
}

extern "C" fn module_load_data(module: *mut CUmodule, _image: *const c_void) -> CUresult {
    make(module, Kind::Module)
}

extern "C" fn module_get_function(function: *mut CUfunction, module: CUmodule, name: *const c_char) -> CUresult {
    call(|state| {
        state.assert_alive(module, Kind::Module);
        // SAFETY: the engine passes a NUL-terminated name and a place for a handle.
        unsafe {
            let name = CStr::from_ptr(name).to_str().unwrap().to_owned();
            let handle = match name.as_str() {
                "guard" => GUARD,
                "signal" => SIGNAL,
                _ => ADD,
            };
            *function = handle as *mut c_void;
            state.names.push(name);
        }
        CUDA_SUCCESS
    })
}

extern "C" fn module_unload(module: CUmodule) -> CUresult {
    free(module as usize, Kind::Module)
}

extern "C" fn func_set_attribute(_: CUfunction, attribute: CUfunctionAttribute, value: c_int) -> CUresult {
    call(|state| {
        assert_eq!(attribute, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
        state.attributes.push(value);
        CUDA_SUCCESS
    })
}

extern "C" fn mem_alloc(memory: *mut CUdeviceptr, bytes: usize) -> CUresult {
    call(|state| {
        if state.limit.is_some_and(|limit| bytes > limit) {
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        state.allocations.push(bytes);
        // SAFETY: the engine passes a place for an address.
        unsafe { *memory = state.allocate(bytes, Kind::Memory) as CUdeviceptr };
        CUDA_SUCCESS
    })
}

extern "C" fn mem_free(memory: CUdeviceptr) -> CUresult {
    free(memory as usize, Kind::Memory)
}

extern "C" fn mem_host_alloc(memory: *mut *mut c_void, bytes: usize, flags: c_uint) -> CUresult {
    call(|state| {
        assert_eq!(flags, CU_MEMHOSTALLOC_DEVICEMAP);
        state.host_allocations.push(bytes);
        // SAFETY: the engine passes a place for an address.
        unsafe { *memory = state.allocate(bytes, Kind::HostMemory) as *mut c_void };
        CUDA_SUCCESS
    })
}

extern "C" fn mem_host_get_device_pointer(device: *mut CUdeviceptr, memory: *mut c_void, _: c_uint) -> CUresult {
    call(|_| {
        // SAFETY: the engine passes a place for an address.
        unsafe { *device = memory as CUdeviceptr };
        CUDA_SUCCESS
    })
}

extern "C" fn mem_free_host(memory: *mut c_void) -> CUresult {
    free(memory as usize, Kind::HostMemory)
}

extern "C" fn mem_get_info(free: *mut usize, total: *mut usize) -> CUresult {
    call(|state| {
        // SAFETY: the engine passes two places for sizes.
        unsafe { (*free, *total) = (state.limit.unwrap_or(1 << 30), 1 << 30) };
        CUDA_SUCCESS
    })
}

extern "C" fn stream_create(stream: *mut CUstream, flags: c_uint) -> CUresult {
    assert_eq!(flags, CU_STREAM_NON_BLOCKING);
    make(stream, Kind::Stream)
}

extern "C" fn stream_destroy(stream: CUstream) -> CUresult {
    free(stream as usize, Kind::Stream)
}

extern "C" fn event_create(event: *mut CUevent, _: c_uint) -> CUresult {
    make(event, Kind::Event)
}

extern "C" fn event_destroy(event: CUevent) -> CUresult {
    free(event as usize, Kind::Event)
}

extern "C" fn graph_create(graph: *mut CUgraph, _: c_uint) -> CUresult {
    with(|state| state.nodes.clear());
    make(graph, Kind::Graph)
}

extern "C" fn graph_add_kernel_node(
    node: *mut CUgraphNode,
    graph: CUgraph,
    after: *const CUgraphNode,
    count: usize,
    parameters: *const CudaKernelNodeParams,
) -> CUresult {
    call(|state| {
        state.assert_alive(graph, Kind::Graph);
        assert_eq!(after.is_null(), count == 0);
        // SAFETY: the engine passes `count` handles, and parameters with one pointer for each of `add`'s arguments.
        let (after, parameters, arguments) = unsafe {
            let after = if count == 0 { &[] } else { std::slice::from_raw_parts(after, count) };
            let parameters = &*parameters;
            let count = if parameters.func as usize == SIGNAL { 2 } else { 3 };
            let argument = |i| **parameters.kernelParams.add(i).cast::<*const usize>();
            (after, parameters, [0, 1, 2].map(|i| if i < count { argument(i) } else { 0 }))
        };
        for address in arguments.into_iter().filter(|&address| address != 0) {
            state.assert_inside(address, 16);
        }
        state.nodes.push(Node {
            function: parameters.func as usize,
            arguments,
            grid: [parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ],
            block: [parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ],
            shared: parameters.sharedMemBytes,
            after: after.iter().map(|&node| node as usize).collect(),
            overlapped: Vec::new(),
        });
        // SAFETY: the engine passes a place for a handle.
        unsafe { *node = state.nodes.len() as *mut c_void };
        CUDA_SUCCESS
    })
}

extern "C" fn graph_add_dependencies(
    graph: CUgraph,
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    edges: *const CudaGraphEdgeData,
    count: usize,
) -> CUresult {
    call(|state| {
        state.assert_alive(graph, Kind::Graph);
        for edge in 0..count {
            // SAFETY: the engine passes `count` of each.
            let (from, to, edge) = unsafe { (*from.add(edge) as usize, *to.add(edge) as usize, *edges.add(edge)) };
            assert_eq!(edge, CudaGraphEdgeData::PROGRAMMATIC);
            assert!(from < to, "edges go forward");
            state.nodes[to - 1].after.push(from);
            state.nodes[to - 1].overlapped.push(from);
        }
        CUDA_SUCCESS
    })
}

extern "C" fn graph_instantiate(exec: *mut CUgraphExec, graph: CUgraph, _: c_ulonglong) -> CUresult {
    call(|state| {
        state.assert_alive(graph, Kind::Graph);
        let handle = state.handle(Kind::Exec);
        state.ready.insert(handle, state.nodes.clone());
        // SAFETY: the engine passes a place for a handle.
        unsafe { *exec = handle as *mut c_void };
        CUDA_SUCCESS
    })
}

extern "C" fn graph_upload(exec: CUgraphExec, stream: CUstream) -> CUresult {
    call(|state| {
        state.assert_alive(exec, Kind::Exec);
        state.assert_stream(stream);
        state.enqueue([]);
        CUDA_SUCCESS
    })
}

extern "C" fn graph_exec_destroy(exec: CUgraphExec) -> CUresult {
    free(exec as usize, Kind::Exec)
}

extern "C" fn graph_destroy(graph: CUgraph) -> CUresult {
    free(graph as usize, Kind::Graph)
}

extern "C" fn graph_launch(exec: CUgraphExec, stream: CUstream) -> CUresult {
    call(|state| {
        state.assert_alive(exec, Kind::Exec);
        state.assert_stream(stream);
        let outcome = std::mem::take(&mut state.next_launch);
        if outcome == Outcome::Refused {
            return INJECTED;
        }
        state.hung |= outcome == Outcome::Hangs;
        state.enqueue([]);
        for node in &state.ready[&(exec as usize)] {
            node.arguments.iter().for_each(|&address| mark_used(&mut state.memory, address));
            let [a, b, c] = node.arguments.map(|address| address as *mut [f32; 4]);
            let [counter, report, _] = node.arguments.map(|address| address as *mut u32);
            // SAFETY: every argument was inside an allocation, 16-byte aligned, when the node was added; reports are long
            // enough for every binding.
            unsafe {
                match node.function {
                    SIGNAL if state.silent || outcome == Outcome::Unsignalled => {}
                    SIGNAL if state.hung => state.unsignalled.push((counter as usize, report as usize)),
                    SIGNAL => signal(counter, report),
                    GUARD if (*c).iter().any(|x| !x.is_finite()) => {
                        *report.add(REPORT_GUARD as usize / 4 + 2) = *counter + 1;
                    }
                    GUARD => {}
                    _ => *c = std::array::from_fn(|i| (*a)[i] + (*b)[i]),
                }
            }
        }
        if outcome == Outcome::RefusedYetRuns { INJECTED } else { CUDA_SUCCESS }
    })
}

fn copy(to: usize, from: usize, bytes: usize, device: usize, stream: CUstream) -> CUresult {
    call(|state| {
        state.assert_stream(stream);
        state.enqueue([to, from]);
        state.assert_inside(device, bytes);
        // SAFETY: the device's side is inside an allocation, the host's side is the engine's own slice.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) };
        CUDA_SUCCESS
    })
}

extern "C" fn memcpy_htod_async(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream) -> CUresult {
    copy(to as usize, from as usize, bytes, to as usize, stream)
}

extern "C" fn memcpy_dtoh_async(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream) -> CUresult {
    copy(to as usize, from as usize, bytes, from as usize, stream)
}

extern "C" fn memset_d8_async(memory: CUdeviceptr, value: u8, bytes: usize, stream: CUstream) -> CUresult {
    call(|state| {
        state.assert_stream(stream);
        state.enqueue([memory as usize]);
        state.assert_inside(memory as usize, bytes);
        // SAFETY: inside an allocation.
        unsafe { (memory as *mut u8).write_bytes(value, bytes) };
        CUDA_SUCCESS
    })
}

extern "C" fn event_record(event: CUevent, stream: CUstream) -> CUresult {
    call(|state| {
        state.assert_alive(event, Kind::Event);
        state.assert_stream(stream);
        state.pending = 1;
        CUDA_SUCCESS
    })
}

extern "C" fn event_query(event: CUevent) -> CUresult {
    call(|state| {
        state.assert_alive(event, Kind::Event);
        let ready = state.pending == 0 && !state.hung;
        state.pending = 0;
        if ready {
            state.idle();
        }
        if ready { CUDA_SUCCESS } else { CUDA_ERROR_NOT_READY }
    })
}

extern "C" fn stream_synchronize(stream: CUstream) -> CUresult {
    with(|state| {
        state.assert_stream(stream);
        // Waits even when told to fail, as the driver does when it reports an error of earlier work.
        state.idle();
        if state.fails() { INJECTED } else { CUDA_SUCCESS }
    })
}

extern "C" fn event_synchronize(event: CUevent) -> CUresult {
    call(|state| {
        state.assert_alive(event, Kind::Event);
        state.idle();
        CUDA_SUCCESS
    })
}

extern "C" fn event_elapsed_time(milliseconds: *mut f32, start: CUevent, end: CUevent) -> CUresult {
    call(|state| {
        state.assert_alive(start, Kind::Event);
        state.assert_alive(end, Kind::Event);
        // SAFETY: the engine passes a place for a float.
        unsafe { *milliseconds = 0.5 };
        CUDA_SUCCESS
    })
}

extern "C" fn get_error_name(error: CUresult, name: *mut *const c_char) -> CUresult {
    let text = if error == INJECTED { c"CUDA_ERROR_LAUNCH_FAILED" } else { c"CUDA_ERROR_OUT_OF_MEMORY" };
    // SAFETY: the engine passes a place for a pointer.
    unsafe { *name = text.as_ptr() };
    CUDA_SUCCESS
}

/// The driver's table.
pub const API: DriverApi = DriverApi {
    module_load_data,
    module_get_function,
    module_unload,
    func_set_attribute,
    mem_alloc,
    mem_free,
    mem_host_alloc,
    mem_host_get_device_pointer,
    mem_free_host,
    mem_get_info,
    stream_create,
    stream_destroy,
    event_create,
    event_destroy,
    graph_create,
    graph_add_kernel_node,
    graph_add_dependencies,
    graph_instantiate,
    graph_upload,
    graph_exec_destroy,
    graph_destroy,
    graph_launch,
    memcpy_htod_async,
    memcpy_dtoh_async,
    memset_d8_async,
    event_record,
    event_query,
    stream_synchronize,
    event_synchronize,
    event_elapsed_time,
    get_error_name,
};
