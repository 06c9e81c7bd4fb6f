//! Puts the digest of the sources that a GPU run verifies into the program, which runs where the sources are not.

#[path = "src/digest.rs"]
mod digest;

fn main() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for folder in digest::FOLDERS {
        // Without a trailing file list cargo compares only the folder's own time on some systems: name every file.
        let mut files = Vec::new();
        digest::collect(&root.join(folder), &mut files).expect("the sources can be listed");
        for file in files {
            println!("cargo::rerun-if-changed={}", file.display());
        }
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
    }
    let digest = digest::of_sources(&root).expect("the sources of kernels and engine can be read");
    println!("cargo::rustc-env=FLOE_SOURCE_DIGEST={digest}");
}
