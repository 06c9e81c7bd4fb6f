//! What the user asks to run on.

use crate::host_functions::HostFunctions;
use floe_engine::cuda::{Stage, Wait};

/// What the user asks to run on.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Which device.
    pub device: DeviceKind,
    /// Multiprocessors of the GPU to use, `None` for all.
    pub multiprocessors: Option<u32>,
    /// Variant by the name of its target, `None` for the most suitable.
    pub variant: Option<String>,
    /// Where bindings live on a GPU, `None` for mapped memory where the GPU shares the CPU's.
    pub memory: Option<MemoryKind>,
    /// How a session on a GPU waits.
    pub wait: Wait,
    /// Whether float outputs are watched for NaN and infinity on a GPU, which needs steps of their own; the host can always
    /// look.
    pub guard: bool,
    /// Is told where each stage of INIT begins on a GPU.
    pub observe: Option<fn(Stage)>,
    /// What the host calls for operators from outside of Floe.
    pub functions: HostFunctions,
}

/// Where the bindings of a session on a GPU live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// In host memory that the GPU uses where it lies.
    Mapped,
    /// In device memory, with a host side to copy from and to.
    Device,
}

impl MemoryKind {
    /// Name as the command line has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mapped => "mapped",
            Self::Device => "device",
        }
    }
}

/// Name of a way to wait, as the command line has it.
pub const fn wait_name(wait: Wait) -> &'static str {
    match wait {
        Wait::Driver => "driver",
        Wait::Block => "block",
        Wait::Spin => "spin",
        Wait::Poll => "poll",
    }
}

/// Which device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceKind {
    /// The GPU where there is one that the plan was compiled for, else the host where the plan has such a variant.
    #[default]
    Auto,
    /// The CPU.
    Host,
    /// The GPU.
    Cuda,
    /// A GPU in software.
    #[cfg(feature = "emulator")]
    Emulated,
}
