//! The table's functions. All of the driver's `unsafe` that is about the caller's pointers is here: each function trusts what
//! the CUDA driver's documentation asks of its caller, as the engine's table says.

use super::{
    Refusal, State, call, digest, free,
    graph::{self, Exec, Graph, Node},
    handles::{Function, Module, Object},
};
use crate::{machine::FaultKind, ptx, watch::Label};
use floe_engine::cuda::{
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, CUDA_ERROR_OUT_OF_MEMORY, CUDA_SUCCESS, CUdeviceptr, CUevent,
    CUfunction, CUfunctionAttribute, CUgraph, CUgraphExec, CUgraphNode, CUmodule, CUresult, CUstream,
    CudaGraphEdgeData, CudaKernelNodeParams, DriverApi,
};
use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void},
    slice,
};

/// Results that the driver gives here, with their names.
const NAMES: [(CUresult, &CStr); 13] = [
    (INVALID_VALUE, c"CUDA_ERROR_INVALID_VALUE"),
    (CUDA_ERROR_OUT_OF_MEMORY, c"CUDA_ERROR_OUT_OF_MEMORY"),
    (INVALID_IMAGE, c"CUDA_ERROR_INVALID_IMAGE"),
    (super::NO_CONTEXT, c"CUDA_ERROR_INVALID_CONTEXT"),
    (INVALID_PTX, c"CUDA_ERROR_INVALID_PTX"),
    (INVALID_HANDLE, c"CUDA_ERROR_INVALID_HANDLE"),
    (NOT_FOUND, c"CUDA_ERROR_NOT_FOUND"),
    (ILLEGAL_ADDRESS, c"CUDA_ERROR_ILLEGAL_ADDRESS"),
    (LAUNCH_OUT_OF_RESOURCES, c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
    (LAUNCH_TIMEOUT, c"CUDA_ERROR_LAUNCH_TIMEOUT"),
    (MISALIGNED_ADDRESS, c"CUDA_ERROR_MISALIGNED_ADDRESS"),
    (LAUNCH_FAILED, c"CUDA_ERROR_LAUNCH_FAILED"),
    (NOT_SUPPORTED, c"CUDA_ERROR_NOT_SUPPORTED"),
];
const INVALID_VALUE: CUresult = 1;
const INVALID_IMAGE: CUresult = 200;
const INVALID_PTX: CUresult = 218;
const INVALID_HANDLE: CUresult = 400;
const NOT_FOUND: CUresult = 500;
const ILLEGAL_ADDRESS: CUresult = 700;
const LAUNCH_OUT_OF_RESOURCES: CUresult = 701;
const LAUNCH_TIMEOUT: CUresult = 702;
const MISALIGNED_ADDRESS: CUresult = 716;
const LAUNCH_FAILED: CUresult = 719;
const NOT_SUPPORTED: CUresult = 801;

/// Dynamic and static shared memory that a kernel may use without asking.
const DEFAULT_SHARED: u32 = 48 * 1024;

fn refuse<T>(result: CUresult, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal(result, message.into()))
}

fn stale<T>(what: &str) -> Result<T, Refusal> {
    refuse(INVALID_HANDLE, format!("there is no such {what}"))
}

fn outside<T>(address: u64, bytes: usize) -> Result<T, Refusal> {
    refuse(INVALID_VALUE, format!("{bytes} bytes at {address:#x} are not inside one allocation"))
}

/// Stores a value where the caller wants it.
///
/// # Safety
/// `place` must be valid for the write.
unsafe fn store<T>(place: *mut T, value: T) {
    // SAFETY: the caller's promise.
    unsafe { place.write(value) };
}

fn destroy(handle: *mut c_void, what: &str, is: impl Fn(&Object) -> bool) -> CUresult {
    free(|state| match state.handles.get(handle) {
        Some(object) if is(object) => {
            state.handles.remove(handle);
            Ok(())
        }
        _ => stale(what),
    })
}

fn expect_stream(state: &State, stream: CUstream) -> Result<(), Refusal> {
    match state.handles.get(stream) {
        Some(Object::Stream) => Ok(()),
        // The default stream.
        None if stream.is_null() => Ok(()),
        _ => stale("stream"),
    }
}

unsafe extern "C" fn module_load_data(module: *mut CUmodule, image: *const c_void) -> CUresult {
    call(|state| {
        // SAFETY: an image has at least a terminating NUL; ELF files and fat binaries, which need not end with one, are told
        // by their first bytes, and neither begins with text.
        let first = unsafe { image.cast::<u8>().read() };
        if first == 0x7f || !first.is_ascii() || first == 0x50 {
            return refuse(INVALID_IMAGE, "the image is machine code, which needs a GPU: compile the plan with --ptx");
        }
        // SAFETY: what is no machine code is NUL-terminated text.
        let Ok(text) = unsafe { CStr::from_ptr(image.cast()) }.to_str() else {
            return refuse(INVALID_PTX, "the PTX is not UTF-8");
        };
        let ptx = ptx::Module::parse(text).map_err(|error| Refusal(INVALID_PTX, error.to_string()))?;
        let object = Object::Module(Module { ptx, digest: digest(text) });
        // SAFETY: the caller passes a place for a handle.
        unsafe { store(module, state.handles.add(object)) };
        Ok(())
    })
}

unsafe extern "C" fn module_get_function(function: *mut CUfunction, module: CUmodule, name: *const c_char) -> CUresult {
    call(|state| {
        // SAFETY: the caller passes a NUL-terminated name.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        // Taken out meanwhile, so that decoding can add to the state.
        let Some(Object::Module(loaded)) = state.handles.take(module) else { return stale("module") };
        let known = loaded.ptx.kernel(&name).is_some();
        let number = known.then(|| state.kernel(&loaded.ptx, loaded.digest, &name));
        state.handles.put(module, Object::Module(loaded));
        let kernel = match number {
            None => return refuse(NOT_FOUND, format!("the module has no kernel {name}")),
            Some(number) => number.map_err(|message| Refusal(NOT_SUPPORTED, message))?,
        };
        let program = std::sync::Arc::clone(&state.kernels[kernel].program);
        let dynamic_shared = DEFAULT_SHARED.saturating_sub(program.static_shared());
        let object = Object::Function(Function { program, kernel, dynamic_shared });
        // SAFETY: the caller passes a place for a handle.
        unsafe { store(function, state.handles.add(object)) };
        Ok(())
    })
}

unsafe extern "C" fn module_unload(module: CUmodule) -> CUresult {
    destroy(module, "module", |object| matches!(object, Object::Module(_)))
}

unsafe extern "C" fn func_set_attribute(
    function: CUfunction,
    attribute: CUfunctionAttribute,
    value: c_int,
) -> CUresult {
    call(|state| {
        let most = state.options.limits.shared_bytes;
        let Some(Object::Function(function)) = state.handles.get_mut(function) else { return stale("function") };
        let Ok(value) = u32::try_from(value) else { return refuse(INVALID_VALUE, "an attribute below zero") };
        if attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES {
            return refuse(NOT_SUPPORTED, format!("function attribute {attribute}"));
        }
        if value.saturating_add(function.program.static_shared()) > most {
            return refuse(INVALID_VALUE, format!("{value} bytes of dynamic shared memory; there are {most}"));
        }
        function.dynamic_shared = value;
        Ok(())
    })
}

unsafe extern "C" fn mem_alloc(memory: *mut CUdeviceptr, bytes: usize) -> CUresult {
    call(|state| {
        let bytes = bytes as u64;
        if bytes == 0 {
            return refuse(INVALID_VALUE, "an allocation of nothing");
        }
        let fits = state.memory.live().saturating_add(bytes) <= state.options.memory;
        let Some(start) = fits.then(|| state.memory.allocate(bytes)).flatten() else {
            return refuse(CUDA_ERROR_OUT_OF_MEMORY, format!("no {bytes} bytes of device memory"));
        };
        // SAFETY: the caller passes a place for an address.
        unsafe { store(memory, start) };
        Ok(())
    })
}

unsafe extern "C" fn mem_free(memory: CUdeviceptr) -> CUresult {
    free(|state| if state.memory.free(memory) { Ok(()) } else { outside(memory, 0) })
}

unsafe extern "C" fn mem_host_alloc(memory: *mut *mut c_void, bytes: usize, _: c_uint) -> CUresult {
    call(|state| {
        let Some(host) = state.memory.allocate_host(bytes as u64) else {
            return refuse(CUDA_ERROR_OUT_OF_MEMORY, format!("no {bytes} bytes of host memory"));
        };
        // SAFETY: the caller passes a place for an address.
        unsafe { store(memory, host.as_ptr().cast()) };
        Ok(())
    })
}

unsafe extern "C" fn mem_host_get_device_pointer(device: *mut CUdeviceptr, memory: *mut c_void, _: c_uint) -> CUresult {
    call(|state| {
        let Some(address) = state.memory.device_address(memory.cast()) else {
            return refuse(INVALID_VALUE, "the driver did not allocate that host memory");
        };
        // SAFETY: the caller passes a place for an address.
        unsafe { store(device, address) };
        Ok(())
    })
}

unsafe extern "C" fn mem_free_host(memory: *mut c_void) -> CUresult {
    free(|state| match state.memory.device_address(memory.cast()) {
        Some(address) if state.memory.free(address) => Ok(()),
        _ => refuse(INVALID_VALUE, "the driver did not allocate that host memory"),
    })
}

unsafe extern "C" fn mem_get_info(free: *mut usize, total: *mut usize) -> CUresult {
    call(|state| {
        let all = state.options.memory;
        // SAFETY: the caller passes two places for sizes.
        unsafe {
            store(free, all.saturating_sub(state.memory.live()) as usize);
            store(total, all as usize);
        }
        Ok(())
    })
}

unsafe extern "C" fn stream_create(stream: *mut CUstream, _: c_uint) -> CUresult {
    call(|state| {
        // SAFETY: the caller passes a place for a handle.
        unsafe { store(stream, state.handles.add(Object::Stream)) };
        Ok(())
    })
}

unsafe extern "C" fn stream_destroy(stream: CUstream) -> CUresult {
    destroy(stream, "stream", |object| matches!(object, Object::Stream))
}

unsafe extern "C" fn event_create(event: *mut CUevent, _: c_uint) -> CUresult {
    call(|state| {
        // SAFETY: the caller passes a place for a handle.
        unsafe { store(event, state.handles.add(Object::Event(None))) };
        Ok(())
    })
}

unsafe extern "C" fn event_destroy(event: CUevent) -> CUresult {
    destroy(event, "event", |object| matches!(object, Object::Event(_)))
}

unsafe extern "C" fn graph_create(graph: *mut CUgraph, _: c_uint) -> CUresult {
    call(|state| {
        let description = state.graphs.min(state.described.len().saturating_sub(1));
        state.graphs += 1;
        // SAFETY: the caller passes a place for a handle.
        unsafe { store(graph, state.handles.add(Object::Graph(Graph::new(description)))) };
        Ok(())
    })
}

unsafe extern "C" fn graph_add_kernel_node(
    node: *mut CUgraphNode,
    graph: CUgraph,
    dependencies: *const CUgraphNode,
    count: usize,
    parameters: *const CudaKernelNodeParams,
) -> CUresult {
    call(|state| {
        // SAFETY: the caller passes the parameters of a node, and `count` handles.
        let (given, after) =
            unsafe { (&*parameters, if count == 0 { &[] } else { slice::from_raw_parts(dependencies, count) }) };
        let Some(Object::Function(function)) = state.handles.get(given.func) else { return stale("function") };
        let function = function.clone();
        let program = &function.program;
        let threads = [given.blockDimX, given.blockDimY, given.blockDimZ];
        let grid = [given.gridDimX, given.gridDimY, given.gridDimZ];
        let product = |extents: [u32; 3]| extents.into_iter().map(u64::from).product::<u64>();
        if !(1..=1024).contains(&product(threads)) || product(grid) == 0 || product(grid) > u64::from(u32::MAX) {
            return refuse(INVALID_VALUE, format!("{} with {grid:?} blocks of {threads:?} threads", program.name()));
        }
        if given.sharedMemBytes > function.dynamic_shared {
            let (asked, most) = (given.sharedMemBytes, function.dynamic_shared);
            return refuse(INVALID_VALUE, format!("{} with {asked} bytes of {most} shared", program.name()));
        }
        let mut block = vec![0; program.parameter_bytes() as usize];
        let mut addresses = Vec::new();
        for (number, parameter) in program.parameters().iter().enumerate() {
            let (offset, bytes) = (parameter.offset as usize, parameter.bytes as usize);
            // SAFETY: the caller passes a pointer to each of the kernel's arguments.
            let argument = unsafe { slice::from_raw_parts((*given.kernelParams.add(number)).cast::<u8>(), bytes) };
            block[offset..offset + bytes].copy_from_slice(argument);
            addresses.push(argument.try_into().map_or(0, u64::from_ne_bytes));
        }
        let Some(Object::Graph(graph)) = state.handles.get_mut(graph) else { return stale("graph") };
        let nodes = graph.nodes.len();
        let after: Vec<usize> = after.iter().map(|&node| node as usize - 1).collect();
        if after.iter().any(|&earlier| earlier >= nodes) {
            return stale("node");
        }
        let step = graph.describe(&state.described, program.name(), addresses.len());
        let described = |number: usize| step.map(|step| &step.arguments[number]);
        let operands = addresses.iter().enumerate();
        let (operands, transient) =
            operands.map(|(number, &address)| graph::operand(&state.memory, address, described(number))).unzip();
        let label = match step {
            Some(step) => Label { step: step.number, nodes: step.nodes.clone() },
            None => Label { step: nodes as u32, nodes: String::new() },
        };
        let shared = given.sharedMemBytes;
        let new = Node { function, grid, block: threads, shared, parameters: block, operands, transient, label, after };
        graph.nodes.push(new);
        // SAFETY: the caller passes a place for a handle.
        unsafe { store(node, (nodes + 1) as *mut c_void) };
        Ok(())
    })
}

unsafe extern "C" fn graph_add_dependencies(
    graph: CUgraph,
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    _: *const CudaGraphEdgeData,
    count: usize,
) -> CUresult {
    call(|state| {
        let Some(Object::Graph(graph)) = state.handles.get_mut(graph) else { return stale("graph") };
        for edge in 0..count {
            // SAFETY: the caller passes `count` handles of each.
            let (from, to) = unsafe { (*from.add(edge) as usize, *to.add(edge) as usize) };
            match to.checked_sub(1).and_then(|to| graph.nodes.get_mut(to)) {
                // Edges go forward, so a kernel that may start early and waits by itself starts after the earlier one here.
                Some(node) if from >= 1 && from < to => node.after.push(from - 1),
                _ => return stale("node"),
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn graph_instantiate(exec: *mut CUgraphExec, graph: CUgraph, _: c_ulonglong) -> CUresult {
    call(|state| {
        let Some(Object::Graph(graph)) = state.handles.get(graph) else { return stale("graph") };
        let ready = Exec::new(graph);
        // SAFETY: the caller passes a place for a handle.
        unsafe { store(exec, state.handles.add(Object::Exec(ready))) };
        Ok(())
    })
}

unsafe extern "C" fn graph_upload(exec: CUgraphExec, stream: CUstream) -> CUresult {
    call(|state| {
        expect_stream(state, stream)?;
        if matches!(state.handles.get(exec), Some(Object::Exec(_))) { Ok(()) } else { stale("graph") }
    })
}

unsafe extern "C" fn graph_exec_destroy(exec: CUgraphExec) -> CUresult {
    destroy(exec, "graph", |object| matches!(object, Object::Exec(_)))
}

unsafe extern "C" fn graph_destroy(graph: CUgraph) -> CUresult {
    destroy(graph, "graph", |object| matches!(object, Object::Graph(_)))
}

unsafe extern "C" fn graph_launch(exec: CUgraphExec, stream: CUstream) -> CUresult {
    call(|state| {
        expect_stream(state, stream)?;
        // Taken out meanwhile, since launches change the state.
        let Some(Object::Exec(ready)) = state.handles.take(exec) else { return stale("graph") };
        let result = graph::replay(state, &ready);
        state.handles.put(exec, Object::Exec(ready));
        result.map_err(|fault| {
            let result = match fault.kind {
                FaultKind::Misaligned { .. } => MISALIGNED_ADDRESS,
                FaultKind::Address { .. } => ILLEGAL_ADDRESS,
                FaultKind::Budget(_) => LAUNCH_TIMEOUT,
                _ => LAUNCH_FAILED,
            };
            state.spoiled = Some(result);
            Refusal(result, fault.to_string())
        })
    })
}

unsafe extern "C" fn memcpy_htod_async(
    to: CUdeviceptr,
    from: *const c_void,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    call(|state| {
        expect_stream(state, stream)?;
        // SAFETY: the caller passes as many bytes.
        if unsafe { state.memory.write(to, from.cast(), bytes as u64) } { Ok(()) } else { outside(to, bytes) }
    })
}

unsafe extern "C" fn memcpy_dtoh_async(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream) -> CUresult {
    call(|state| {
        expect_stream(state, stream)?;
        // SAFETY: the caller passes room for as many bytes.
        if unsafe { state.memory.read(from, to.cast(), bytes as u64) } { Ok(()) } else { outside(from, bytes) }
    })
}

unsafe extern "C" fn memset_d8_async(memory: CUdeviceptr, value: u8, bytes: usize, stream: CUstream) -> CUresult {
    call(|state| {
        expect_stream(state, stream)?;
        if state.memory.fill(memory, value, bytes as u64) { Ok(()) } else { outside(memory, bytes) }
    })
}

unsafe extern "C" fn event_record(event: CUevent, stream: CUstream) -> CUresult {
    call(|state| {
        expect_stream(state, stream)?;
        let clock = state.clock;
        let Some(Object::Event(recorded)) = state.handles.get_mut(event) else { return stale("event") };
        *recorded = Some(clock);
        Ok(())
    })
}

unsafe extern "C" fn event_query(event: CUevent) -> CUresult {
    call(|state| if matches!(state.handles.get(event), Some(Object::Event(_))) { Ok(()) } else { stale("event") })
}

unsafe extern "C" fn stream_synchronize(stream: CUstream) -> CUresult {
    call(|state| expect_stream(state, stream))
}

unsafe extern "C" fn event_synchronize(event: CUevent) -> CUresult {
    // SAFETY: as there.
    unsafe { event_query(event) }
}

unsafe extern "C" fn event_elapsed_time(milliseconds: *mut f32, start: CUevent, end: CUevent) -> CUresult {
    call(|state| {
        let recorded = |event| match state.handles.get(event) {
            Some(Object::Event(Some(clock))) => Ok(*clock),
            _ => stale("recorded event"),
        };
        let instructions = recorded(end)?.saturating_sub(recorded(start)?);
        // SAFETY: the caller passes a place for a number.
        unsafe { store(milliseconds, instructions as f32 / 1e6) };
        Ok(())
    })
}

unsafe extern "C" fn get_error_name(error: CUresult, name: *mut *const c_char) -> CUresult {
    let known = NAMES.iter().find(|(number, _)| *number == error);
    // SAFETY: the caller passes a place for a pointer.
    unsafe { store(name, known.map_or(std::ptr::null(), |(_, text)| text.as_ptr())) };
    if known.is_some() { CUDA_SUCCESS } else { INVALID_VALUE }
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
