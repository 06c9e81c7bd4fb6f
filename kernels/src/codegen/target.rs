//! Descriptions of machines.

use serde::{Deserialize, Serialize};

/// A machine that plans are compiled for, as `targets/descriptions/NAME.toml` describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Name on the command line.
    pub name: String,
    /// What it is, for a person.
    pub description: String,
    /// Compute capability times ten (87 for Orin); 0 for `host`.
    pub architecture: u32,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Shared memory that one block may use, in bytes.
    pub shared_per_block: u32,
    /// Shared memory of one multiprocessor, in bytes.
    pub shared_per_multiprocessor: u32,
    /// Level-2 cache in bytes.
    pub l2_bytes: u64,
    /// Device memory bandwidth, GB/s, read plus write.
    pub bandwidth: f64,
    /// Clock in MHz under load.
    pub clock: f64,
    /// Dense f16 tensor-core rate in TFLOP/s (through `mma.sync`).
    pub f16_tflops: f64,
    /// f32 rate of the CUDA cores in TFLOP/s.
    pub f32_tflops: f64,
    /// Cost of one more graph node, microseconds.
    pub launch: f64,
    /// NVRTC to use by default: the pip requirement that provides it, for messages, for example
    /// `nvidia-cuda-nvrtc-cu12==12.6.85`.
    pub nvrtc: String,
    /// Oldest driver interface version the images load on, as `cuDriverGetVersion` counts (12060 is CUDA 12.6).
    pub driver: u32,
}

impl Target {
    /// Whether this is the CPU.
    pub fn is_host(&self) -> bool {
        self.architecture == 0
    }

    /// Whether `cp.async`, `mma.m16n8k16` and bf16 exist (sm_80 and later).
    pub fn has_async_copy(&self) -> bool {
        self.architecture >= 80
    }
}
