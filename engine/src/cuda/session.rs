//! RUN: write, replay, read.

use super::{
    addresses::Addresses,
    completion::Completion,
    error::{CallError, RunError, Subject},
    resources::Resources,
};
use crate::{
    BindingRef, ShapeError, ShapeRef,
    bindings::{Access, Slot, Slots},
    plan::{
        Variant,
        format::{Direction, MAX_BINDINGS},
    },
};
use core::ops::Range;

/// A session for plans of up to 4096 steps, 1024 kernels and 1024 images. INIT takes 9 bytes of stack for each step and 12
/// for each kernel; the session itself keeps 8 bytes for each image.
pub type Session<'p, 'd> = SizedSession<'p, 'd, 4096, 1024, 1024>;

/// A ready session whose plan has at most `STEPS` steps in each shape, `KERNELS` kernels and `IMAGES` images.
///
/// It belongs to the thread whose CUDA context it was made in. Dropping it waits for the device and frees everything that it
/// made; after a [`Self::synchronize_while`] that ended with [`RunError::StillRunning`] it neither waits nor frees, unless
/// the device has finished by then.
#[derive(Debug)]
pub struct SizedSession<'p, 'd, const STEPS: usize, const KERNELS: usize, const IMAGES: usize> {
    variant: Variant<'p>,
    resources: Resources<'d, IMAGES>,
    slots: Slots,
    addresses: Addresses,
    mapped: bool,
    completion: Completion,
    /// Whether the device may still be at work.
    busy: bool,
    /// Whether a copy out of a binding's host side may still be under way.
    uploading: Flags,
    /// Inputs whose host side was lent since it was last copied to the device.
    lent: Flags,
}

impl<'p, 'd, const STEPS: usize, const KERNELS: usize, const IMAGES: usize>
    SizedSession<'p, 'd, STEPS, KERNELS, IMAGES>
{
    pub(super) fn new(
        variant: Variant<'p>,
        resources: Resources<'d, IMAGES>,
        slots: Slots,
        addresses: Addresses,
        mapped: bool,
        completion: Completion,
    ) -> Self {
        Self {
            variant,
            resources,
            slots,
            addresses,
            mapped,
            completion,
            busy: true,
            uploading: Flags::NONE,
            lent: Flags::NONE,
        }
    }

    /// The end of INIT: one replay of each shape, the chosen one last, which loads what the driver loads lazily, then states
    /// back to zero.
    pub(super) fn warm_up(&mut self) -> Result<(), CallError> {
        let chosen = self.variant.clone();
        let others = chosen.shapes().filter(|shape| shape.number() != chosen.number());
        for shape in others.chain([chosen.clone()]) {
            self.take(shape);
            self.launch()?;
            self.wait()?;
            self.zero_states()?;
            if self.busy {
                self.wait()?;
            }
        }
        Ok(())
    }

    fn take(&mut self, shape: Variant<'p>) {
        self.resources.choose(shape.place());
        self.slots.choose(&shape);
        self.variant = shape;
    }

    /// Chooses the shape of the replays from now on. Calls no function of the driver and does not wait: replays that were
    /// enqueued before are of the shape before, and their outputs are to be read before.
    ///
    /// Bindings keep their addresses, and states what they hold. So does an input whose shape is equal; any other is to be
    /// written before the next replay, and outputs are read after it.
    ///
    /// # Errors
    /// Where the variant's target has no such shape; the session is as it was.
    pub fn choose<'s>(&mut self, shape: impl Into<ShapeRef<'s>>) -> Result<(), ShapeError> {
        self.take(self.variant.find_shape(shape.into())?);
        Ok(())
    }

    #[cfg(feature = "measure")]
    pub(super) fn resources(&self) -> &Resources<'d, IMAGES> {
        &self.resources
    }

    #[cfg(feature = "measure")]
    pub(super) fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    #[cfg(feature = "measure")]
    pub(super) fn slots(&self) -> &Slots {
        &self.slots
    }

    /// The variant that is replayed: its shapes are the chosen ones.
    pub fn variant(&self) -> &Variant<'p> {
        &self.variant
    }

    /// Addresses of the page-locked host memory, in which everything lies that [`Self::input_mut`] and [`Self::output`] lend.
    pub fn page_locked(&self) -> Range<usize> {
        self.resources.host_addresses()
    }

    /// Copies `bytes` into an input or state: row-major, in the binding's element type. Does not wait for the device
    /// unless it may still be reading an earlier value.
    ///
    /// # Errors
    /// Where there is no such binding, the length is not its, or a driver call fails.
    pub fn write<'n>(&mut self, binding: impl Into<BindingRef<'n>>, bytes: &[u8]) -> Result<(), RunError> {
        let (number, slot) = self.slots.find(&self.variant, binding.into(), Access::Write, Some(bytes.len()))?;
        // A mapped binding is read by the kernels themselves; any other only by the copy that its last write enqueued.
        let in_use = if self.mapped { self.busy } else { self.uploading.get(number) };
        if in_use {
            self.wait()?;
        }
        copy(self.resources.host_memory(slot.offset, slot.bytes), bytes);
        Ok(self.upload(number, slot)?)
    }

    /// Copies a binding's host side to the device, unless they are the same.
    fn upload(&mut self, number: usize, slot: Slot) -> Result<(), CallError> {
        if !self.mapped && slot.bytes > 0 {
            self.enqueues();
            self.uploading.set(number, true);
            let subject = Subject::Binding(number as u32);
            self.resources.upload_host(subject, self.addresses.bindings + slot.offset, slot.offset, slot.bytes)?;
        }
        // Only now: where the copy failed, the next replay tries it again.
        self.lent.set(number, false);
        Ok(())
    }

    /// Copies an output or state into `bytes`: row-major, in the binding's element type. Waits for the replay.
    ///
    /// # Errors
    /// Where there is no such binding, the length is not its, or a driver call fails.
    pub fn read<'n>(&mut self, binding: impl Into<BindingRef<'n>>, bytes: &mut [u8]) -> Result<(), RunError> {
        let (number, slot) = self.slots.find(&self.variant, binding.into(), Access::Read, Some(bytes.len()))?;
        copy(bytes, self.download(number, slot)?);
        Ok(())
    }

    /// Waits, and lends a binding's host side with what the device has.
    fn download(&mut self, number: usize, slot: Slot) -> Result<&[u8], CallError> {
        if !self.mapped && slot.bytes > 0 {
            self.enqueues();
            let subject = Subject::Binding(number as u32);
            self.resources.download_host(subject, self.addresses.bindings + slot.offset, slot.offset, slot.bytes)?;
        }
        if self.busy {
            self.wait()?;
        }
        Ok(self.resources.host_memory(slot.offset, slot.bytes))
    }

    /// Lends an input's bytes, to be filled in place: row-major, in the binding's element type, holding what they held before.
    /// Waits where the device may still read them. The next replay sees what was filled in; with
    /// [`InitOptions::mapped`](super::InitOptions::mapped) without any copy, else by one that the replay begins with.
    ///
    /// # Errors
    /// Where there is no such input, or a driver call fails.
    pub fn input_mut<'n>(&mut self, binding: impl Into<BindingRef<'n>>) -> Result<&mut [u8], RunError> {
        let (number, slot) = self.slots.find(&self.variant, binding.into(), Access::Lend, None)?;
        if if self.mapped { self.busy } else { self.uploading.get(number) } {
            self.wait()?;
        }
        self.lent.set(number, !self.mapped);
        Ok(self.resources.host_memory(slot.offset, slot.bytes))
    }

    /// Lends an output's bytes: row-major, in the binding's element type. Waits for the replay; with
    /// [`InitOptions::mapped`](super::InitOptions::mapped) without any copy.
    ///
    /// # Errors
    /// Where there is no such output, or a driver call fails.
    pub fn output<'n>(&mut self, binding: impl Into<BindingRef<'n>>) -> Result<&[u8], RunError> {
        let (number, slot) = self.slots.find(&self.variant, binding.into(), Access::Borrow, None)?;
        Ok(self.download(number, slot)?)
    }

    /// Enqueues one replay and returns at once. After a launch that failed, or a replay whose signal was missed, a session that
    /// polls or guards waits for the device first, to learn how many replays it has counted.
    ///
    /// # Errors
    /// Where the driver refuses the launch.
    pub fn replay(&mut self) -> Result<(), RunError> {
        Ok(self.launch()?)
    }

    /// Sends what was filled in, then launches the graph.
    fn launch(&mut self) -> Result<(), CallError> {
        self.recount()?;
        self.send_lent()?;
        self.enqueues();
        let result = self.resources.launch();
        self.completion.launched(&result);
        result
    }

    /// Learns how many replays the device has counted, where that is in doubt.
    fn recount(&mut self) -> Result<(), CallError> {
        if self.completion.miscounted {
            self.wait()?;
            self.completion.recount(&mut self.resources);
        }
        Ok(())
    }

    fn enqueues(&mut self) {
        self.busy = true;
        self.completion.enqueues();
    }

    fn send_lent(&mut self) -> Result<(), CallError> {
        if !self.mapped {
            for number in 0..MAX_BINDINGS {
                if self.lent.get(number)
                    && let Some(slot) = self.slots.get(number)
                {
                    self.upload(number, slot)?;
                }
            }
        }
        Ok(())
    }

    /// As [`Self::replay`], between two events that [`Self::device_time`] and [`Self::is_done`] look at.
    ///
    /// # Errors
    /// Where a driver call fails.
    pub fn replay_timed(&mut self) -> Result<(), RunError> {
        self.recount()?;
        self.send_lent()?;
        self.busy = true;
        self.resources.record(false)?;
        self.launch()?;
        Ok(self.resources.record(true)?)
    }

    /// Whether the last [`Self::replay_timed`] has finished; does not wait.
    ///
    /// # Errors
    /// Where the replay failed.
    pub fn is_done(&self) -> Result<bool, RunError> {
        Ok(self.resources.has_ended()?)
    }

    /// Milliseconds that the last [`Self::replay_timed`] took on the device; waits for it. For measurements only: calls
    /// functions of [`Phase::Profile`](super::Phase::Profile).
    ///
    /// # Errors
    /// Where there was none, or a driver call fails.
    pub fn device_time(&self) -> Result<f32, RunError> {
        Ok(self.resources.elapsed()?)
    }

    /// Waits until everything enqueued has finished.
    ///
    /// # Errors
    /// Where any of it failed.
    pub fn synchronize(&mut self) -> Result<(), RunError> {
        Ok(self.wait()?)
    }

    /// As [`Self::synchronize`], for as long as `go_on` says so, which is asked again and again: it looks at a clock, sleeps,
    /// or does something else. However the session waits otherwise, this asks: `cuEventRecord`, then `cuEventQuery`.
    ///
    /// After [`RunError::StillRunning`] the session is as it was. Wait again, with or without limit: results are right once
    /// that succeeds. Every other operation waits without limit where it needs the device. Or drop the session, which then
    /// frees nothing at all unless the device has finished meanwhile: its memory stays the device's until the CUDA context is
    /// destroyed or the process ends. So does what the session shares with others. Other sessions of the same context are
    /// not safe from waiting, since the driver may let any call that frees wait for the whole device.
    ///
    /// ```no_run
    /// # use floe_engine::cuda::{RunError, Session};
    /// # use std::time::{Duration, Instant};
    /// # fn run(session: &mut Session<'_, '_>) -> Result<(), RunError> {
    /// let deadline = Instant::now() + Duration::from_millis(20);
    /// session.replay()?;
    /// session.synchronize_while(|| Instant::now() < deadline)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RunError::StillRunning`] where `go_on` said no before everything had finished; a driver call's where anything
    /// failed.
    pub fn synchronize_while(&mut self, mut go_on: impl FnMut() -> bool) -> Result<(), RunError> {
        let finished = self.completion.wait_while(&self.resources, &mut go_on)?;
        self.resources.set_overdue(!finished);
        if !finished {
            return Err(RunError::StillRunning);
        }
        self.has_waited();
        Ok(())
    }

    /// Zeroes every state, before the next replay and after the last.
    ///
    /// # Errors
    /// Where a driver call fails.
    pub fn reset(&mut self) -> Result<(), RunError> {
        Ok(self.zero_states()?)
    }

    fn zero_states(&mut self) -> Result<(), CallError> {
        if self.mapped && self.busy {
            self.wait()?;
        }
        for (number, slot) in (0..).zip(self.slots.iter()).filter(|(_, slot)| slot.direction == Direction::State) {
            if self.mapped {
                self.resources.host_memory(slot.offset, slot.bytes).fill(0);
            } else if slot.bytes > 0 {
                self.busy = true;
                self.completion.enqueues();
                self.resources.zero(Subject::Binding(number), self.addresses.bindings + slot.offset, slot.bytes)?;
            }
        }
        Ok(())
    }

    /// Numbers of the float outputs and states that the last replay left with a NaN or an infinity, ascending. Waits for the
    /// replay; copies nothing, since the plan's guards write what they find into host memory.
    ///
    /// # Errors
    /// Where the session was made without [`InitOptions::guard`](super::InitOptions::guard), or a driver call fails;
    /// [`RunError::Miscounted`] where the last launch failed, or not every replay was signalled: then nothing is known of
    /// the results, until another replay.
    pub fn guard(&mut self) -> Result<impl Iterator<Item = usize> + '_, RunError> {
        if self.busy {
            self.wait()?;
        }
        self.completion.guarded(&self.resources)
    }

    fn wait(&mut self) -> Result<(), CallError> {
        self.completion.wait(&self.resources)?;
        self.resources.set_overdue(false);
        self.has_waited();
        Ok(())
    }

    fn has_waited(&mut self) {
        self.busy = false;
        self.uploading = Flags::NONE;
    }
}

/// A flag for each binding.
#[derive(Clone, Copy, Debug)]
struct Flags([bool; MAX_BINDINGS]);

impl Flags {
    const NONE: Self = Self([false; MAX_BINDINGS]);

    fn get(&self, binding: usize) -> bool {
        self.0.get(binding).is_some_and(|&flag| flag)
    }

    fn set(&mut self, binding: usize, value: bool) {
        if let Some(flag) = self.0.get_mut(binding) {
            *flag = value;
        }
    }
}

/// Copies between slices of one length, which those of a slot have: `find` compared them.
fn copy(to: &mut [u8], from: &[u8]) {
    if to.len() == from.len() {
        to.copy_from_slice(from);
    }
}
