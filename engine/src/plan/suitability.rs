//! How well a variant suits a GPU.

use super::format::{ImageKind, VariantHeader};

/// Architectures of systems on a chip, whose machine code is not exchangeable with that of desktop GPUs.
const TEGRA: [u32; 6] = [53, 62, 72, 87, 101, 110];

/// How well a variant suits a GPU: the greatest is best.
///
/// Machine code for exactly the GPU's architecture comes before machine code for an older one of the same generation
/// (desktop GPUs only), and that before PTX; then the nearest architecture; then a variant that was tuned for the same
/// number of multiprocessors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Suitability {
    kind: u32,
    architecture: u32,
    tuned: bool,
}

impl VariantHeader<'_> {
    /// How well this variant suits a GPU of that architecture (compute capability times ten) and number of
    /// multiprocessors; `None` where the GPU cannot run it.
    pub fn suitability(&self, architecture: u32, multiprocessors: u32) -> Option<Suitability> {
        let (of, on) = (self.architecture, architecture);
        if of == 0 || of > on {
            return None;
        }
        let tegra = TEGRA.contains(&of) || TEGRA.contains(&on);
        let kind = match self.image_kind {
            ImageKind::Cubin if of == on => 2,
            ImageKind::Cubin if of / 10 == on / 10 && !tegra => 1,
            ImageKind::Cubin => return None,
            ImageKind::Ptx => 0,
        };
        Some(Suitability { kind, architecture: of, tuned: self.tuned_for == multiprocessors })
    }
}
