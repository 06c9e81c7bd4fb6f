//! Puts the digest of the sources that a GPU run verifies into the program, which runs where the sources are not.

#[path = "src/digest.rs"]
mod digest;

fn main() {
    // Asked for when this runs, not when it is compiled: checkouts that share a target folder share the compiled script.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the crate's folder");
    let root = std::path::Path::new(&manifest).join("../..");
    for folder in digest::FOLDERS {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
    }
    let digest = digest::of_sources(&root).expect("the sources of kernels and engine can be read");
    println!("cargo::rustc-env=FLOE_SOURCE_DIGEST={digest}");
}
