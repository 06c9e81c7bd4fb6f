//! Puts the digest of the sources that a GPU run verifies into the program, which runs where the sources are not.

#[path = "src/digest.rs"]
mod digest;

fn main() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for folder in digest::FOLDERS {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
    }
    let digest = digest::of_sources(&root).expect("the sources of kernels and engine can be read");
    println!("cargo::rustc-env=FLOE_SOURCE_DIGEST={digest}");
}
