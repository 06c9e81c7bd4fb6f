//! A session: bytes in, bytes out.

use crate::{
    dlpack::{Binding, DeviceArray, Lent},
    errors::{self, usage},
    plan::Plan,
    worker::{Ready, Worker, interruptible},
};
use anyhow::Context;
use floe::{
    bench, emulated,
    host_functions::HostFunctions,
    inputs, profile,
    session::{DeviceKind, MemoryKind, Place, Request, Session as Any},
    watch::Watch,
};
use floe_engine::{ShapeRef, cuda::Wait};
use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, TryLockError},
};

/// A ready session of a plan. Any thread may use it, one at a time.
#[pyclass(frozen, module = "floe._native")]
pub struct Session {
    /// None once it is closed.
    worker: Mutex<Option<Worker>>,
    /// For an emulated GPU, which counts in a session of its own.
    file: Arc<floe::plan_file::PlanFile>,
    request: Request,
    device: String,
    target: String,
    /// Number of the variant that INIT chose.
    variant: usize,
    /// The stream in which it takes tensors of a GPU.
    stream: Option<usize>,
}

/// The arguments of `Plan.session`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Options {
    device: String,
    variant: Option<String>,
    guard: bool,
    memory: Option<String>,
    wait: String,
    multiprocessors: Option<u32>,
    host_library: Option<PathBuf>,
}

impl Options {
    fn request(self) -> PyResult<Request> {
        let device = match self.device.as_str() {
            "auto" => DeviceKind::Auto,
            "host" => DeviceKind::Host,
            "cuda" => DeviceKind::Cuda,
            "emulated" => DeviceKind::Emulated,
            other => {
                return Err(usage(format!("device: '{other}' is none; give 'auto', 'host', 'cuda' or 'emulated'")));
            }
        };
        let memory = match self.memory.as_deref() {
            None => None,
            Some("mapped") => Some(MemoryKind::Mapped),
            Some("device") => Some(MemoryKind::Device),
            Some(other) => return Err(usage(format!("memory: '{other}' is none; give 'mapped' or 'device'"))),
        };
        let wait = match self.wait.as_str() {
            "driver" => Wait::Driver,
            "block" => Wait::Block,
            "spin" => Wait::Spin,
            "poll" => Wait::Poll,
            other => return Err(usage(format!("wait: '{other}' is none; give 'driver', 'block', 'spin' or 'poll'"))),
        };
        let functions = match &self.host_library {
            None => HostFunctions::default(),
            // SAFETY: whoever names the library vouches for its code, as the argument's documentation says.
            Some(file) => unsafe { HostFunctions::load(file) }
                .map_err(|error| usage(format!("host_library: {}", floec::message(&error))))?,
        };
        let Self { variant, guard, multiprocessors, .. } = self;
        Ok(Request { device, multiprocessors, variant, memory, wait, guard, functions, observe: None })
    }
}

/// Extents of inputs by name.
type Shapes = Vec<(String, Vec<u32>)>;

fn closed() -> PyErr {
    usage("the session is closed")
}

impl Session {
    /// Asks tensors of other libraries for their memory.
    fn lent(&self, tensors: Vec<(Binding, Bound<'_, PyAny>)>) -> PyResult<Vec<Lent>> {
        let stream =
            || self.stream.ok_or_else(|| usage("this session takes no tensors of a GPU: hand over tensor.cpu()"));
        tensors.into_iter().map(|(binding, tensor)| Lent::of(&tensor, &binding, stream()?)).collect()
    }

    /// The worker, for one thread at a time.
    fn worker(&self) -> PyResult<MutexGuard<'_, Option<Worker>>> {
        match self.worker.try_lock() {
            Ok(worker) => Ok(worker),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                Err(usage("another thread is using this session; make one for each thread, or share a lock"))
            }
        }
    }

    /// Runs a job on the session's thread, without the interpreter.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        job: impl FnOnce(&mut Any<'_, '_>) -> anyhow::Result<T> + Send,
    ) -> PyResult<T> {
        let mut worker = self.worker()?;
        let worker = worker.as_mut().ok_or_else(closed)?;
        py.detach(move || worker.run(job)).map_err(|error| errors::device(&error))
    }
}

#[pymethods]
impl Session {
    /// INIT.
    #[new]
    fn new(py: Python<'_>, plan: &Plan, options: Options) -> PyResult<Self> {
        let request = options.request()?;
        let (file, wanted) = (plan.file.clone(), request.clone());
        let worker = py.detach(move || Worker::start(file, wanted)).map_err(|error| errors::device(&error))?;
        let Ready { device, target, variant, stream } = worker.ready.clone();
        let file = plan.file.clone();
        Ok(Self { worker: Mutex::new(Some(worker)), file, request, device, target, variant, stream })
    }

    /// The device in words.
    #[getter]
    fn device(&self) -> &str {
        &self.device
    }

    /// Target of the variant that is replayed.
    #[getter]
    fn target(&self) -> &str {
        &self.target
    }

    /// Number of the variant in the plan that the session was made of.
    #[getter]
    fn variant(&self) -> usize {
        self.variant
    }

    /// Whether it takes tensors of a GPU.
    #[getter]
    fn shares_device_memory(&self) -> bool {
        self.stream.is_some()
    }

    /// Chooses the shape with these inputs, or the smallest that holds them, and returns its variant's number.
    fn choose(&self, py: Python<'_>, inputs: Shapes, holding: bool) -> PyResult<usize> {
        let chosen = self.run(py, move |session| {
            let inputs: Vec<(&str, &[u32])> = inputs.iter().map(|(name, shape)| (name.as_str(), &shape[..])).collect();
            let wanted = if holding { ShapeRef::Holding(&inputs) } else { ShapeRef::Exactly(&inputs) };
            Ok(match session.variant().find_shape(wanted) {
                Ok(variant) => {
                    session.choose(variant.number())?;
                    Ok(variant.number())
                }
                Err(error) => Err(error.to_string()),
            })
        })?;
        chosen.map_err(usage)
    }

    /// Writes bindings and replays, then reads bindings: each by its number in the plan, and flat bytes. Without `replay` it only
    /// writes and reads. Tensors on the GPU come with their bindings.
    fn exchange(
        &self,
        py: Python<'_>,
        written: Vec<(usize, PyReadonlyArray1<'_, u8>)>,
        lent: Vec<(Binding, Bound<'_, PyAny>)>,
        replay: bool,
        mut read: Vec<(usize, PyReadwriteArray1<'_, u8>)>,
        filled: Vec<(Binding, Bound<'_, PyAny>)>,
    ) -> PyResult<()> {
        let mut sources = Vec::with_capacity(written.len());
        for (number, array) in &written {
            sources.push((*number, array.as_slice()?));
        }
        let mut targets = Vec::with_capacity(read.len());
        for (number, array) in &mut read {
            targets.push((*number, array.as_slice_mut()?));
        }
        // They stay until the job is done, and with it all that was enqueued.
        let [lent, filled] = [lent, filled].map(|tensors| self.lent(tensors));
        let (lent, filled) = (lent?, filled?);
        let place = |lent: &Vec<Lent>| lent.iter().map(|lent| (lent.number, lent.memory)).collect::<Vec<_>>();
        let (device_sources, device_targets) = (place(&lent), place(&filled));
        let is_lent = !(lent.is_empty() && filled.is_empty());
        self.run(py, move |session| {
            for (number, bytes) in sources {
                session.write(number, bytes)?;
            }
            let exchanged = (|| {
                if !device_sources.is_empty() {
                    // SAFETY: the tensors live until this job is done, which waits for the device, and their library has made
                    // the session's stream wait for whatever it still did with them.
                    unsafe { session.replay_from_device(&device_sources) }?;
                } else if replay {
                    session.replay()?;
                }
                for (number, bytes) in targets {
                    session.read(number, bytes)?;
                }
                for (number, memory) in device_targets {
                    // SAFETY: as above.
                    unsafe { session.read_to_device(number, memory) }?;
                }
                Ok(())
            })();
            if is_lent {
                // Also after an error: the device may still read the tensors.
                let waited = session.synchronize();
                return exchanged.and(waited);
            }
            exchanged
        })
    }

    /// Room for an output in the GPU's memory.
    fn device_array(&self, py: Python<'_>, binding: Binding) -> PyResult<DeviceArray> {
        let bytes = DeviceArray::bytes(&binding)?;
        let mut worker = self.worker()?;
        let worker = worker.as_mut().ok_or_else(closed)?;
        let buffer = py.detach(|| worker.allocate(bytes)).map_err(|error| errors::device(&error))?;
        Ok(DeviceArray::new(buffer, binding))
    }

    /// Names of the float outputs and states that the last replay left with NaN or infinity; None on a GPU without a guard.
    fn guard(&self, py: Python<'_>) -> PyResult<Option<Vec<String>>> {
        self.run(py, |session| Ok(session.guard()?.map(|names| names.into_iter().map(str::to_owned).collect())))
    }

    /// Frees the session's memory.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let worker = self.worker()?.take();
        py.detach(move || drop(worker));
        Ok(())
    }

    /// Zeroes every state.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |session| session.reset())
    }

    /// Times of replays with random inputs, as JSON.
    fn bench(&self, py: Python<'_>, iterations: Option<usize>, warm_up: Option<usize>) -> PyResult<String> {
        self.run(py, move |session| {
            let default = if matches!(session, Any::Host(_)) { 50 } else { 1000 };
            let iterations = iterations.unwrap_or(default).max(1);
            let warm_up = warm_up.unwrap_or(iterations.div_ceil(10));
            let random = inputs::gather(session, &[], Some(0))?;
            let latency = bench::measure(session, &random, warm_up, iterations, &Watch::default(), |_| ())?;
            Ok(serde_json::json!({
                "iterations": latency.iterations, "unit": "microseconds", "round_trip": latency.host,
                "device_time": latency.device,
            })
            .to_string())
        })
    }

    /// Time of each step with random inputs, as JSON; on an emulated GPU counts of a session of its own.
    fn profile(&self, py: Python<'_>) -> PyResult<String> {
        if self.request.device == DeviceKind::Emulated {
            let (file, request) = (self.file.clone(), self.request.clone());
            let counted = interruptible(py, move || -> anyhow::Result<String> {
                let plan = floe_engine::plan::Plan::parse(file.bytes())?;
                let (mut place, variant) = Place::choose(&plan, &request)?;
                Ok(emulated::count(&mut place, variant, &[])?.json().to_string())
            })?;
            return counted.map_err(|error| errors::device(&error));
        }
        self.run(py, |session| {
            for input in inputs::gather(session, &[], Some(0))? {
                session.write(input.binding, &input.bytes)?;
            }
            let profile = match session {
                Any::Host(session) => profile::on_host(session),
                Any::Cuda(session) => profile::on_gpu(session),
            };
            serde_json::to_string(&profile?).context("a profile is JSON")
        })
    }
}
