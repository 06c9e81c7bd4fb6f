//! What a session owns at the driver, and the calls that make, use and free it. All `unsafe` of the CUDA device is here.
//!
//! Every call happens under the promise that the caller of [`Session::init`](super::SizedSession::init) gave: the table
//! holds the driver's functions and a context is current. Handles come from successful calls of the same table and are
//! freed once, by `Drop`.

use super::{
    api::*,
    error::{CallError, InitError, Subject},
    image::{ImageProblem, check_image},
};
use crate::plan::{
    StoredImage,
    format::{ImageKind, MAX_NAME, MAX_OPERANDS, MAX_SHAPES},
};
use core::{
    ffi::{CStr, c_void},
    ops::Range,
    ptr::{null, null_mut},
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

/// A kernel launch, ready to become a graph node.
pub(super) struct Node<'a> {
    pub step: u32,
    pub function: CUfunction,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub arguments: heapless::Vec<CUdeviceptr, MAX_OPERANDS>,
    pub after: &'a [CUgraphNode],
    /// Whether it may start before those in `after` have finished.
    pub overlaps: bool,
}

/// Everything of one session that has to be freed.
#[derive(Debug)]
pub(super) struct Resources<'d, const IMAGES: usize> {
    api: &'d DriverApi,
    stream: CUstream,
    owns_stream: bool,
    /// Whether everything has finished and nothing more will be enqueued.
    finished: bool,
    /// Whether somebody has given up waiting for the device.
    overdue: bool,
    /// Whether the device still uses what this owns, so that freeing it would wait without end.
    stuck: AtomicBool,
    /// The same of what a session shares with others.
    shares: [Option<&'d AtomicBool>; 2],
    start: CUevent,
    end: CUevent,
    /// Recorded at the end of what a session waits for; null in what is no session.
    done: CUevent,
    modules: heapless::Vec<CUmodule, IMAGES>,
    memory: CUdeviceptr,
    host: *mut u8,
    host_bytes: usize,
    graph: CUgraph,
    /// Ready graphs, one for each shape.
    execs: heapless::Vec<CUgraphExec, MAX_SHAPES>,
    /// Which of them is launched.
    chosen: usize,
}

/// Turns a result into `Ok` or the error of a call.
fn check_result(api: &DriverApi, call: Call, subject: Subject, result: CUresult) -> Result<(), CallError> {
    if result == CUDA_SUCCESS {
        return Ok(());
    }
    let mut name = heapless::String::new();
    let mut text = null();
    // SAFETY: promise of `init`; `text` is a valid place for a pointer.
    if unsafe { (api.get_error_name)(result, &mut text) } == CUDA_SUCCESS && !text.is_null() {
        // SAFETY: on success the driver stores the address of a constant NUL-terminated string.
        let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
        bytes.iter().take_while(|byte| byte.is_ascii()).all(|&byte| name.push(char::from(byte)).is_ok());
    }
    Err(CallError { call, result, name, subject })
}

/// `call!(self, cuX, subject, field(arguments))`: calls a function of the table and checks its result.
macro_rules! call {
    ($self:ident, $symbol:ident, $subject:expr, $field:ident($($argument:expr),*)) => {{
        // SAFETY: the table holds the driver's functions (promise of `init`); handles are this session's own and alive,
        // output pointers point to places of the right type, and other pointers are valid as the function around says.
        let result = unsafe { ($self.api.$field)($($argument),*) };
        check_result($self.api, Call::$symbol, $subject, result)
    }};
}

impl<'d, const IMAGES: usize> Resources<'d, IMAGES> {
    /// Stream (unless one is given) and events.
    pub fn new(api: &'d DriverApi, stream: Option<CUstream>) -> Result<Self, CallError> {
        let mut new = Self {
            api,
            stream: stream.unwrap_or(null_mut()),
            owns_stream: false,
            finished: false,
            overdue: false,
            stuck: AtomicBool::new(false),
            shares: [None; 2],
            start: null_mut(),
            end: null_mut(),
            done: null_mut(),
            modules: heapless::Vec::new(),
            memory: 0,
            host: null_mut(),
            host_bytes: 0,
            graph: null_mut(),
            execs: heapless::Vec::new(),
            chosen: 0,
        };
        if stream.is_none() {
            call!(new, cuStreamCreate, Subject::Session, stream_create(&mut new.stream, CU_STREAM_NON_BLOCKING))?;
            new.owns_stream = true;
        }
        call!(new, cuEventCreate, Subject::Session, event_create(&mut new.start, CU_EVENT_DEFAULT))?;
        call!(new, cuEventCreate, Subject::Session, event_create(&mut new.end, CU_EVENT_DEFAULT))?;
        Ok(new)
    }

    /// Makes the event that [`Self::record_done`] records.
    pub fn create_done(&mut self, blocking: bool) -> Result<(), CallError> {
        let flags = CU_EVENT_DISABLE_TIMING | if blocking { CU_EVENT_BLOCKING_SYNC } else { 0 };
        call!(self, cuEventCreate, Subject::Session, event_create(&mut self.done, flags))
    }

    /// Notes what a session shares with others.
    pub fn share(&mut self, weights: Option<&'d AtomicBool>, scratch: Option<&'d AtomicBool>) {
        self.shares = [weights, scratch];
    }

    /// Is set where a session that shares this was dropped while the device was at work for it.
    pub fn stuck(&self) -> &AtomicBool {
        &self.stuck
    }

    /// Notes whether somebody has given up waiting.
    pub fn set_overdue(&mut self, overdue: bool) {
        self.overdue = overdue;
    }

    /// Whether freeing would wait without end: the device has not reached the event that somebody gave up waiting for, or
    /// uses what is shared for another session of which that holds.
    fn is_stuck(&self) -> bool {
        let set = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        let shared = self.shares.iter().flatten().any(|flag| set(flag));
        set(&self.stuck) || shared || (self.overdue && matches!(self.is_done(), Ok(false)))
    }

    /// The driver's functions.
    #[cfg(feature = "measure")]
    pub fn api(&self) -> &'d DriverApi {
        self.api
    }

    /// The stream of everything.
    pub fn stream(&self) -> CUstream {
        self.stream
    }

    /// Loads an image; a packed one is unpacked into the page-locked host memory. The driver learns no length: a cubin states
    /// its own, and PTX ends with NUL.
    pub fn load_module(&mut self, kind: ImageKind, image: StoredImage<'_>) -> Result<(), InitError> {
        let number = self.modules.len() as u32;
        let room = self.host_memory(0, if image.is_packed() { image.unpacked_bytes() } else { 0 });
        let image = image.unpack(room).ok_or(ImageProblem::Packed);
        let image = image.and_then(|image| check_image(kind, image).map(|()| image));
        let image = image.map_err(|problem| InitError::Image { number, problem })?.as_ptr();
        let subject = Subject::Image(number);
        let mut module = null_mut();
        call!(self, cuModuleLoadData, subject, module_load_data(&mut module, image.cast()))?;
        // `init` compared the number of images with the capacity before.
        let _ = self.modules.push(module);
        Ok(())
    }

    /// Finds kernel `number`, called `name`, in module `image`, and lets it use `shared` bytes of dynamic shared memory.
    pub fn function(&self, number: u32, image: u32, name: &str, shared: u32) -> Result<CUfunction, CallError> {
        let subject = Subject::Kernel(number);
        // The check has proven that the image exists, and that the name fits with a NUL behind it.
        let module = self.modules.get(image as usize).copied().unwrap_or(null_mut());
        let mut terminated = [0u8; MAX_NAME + 1];
        for (to, from) in terminated[..MAX_NAME].iter_mut().zip(name.bytes()) {
            *to = from;
        }
        let mut function = null_mut();
        let name = terminated.as_ptr().cast();
        call!(self, cuModuleGetFunction, subject, module_get_function(&mut function, module, name))?;
        // What a kernel may use without asking is less than 48 KiB by its static shared memory, which the plan does not know.
        if shared > 0 {
            let attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            call!(self, cuFuncSetAttribute, subject, func_set_attribute(function, attribute, shared as i32))?;
        }
        Ok(function)
    }

    /// Allocates the session's device memory and returns its address.
    pub fn allocate(&mut self, bytes: usize) -> Result<CUdeviceptr, CallError> {
        call!(self, cuMemAlloc_v2, Subject::Session, mem_alloc(&mut self.memory, bytes))?;
        Ok(self.memory)
    }

    /// Free and total bytes of device memory.
    pub fn memory_info(&self) -> Result<(usize, usize), CallError> {
        let (mut free, mut total) = (0, 0);
        call!(self, cuMemGetInfo_v2, Subject::Session, mem_get_info(&mut free, &mut total))?;
        Ok((free, total))
    }

    /// Allocates the session's page-locked host memory and zeroes it.
    pub fn allocate_host(&mut self, bytes: usize) -> Result<(), CallError> {
        let mut host = null_mut();
        let flags = CU_MEMHOSTALLOC_DEVICEMAP;
        call!(self, cuMemHostAlloc, Subject::Session, mem_host_alloc(&mut host, bytes, flags))?;
        (self.host, self.host_bytes) = (host.cast(), bytes);
        // SAFETY: the driver has just allocated `bytes` bytes there, and nobody else knows of them.
        unsafe { self.host.write_bytes(0, bytes) };
        Ok(())
    }

    /// Device address of the page-locked host memory.
    pub fn host_device_address(&self) -> Result<CUdeviceptr, CallError> {
        let mut address = 0;
        let host = self.host.cast();
        call!(
            self,
            cuMemHostGetDevicePointer_v2,
            Subject::Session,
            mem_host_get_device_pointer(&mut address, host, 0)
        )?;
        Ok(address)
    }

    /// Bytes of the page-locked host memory; empty where the range lies outside it. The session sees to it that the
    /// device does not use them meanwhile.
    pub fn host_memory(&mut self, offset: u64, bytes: u64) -> &mut [u8] {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.host_bytes as u64 && !self.host.is_null() => {
                // SAFETY: inside the one allocation, which was zeroed when made; borrowed as `self` is.
                unsafe { core::slice::from_raw_parts_mut(self.host.add(offset as usize), bytes as usize) }
            }
            _ => &mut [],
        }
    }

    /// Addresses of the page-locked host memory.
    pub fn host_addresses(&self) -> Range<usize> {
        self.host.addr()..self.host.addr().saturating_add(self.host_bytes)
    }

    /// The word of page-locked host memory at `offset`, which the device may write at any time; 0 outside the memory.
    pub fn load(&self, offset: u64) -> u32 {
        let inside = offset.checked_add(4).is_some_and(|end| end <= self.host_bytes as u64);
        if self.host.is_null() || !inside || !offset.is_multiple_of(4) {
            return 0;
        }
        // SAFETY: inside the one allocation, which is aligned to a page and was zeroed when made. Only the device writes
        // there, whole words; `host_memory` lends these words only when it has finished.
        unsafe { AtomicU32::from_ptr(self.host.add(offset as usize).cast()) }.load(Ordering::Acquire)
    }

    /// Copies `from` to the device memory at `to`, in stream order. `from` must stay as it is until the stream is idle.
    pub fn upload(&self, subject: Subject, to: CUdeviceptr, from: &[u8]) -> Result<(), CallError> {
        let (from, bytes) = (from.as_ptr().cast(), from.len());
        call!(self, cuMemcpyHtoDAsync_v2, subject, memcpy_htod_async(to, from, bytes, self.stream))
    }

    /// As [`Self::upload`], from page-locked host memory.
    pub fn upload_host(&self, subject: Subject, to: CUdeviceptr, offset: u64, bytes: u64) -> Result<(), CallError> {
        let from = self.host.wrapping_add(offset as usize).cast_const().cast();
        call!(self, cuMemcpyHtoDAsync_v2, subject, memcpy_htod_async(to, from, bytes as usize, self.stream))
    }

    /// Copies device memory into page-locked host memory, in stream order.
    pub fn download_host(&self, subject: Subject, from: CUdeviceptr, offset: u64, bytes: u64) -> Result<(), CallError> {
        let to = self.host.wrapping_add(offset as usize).cast();
        call!(self, cuMemcpyDtoHAsync_v2, subject, memcpy_dtoh_async(to, from, bytes as usize, self.stream))
    }

    /// Zeroes device memory, in stream order.
    pub fn zero(&self, subject: Subject, memory: CUdeviceptr, bytes: u64) -> Result<(), CallError> {
        call!(self, cuMemsetD8Async, subject, memset_d8_async(memory, 0, bytes as usize, self.stream))
    }

    /// Begins the graph.
    pub fn create_graph(&mut self) -> Result<(), CallError> {
        call!(self, cuGraphCreate, Subject::Session, graph_create(&mut self.graph, 0))
    }

    /// Adds a kernel launch to the graph.
    pub fn add_node(&self, mut node: Node<'_>) -> Result<CUgraphNode, CallError> {
        // One argument, one pointer to it; the driver copies the arguments before it returns.
        let mut pointers = [null_mut::<c_void>(); MAX_OPERANDS];
        for (pointer, argument) in pointers.iter_mut().zip(&mut node.arguments) {
            *pointer = core::ptr::from_mut(argument).cast();
        }
        let parameters = CudaKernelNodeParams {
            func: node.function,
            gridDimX: node.grid[0],
            gridDimY: node.grid[1],
            gridDimZ: node.grid[2],
            blockDimX: node.block[0],
            blockDimY: node.block[1],
            blockDimZ: node.block[2],
            sharedMemBytes: node.shared,
            kernelParams: pointers.as_mut_ptr(),
            extra: null_mut(),
            kern: null_mut(),
            ctx: null_mut(),
        };
        let edges = if node.overlaps { node.after } else { &[] };
        let after = if node.overlaps { &[] } else { node.after };
        let pointer = if after.is_empty() { null() } else { after.as_ptr() };
        let (subject, count) = (Subject::Step(node.step), after.len());
        let mut handle = null_mut();
        call!(
            self,
            cuGraphAddKernelNode_v2,
            subject,
            graph_add_kernel_node(&mut handle, self.graph, pointer, count, &parameters)
        )?;
        for earlier in edges {
            let edge = CudaGraphEdgeData::PROGRAMMATIC;
            call!(
                self,
                cuGraphAddDependencies_v2,
                subject,
                graph_add_dependencies(self.graph, earlier, &handle, &edge, 1)
            )?;
        }
        Ok(handle)
    }

    /// Makes the graph ready, frees its description and uploads it. It is launched from now on.
    pub fn finish_graph(&mut self) -> Result<(), CallError> {
        let subject = Subject::Session;
        let mut exec = null_mut();
        call!(self, cuGraphInstantiateWithFlags, subject, graph_instantiate(&mut exec, self.graph, 0))?;
        self.chosen = self.execs.len();
        // Fits: the check has counted the shapes of a target.
        let _ = self.execs.push(exec);
        let graph = core::mem::replace(&mut self.graph, null_mut());
        call!(self, cuGraphDestroy, subject, graph_destroy(graph))?;
        call!(self, cuGraphUpload, subject, graph_upload(exec, self.stream))
    }

    /// Launches graph `number` from now on.
    pub fn choose(&mut self, number: usize) {
        self.chosen = number;
    }

    /// Launches the chosen graph.
    pub fn launch(&self) -> Result<(), CallError> {
        let exec = self.execs.get(self.chosen).copied().unwrap_or(null_mut());
        call!(self, cuGraphLaunch, Subject::Session, graph_launch(exec, self.stream))
    }

    /// Records the first or the second of the two events.
    pub fn record(&self, end: bool) -> Result<(), CallError> {
        let event = if end { self.end } else { self.start };
        call!(self, cuEventRecord, Subject::Session, event_record(event, self.stream))
    }

    /// Whether the second event has passed.
    pub fn has_ended(&self) -> Result<bool, CallError> {
        self.has_passed(self.end)
    }

    fn has_passed(&self, event: CUevent) -> Result<bool, CallError> {
        // SAFETY: as in `call!`.
        match unsafe { (self.api.event_query)(event) } {
            CUDA_ERROR_NOT_READY => Ok(false),
            result => check_result(self.api, Call::cuEventQuery, Subject::Session, result).map(|()| true),
        }
    }

    /// Milliseconds between the two events, once the second has passed.
    pub fn elapsed(&self) -> Result<f32, CallError> {
        let mut milliseconds = 0.0;
        call!(self, cuEventSynchronize, Subject::Session, event_synchronize(self.end))?;
        let (start, end) = (self.start, self.end);
        call!(self, cuEventElapsedTime, Subject::Session, event_elapsed_time(&mut milliseconds, start, end))?;
        Ok(milliseconds)
    }

    /// Records the event behind everything enqueued so far.
    pub fn record_done(&self) -> Result<(), CallError> {
        call!(self, cuEventRecord, Subject::Session, event_record(self.done, self.stream))
    }

    /// Whether that event has passed.
    pub fn is_done(&self) -> Result<bool, CallError> {
        self.has_passed(self.done)
    }

    /// Waits until that event has passed.
    pub fn synchronize_done(&self) -> Result<(), CallError> {
        call!(self, cuEventSynchronize, Subject::Session, event_synchronize(self.done))
    }

    /// Waits until the stream is idle.
    pub fn synchronize(&self) -> Result<(), CallError> {
        call!(self, cuStreamSynchronize, Subject::Session, stream_synchronize(self.stream))
    }

    /// Waits until the stream is idle, and gives it and the events back: what was enqueued was all.
    pub fn finish(&mut self) -> Result<(), CallError> {
        let subject = Subject::Session;
        self.synchronize()?;
        self.finished = true;
        let end = core::mem::replace(&mut self.end, null_mut());
        call!(self, cuEventDestroy_v2, subject, event_destroy(end))?;
        let start = core::mem::replace(&mut self.start, null_mut());
        call!(self, cuEventDestroy_v2, subject, event_destroy(start))?;
        if core::mem::replace(&mut self.owns_stream, false) {
            call!(self, cuStreamDestroy_v2, subject, stream_destroy(self.stream))?;
        }
        Ok(())
    }
}

impl<const IMAGES: usize> Drop for Resources<'_, IMAGES> {
    fn drop(&mut self) {
        // Nothing can be done about a failure here but to go on and say so.
        let warn = |result: Result<(), CallError>| {
            if let Err(error) = result {
                log::warn!("freeing a session: {error}");
            }
        };
        if self.is_stuck() {
            log::warn!("freeing nothing of a session: the device is still at work");
            self.shares.iter().flatten().for_each(|flag| flag.store(true, Ordering::Release));
            return;
        }
        let subject = Subject::Session;
        let holds = self.memory != 0 || !self.host.is_null() || !self.modules.is_empty();
        if holds && !self.finished {
            warn(self.synchronize());
        }
        for &exec in &self.execs {
            warn(call!(self, cuGraphExecDestroy, subject, graph_exec_destroy(exec)));
        }
        if !self.graph.is_null() {
            warn(call!(self, cuGraphDestroy, subject, graph_destroy(self.graph)));
        }
        if !self.host.is_null() {
            warn(call!(self, cuMemFreeHost, subject, mem_free_host(self.host.cast())));
        }
        if self.memory != 0 {
            warn(call!(self, cuMemFree_v2, subject, mem_free(self.memory)));
        }
        for &module in self.modules.iter().rev() {
            warn(call!(self, cuModuleUnload, subject, module_unload(module)));
        }
        for event in [self.done, self.end, self.start] {
            if !event.is_null() {
                warn(call!(self, cuEventDestroy_v2, subject, event_destroy(event)));
            }
        }
        if self.owns_stream {
            warn(call!(self, cuStreamDestroy_v2, subject, stream_destroy(self.stream)));
        }
    }
}
