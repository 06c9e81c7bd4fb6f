//! Threads of Rust that Python waits for.

use crate::errors::Error;
use anyhow::{Result, anyhow};
use floe::{
    plan_file::PlanFile,
    session::{Place, Request, Session},
};
use pyo3::prelude::*;
use std::{
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
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

/// A session on a thread of its own, where its plan, its device and its driver's context live. Sessions of a GPU cannot leave
/// the thread that made them; Python's threads come and go.
pub struct Worker {
    /// Both are there until the worker is dropped.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// The device in words.
    pub device: String,
    /// Target of the variant.
    pub target: String,
}

impl Worker {
    /// INIT, on a new thread that ends with the worker.
    ///
    /// # Errors
    /// Why nothing can run the plan, or what the engine says.
    pub fn start(file: Arc<PlanFile>, request: Request) -> Result<Self> {
        let (jobs, queue) = mpsc::channel();
        let (send, ready) = mpsc::channel();
        let thread = thread::Builder::new().name("floe session".to_owned()).stack_size(STACK).spawn(move || {
            if let Err(error) = serve(&file, &request, &send, &queue) {
                let _ = send.send(Err(error));
            }
        })?;
        let (device, target) = ready.recv().unwrap_or_else(|_| Err(ended()))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread), device, target })
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
        if self.jobs.as_ref().is_none_or(|jobs| jobs.send(job).is_err()) {
            return Err(ended());
        }
        done.recv().unwrap_or_else(|_| Err(ended()))
    }
}

impl Drop for Worker {
    /// Waits until the session's memory is free: the next session may need it.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // Its panic has been reported to whoever waited for a job.
            let _ = thread.join();
        }
    }
}

fn ended() -> anyhow::Error {
    anyhow!("the session's thread has panicked, which is a defect of Floe; standard error has its message")
}

/// The life of a session's thread.
fn serve(
    file: &PlanFile,
    request: &Request,
    ready: &Sender<Result<(String, String)>>,
    jobs: &Receiver<Job>,
) -> Result<()> {
    // What a plan's file holds was checked when it was read.
    let plan = floe_engine::plan::Plan::parse(file.bytes())?;
    let (mut place, variant) = Place::choose(&plan, request)?;
    let (device, target) = (place.describe(), variant.header().target.to_owned());
    let mut session = place.session(variant)?;
    if ready.send(Ok((device, target))).is_ok() {
        jobs.iter().for_each(|job| job(&mut session));
    }
    Ok(())
}
