//! The thread that a session lives on. A session belongs to the thread that made it, whose CUDA context is current; GStreamer
//! calls an element from threads that change with every restart and seek.

use crate::{
    frames::Frames,
    inference,
    settings::{Live, Settings},
};
use anyhow::{Context, Result, anyhow, bail};
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::{self, JoinHandle},
};

/// A frame to run the plan on.
pub struct Job {
    /// The frame.
    pub buffer: gst::Buffer,
    /// What lies in it.
    pub video: gst_video::VideoInfo,
    /// What to do with the results.
    pub live: Live,
    /// Whether states become zero before.
    pub reset: bool,
}

/// What became of it.
pub struct Done {
    /// The frame with its metadata.
    pub buffer: gst::Buffer,
    /// Results for the bus, where they are wanted.
    pub message: Option<gst::Structure>,
}

/// What comes from the thread.
enum Answer {
    /// First of all: what frames the plan takes.
    Ready(Frames),
    /// For every job.
    Done(Done),
}

/// The thread and the ways to it. Dropping it ends the thread.
pub struct Worker {
    /// `None` only while it is dropped.
    jobs: Option<SyncSender<Job>>,
    answers: Receiver<Result<Answer>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread and waits until the session is ready.
    ///
    /// # Errors
    /// Returns why the plan cannot be run, and what to do.
    pub fn start(settings: Settings) -> Result<(Self, Frames)> {
        let (jobs, queue) = sync_channel(1);
        let (sender, answers) = sync_channel(1);
        let serve = move || {
            // Nobody minds an answer when the pipeline has stopped listening.
            let answer = |answer| drop(sender.send(answer));
            let ready = |frames| answer(Ok(Answer::Ready(frames)));
            let done = |done: Result<Done>| answer(done.map(Answer::Done));
            match catch_unwind(AssertUnwindSafe(|| inference::serve(&settings, ready, queue.into_iter(), done))) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => answer(Err(error)),
                Err(panic) => answer(Err(anyhow!("a defect of Floe: {}", panic_message(&*panic)))),
            }
        };
        let thread =
            thread::Builder::new().name("floeinfer".to_owned()).spawn(serve).context("the thread of the session")?;
        let worker = Self { jobs: Some(jobs), answers, thread: Some(thread) };
        match worker.answer()? {
            Answer::Ready(frames) => Ok((worker, frames)),
            Answer::Done(_) => bail!("results before there was a frame"),
        }
    }

    /// Runs the plan on a frame and waits for the results.
    ///
    /// # Errors
    /// What the engine says; or that the thread has ended.
    pub fn run(&mut self, job: Job) -> Result<Done> {
        // Where the thread has ended, its last answer may say why.
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(job);
        }
        match self.answer()? {
            Answer::Done(done) => Ok(done),
            Answer::Ready(_) => bail!("the session was ready twice"),
        }
    }

    fn answer(&self) -> Result<Answer> {
        self.answers.recv().context("the thread of the session has ended")?
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // Its panics were caught.
            let _ = thread.join();
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}
