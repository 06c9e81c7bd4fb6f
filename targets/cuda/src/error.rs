//! What can be wrong before a plan runs on a GPU, and what to do about it.

use std::fmt::Write;

/// Why no GPU can be used, or this plan cannot run on it. Each message says what to install, change or recompile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `libcuda.so.1` is nowhere.
    #[error(
        "no CUDA driver: libcuda.so.1 was not found. On a Jetson it comes with JetPack (package nvidia-l4t-cuda), on a desktop with the NVIDIA driver; a container needs `--runtime nvidia` or `--gpus all`. FLOE_LIBCUDA may name the file.{}",
        reasons(tried)
    )]
    NoDriver {
        /// File and the loader's words, for files that exist but do not load.
        tried: Vec<(String, String)>,
    },
    /// The library lacks a function that every supported driver has.
    #[error(
        "the CUDA driver at {library} lacks {symbol}: it is older than CUDA 11.4 or a stub; update JetPack or the NVIDIA driver"
    )]
    MissingSymbol {
        /// Function.
        symbol: String,
        /// File.
        library: String,
    },
    /// A call of the driver failed.
    #[error("{call} failed: {name} ({code}){}", advice(*code))]
    Driver {
        /// Function.
        call: &'static str,
        /// `CUresult`.
        code: u32,
        /// Its name.
        name: String,
    },
    /// The driver is older than the plan needs.
    #[error("the plan's variant {target} needs a driver of CUDA {} or later, but this one is of CUDA {}: update {}, or recompile with an older NVRTC", version(*needed), version(*found), if *integrated { "JetPack" } else { "the NVIDIA driver" })]
    DriverTooOld {
        /// Target of the variant.
        target: String,
        /// As `cuDriverGetVersion` counts.
        needed: u32,
        /// Likewise.
        found: u32,
        /// Whether the GPU is part of a system on a chip.
        integrated: bool,
    },
    /// Blocks that wait for each other would not all be resident.
    #[error(
        "the plan's variant {target} has kernels whose blocks wait for each other on {needed} multiprocessors, but this session has {found}: use more, or recompile for a smaller target"
    )]
    TooFewMultiprocessors {
        /// Target of the variant.
        target: String,
        /// Multiprocessors that the plan needs.
        needed: u32,
        /// Those of the session.
        found: u32,
    },
    /// No variant of the plan runs on the GPU.
    #[error("this plan holds {held}; this GPU ({device}) is sm_{architecture}: recompile with --target {suggestion}")]
    NoVariant {
        /// What the plan holds, in words.
        held: String,
        /// Name of the GPU.
        device: String,
        /// Compute capability times ten.
        architecture: u32,
        /// A target for this GPU.
        suggestion: String,
    },
    /// The user asked for a variant that the plan lacks.
    #[error("the plan has no variant '{wanted}'; it holds {held}")]
    UnknownVariant {
        /// Name.
        wanted: String,
        /// What the plan holds, in words.
        held: String,
    },
    /// The plan does not fit.
    #[error("the plan needs {} MiB of device memory, but only {} MiB are free: close other programs, or recompile for fewer or smaller activations", mebibytes(*needed), mebibytes(*free))]
    Memory {
        /// Bytes.
        needed: u64,
        /// Bytes.
        free: u64,
    },
    /// The driver has no green contexts.
    #[error("--sms needs green contexts, which came with CUDA 12.4 drivers; this one is of CUDA {}", version(*found))]
    NoGreenContexts {
        /// As `cuDriverGetVersion` counts.
        found: u32,
    },
    /// A wrong number of multiprocessors.
    #[error("--sms {wanted}: this GPU has {available} multiprocessors")]
    Multiprocessors {
        /// What was asked for.
        wanted: u32,
        /// What there is.
        available: u32,
    },
}

fn reasons(tried: &[(String, String)]) -> String {
    tried.iter().fold(String::new(), |mut text, (file, reason)| {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {file}: {reason}");
        text
    })
}

fn mebibytes(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

/// 12060 is `12.6`.
pub(crate) fn version(number: u32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

/// What to do about a `CUresult`, where there is something: `: ` and a phrase, to be put after the error; else empty.
pub fn advice(code: u32) -> &'static str {
    match code {
        2 => ": out of device memory; close other programs that use the GPU",
        3 | 100 => {
            ": no GPU is visible; check `nvidia-smi` (or `dmesg` on a Jetson), CUDA_VISIBLE_DEVICES, and in a container its GPU options"
        }
        34 => ": this libcuda is the toolkit's stub; take lib64/stubs off LD_LIBRARY_PATH",
        35 => ": the driver is too old; update JetPack or the NVIDIA driver",
        46 => ": the GPU is in use by others in exclusive mode",
        200 | 209 | 218 => ": the kernel image does not suit this GPU and driver; recompile the plan for it",
        222 => ": the PTX is newer than the driver; update the driver or recompile with an older NVRTC",
        700 => ": a kernel touched memory outside its operands; this is a bug of Floe, please report it",
        719 => ": a kernel crashed; this is a bug of Floe, please report it",
        802 => ": the system is not ready; on HGX machines start nvidia-fabricmanager",
        803 => ": libcuda and the kernel module are of different versions; reboot after a driver update",
        804 => ": the CUDA compatibility package does not serve this GPU; take cuda/compat off LD_LIBRARY_PATH",
        999 => {
            ": the driver does not say why; look into `dmesg`, and whether /dev/nvidia* (or /dev/nvhost-gpu) can be read"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_to_do() {
        let error = Error::DriverTooOld { target: "jetson-thor".into(), needed: 13000, found: 12060, integrated: true };
        let message = error.to_string();
        assert!(message.contains("CUDA 13.0 or later") && message.contains("CUDA 12.6") && message.contains("JetPack"));
        let error = Error::Driver { call: "cuInit", code: 100, name: "CUDA_ERROR_NO_DEVICE".into() };
        assert!(error.to_string().starts_with("cuInit failed: CUDA_ERROR_NO_DEVICE (100): no GPU is visible"));
        let error = Error::NoDriver { tried: vec![("/x/libcuda.so.1".into(), "file too short".into())] };
        assert!(error.to_string().ends_with("\n  /x/libcuda.so.1: file too short"));
        assert!(Error::Memory { needed: (5 << 20) + 1, free: 1 << 20 }.to_string().contains("needs 6 MiB"));
    }
}
