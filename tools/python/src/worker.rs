//! Threads of Rust that Python waits for.

use crate::errors::Error;
use anyhow::{Result, anyhow};
use floe::{
    device_memory::{self, DeviceSlice},
    plan_file::PlanFile,
    session::{Place, Request, Session},
};
use pyo3::prelude::*;
use std::{
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Stack of a thread: as much as a program's first one has.
const STACK: usize = 8 << 20;
/// How long a signal waits for Python to look.
const SIGNALS: Duration = Duration::from_millis(50);

/// Runs `work` without the interpreter, looking for signals meanwhile.
///
/// # Errors
/// Raises what a signal's handler raises, KeyboardInterrupt for Ctrl-C: `work` then goes on, and its result is dropped.
pub fn interruptible<T: Send + 'static>(py: Python<'_>, work: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    let (send, mut done) = mpsc::channel();
    thread::Builder::new().name("floe".to_owned()).stack_size(STACK).spawn(move || {
        let _ = send.send(work());
    })?;
    loop {
        let (receiver, result) = py.detach(move || {
            let result = done.recv_timeout(SIGNALS);
            (done, result)
        });
        done = receiver;
        match result {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::new_err(
                    "a thread has panicked, which is a defect of Floe; standard error has its message",
                ));
            }
        }
    }
}

type Job = Box<dyn FnOnce(&mut Session<'_, '_>) + Send>;

/// What a session's thread does next.
enum Task {
    /// Works with the session.
    Work(Job),
    /// Frees device memory.
    Free(DeviceSlice),
    /// Frees the session's memory, then drops this.
    Close(SyncSender<()>),
}

/// A session on a thread of its own, where its plan, its device and its driver's context live. Sessions of a GPU cannot leave
/// the thread that made them; Python's threads come and go. The thread lives as long as the worker and all its buffers.
pub struct Worker {
    /// Both are there until the worker is dropped.
    tasks: Option<Arc<Sender<Task>>>,
    thread: Option<JoinHandle<()>>,
    /// What the session runs on.
    pub ready: Ready,
}

/// What a session runs on.
#[derive(Clone)]
pub struct Ready {
    /// The device in words.
    pub device: String,
    /// Target of the variant.
    pub target: String,
    /// Number of the variant in the plan.
    pub variant: usize,
    /// The stream (`CUstream`) in which it copies and replays, where it takes device memory of others.
    pub stream: Option<usize>,
}

/// Device memory of a session's GPU. It may outlive the session.
pub struct Buffer {
    /// Where it is.
    pub memory: DeviceSlice,
    tasks: Arc<Sender<Task>>,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // The thread waits for its buffers, so it is there.
        let _ = self.tasks.send(Task::Free(self.memory));
    }
}

impl Worker {
    /// INIT, on a new thread that ends with the worker.
    ///
    /// # Errors
    /// Why nothing can run the plan, or what the engine says.
    pub fn start(file: Arc<PlanFile>, request: Request) -> Result<Self> {
        let (tasks, queue) = mpsc::channel();
        let (send, ready) = mpsc::channel();
        let thread = thread::Builder::new().name("floe session".to_owned()).stack_size(STACK).spawn(move || {
            if let Err(error) = serve(&file, &request, &send, &queue) {
                let _ = send.send(Err(error));
            }
        })?;
        let ready = ready.recv().unwrap_or_else(|_| Err(ended()))?;
        Ok(Self { tasks: Some(Arc::new(tasks)), thread: Some(thread), ready })
    }

    /// Runs `job` on the session's thread and waits for it.
    ///
    /// # Errors
    /// Returns the job's error, or one that says that the thread has ended with a panic.
    pub fn run<T: Send>(&mut self, job: impl FnOnce(&mut Session<'_, '_>) -> Result<T> + Send) -> Result<T> {
        let (send, done) = mpsc::sync_channel(1);
        let job: Box<dyn FnOnce(&mut Session<'_, '_>) + Send + '_> = Box::new(move |session| {
            let _ = send.send(job(session));
        });
        // SAFETY: only the lifetime changes. `recv` below returns when the job has sent its result, behind its last use of
        // what it borrows, or when the job has been dropped with its sender: in either case nothing borrowed is used after
        // this function, which cannot unwind in between.
        let job: Job = unsafe { std::mem::transmute(job) };
        if self.tasks.as_ref().is_none_or(|tasks| tasks.send(Task::Work(job)).is_err()) {
            return Err(ended());
        }
        done.recv().unwrap_or_else(|_| Err(ended()))
    }

    /// Allocates device memory beside the session's.
    ///
    /// # Errors
    /// As [`Worker::run`]; the driver's error.
    pub fn allocate(&mut self, bytes: usize) -> Result<Buffer> {
        let memory = self.run(|_| device_memory::allocate(bytes))?;
        let tasks = self.tasks.clone().ok_or_else(ended)?;
        Ok(Buffer { memory, tasks })
    }
}

impl Drop for Worker {
    /// Waits until the session's memory is free: the next session may need it. Buffers stay.
    fn drop(&mut self) {
        let Some(tasks) = self.tasks.take() else { return };
        let (send, closed) = mpsc::sync_channel(0);
        if tasks.send(Task::Close(send)).is_ok() {
            let _ = closed.recv();
        }
        // Without buffers the thread ends here, and its context with it.
        if Arc::into_inner(tasks).is_some()
            && let Some(thread) = self.thread.take()
        {
            // Its panic has been reported to whoever waited for a job.
            let _ = thread.join();
        }
    }
}

fn ended() -> anyhow::Error {
    anyhow!("the session's thread has panicked, which is a defect of Floe; standard error has its message")
}

/// The life of a session's thread.
fn serve(file: &PlanFile, request: &Request, ready: &Sender<Result<Ready>>, tasks: &Receiver<Task>) -> Result<()> {
    // What a plan's file holds was checked when it was read.
    let plan = floe_engine::plan::Plan::parse(file.bytes())?;
    let (mut place, variant) = Place::choose(&plan, request)?;
    // A part of a GPU is a context of its own, in which nobody else has memory.
    let stream = if request.multiprocessors.is_none() { place.share_device_memory()? } else { None };
    let started = Ready {
        device: place.describe(),
        target: variant.header().target.to_owned(),
        variant: variant.number(),
        stream: stream.map(|stream| stream.addr()),
    };
    let mut session = Some(place.session(variant)?);
    if ready.send(Ok(started)).is_err() {
        return Ok(());
    }
    for task in tasks {
        match task {
            Task::Work(job) => {
                if let Some(session) = &mut session {
                    job(session);
                }
            }
            // SAFETY: a buffer's, which this thread has allocated, and which is dropped once.
            Task::Free(memory) => drop(unsafe { device_memory::free(memory) }),
            Task::Close(closed) => {
                session = None;
                drop(closed);
            }
        }
    }
    Ok(())
}
