//! The machines that plans are compiled for: `descriptions/*.toml`, one file each, embedded.
//!
//! ```
//! let orin = floe_targets::DESCRIPTIONS.iter().find(|target| target.name == "jetson-orin-nano").unwrap();
//! assert_eq!(orin.architecture, 87);
//! ```
#![warn(missing_docs)]

/// A target's description: what a device needs to name it, and the whole text for a compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its name, which is also that of its file.
    pub name: &'static str,
    /// Compute capability times ten; 0 for the host.
    pub architecture: u32,
    /// Multiprocessors of its GPU; threads that replay on the host.
    pub multiprocessors: u32,
    /// All of it, in TOML.
    pub text: &'static str,
}

/// All descriptions, by name.
pub const DESCRIPTIONS: &[Description] = include!(concat!(env!("OUT_DIR"), "/descriptions.rs"));

/// The target whose plans suit a GPU best: of its architecture, with the nearest number of multiprocessors.
pub fn nearest(architecture: u32, multiprocessors: u32) -> Option<&'static Description> {
    let same = DESCRIPTIONS.iter().filter(|target| target.architecture == architecture && architecture != 0);
    same.min_by_key(|target| target.multiprocessors.abs_diff(multiprocessors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_target_has_the_gpus_architecture() {
        let name = |architecture, count| nearest(architecture, count).map(|target| target.name);
        assert_eq!(name(87, 16), Some("jetson-agx-orin"));
        assert_eq!(name(87, 12), Some("jetson-agx-orin"));
        assert_eq!(name(90, 132), Some("h200"));
        assert_eq!(name(90, 8), Some("h200-16"));
        assert_eq!(name(75, 40), None);
        assert_eq!(name(0, 0), None);
    }

    #[test]
    fn descriptions_are_named_as_their_files() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/descriptions");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        files.sort();
        assert_eq!(DESCRIPTIONS.iter().map(|target| target.name).collect::<Vec<_>>(), files);
    }
}
