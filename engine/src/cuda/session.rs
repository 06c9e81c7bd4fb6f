//! RUN: write, replay, read.

use super::{
    completion::Completion,
    error::{CallError, RunError, Subject},
    init::Addresses,
    resources::Resources,
};
use crate::{
    BindingRef,
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

/// A ready session whose plan has at most `STEPS` steps, `KERNELS` kernels and `IMAGES` images.
///
/// It belongs to the thread whose CUDA context it was made in. Dropping it frees everything that it made.
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

    /// The end of INIT: one replay, which loads what the driver loads lazily, then states back to zero.
    pub(super) fn warm_up(&mut self) -> Result<(), CallError> {
        self.launch()?;
        self.wait()?;
        self.zero_states()?;
        if self.busy { self.wait() } else { Ok(()) }
    }

    pub(super) fn resources(&self) -> &Resources<'d, IMAGES> {
        &self.resources
    }

    pub(super) fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    pub(super) fn slots(&self) -> &Slots {
        &self.slots
    }

    /// The variant that is replayed.
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
            (self.busy, self.completion.other_work) = (true, true);
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
            (self.busy, self.completion.other_work) = (true, true);
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

    /// Enqueues one replay and returns at once.
    ///
    /// # Errors
    /// Where the driver refuses the launch.
    pub fn replay(&mut self) -> Result<(), RunError> {
        Ok(self.launch()?)
    }

    /// Sends what was filled in, then launches the graph.
    fn launch(&mut self) -> Result<(), CallError> {
        self.send_lent()?;
        self.busy = true;
        self.resources.launch()?;
        self.completion.launched();
        Ok(())
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
                (self.busy, self.completion.other_work) = (true, true);
                self.resources.zero(Subject::Binding(number), self.addresses.bindings + slot.offset, slot.bytes)?;
            }
        }
        Ok(())
    }

    /// Numbers of the float outputs and states that the last replay left with a NaN or an infinity, ascending. Waits for the
    /// replay; copies nothing, since the plan's guards write what they find into host memory.
    ///
    /// # Errors
    /// Where the session was made without [`InitOptions::guard`](super::InitOptions::guard), or a driver call fails.
    pub fn guard(&mut self) -> Result<impl Iterator<Item = usize> + '_, RunError> {
        if self.busy {
            self.wait()?;
        }
        self.completion.guarded(&self.resources)
    }

    fn wait(&mut self) -> Result<(), CallError> {
        self.completion.wait(&self.resources)?;
        self.busy = false;
        self.uploading = Flags::NONE;
        Ok(())
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
