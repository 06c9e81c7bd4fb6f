//! How a session learns that the device has finished, and what guards found: the words that the last step of a plan
//! writes into host memory.

use super::{
    error::{CallError, RunError},
    resources::Resources,
};
use crate::plan::format::{MAX_BINDINGS, REPORT_GUARD};
use core::hint;

/// How a session waits for the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Wait {
    /// `cuStreamSynchronize`: as the CUDA context was set up. By default the driver spins where there are more processors
    /// than contexts; on a Jetson it may choose to sleep.
    #[default]
    Driver,
    /// Sleeps until the device interrupts (`cuEventSynchronize` of an event with `CU_EVENT_BLOCKING_SYNC`): costs no
    /// processor time, and some microseconds to wake up.
    Block,
    /// Asks the driver again and again (`cuEventQuery`): takes a processor, answers at once.
    Spin,
    /// Looks at a word of host memory that the plan's last step writes: takes a processor, and no call of the driver. Where
    /// something else than replays was enqueued since (copies; there are none with
    /// [`InitOptions::mapped`](super::InitOptions::mapped)), as [`Wait::Spin`]. So too where a replay takes longer than some
    /// ten milliseconds, so that a kernel's error does not go unnoticed.
    Poll,
}

impl Wait {
    /// All ways to wait.
    pub const ALL: [Self; 4] = [Self::Driver, Self::Block, Self::Spin, Self::Poll];
}

/// Looks at the word between two questions whether to go on waiting: 10 to 40 µs.
const LOOKS: u32 = 1 << 10;
/// As many rounds of looks before the driver is asked whether the device still lives: 10 to 40 ms.
const PATIENCE: u32 = 1 << 10;

/// What a session knows of the device's progress.
#[derive(Debug)]
pub(super) struct Completion {
    pub wait: Wait,
    /// Whether guards watch.
    pub guard: bool,
    /// Where in the host memory the report begins.
    pub report: u64,
    /// Number of the last replay that was launched; 0 before the first.
    pub launched: u32,
    /// Whether anything but a replay was enqueued after the last replay.
    pub other_work: bool,
    /// Whether the device may have counted otherwise: a launch failed, which may have been enqueued all the same, or a signal
    /// was missed. The numbers in the report say nothing until [`Self::recount`].
    pub miscounted: bool,
    /// Whether the event of the end stands behind everything that was enqueued.
    pub marked: bool,
}

/// The number of the replay after this one, as the signal's kernel counts: never 0.
const fn next(replay: u32) -> u32 {
    let next = replay.wrapping_add(1);
    if next == 0 { 1 } else { next }
}

impl Completion {
    /// Before a replay or anything else is enqueued, whether or not that succeeds.
    pub fn enqueues(&mut self) {
        (self.other_work, self.marked) = (true, false);
    }

    /// After a launch.
    pub fn launched(&mut self, result: &Result<(), CallError>) {
        match result {
            Ok(()) => {
                self.launched = next(self.launched);
                self.other_work = false;
            }
            Err(_) => self.miscounted = true,
        }
    }

    /// Whether the plan's last step writes the report.
    fn signals(&self) -> bool {
        self.guard || self.wait == Wait::Poll
    }

    /// Waits until everything in the stream has finished.
    pub fn wait<const IMAGES: usize>(&mut self, resources: &Resources<'_, IMAGES>) -> Result<(), CallError> {
        match self.wait {
            Wait::Driver => resources.synchronize()?,
            Wait::Block => {
                self.mark(resources)?;
                resources.synchronize_done()?;
            }
            Wait::Spin | Wait::Poll => return self.wait_while(resources, &mut || true).map(drop),
        }
        self.compare(resources);
        Ok(())
    }

    /// As [`Self::wait`], asking again and again, as long as `go_on` says so: whether everything has finished.
    pub fn wait_while<const IMAGES: usize>(
        &mut self,
        resources: &Resources<'_, IMAGES>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool, CallError> {
        if self.wait == Wait::Poll && !self.other_work && !self.miscounted {
            for _ in 0..PATIENCE {
                for _ in 0..LOOKS {
                    if resources.load(self.report) == self.launched {
                        return Ok(true);
                    }
                    hint::spin_loop();
                }
                if !go_on() {
                    self.mark(resources)?;
                    return Ok(false);
                }
            }
        }
        self.mark(resources)?;
        while !resources.is_done()? {
            if !go_on() {
                return Ok(false);
            }
            hint::spin_loop();
        }
        self.compare(resources);
        Ok(true)
    }

    /// Records the event of the end, unless it stands there already: recorded anew at every question it might never be seen
    /// to have passed.
    fn mark<const IMAGES: usize>(&mut self, resources: &Resources<'_, IMAGES>) -> Result<(), CallError> {
        if !self.marked {
            resources.record_done()?;
            self.marked = true;
        }
        Ok(())
    }

    /// Compares the device's count with the session's, when everything has finished.
    fn compare<const IMAGES: usize>(&mut self, resources: &Resources<'_, IMAGES>) {
        self.miscounted |= self.signals() && resources.load(self.report) != self.launched;
    }

    /// Goes on from the device's count, when everything has finished.
    pub fn recount<const IMAGES: usize>(&mut self, resources: &mut Resources<'_, IMAGES>) {
        self.launched = resources.load(self.report);
        // A replay without its signal leaves the number that the next replay gets.
        resources.host_memory(self.report + REPORT_GUARD, 4 * MAX_BINDINGS as u64).fill(0);
        self.miscounted = false;
    }

    /// Numbers of the bindings that the last replay, which has finished, left with a NaN or an infinity.
    pub fn guarded<'s, const IMAGES: usize>(
        &mut self,
        resources: &'s Resources<'_, IMAGES>,
    ) -> Result<impl Iterator<Item = usize> + use<'s, IMAGES>, RunError> {
        if !self.guard {
            return Err(RunError::NotGuarded);
        }
        self.compare(resources);
        if self.miscounted {
            return Err(RunError::Miscounted);
        }
        let (report, replay) = (self.report, self.launched);
        let hit = move |binding: usize| resources.load(report + REPORT_GUARD + 4 * binding as u64) == replay;
        Ok((0..MAX_BINDINGS).filter(move |&binding| hit(binding)))
    }
}

#[cfg(test)]
mod tests {
    use super::next;

    #[test]
    fn replays_are_never_number_zero() {
        assert_eq!([next(0), next(7), next(u32::MAX)], [1, 8, 1]);
    }
}
