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

/// Looks at the word before the driver is asked whether the device still lives: 10 to 40 ms.
const PATIENCE: u32 = 1 << 20;

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
}

/// The number of the replay after this one, as the signal's kernel counts: never 0.
const fn next(replay: u32) -> u32 {
    let next = replay.wrapping_add(1);
    if next == 0 { 1 } else { next }
}

impl Completion {
    /// Notes that a replay was launched.
    pub fn launched(&mut self) {
        self.launched = next(self.launched);
        self.other_work = false;
    }

    /// Waits until everything in the stream has finished.
    pub fn wait<const IMAGES: usize>(&self, resources: &Resources<'_, IMAGES>) -> Result<(), CallError> {
        match self.wait {
            Wait::Driver => resources.synchronize(),
            Wait::Block => {
                resources.record_done()?;
                resources.synchronize_done()
            }
            Wait::Poll if !self.other_work => {
                for _ in 0..PATIENCE {
                    if resources.load(self.report) == self.launched {
                        return Ok(());
                    }
                    hint::spin_loop();
                }
                spin(resources)
            }
            Wait::Spin | Wait::Poll => spin(resources),
        }
    }

    /// Numbers of the bindings that the last replay, which has finished, left with a NaN or an infinity.
    pub fn guarded<'s, const IMAGES: usize>(
        &self,
        resources: &'s Resources<'_, IMAGES>,
    ) -> Result<impl Iterator<Item = usize> + use<'s, IMAGES>, RunError> {
        if !self.guard {
            return Err(RunError::NotGuarded);
        }
        let (report, replay) = (self.report, self.launched);
        let hit = move |binding: usize| resources.load(report + REPORT_GUARD + 4 * binding as u64) == replay;
        Ok((0..MAX_BINDINGS).filter(move |&binding| hit(binding)))
    }
}

fn spin<const IMAGES: usize>(resources: &Resources<'_, IMAGES>) -> Result<(), CallError> {
    resources.record_done()?;
    while !resources.is_done()? {
        hint::spin_loop();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::next;

    #[test]
    fn replays_are_never_number_zero() {
        assert_eq!([next(0), next(7), next(u32::MAX)], [1, 8, 1]);
    }
}
