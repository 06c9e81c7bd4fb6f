//! One interface to both kinds of session.

mod place;
mod request;

pub use place::Place;
pub(crate) use place::init_error;
pub use request::{DeviceKind, MemoryKind, Request, wait_name};

use anyhow::{Result, anyhow};
use floe_engine::{
    cuda::{self, RunError},
    host,
    plan::{
        Variant,
        format::{Binding, Direction},
    },
};

/// A ready session on either device.
pub enum Session<'p, 'm> {
    /// On the CPU.
    Host(Box<host::Session<'p, 'm>>),
    /// On the GPU.
    Cuda(Box<cuda::Session<'p, 'm>>),
}

impl<'p> Session<'p, '_> {
    /// The variant that is replayed.
    pub fn variant(&self) -> &Variant<'p> {
        match self {
            Self::Host(session) => session.variant(),
            Self::Cuda(session) => session.variant(),
        }
    }

    /// Numbers and descriptions of the bindings that go one way.
    pub fn bindings(&self, direction: Direction) -> Vec<(usize, Binding<'p>)> {
        self.variant().bindings().enumerate().filter(|(_, binding)| binding.direction == direction).collect()
    }

    /// Chooses the variant of this number, of the same target: another shape.
    ///
    /// # Errors
    /// What the engine says.
    pub fn choose(&mut self, number: usize) -> Result<()> {
        match self {
            Self::Host(session) => Ok(session.choose(number)?),
            Self::Cuda(session) => Ok(session.choose(number)?),
        }
    }

    /// Writes an input or state by number.
    ///
    /// # Errors
    /// What the engine says.
    pub fn write(&mut self, binding: usize, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Host(session) => Ok(session.write(binding, bytes)?),
            Self::Cuda(session) => session.write(binding, bytes).map_err(run_error),
        }
    }

    /// Lends an input's bytes by number, to be filled in place; on a GPU, waits where it may still read them.
    ///
    /// # Errors
    /// What the engine says.
    pub fn input_mut(&mut self, binding: usize) -> Result<&mut [u8]> {
        match self {
            Self::Host(session) => Ok(session.input_mut(binding)?),
            Self::Cuda(session) => session.input_mut(binding).map_err(run_error),
        }
    }

    /// Lends an output's bytes by number; waits for the replay.
    ///
    /// # Errors
    /// What the engine says.
    pub fn output(&mut self, binding: usize) -> Result<&[u8]> {
        match self {
            Self::Host(session) => Ok(session.output(binding)?),
            Self::Cuda(session) => session.output(binding).map_err(run_error),
        }
    }

    /// Replays the plan once; on a GPU, enqueues that.
    ///
    /// # Errors
    /// What the engine says.
    pub fn replay(&mut self) -> Result<()> {
        match self {
            Self::Host(session) => Ok(session.replay()?),
            Self::Cuda(session) => session.replay().map_err(run_error),
        }
    }

    /// Waits until everything enqueued has finished.
    ///
    /// # Errors
    /// Where any of it failed.
    pub fn synchronize(&mut self) -> Result<()> {
        match self {
            Self::Host(_) => Ok(()),
            Self::Cuda(session) => session.synchronize().map_err(run_error),
        }
    }

    /// Reads an output or state by number; waits for the replay.
    ///
    /// # Errors
    /// What the engine says.
    pub fn read(&mut self, binding: usize, bytes: &mut [u8]) -> Result<()> {
        match self {
            Self::Host(session) => Ok(session.read(binding, bytes)?),
            Self::Cuda(session) => session.read(binding, bytes).map_err(run_error),
        }
    }

    /// Names of the float outputs and states that the last replay left with a NaN or an infinity; `None` on a GPU without a
    /// guard.
    ///
    /// # Errors
    /// What the engine says.
    pub fn guard(&mut self) -> Result<Option<Vec<&'p str>>> {
        let hit: Vec<usize> = match self {
            Self::Host(session) => session.guard().collect(),
            Self::Cuda(session) => match session.guard() {
                Ok(numbers) => numbers.collect(),
                Err(RunError::NotGuarded) => return Ok(None),
                Err(error) => return Err(run_error(error)),
            },
        };
        let bindings: Vec<_> = self.variant().bindings().collect();
        Ok(Some(hit.into_iter().filter_map(|number| bindings.get(number).map(|binding| binding.name)).collect()))
    }

    /// Zeroes every state.
    ///
    /// # Errors
    /// What the engine says.
    pub fn reset(&mut self) -> Result<()> {
        match self {
            Self::Host(session) => {
                session.reset();
                Ok(())
            }
            Self::Cuda(session) => session.reset().map_err(run_error),
        }
    }

    /// Microseconds that one replay takes on the GPU; `None` on the host.
    ///
    /// # Errors
    /// What the engine says.
    pub fn device_time(&mut self) -> Result<Option<f64>> {
        match self {
            Self::Host(_) => Ok(None),
            Self::Cuda(session) => {
                session.replay_timed().map_err(run_error)?;
                Ok(Some(f64::from(session.device_time().map_err(run_error)?) * 1e3))
            }
        }
    }
}

/// An error of RUN, with what to do about it.
fn run_error(error: RunError) -> anyhow::Error {
    match &error {
        RunError::Call(call) => anyhow!("{error}{}", floe_cuda::advice(call.result)),
        _ => error.into(),
    }
}
