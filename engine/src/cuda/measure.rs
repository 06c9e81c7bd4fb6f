//! Measurements beside the product: candidates over memory that is not a session's, and the leading steps of a session's
//! plan, each as a graph of its own between two events. A product never calls any of it.

use super::{
    api::{CUdeviceptr, CUgraphNode, DriverApi},
    error::{CallError, InitError, Subject},
    init::{Extent, build_graph, find_functions},
    options::Extras,
    resources::{Node, Resources},
    session::SizedSession,
};
use crate::plan::{
    Variant,
    format::{Candidate, CandidateLaunch, MAX_LAUNCHES},
};
use core::marker::PhantomData;

/// One block of device memory, in which the operands of candidates lie, and the stream in which they run.
#[derive(Debug)]
pub struct Pool<'d> {
    api: &'d DriverApi,
    resources: Resources<'d, 0>,
    base: CUdeviceptr,
    bytes: u64,
}

impl<'d> Pool<'d> {
    /// Allocates the block, without defined contents.
    ///
    /// # Safety
    /// `api` must hold the functions of the CUDA driver, or functions that keep the driver's contract. A CUDA context must
    /// be current on this thread now and whenever the pool or one of its trials is used or dropped. Whoever wrote the
    /// candidates must be trusted: a kernel can do anything on the device.
    ///
    /// # Errors
    /// Where a driver call fails or there is not so much memory.
    pub unsafe fn new(api: &'d DriverApi, bytes: u64) -> Result<Self, InitError> {
        let mut resources = Resources::new(api, None)?;
        let size = usize::try_from(bytes.max(1)).map_err(|_| InitError::TooLarge { needed: bytes })?;
        let base = resources.allocate(size)?;
        Ok(Self { api, resources, base, bytes })
    }

    /// Copies bytes to `offset` and waits until that is done.
    ///
    /// # Errors
    /// Where they reach outside the pool or a driver call fails.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), InitError> {
        let address = self.address(offset, bytes.len() as u64)?;
        if !bytes.is_empty() {
            self.resources.upload(Subject::Session, address, bytes)?;
        }
        // Also the end of the borrow of `bytes`.
        Ok(self.resources.synchronize()?)
    }

    /// Zeroes bytes from `offset` on, in stream order.
    ///
    /// # Errors
    /// Where they reach outside the pool or a driver call fails.
    pub fn zero(&self, offset: u64, bytes: u64) -> Result<(), InitError> {
        let address = self.address(offset, bytes)?;
        if bytes > 0 {
            self.resources.zero(Subject::Session, address, bytes)?;
        }
        Ok(())
    }

    fn address(&self, offset: u64, bytes: u64) -> Result<CUdeviceptr, InitError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(self.base + offset),
            _ => Err(InitError::OutsidePool { offset, bytes, pool: self.bytes }),
        }
    }
}

/// A graph of copies of one candidate, each after the one before it.
#[derive(Debug)]
pub struct Trial<'p, 'd> {
    resources: Resources<'d, MAX_LAUNCHES>,
    pool: PhantomData<&'p Pool<'d>>,
}

impl<'p, 'd> Trial<'p, 'd> {
    /// Loads the candidate's images and builds the graph. `place` says where in the pool an operand of a copy lies.
    /// Operands may share memory; what they hold is the caller's affair.
    ///
    /// # Errors
    /// Where an operand reaches outside the pool or a driver call fails; everything made so far is freed.
    pub fn new(
        pool: &'p Pool<'d>,
        variant: &Variant<'_>,
        candidate: &Candidate<'_>,
        copies: u32,
        place: impl Fn(u32, usize) -> u64,
    ) -> Result<Self, InitError> {
        let mut resources = Resources::<MAX_LAUNCHES>::new(pool.api, Some(pool.resources.stream()))?;
        let mut functions = heapless::Vec::<_, MAX_LAUNCHES>::new();
        for (number, launch) in (0..).zip(&candidate.launches) {
            resources.load_module(variant.header().image_kind, variant.candidate_image(launch.image))?;
            // Cannot fail: a candidate has at most so many launches.
            let _ = functions.push(resources.function(number, number, launch.name, launch.shared)?);
        }
        resources.create_graph()?;
        let mut last: heapless::Vec<CUgraphNode, 1> = heapless::Vec::new();
        for copy in 0..copies {
            for ((number, launch), &function) in (0..).zip(&candidate.launches).zip(&functions) {
                let CandidateLaunch { grid, block, shared, overlaps, .. } = *launch;
                let mut arguments = heapless::Vec::new();
                for argument in &launch.arguments {
                    // The check has proven that the operand exists and that the offset lies inside it.
                    let operand = usize::from(argument.operand);
                    let bytes = candidate.operands.get(operand).map_or(0, |operand| operand.bytes);
                    let _ = arguments.push(pool.address(place(copy, operand), bytes)? + argument.offset);
                }
                let node = Node { step: number, function, grid, block, shared, arguments, after: &last, overlaps };
                let node = resources.add_node(node)?;
                last.clear();
                let _ = last.push(node);
            }
        }
        resources.finish_graph()?;
        Ok(Self { resources, pool: PhantomData })
    }

    /// Runs the graph once, waits for it, and returns how many milliseconds it took on the device.
    ///
    /// The device should be at work when this is called, or the time holds what the host takes to submit the graph. With
    /// `warm` the graph itself is that work: it runs once more before.
    ///
    /// # Errors
    /// Where a driver call fails.
    pub fn run(&self, warm: bool) -> Result<f32, CallError> {
        if warm {
            self.resources.launch()?;
        }
        timed(&self.resources)
    }
}

/// The leading steps of a session's plan as a graph of its own, over the session's memory.
#[derive(Debug)]
pub struct Prefix<'s, 'd> {
    resources: Resources<'d, 0>,
    counters: (CUdeviceptr, u64),
    session: PhantomData<&'s ()>,
}

impl<'d, const STEPS: usize, const KERNELS: usize, const IMAGES: usize> SizedSession<'_, 'd, STEPS, KERNELS, IMAGES> {
    /// A second graph of the first `steps` steps of the chosen shape. With `serial` each comes after the one before it, else edges are the
    /// plan's. The session's own graph stays as it is; what a prefix leaves in the arena, outputs and states is overwritten
    /// by the next replay, except states.
    ///
    /// # Errors
    /// Where a driver call fails.
    pub fn prefix(&self, steps: u32, serial: bool) -> Result<Prefix<'_, 'd>, InitError> {
        let (variant, session) = (self.variant(), self.resources());
        let functions = find_functions::<KERNELS, IMAGES>(variant, session)?;
        let mut resources = Resources::<0>::new(session.api(), Some(session.stream()))?;
        let extent = Extent { steps, serial, extras: Extras::default() };
        build_graph::<STEPS, KERNELS, 0>(&mut resources, variant, &functions, self.addresses(), self.slots(), extent)?;
        let counters = (self.addresses().counters, variant.header().zeroed_bytes);
        Ok(Prefix { resources, counters, session: PhantomData })
    }
}

impl Prefix<'_, '_> {
    /// Runs the graph twice, waits for it, and returns how many milliseconds the second run took on the device: the first one
    /// keeps the device at work while the host submits the second. Before each, counters are zeroed: a prefix may end
    /// between the launch that raises them and the one that clears them.
    ///
    /// # Errors
    /// Where a driver call fails.
    pub fn run(&self) -> Result<f32, CallError> {
        self.clear_counters()?;
        self.resources.launch()?;
        self.clear_counters()?;
        let time = timed(&self.resources)?;
        self.clear_counters()?;
        Ok(time)
    }

    fn clear_counters(&self) -> Result<(), CallError> {
        let (counters, bytes) = self.counters;
        if bytes > 0 { self.resources.zero(Subject::Session, counters, bytes) } else { Ok(()) }
    }
}

/// Launches a graph between two events and waits for the second.
fn timed<const IMAGES: usize>(resources: &Resources<'_, IMAGES>) -> Result<f32, CallError> {
    resources.record(false)?;
    resources.launch()?;
    resources.record(true)?;
    resources.elapsed()
}
