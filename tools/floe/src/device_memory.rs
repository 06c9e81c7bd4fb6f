//! Inputs from device memory of someone else, and outputs into it: tensors of other libraries that are on the GPU already.
//!
//! The engine copies bindings between the device and page-locked memory of its own, through the driver table, and tells nobody
//! their device addresses. Here two functions of that table are replaced: a copy that the engine enqueues may then begin or end
//! in other device memory, while its place in the stream, and all waiting, stay the engine's. Mapped bindings, which the engine
//! does not copy, are page-locked memory that the device reads and writes; they are copied here.

use crate::{inputs::length, session::Session};
use anyhow::{Context, Result, anyhow, bail, ensure};
use floe_engine::cuda::{CU_STREAM_NON_BLOCKING, CUDA_SUCCESS, CUdeviceptr, CUresult, CUstream, DriverApi};
use std::{
    cell::RefCell,
    collections::HashMap,
    ffi::{CStr, c_char, c_uint, c_void},
    marker::PhantomData,
    ptr,
};

/// `cuMemcpyDtoDAsync_v2`.
type DeviceToDevice =
    unsafe extern "C" fn(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) -> CUresult;

/// `CUDA_ERROR_NOT_INITIALIZED`.
const NOT_INITIALIZED: CUresult = 3;

/// Bytes in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSlice {
    /// Address of the first.
    pub address: CUdeviceptr,
    /// How many.
    pub bytes: usize,
}

/// The driver's own functions, and where copies begin and end instead of where the engine says.
struct Detours {
    api: DriverApi,
    device_to_device: DeviceToDevice,
    stream: CUstream,
    /// Whether bindings live in page-locked memory.
    mapped: bool,
    /// By the page-locked address that a copy to the device would begin at.
    sources: HashMap<usize, CUdeviceptr>,
    /// Where the next copy from the device ends.
    destination: Option<CUdeviceptr>,
}

thread_local! {
    /// A CUDA context is current on a thread, and functions of the driver table get nothing else that tells sessions apart.
    static DETOURS: RefCell<Option<Detours>> = const { RefCell::new(None) };
}

/// Stands for `cuMemcpyHtoDAsync_v2`.
unsafe extern "C" fn upload(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream) -> CUresult {
    DETOURS.with_borrow_mut(|detours| {
        let Some(detours) = detours else { return NOT_INITIALIZED };
        match detours.sources.remove(&from.addr()) {
            // SAFETY: `replay_from_device` has compared the lengths, and its caller vouches for the address.
            Some(source) => unsafe { (detours.device_to_device)(to, source, bytes, stream) },
            // SAFETY: the engine's own call.
            None => unsafe { (detours.api.memcpy_htod_async)(to, from, bytes, stream) },
        }
    })
}

/// Stands for `cuMemcpyDtoHAsync_v2`.
unsafe extern "C" fn download(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream) -> CUresult {
    DETOURS.with_borrow_mut(|detours| {
        let Some(detours) = detours else { return NOT_INITIALIZED };
        match detours.destination.take() {
            // SAFETY: `read_to_device` has compared the lengths, and its caller vouches for the address.
            Some(destination) => unsafe { (detours.device_to_device)(destination, from, bytes, stream) },
            // SAFETY: the engine's own call.
            None => unsafe { (detours.api.memcpy_dtoh_async)(to, from, bytes, stream) },
        }
    })
}

/// The detours of this thread, and the stream in which its sessions replay. Belongs to the thread.
pub struct DeviceMemory {
    stream: CUstream,
    /// Not `Send`.
    thread: PhantomData<*const ()>,
}

impl DeviceMemory {
    /// Makes a stream, and a driver table for sessions in it.
    ///
    /// # Errors
    /// Where this thread has one already, or the driver refuses.
    pub(crate) fn new(api: DriverApi, mapped: bool) -> Result<(Self, DriverApi)> {
        DETOURS.with_borrow_mut(|detours| {
            ensure!(detours.is_none(), "this thread shares the device memory of another session already");
            let device_to_device = device_to_device(&api)?;
            let mut stream = ptr::null_mut();
            // SAFETY: the table holds the driver's functions; `stream` is valid for the write.
            check(&api, "cuStreamCreate", unsafe { (api.stream_create)(&mut stream, CU_STREAM_NON_BLOCKING) })?;
            let (sources, destination) = (HashMap::new(), None);
            *detours = Some(Detours { api, device_to_device, stream, mapped, sources, destination });
            let table = DriverApi { memcpy_htod_async: upload, memcpy_dtoh_async: download, ..api };
            Ok((Self { stream, thread: PhantomData }, table))
        })
    }

    /// The stream (`CUstream`) in which the sessions replay.
    pub fn stream(&self) -> CUstream {
        self.stream
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if let Some(detours) = DETOURS.take() {
            // SAFETY: made by `new`; the sessions that replayed in it are gone. Errors at this point have no remedy.
            unsafe { (detours.api.stream_destroy)(detours.stream) };
        }
    }
}

/// Allocates device memory, which [`free`] frees: on a thread whose [`Place`](crate::session::Place) shares device memory.
///
/// # Errors
/// Where this thread's place shares none, or the driver's error.
pub fn allocate(bytes: usize) -> Result<DeviceSlice> {
    with(|detours| {
        let mut address = 0;
        // The driver refuses to allocate nothing.
        // SAFETY: the table holds the driver's functions; `address` is valid for the write.
        check(&detours.api, "cuMemAlloc_v2", unsafe { (detours.api.mem_alloc)(&mut address, bytes.max(1)) })?;
        Ok(DeviceSlice { address, bytes })
    })
}

/// Frees what [`allocate`] has allocated.
///
/// # Safety
/// It must come from [`allocate`] on this thread, and nobody may use it any more.
///
/// # Errors
/// As [`allocate`].
pub unsafe fn free(memory: DeviceSlice) -> Result<()> {
    with(|detours| {
        // SAFETY: the caller's promise.
        check(&detours.api, "cuMemFree_v2", unsafe { (detours.api.mem_free)(memory.address) })
    })
}

impl Session<'_, '_> {
    /// Replays once with these inputs, by number, from device memory; others are as they were written. The copies lie in the
    /// stream of [`DeviceMemory`], as the replay does.
    ///
    /// # Safety
    /// The memory must be there, in the session's context, and hold its bytes for who reads them in that stream, until the
    /// session has waited for the replay.
    ///
    /// # Errors
    /// Where there is no such input or its bytes are not as many, the session's place shares no device memory, or the driver's
    /// error.
    pub unsafe fn replay_from_device(&mut self, inputs: &[(usize, DeviceSlice)]) -> Result<()> {
        let filled = inputs.iter().try_for_each(|&(binding, source)| self.take_from(binding, source));
        let replayed = filled.and_then(|()| self.replay());
        // Of a replay that failed before its copies: the next one has others.
        DETOURS.with_borrow_mut(|detours| detours.iter_mut().for_each(|detours| detours.sources.clear()));
        replayed
    }

    fn take_from(&mut self, binding: usize, source: DeviceSlice) -> Result<()> {
        let place = self.input_mut(binding)?;
        ensure!(place.len() == source.bytes, "input {binding} has {} bytes, the memory {}", place.len(), source.bytes);
        let Some(first) = place.first_mut() else { return Ok(()) };
        let host = ptr::from_mut(first);
        with(|detours| {
            let Detours { api, stream, .. } = *detours;
            if !detours.mapped {
                detours.sources.insert(host.addr(), source.address);
                return Ok(());
            }
            // SAFETY: the caller vouches for the source; the destination is the input's own, as long as the source, and lent.
            let copied = unsafe { (api.memcpy_dtoh_async)(host.cast(), source.address, source.bytes, stream) };
            check(&api, "cuMemcpyDtoHAsync_v2", copied)?;
            // The engine does not know of this copy: it may fill the input on the host, next.
            // SAFETY: the stream is there as long as the detours.
            check(&api, "cuStreamSynchronize", unsafe { (api.stream_synchronize)(stream) })
        })
    }

    /// Copies an output, by number, to device memory, and waits for that.
    ///
    /// # Safety
    /// The memory must be there, in the session's context, and nobody else may use it meanwhile.
    ///
    /// # Errors
    /// As [`Self::replay_from_device`].
    pub unsafe fn read_to_device(&mut self, binding: usize, destination: DeviceSlice) -> Result<()> {
        let found = self.variant().bindings().nth(binding).context("there is no such output")?;
        let bytes = length(&found)?;
        ensure!(bytes == destination.bytes, "output {binding} has {bytes} bytes, the memory {}", destination.bytes);
        let mapped = with(|detours| {
            detours.destination = (!detours.mapped).then_some(destination.address);
            Ok(detours.mapped)
        })?;
        let lent = self.output(binding).map(<[u8]>::as_ptr);
        with(|detours| {
            detours.destination = None;
            let source = lent?;
            if !mapped || bytes == 0 {
                return Ok(());
            }
            let Detours { api, stream, .. } = *detours;
            // SAFETY: the caller vouches for the destination; the source is the output's own memory, as long as it.
            let copied = unsafe { (api.memcpy_htod_async)(destination.address, source.cast(), bytes, stream) };
            check(&api, "cuMemcpyHtoDAsync_v2", copied)?;
            // SAFETY: the stream is there as long as the detours.
            check(&api, "cuStreamSynchronize", unsafe { (api.stream_synchronize)(stream) })
        })
    }
}

/// The detours of this thread.
fn with<T>(work: impl FnOnce(&mut Detours) -> Result<T>) -> Result<T> {
    DETOURS.with_borrow_mut(|detours| match detours {
        Some(detours) => work(detours),
        None => bail!("this session takes no device memory of others: it is on no GPU, or was not made for it"),
    })
}

/// The function that the engine's table lacks, from the library that the table's come from.
fn device_to_device(api: &DriverApi) -> Result<DeviceToDevice> {
    // SAFETY: zero is a value of the structure, which `dladdr` fills where it knows the address.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for; `found` is valid for the write.
    let known = unsafe { libc::dladdr(api.memcpy_htod_async as *const c_void, &mut found) } != 0;
    ensure!(known && !found.dli_fname.is_null(), "the driver's library cannot be found again");
    // SAFETY: a name of the loader's own, which it keeps as long as the library is loaded: for ever.
    let path = unsafe { CStr::from_ptr(found.dli_fname) };
    // SAFETY: the library is loaded already, so no initialiser runs.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
    ensure!(!library.is_null(), "the driver's library '{}' cannot be opened again", path.to_string_lossy());
    // SAFETY: the handle is the loader's; it stays open, as the driver does.
    let function = unsafe { libc::dlsym(library, c"cuMemcpyDtoDAsync_v2".as_ptr()) };
    ensure!(!function.is_null(), "the driver has no cuMemcpyDtoDAsync_v2");
    // SAFETY: the signature is that of cuda.h for this symbol.
    Ok(unsafe { std::mem::transmute::<*mut c_void, DeviceToDevice>(function) })
}

/// An error of the driver with what to do about it.
fn check(api: &DriverApi, call: &str, result: c_uint) -> Result<()> {
    if result == CUDA_SUCCESS {
        return Ok(());
    }
    let mut name: *const c_char = ptr::null();
    // SAFETY: `name` is valid for the write; unknown numbers leave it null.
    let known = unsafe { (api.get_error_name)(result, &mut name) } == CUDA_SUCCESS && !name.is_null();
    // SAFETY: the driver gives a static string that ends with NUL.
    let name = if known { unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned() } else { "error".to_owned() };
    Err(anyhow!("{call} failed with {name} ({result}){}", floe_cuda::advice(result)))
}
