//! A session: bytes in, bytes out.

use crate::{
    errors::{self, usage},
    plan::Plan,
    worker::{Worker, interruptible},
};
use anyhow::Context;
use floe::{
    bench, emulated, inputs, profile,
    session::{DeviceKind, MemoryKind, Place, Request, Session as Any},
    watch::Watch,
};
use floe_engine::cuda::Wait;
use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

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
}

/// The request that the package's arguments make.
fn request(
    device: &str,
    variant: Option<String>,
    guard: bool,
    memory: Option<&str>,
    wait: &str,
    multiprocessors: Option<u32>,
) -> PyResult<Request> {
    let device = match device {
        "auto" => DeviceKind::Auto,
        "host" => DeviceKind::Host,
        "cuda" => DeviceKind::Cuda,
        "emulated" => DeviceKind::Emulated,
        other => return Err(usage(format!("device: '{other}' is none; give 'auto', 'host', 'cuda' or 'emulated'"))),
    };
    let memory = match memory {
        None => None,
        Some("mapped") => Some(MemoryKind::Mapped),
        Some("device") => Some(MemoryKind::Device),
        Some(other) => return Err(usage(format!("memory: '{other}' is none; give 'mapped' or 'device'"))),
    };
    let wait = match wait {
        "driver" => Wait::Driver,
        "block" => Wait::Block,
        "spin" => Wait::Spin,
        "poll" => Wait::Poll,
        other => return Err(usage(format!("wait: '{other}' is none; give 'driver', 'block', 'spin' or 'poll'"))),
    };
    Ok(Request { device, multiprocessors, variant, memory, wait, guard, observe: None })
}

impl Session {
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
        let worker = worker.as_mut().ok_or_else(|| usage("the session is closed"))?;
        py.detach(move || worker.run(job)).map_err(|error| errors::device(&error))
    }
}

#[pymethods]
impl Session {
    /// INIT.
    #[new]
    #[pyo3(signature = (plan, device, variant, guard, memory, wait, multiprocessors))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        plan: &Plan,
        device: &str,
        variant: Option<String>,
        guard: bool,
        memory: Option<&str>,
        wait: &str,
        multiprocessors: Option<u32>,
    ) -> PyResult<Self> {
        let request = request(device, variant, guard, memory, wait, multiprocessors)?;
        let (file, wanted) = (plan.file.clone(), request.clone());
        let worker = py.detach(move || Worker::start(file, wanted)).map_err(|error| errors::device(&error))?;
        let (device, target) = (worker.device.clone(), worker.target.clone());
        Ok(Self { worker: Mutex::new(Some(worker)), file: plan.file.clone(), request, device, target })
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

    /// Writes bindings, replays if `replay` says so, then reads bindings: each by its number in the plan, and flat bytes.
    fn exchange(
        &self,
        py: Python<'_>,
        written: Vec<(usize, PyReadonlyArray1<'_, u8>)>,
        replay: bool,
        mut read: Vec<(usize, PyReadwriteArray1<'_, u8>)>,
    ) -> PyResult<()> {
        let mut sources = Vec::with_capacity(written.len());
        for (number, array) in &written {
            sources.push((*number, array.as_slice()?));
        }
        let mut targets = Vec::with_capacity(read.len());
        for (number, array) in &mut read {
            targets.push((*number, array.as_slice_mut()?));
        }
        self.run(py, move |session| {
            for (number, bytes) in sources {
                session.write(number, bytes)?;
            }
            if replay {
                session.replay()?;
            }
            for (number, bytes) in targets {
                session.read(number, bytes)?;
            }
            Ok(())
        })
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
