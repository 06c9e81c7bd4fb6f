//! Running one candidate on the GPU through the engine's driver table, as a graph, as plans do.

use anyhow::{Result, bail};
use floe::selftest::operand::{OTHER_POISON, POISON, difference};
use floe_compiler::nvrtc::Compiled;
use floe_conformance::{layout::Layout, operands::Buffer};
use floe_cuda::Device;
use floe_emulator::driver::{self, Emulator, Step};
use floe_engine::cuda::{
    CU_EVENT_DEFAULT, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, CU_STREAM_NON_BLOCKING, CUdeviceptr, CUevent,
    CUgraph, CUgraphExec, CUgraphNode, CUmodule, CUresult, CUstream, CudaKernelNodeParams, DriverApi,
};
use floe_kernels::codegen::{Argument, Candidate};
use std::{
    ffi::{CString, c_void},
    ops::Range,
    ptr::{null, null_mut},
    slice,
};

/// A GPU with a stream.
pub struct Gpu {
    device: Machine,
    api: DriverApi,
    stream: CUstream,
}

/// What runs kernels.
#[allow(clippy::large_enum_variant)] // There is one.
enum Machine {
    /// A GPU.
    Real(Device),
    /// One in software.
    Emulated(Emulator),
}

/// What a candidate computed.
pub struct Run {
    /// Its outputs.
    pub outputs: Vec<Buffer>,
    /// Median device time of a replay in microseconds.
    pub time: f64,
}

/// Frees what one run made, in the reverse order.
struct Made<'a> {
    api: &'a DriverApi,
    modules: Vec<CUmodule>,
    memory: CUdeviceptr,
    graph: CUgraph,
    exec: CUgraphExec,
    events: [CUevent; 2],
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        // SAFETY: every handle comes from a successful call of the same table and is freed once; after an error that
        // spoils the context these calls fail, which changes nothing.
        unsafe {
            for event in self.events.into_iter().filter(|event| !event.is_null()) {
                (self.api.event_destroy)(event);
            }
            if !self.exec.is_null() {
                (self.api.graph_exec_destroy)(self.exec);
            }
            if !self.graph.is_null() {
                (self.api.graph_destroy)(self.graph);
            }
            if self.memory != 0 {
                (self.api.mem_free)(self.memory);
            }
            for &module in &self.modules {
                (self.api.module_unload)(module);
            }
        }
    }
}

impl Gpu {
    /// Opens the first GPU.
    ///
    /// # Errors
    /// Those of [`Device::open`].
    pub fn open() -> Result<Self> {
        let device = Device::open(floe_cuda::Options::default())?;
        let api = device.api()?;
        let mut stream = null_mut();
        // SAFETY: `stream` is valid for the write and a context is current.
        device.check("cuStreamCreate", unsafe { (api.stream_create)(&mut stream, CU_STREAM_NON_BLOCKING) })?;
        Ok(Self { device: Machine::Real(device), api, stream })
    }

    /// A GPU in software, on this thread: with every access watched.
    ///
    /// # Errors
    /// None so far.
    pub fn emulated() -> Result<Self> {
        Self::emulated_as(None)
    }

    /// As [`emulated`](Self::emulated), with the arithmetic of a compute capability in place of the PTX's own.
    ///
    /// # Errors
    /// None so far.
    pub fn emulated_as(capability: Option<u32>) -> Result<Self> {
        let options = driver::Options { capability, ..driver::Options::default() };
        let (device, api) = (Machine::Emulated(Emulator::new(options)), driver::API);
        let mut gpu = Self { device, api, stream: null_mut() };
        // SAFETY: the place is valid for the write, and the emulator is this thread's.
        let made = unsafe { (api.stream_create)(&mut gpu.stream, CU_STREAM_NON_BLOCKING) };
        gpu.check("cuStreamCreate", made)?;
        Ok(gpu)
    }

    /// Its compute capability, such as 90; none in software.
    pub fn capability(&self) -> Option<u32> {
        match &self.device {
            Machine::Real(device) => Some(device.info().architecture),
            Machine::Emulated(_) => None,
        }
    }

    fn check(&self, call: &'static str, result: CUresult) -> Result<()> {
        match &self.device {
            Machine::Real(device) => Ok(device.check(call, result)?),
            Machine::Emulated(_) if result == 0 => Ok(()),
            Machine::Emulated(emulator) => match emulator.findings().first() {
                Some(finding) => bail!("{finding}"),
                None => bail!("{call}: {}", emulator.message()),
            },
        }
    }

    /// Runs a candidate twice on poisoned memory and compares everything that must agree.
    ///
    /// # Errors
    /// A driver error (after which this process must not use the GPU again), or what was touched that must not be.
    pub fn run(
        &self,
        candidate: &Candidate,
        compiled: &[Compiled],
        inputs: &[Buffer],
        outputs: &[usize],
    ) -> Result<Run> {
        let layout = Layout::new(inputs, outputs, candidate.workspace as usize, candidate.counters as usize);
        let mut made = Made {
            api: &self.api,
            modules: Vec::new(),
            memory: 0,
            graph: null_mut(),
            exec: null_mut(),
            events: [null_mut(); 2],
        };
        self.build(&mut made, &layout, candidate, compiled)?;

        self.upload(made.memory, &layout.image)?;
        self.replay(&made)?;
        let first = self.download(&made, layout.image.len())?;
        // Second run: other poison in workspace and outputs, counters as the first run left them.
        let mut again = first.clone();
        layout.outputs.iter().for_each(|output| again[output.clone()].fill(POISON));
        let workspace = layout.workspace.clone();
        again[workspace.clone()].fill(OTHER_POISON);
        self.upload(made.memory, &again)?;
        self.replay(&made)?;
        let second = self.download(&made, layout.image.len())?;

        let variable = [layout.outputs.as_slice(), slice::from_ref(&workspace)].concat();
        if let Some(place) = difference(&layout.image, &first, &variable) {
            bail!("{} was written", region(&layout, place));
        }
        if let Some(place) = difference(&first, &second, &[workspace]) {
            bail!("two runs differ at {}", region(&layout, place));
        }
        let outputs = layout.outputs.iter().map(|output| {
            let mut buffer = Buffer::filled(output.len(), 0);
            buffer.bytes_mut().copy_from_slice(&first[output.clone()]);
            buffer
        });
        let outputs = outputs.collect();
        Ok(Run { outputs, time: self.time(&made)? })
    }

    fn build(&self, made: &mut Made<'_>, layout: &Layout, candidate: &Candidate, compiled: &[Compiled]) -> Result<()> {
        let api = &self.api;
        // The kernel itself is what is being verified: it may do anything to this process' GPU context, which is why each
        // family runs in a process of its own.
        //
        // SAFETY: here and below, every out-pointer is valid for the write, every handle was just made by the same
        // table, images and names are NUL-terminated where they are text, and all of it outlives the calls.
        self.check("cuMemAlloc", unsafe { (api.mem_alloc)(&mut made.memory, layout.image.len()) })?;
        // SAFETY: as above.
        self.check("cuGraphCreate", unsafe { (api.graph_create)(&mut made.graph, 0) })?;
        if let Machine::Emulated(emulator) = &self.device {
            emulator.describe(vec![described(layout, candidate)]);
        }
        let mut previous: CUgraphNode = null_mut();
        for (launch, compiled) in candidate.launches.iter().zip(compiled) {
            let mut module = null_mut();
            let image = compiled.bytes.as_ptr().cast();
            // SAFETY: as above.
            self.check("cuModuleLoadData", unsafe { (api.module_load_data)(&mut module, image) })?;
            made.modules.push(module);
            let (name, mut function) = (CString::new(launch.entry.as_str())?, null_mut());
            // SAFETY: as above.
            let found = unsafe { (api.module_get_function)(&mut function, module, name.as_ptr()) };
            self.check("cuModuleGetFunction", found)?;
            let attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: as above.
            let set = unsafe { (api.func_set_attribute)(function, attribute, launch.shared as i32) };
            self.check("cuFuncSetAttribute", set)?;
            let address = |&argument| made.memory + layout.operand(argument).0.start as u64;
            let mut addresses: Vec<CUdeviceptr> = launch.arguments.iter().map(address).collect();
            let mut pointers: Vec<*mut c_void> =
                addresses.iter_mut().map(|address| std::ptr::from_mut(address).cast()).collect();
            let parameters = CudaKernelNodeParams {
                func: function,
                gridDimX: launch.grid[0],
                gridDimY: launch.grid[1],
                gridDimZ: launch.grid[2],
                blockDimX: launch.block[0],
                blockDimY: launch.block[1],
                blockDimZ: launch.block[2],
                sharedMemBytes: launch.shared,
                kernelParams: pointers.as_mut_ptr(),
                extra: null_mut(),
                kern: null_mut(),
                ctx: null_mut(),
            };
            let mut node = null_mut();
            let (after, count) = if previous.is_null() { (null(), 0) } else { (&raw const previous, 1) };
            // SAFETY: as above; the driver copies the arguments.
            let added = unsafe { (api.graph_add_kernel_node)(&mut node, made.graph, after, count, &parameters) };
            self.check("cuGraphAddKernelNode", added)?;
            previous = node;
        }
        // SAFETY: as above.
        self.check("cuGraphInstantiate", unsafe { (api.graph_instantiate)(&mut made.exec, made.graph, 0) })?;
        for event in &mut made.events {
            // SAFETY: as above.
            self.check("cuEventCreate", unsafe { (api.event_create)(event, CU_EVENT_DEFAULT) })?;
        }
        Ok(())
    }

    fn upload(&self, memory: CUdeviceptr, bytes: &[u8]) -> Result<()> {
        // SAFETY: the allocation has this length, and the synchronisation outlives no borrow.
        self.check("cuMemcpyHtoDAsync", unsafe {
            (self.api.memcpy_htod_async)(memory, bytes.as_ptr().cast(), bytes.len(), self.stream)
        })?;
        self.synchronize()
    }

    fn download(&self, made: &Made<'_>, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0u8; length];
        // SAFETY: the allocation has this length, and the buffer outlives the synchronisation.
        self.check("cuMemcpyDtoHAsync", unsafe {
            (self.api.memcpy_dtoh_async)(bytes.as_mut_ptr().cast(), made.memory, length, self.stream)
        })?;
        self.synchronize()?;
        Ok(bytes)
    }

    fn replay(&self, made: &Made<'_>) -> Result<()> {
        // SAFETY: the graph is alive and so is the memory that it works on.
        self.check("cuGraphLaunch", unsafe { (self.api.graph_launch)(made.exec, self.stream) })?;
        self.synchronize()
    }

    fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream is alive.
        self.check("cuStreamSynchronize", unsafe { (self.api.stream_synchronize)(self.stream) })
    }

    /// Median of nine replays between events; none on a GPU in software.
    fn time(&self, made: &Made<'_>) -> Result<f64> {
        if let Machine::Emulated(emulator) = &self.device {
            return match emulator.findings().first() {
                Some(finding) => bail!("{finding}"),
                None => Ok(0.0),
            };
        }
        let [start, end] = made.events;
        let mut times = Vec::new();
        for _ in 0..9 {
            let mut milliseconds = 0.0;
            // SAFETY: events, graph and stream are alive; the pointer is valid for the write.
            unsafe {
                self.check("cuEventRecord", (self.api.event_record)(start, self.stream))?;
                self.check("cuGraphLaunch", (self.api.graph_launch)(made.exec, self.stream))?;
                self.check("cuEventRecord", (self.api.event_record)(end, self.stream))?;
                self.check("cuEventSynchronize", (self.api.event_synchronize)(end))?;
                self.check("cuEventElapsedTime", (self.api.event_elapsed_time)(&mut milliseconds, start, end))?;
            }
            times.push(f64::from(milliseconds) * 1e3);
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: made in `open`, destroyed once, before the device that its context belongs to.
        unsafe { (self.api.stream_destroy)(self.stream) };
    }
}

/// What the arguments of a candidate's launches stand for.
fn described(layout: &Layout, candidate: &Candidate) -> Vec<Step> {
    let argument = |argument: &Argument| {
        let (name, offset) = match *argument {
            Argument::Input(index) => (format!("input {index}"), 0),
            Argument::Output(index) => (format!("output {index}"), 0),
            Argument::Workspace(offset) => ("workspace".to_owned(), offset),
            Argument::Counters(offset) => ("counters".to_owned(), offset),
        };
        let (range, written) = layout.operand(*argument);
        let transient = matches!(argument, Argument::Output(_) | Argument::Workspace(_));
        driver::Argument { name, offset, bytes: range.len() as u64, written, transient }
    };
    let step = |(launch, number): (&floe_kernels::codegen::Launch, u32)| Step {
        number,
        nodes: String::new(),
        kernel: launch.entry.clone(),
        arguments: launch.arguments.iter().map(argument).collect(),
        optional: false,
    };
    candidate.launches.iter().zip(0..).map(step).collect()
}

/// Which operand a byte belongs to, in words.
fn region(layout: &Layout, place: usize) -> String {
    let within = |range: &Range<usize>| range.contains(&place).then(|| place - range.start);
    let input = layout.inputs.iter().map(within).enumerate();
    let input = input.filter_map(|(index, byte)| Some(format!("byte {} of input {index}", byte?))).next();
    let counter = || within(&layout.counters).map(|byte| format!("byte {byte} of the counters"));
    let output = layout.outputs.iter().enumerate().rfind(|(_, output)| output.start <= place);
    input.or_else(counter).unwrap_or_else(|| match output {
        Some((index, output)) => format!("byte {} from the start of output {index}", place - output.start),
        None => format!("byte {place} of the memory, between operands"),
    })
}
