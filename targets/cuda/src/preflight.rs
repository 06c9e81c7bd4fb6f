//! Checks before anything is sent to the GPU: which variant of a plan it can run, and whether it has what that needs.

use crate::Error;
use floe_engine::plan::format::{ImageKind, VariantHeader};

/// What a GPU is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Name, for example `NVIDIA H200`.
    pub name: String,
    /// Compute capability times ten.
    pub architecture: u32,
    /// Streaming multiprocessors that a session may use (fewer than the GPU's inside a green context).
    pub multiprocessors: u32,
    /// Whether it shares its memory with the CPU, as on a Jetson.
    pub integrated: bool,
    /// Whether it can use page-locked memory of the host where it lies.
    pub maps_host_memory: bool,
    /// CUDA version of the driver as `cuDriverGetVersion` counts: 12060 is 12.6.
    pub driver: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of the level-2 cache.
    pub l2_bytes: u64,
    /// Highest clock of the multiprocessors in MHz.
    pub clock: u32,
}

impl DeviceInfo {
    /// Whether bindings belong into mapped host memory: the GPU shares its memory with the CPU, so that copies would copy
    /// within one memory.
    pub fn prefers_mapped_bindings(&self) -> bool {
        self.integrated && self.maps_host_memory
    }
}

/// Number of the variant that suits a GPU best: machine code for exactly its architecture, then machine code for an older
/// one of the same generation (desktop GPUs only), then PTX. Among equals the one tuned for the same number of
/// multiprocessors, then the first.
///
/// `wanted` restricts the choice to the variant of that name.
///
/// # Errors
/// `UnknownVariant`, or `NoVariant`, which says what to recompile for.
pub fn choose<'a>(
    variants: impl IntoIterator<Item = &'a VariantHeader<'a>>,
    device: &DeviceInfo,
    wanted: Option<&str>,
) -> Result<usize, Error> {
    let all: Vec<&VariantHeader<'_>> = variants.into_iter().collect();
    let considered =
        || all.iter().enumerate().filter(|(_, variant)| wanted.is_none_or(|wanted| variant.target == wanted));
    if let Some(wanted) = wanted
        && considered().next().is_none()
    {
        return Err(Error::UnknownVariant { wanted: wanted.to_owned(), held: held(&all) });
    }
    // The iterator's `max_by_key` takes the last of equals; the reversed number makes it the first.
    considered()
        .filter_map(|(number, variant)| {
            let suitability = variant.suitability(device.architecture, device.multiprocessors)?;
            Some((suitability, std::cmp::Reverse(number)))
        })
        .max()
        .map(|(_, std::cmp::Reverse(number))| number)
        .ok_or_else(|| Error::NoVariant {
            held: held(&all),
            device: device.name.clone(),
            architecture: device.architecture,
            suggestion: suggestion(device),
        })
}

/// Whether the driver and the free memory suffice for a variant that needs `needed` bytes of device memory.
///
/// # Errors
/// `DriverTooOld`, `TooFewMultiprocessors` or `Memory`.
pub fn check(variant: &VariantHeader<'_>, device: &DeviceInfo, needed: u64, free: u64) -> Result<(), Error> {
    if device.driver < variant.driver {
        return Err(Error::DriverTooOld {
            target: variant.target.to_owned(),
            needed: variant.driver,
            found: device.driver,
            integrated: device.integrated,
        });
    }
    if device.multiprocessors < variant.multiprocessors {
        return Err(Error::TooFewMultiprocessors {
            target: variant.target.to_owned(),
            needed: variant.multiprocessors,
            found: device.multiprocessors,
        });
    }
    if needed > free {
        return Err(Error::Memory { needed, free });
    }
    Ok(())
}

/// What a plan holds, in words.
fn held(variants: &[&VariantHeader<'_>]) -> String {
    let mut variants = variants.to_vec();
    // Those of one target, for different shapes, stand behind one another.
    variants.dedup_by_key(|variant| variant.target);
    let words: Vec<String> = variants
        .iter()
        .map(|variant| match (variant.architecture, variant.image_kind) {
            (0, _) => format!("a host variant ({})", variant.target),
            (architecture, ImageKind::Cubin) => format!("sm_{architecture} images for {}", variant.target),
            (architecture, ImageKind::Ptx) => format!("compute_{architecture} PTX for {}", variant.target),
        })
        .collect();
    if words.is_empty() { "no variant".to_owned() } else { words.join(" and ") }
}

/// The target to recompile for: the one of the same architecture whose number of multiprocessors is nearest.
fn suggestion(device: &DeviceInfo) -> String {
    floe_targets::nearest(device.architecture, device.multiprocessors).map_or_else(
        || format!("NAME of an sm_{} description (see `floec targets`)", device.architecture),
        |target| target.name.to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(target: &'static str, architecture: u32, image_kind: ImageKind) -> VariantHeader<'static> {
        VariantHeader {
            target,
            architecture,
            image_kind,
            tuned_for: floe_targets::DESCRIPTIONS
                .iter()
                .find(|known| known.name == target)
                .map_or(0, |known| known.multiprocessors),
            driver: 12020,
            nvrtc: "12.6",
            precision: "f16",
            ..VariantHeader::default()
        }
    }

    fn device(architecture: u32, multiprocessors: u32) -> DeviceInfo {
        let integrated = [53, 62, 72, 87, 101, 110].contains(&architecture);
        DeviceInfo {
            name: "a GPU".into(),
            architecture,
            multiprocessors,
            integrated,
            maps_host_memory: true,
            driver: 12060,
            memory: 1 << 33,
            l2_bytes: 4 << 20,
            clock: 1300,
        }
    }

    #[test]
    fn exact_machine_code_wins_over_older_over_ptx() {
        use ImageKind::{Cubin, Ptx};
        let all = [
            variant("host", 0, Cubin),
            variant("a", 80, Ptx),
            variant("b", 80, Cubin),
            variant("c", 86, Cubin),
            variant("d", 89, Cubin),
        ];
        assert_eq!(choose(&all, &device(89, 128), None), Ok(4));
        assert_eq!(choose(&all[..4], &device(89, 128), None), Ok(3));
        assert_eq!(choose(&all[..3], &device(89, 128), None), Ok(2));
        assert_eq!(choose(&all[..2], &device(89, 128), None), Ok(1));
        // Another generation: only PTX is left.
        assert_eq!(choose(&all, &device(90, 132), None), Ok(1));
        assert_eq!(choose(&all, &device(89, 128), Some("b")), Ok(2));
    }

    #[test]
    fn machine_code_does_not_cross_between_desktop_and_jetson() {
        let desktop = [variant("a100", 80, ImageKind::Cubin)];
        assert!(choose(&desktop, &device(87, 16), None).is_err());
        let jetson = [variant("jetson-agx-orin", 87, ImageKind::Cubin)];
        assert!(choose(&jetson, &device(89, 128), None).is_err());
        // But PTX of the Jetson runs on a later desktop GPU.
        assert_eq!(choose(&[variant("jetson-agx-orin", 87, ImageKind::Ptx)], &device(90, 132), None), Ok(0));
    }

    #[test]
    fn the_size_of_the_gpu_decides_among_equal_architectures() {
        let all =
            ["jetson-orin-nano", "jetson-orin-nx", "jetson-agx-orin"].map(|name| variant(name, 87, ImageKind::Cubin));
        assert_eq!(choose(&all, &device(87, 16), None), Ok(2));
        assert_eq!(choose(&all, &device(87, 8), None), Ok(0));
    }

    #[test]
    fn a_foreign_plan_says_what_to_recompile_for() {
        let all = [variant("jetson-orin-nano", 87, ImageKind::Cubin)];
        let message = choose(&all, &device(90, 132), None).unwrap_err().to_string();
        assert_eq!(
            message,
            "this plan holds sm_87 images for jetson-orin-nano; this GPU (a GPU) is sm_90: recompile with --target h200"
        );
        let message = choose(&all, &device(90, 132), Some("h200")).unwrap_err().to_string();
        assert_eq!(message, "the plan has no variant 'h200'; it holds sm_87 images for jetson-orin-nano");
    }

    #[test]
    fn driver_and_memory_are_checked() {
        let mut newer = variant("h200", 90, ImageKind::Cubin);
        assert_eq!(check(&newer, &device(90, 132), 10, 10), Ok(()));
        assert!(matches!(check(&newer, &device(90, 132), 11, 10), Err(Error::Memory { needed: 11, free: 10 })));
        newer.multiprocessors = 24;
        assert!(matches!(check(&newer, &device(90, 16), 0, 10), Err(Error::TooFewMultiprocessors { needed: 24, .. })));
        newer.driver = 13000;
        assert!(matches!(check(&newer, &device(90, 132), 0, 10), Err(Error::DriverTooOld { .. })));
    }
}
