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
    /// Name that the driver gives the GPU, empty for `host`: timing tables are kept under it.
    pub gpu: String,
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

    /// Microseconds below which no kernel can do so much work here: the larger of `flops` over the peak rate and `bytes`
    /// over the bandwidth of device memory (Williams, Waterman and Patterson, "Roofline", 2009). `half` says whether the
    /// arithmetic may use tensor cores. A kernel whose operands are still in the level-2 cache can be faster.
    pub fn floor(&self, flops: u64, bytes: u64, half: bool) -> f64 {
        let tflops = if half { self.f16_tflops } else { self.f32_tflops };
        // TFLOP/s are 10⁶ operations a microsecond, GB/s are 10³ bytes a microsecond.
        (flops as f64 / (tflops * 1e6)).max(bytes as f64 / (self.bandwidth * 1e3))
    }

    /// Whether `cp.async`, `mma.m16n8k16` and bf16 exist (sm_80 and later).
    pub fn has_async_copy(&self) -> bool {
        self.architecture >= 80
    }
}
