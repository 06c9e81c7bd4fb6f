//! The table through which the engine reaches CUDA, with the driver interface's own types and names.

use core::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use core::ptr::NonNull;

/// What every driver function returns; 0 is success.
pub type CUresult = c_uint;
/// An address in device memory.
pub type CUdeviceptr = c_ulonglong;
/// A loaded kernel image.
pub type CUmodule = *mut c_void;
/// A kernel of a module.
pub type CUfunction = *mut c_void;
/// A stream.
pub type CUstream = *mut c_void;
/// An event.
pub type CUevent = *mut c_void;
/// A graph.
pub type CUgraph = *mut c_void;
/// A node of a graph.
pub type CUgraphNode = *mut c_void;
/// A graph ready for launch.
pub type CUgraphExec = *mut c_void;
/// `CUfunction_attribute`.
pub type CUfunctionAttribute = c_int;

/// `CUDA_SUCCESS`.
pub const CUDA_SUCCESS: CUresult = 0;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub const CUDA_ERROR_OUT_OF_MEMORY: CUresult = 2;
/// `CUDA_ERROR_NOT_READY`.
pub const CUDA_ERROR_NOT_READY: CUresult = 600;
/// `CU_STREAM_NON_BLOCKING`: no implicit order with the default stream.
pub const CU_STREAM_NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DEFAULT`: with timing.
pub const CU_EVENT_DEFAULT: c_uint = 0;
/// `CU_EVENT_BLOCKING_SYNC`: whoever waits for the event sleeps.
pub const CU_EVENT_BLOCKING_SYNC: c_uint = 1;
/// `CU_EVENT_DISABLE_TIMING`: the event takes no time stamp.
pub const CU_EVENT_DISABLE_TIMING: c_uint = 2;
/// `CU_MEMHOSTALLOC_DEVICEMAP`: the memory also has a device address.
pub const CU_MEMHOSTALLOC_DEVICEMAP: c_uint = 2;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
pub const CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: CUfunctionAttribute = 8;

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(non_snake_case)]
pub struct CudaKernelNodeParams {
    /// The kernel.
    pub func: CUfunction,
    /// Blocks in x.
    pub gridDimX: c_uint,
    /// Blocks in y.
    pub gridDimY: c_uint,
    /// Blocks in z.
    pub gridDimZ: c_uint,
    /// Threads of a block in x.
    pub blockDimX: c_uint,
    /// Threads of a block in y.
    pub blockDimY: c_uint,
    /// Threads of a block in z.
    pub blockDimZ: c_uint,
    /// Dynamic shared memory in bytes.
    pub sharedMemBytes: c_uint,
    /// Addresses of the arguments; the driver copies the arguments when the node is added.
    pub kernelParams: *mut *mut c_void,
    /// Not used here.
    pub extra: *mut *mut c_void,
    /// Not used here.
    pub kern: *mut c_void,
    /// Null: the current context.
    pub ctx: *mut c_void,
}

/// `CUgraphEdgeData`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
#[allow(non_snake_case)]
pub struct CudaGraphEdgeData {
    /// What of the earlier node the later one waits for.
    pub from_port: u8,
    /// What of the later node waits.
    pub to_port: u8,
    /// Kind of the dependency.
    pub r#type: u8,
    /// Zero.
    pub reserved: [u8; 5],
}

impl CudaGraphEdgeData {
    /// The later kernel may start once all blocks of the earlier one let it, and waits for its end by itself:
    /// `CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC` and `CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC`.
    pub const PROGRAMMATIC: Self = Self { from_port: 1, to_port: 0, r#type: 1, reserved: [0; 5] };
}

/// When the engine may call a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// While a session is made, and when it is dropped.
    Init,
    /// While a session replays. INIT may call these too.
    Run,
    /// Between replays, by a caller who measures.
    Profile,
    /// In any phase, after a call that failed.
    Failure,
}

/// Passes the list of driver functions to the macro `$use`: phase, field, symbol, parameters, description.
macro_rules! driver_functions {
    ($use:ident) => {
        $use! {
            Init module_load_data = cuModuleLoadData(module: *mut CUmodule, image: *const c_void)
                "Loads a kernel image.";
            Init module_get_function = cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char)
                "Finds a kernel in a module.";
            Init module_unload = cuModuleUnload(module: CUmodule)
                "Unloads a module.";
            Init func_set_attribute = cuFuncSetAttribute(function: CUfunction, attribute: CUfunctionAttribute, value: c_int)
                "Sets an attribute of a kernel: dynamic shared memory beyond 48 KiB.";
            Init mem_alloc = cuMemAlloc_v2(memory: *mut CUdeviceptr, bytes: usize)
                "Allocates device memory.";
            Init mem_free = cuMemFree_v2(memory: CUdeviceptr)
                "Frees device memory.";
            Init mem_host_alloc = cuMemHostAlloc(memory: *mut *mut c_void, bytes: usize, flags: c_uint)
                "Allocates page-locked host memory.";
            Init mem_host_get_device_pointer =
                cuMemHostGetDevicePointer_v2(device: *mut CUdeviceptr, memory: *mut c_void, flags: c_uint)
                "Device address of page-locked host memory.";
            Init mem_free_host = cuMemFreeHost(memory: *mut c_void)
                "Frees page-locked host memory.";
            Init mem_get_info = cuMemGetInfo_v2(free: *mut usize, total: *mut usize)
                "Free and total device memory.";
            Init stream_create = cuStreamCreate(stream: *mut CUstream, flags: c_uint)
                "Creates a stream.";
            Init stream_destroy = cuStreamDestroy_v2(stream: CUstream)
                "Destroys a stream.";
            Init event_create = cuEventCreate(event: *mut CUevent, flags: c_uint)
                "Creates an event.";
            Init event_destroy = cuEventDestroy_v2(event: CUevent)
                "Destroys an event.";
            Init graph_create = cuGraphCreate(graph: *mut CUgraph, flags: c_uint)
                "Creates an empty graph.";
            Init graph_add_kernel_node = cuGraphAddKernelNode_v2(
                node: *mut CUgraphNode,
                graph: CUgraph,
                dependencies: *const CUgraphNode,
                dependency_count: usize,
                parameters: *const CudaKernelNodeParams
            )
                "Adds a kernel launch to a graph.";
            Init graph_add_dependencies = cuGraphAddDependencies_v2(
                graph: CUgraph,
                from: *const CUgraphNode,
                to: *const CUgraphNode,
                edges: *const CudaGraphEdgeData,
                count: usize
            )
                "Adds edges between nodes of a graph: only for steps that overlap with those before them.";
            Init graph_instantiate = cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong)
                "Makes a graph ready for launch.";
            Init graph_upload = cuGraphUpload(exec: CUgraphExec, stream: CUstream)
                "Uploads a graph to the device.";
            Init graph_exec_destroy = cuGraphExecDestroy(exec: CUgraphExec)
                "Destroys a graph that was made ready for launch.";
            Init graph_destroy = cuGraphDestroy(graph: CUgraph)
                "Destroys a graph.";
            Run graph_launch = cuGraphLaunch(exec: CUgraphExec, stream: CUstream)
                "Launches a graph.";
            Run memcpy_htod_async =
                cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream)
                "Copies from host to device.";
            Run memcpy_dtoh_async =
                cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream)
                "Copies from device to host.";
            Run memset_d8_async = cuMemsetD8Async(memory: CUdeviceptr, value: u8, bytes: usize, stream: CUstream)
                "Fills device memory: in RUN only to reset states.";
            Run event_record = cuEventRecord(event: CUevent, stream: CUstream)
                "Records an event in a stream.";
            Run event_query = cuEventQuery(event: CUevent)
                "Whether an event has passed.";
            Run stream_synchronize = cuStreamSynchronize(stream: CUstream)
                "Waits until a stream is idle.";
            Run event_synchronize = cuEventSynchronize(event: CUevent)
                "Waits until an event has passed.";
            Profile event_elapsed_time = cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent)
                "Time between two events.";
            Failure get_error_name = cuGetErrorName(error: CUresult, name: *mut *const c_char)
                "Name of a result.";
        }
    };
}

macro_rules! define_table {
    ($($phase:ident $field:ident = $symbol:ident($($parameter:ident: $type:ty),*) $description:literal;)*) => {
        /// Every driver function that the engine calls, in the C interface's exact form.
        ///
        /// A crate with `std` fills it: `floe-cuda` from `libcuda`, tests with a simulation. Each field says in which
        /// [`Phase`] the engine calls it.
        #[derive(Clone, Copy, Debug)]
        #[repr(C)]
        pub struct DriverApi {
            $(
                #[doc = concat!(stringify!($phase), ": `", stringify!($symbol), "`. ", $description)]
                pub $field: unsafe extern "C" fn($($parameter: $type),*) -> CUresult,
            )*
        }

        impl DriverApi {
            /// Fills the table with symbols, for example from `dlsym`. Where a driver before CUDA 12 has a function only
            /// under its older name, `symbol` is asked for that.
            ///
            /// # Safety
            /// `symbol` must return the address of the function that the CUDA driver documents under that name, and it
            /// must stay loaded as long as the table is used.
            ///
            /// # Errors
            /// The name of the first symbol that is not there.
            pub unsafe fn load(
                mut symbol: impl FnMut(&'static CStr) -> Option<NonNull<c_void>>,
            ) -> Result<Self, &'static str> {
                $(
                    let name = const {
                        match CStr::from_bytes_with_nul(concat!(stringify!($symbol), "\0").as_bytes()) {
                            Ok(name) => name,
                            Err(_) => panic!("symbols contain no NUL"),
                        }
                    };
                    let address = find(name, &mut symbol).ok_or(stringify!($symbol))?;
                    // SAFETY: a function pointer and a data pointer have the same size on every machine that CUDA
                    // supports, and the caller vouches that the function has this type.
                    let $field = unsafe {
                        core::mem::transmute::<NonNull<c_void>, unsafe extern "C" fn($($type),*) -> CUresult>(address)
                    };
                )*
                Ok(Self { $($field),* })
            }
        }

        /// Names a function of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[allow(non_camel_case_types)]
        pub enum Call {
            $(
                #[doc = $description]
                $symbol,
            )*
        }

        impl Call {
            /// All functions, in the table's order.
            pub const ALL: &[Self] = &[$(Self::$symbol),*];

            /// The symbol's name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$symbol => stringify!($symbol),)*
                }
            }

            /// When the engine may call it.
            pub const fn phase(self) -> Phase {
                match self {
                    $(Self::$symbol => Phase::$phase,)*
                }
            }
        }
    };
}

driver_functions!(define_table);

/// Symbols that drivers before CUDA 12 (JetPack 5) have under an older name only, with the same meaning here: the first
/// version of a kernel node's parameters is a prefix of the second, and the engine leaves the rest null.
const OLDER: [(&CStr, &CStr); 1] = [(c"cuGraphAddKernelNode_v2", c"cuGraphAddKernelNode")];

/// Functions that older drivers lack and that no plan for their devices needs, so that [`not_supported`] may stand in:
/// edges with data came with CUDA 12.3, and plans for compute capability 9.0 and later alone use them.
const NEWER: [&CStr; 1] = [c"cuGraphAddDependencies_v2"];

/// `CUDA_ERROR_NOT_SUPPORTED`.
const CUDA_ERROR_NOT_SUPPORTED: CUresult = 801;

/// Reads no arguments, which the C calling conventions of Linux leave to the caller.
extern "C" fn not_supported() -> CUresult {
    CUDA_ERROR_NOT_SUPPORTED
}

/// The symbol `name`, or what may stand in for it.
fn find(
    name: &'static CStr,
    symbol: &mut dyn FnMut(&'static CStr) -> Option<NonNull<c_void>>,
) -> Option<NonNull<c_void>> {
    if let Some(address) = symbol(name) {
        return Some(address);
    }
    match OLDER.iter().find(|(newer, _)| *newer == name) {
        Some((_, older)) => symbol(older),
        None if NEWER.contains(&name) => NonNull::new(not_supported as *mut c_void),
        None => None,
    }
}
#[cfg(feature = "recording")]
pub(super) use driver_functions;

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::*;
    use core::mem::{offset_of, size_of};

    /// As `cuda.h` of CUDA 12.6 lays the structure out on 64-bit machines.
    #[test]
    fn kernel_node_parameters_have_the_layout_of_cuda_h() {
        assert_eq!(size_of::<CudaKernelNodeParams>(), 72);
        assert_eq!(offset_of!(CudaKernelNodeParams, gridDimX), 8);
        assert_eq!(offset_of!(CudaKernelNodeParams, sharedMemBytes), 32);
        assert_eq!(offset_of!(CudaKernelNodeParams, kernelParams), 40);
        assert_eq!(offset_of!(CudaKernelNodeParams, ctx), 64);
        assert_eq!(size_of::<CudaGraphEdgeData>(), 8);
        assert_eq!(size_of::<DriverApi>(), Call::ALL.len() * size_of::<usize>());
    }
}
