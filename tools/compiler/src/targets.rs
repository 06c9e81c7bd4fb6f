//! The machines that plans are compiled for, as the compiler reads their descriptions.

use floe_kernels::codegen::Target;
use floe_targets::DESCRIPTIONS;
use std::sync::OnceLock;

/// There is no target of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown target '{name}'; there are: {}", names())]
pub struct UnknownTarget {
    /// The name that was asked for.
    pub name: String,
}

/// All targets.
pub fn all() -> &'static [Target] {
    static TARGETS: OnceLock<Vec<Target>> = OnceLock::new();
    TARGETS.get_or_init(|| {
        // The texts are compiled in and a test parses them, so a failure here is a broken build.
        DESCRIPTIONS.iter().map(|target| toml::from_str(target.text).expect("embedded target description")).collect()
    })
}

/// The target with a name.
///
/// # Errors
/// Where there is none; the message lists all names.
pub fn find(name: &str) -> Result<&'static Target, UnknownTarget> {
    all().iter().find(|target| target.name == name).ok_or_else(|| UnknownTarget { name: name.to_owned() })
}

fn names() -> String {
    all().iter().map(|target| target.name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_say_what_devices_read_of_them() {
        for (target, description) in all().iter().zip(DESCRIPTIONS) {
            let read = (description.name, description.architecture, description.multiprocessors);
            assert_eq!((target.name.as_str(), target.architecture, target.multiprocessors), read);
        }
    }

    #[test]
    fn gpu_numbers_are_consistent() {
        for target in all().iter().filter(|target| !target.is_host()) {
            assert!(target.shared_per_block <= target.shared_per_multiprocessor, "{}", target.name);
            // Within a fifth of cores × clock × 2: 64 f32 lanes a multiprocessor on sm_72 and sm_80, else 128.
            let lanes = if matches!(target.architecture, 72 | 80) { 64.0 } else { 128.0 };
            let peak = f64::from(target.multiprocessors) * lanes * 2.0 * target.clock * 1e-6;
            assert!((target.f32_tflops / peak - 1.0).abs() < 0.2, "{}: {peak}", target.name);
            assert!(target.f16_tflops > target.f32_tflops, "{}", target.name);
            assert!((1.8..4.1).contains(&(target.int8_tops / target.f16_tflops)), "{}", target.name);
            assert!(target.nvrtc.contains("=="), "{}", target.name);
            assert!(!target.gpu.is_empty(), "{}", target.name);
        }
    }

    #[test]
    fn every_number_has_a_source() {
        const NUMBERS: [&str; 10] = [
            "multiprocessors",
            "shared_per_block",
            "shared_per_multiprocessor",
            "l2_bytes",
            "bandwidth",
            "clock",
            "f16_tflops",
            "int8_tops",
            "f32_tflops",
            "launch",
        ];
        for text in DESCRIPTIONS.iter().map(|target| target.text) {
            for number in NUMBERS {
                let line = text.lines().find(|line| line.split(" = ").next() == Some(number)).unwrap();
                let source = line.split_once("  # ").map_or("", |(_, source)| source);
                assert!(!source.is_empty(), "'{line}' has no source; write where it comes from, or 'assumed'");
            }
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let message = find("jetson-nano").unwrap_err().to_string();
        assert!(message.contains("'jetson-nano'") && message.contains("jetson-orin-nano, jetson-orin-nx"), "{message}");
        assert_eq!(find("h200").unwrap().architecture, 90);
    }
}
