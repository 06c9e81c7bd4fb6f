//! How a session is made.

use super::{api::CUstream, completion::Wait};

/// How a session is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct InitOptions {
    /// Stream to replay in; without one the session creates its own.
    pub stream: Option<CUstream>,
    /// Whether bindings live in mapped page-locked host memory: right where GPU and CPU share memory (Jetson).
    pub mapped: bool,
    /// How to wait for the device.
    pub wait: Wait,
    /// Whether to watch float outputs and states for NaN and infinity: see [`Session::guard`](super::Session::guard).
    pub guard: bool,
    /// Is told where each stage of INIT begins, for whoever times it.
    pub observe: Option<fn(Stage)>,
}

/// A stage of INIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Stream, events, kernel images and functions.
    Modules,
    /// Device and host memory, the upload of the weights.
    Memory,
    /// The graph: built, instantiated, uploaded.
    Graph,
    /// The first replay, which loads what the driver loads lazily.
    WarmUp,
    /// INIT is over.
    Ready,
}

impl InitOptions {
    /// Which steps beside the network's are wanted.
    pub(super) fn extras(self) -> Extras {
        Extras { guard: self.guard, signal: self.signals() }
    }

    /// Whether the plan's last step shall tell the host of its end.
    pub(crate) fn signals(self) -> bool {
        self.guard || self.wait == Wait::Poll
    }
}

/// Steps beside the network's that a graph holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extras {
    pub guard: bool,
    pub signal: bool,
}
