//! Descriptions of machines.

use serde::{Deserialize, Serialize};

/// Which of a target's peak rates bounds a kernel: by what it multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// f32 on CUDA cores.
    F32,
    /// f16 or bf16 with f32 sums, on tensor cores.
    F16,
    /// 8-bit integers with i32 sums, on tensor cores.
    Int8,
}

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
    /// Dense f16 tensor-core rate in TFLOP/s with f32 sums (through `mma.sync`).
    pub f16_tflops: f64,
    /// Dense tensor-core rate of products of 8-bit integers with i32 sums, in TOP/s (through `mma.sync`).
    pub int8_tops: f64,
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

    /// Peak operations per microsecond; a multiply-add counts as two.
    pub fn peak(&self, rate: Rate) -> f64 {
        // TFLOP/s and TOP/s are 10⁶ operations per microsecond.
        1e6 * match rate {
            Rate::F32 => self.f32_tflops,
            Rate::F16 => self.f16_tflops,
            Rate::Int8 => self.int8_tops,
        }
    }

    /// Peak multiply-adds per cycle of one multiprocessor.
    pub fn multiply_adds_per_cycle(&self, rate: Rate) -> f64 {
        self.peak(rate) / 2.0 / f64::from(self.multiprocessors) / self.clock
    }

    /// Microseconds that a kernel takes at least if its operands come from device memory: the larger of `operations` over
    /// the peak rate and `bytes` over the bandwidth (Williams, Waterman and Patterson, "Roofline", 2009). A kernel whose
    /// operands are still in the level-2 cache can be faster than the second.
    pub fn floor(&self, operations: u64, bytes: u64, rate: Rate) -> f64 {
        // GB/s are 10³ bytes per microsecond.
        (operations as f64 / self.peak(rate)).max(bytes as f64 / (self.bandwidth * 1e3))
    }

    /// Whether `cp.async`, `mma.m16n8k16` and bf16 exist (sm_80 and later).
    pub fn has_async_copy(&self) -> bool {
        self.architecture >= 80
    }

    /// Whether kernels that overlap start only when the blocks before them have ended, not already before their last stores: on 16
    /// multiprocessors more networks lose by an early start than gain (`TUNING.md`, section 65).
    pub fn starts_late(&self) -> bool {
        self.architecture >= 90 && self.multiprocessors < 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_is_that_of_the_unit_that_multiplies_or_of_memory() {
        let [any, ..] = crate::gemm::tests::targets();
        let target = Target { f32_tflops: 1.0, f16_tflops: 4.0, int8_tops: 8.0, bandwidth: 100.0, ..any };
        let floor = |rate| target.floor(8_000_000, 100_000, rate);
        assert_eq!(floor(Rate::F32), 8.0);
        assert_eq!(floor(Rate::F16), 2.0);
        // 8 operations and 100 kB: both take a microsecond.
        assert_eq!(floor(Rate::Int8), 1.0);
        assert_eq!(target.floor(8_000_000, 200_000, Rate::Int8), 2.0);
    }

    #[test]
    fn kernels_start_late_on_few_multiprocessors() {
        let [any, ..] = crate::gemm::tests::targets();
        let late =
            |architecture, multiprocessors| Target { architecture, multiprocessors, ..any.clone() }.starts_late();
        assert_eq!([late(90, 16), late(110, 20), late(90, 132), late(87, 16)], [true, true, false, false]);
    }
}
