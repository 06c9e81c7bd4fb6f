//! Strips the program that goes to the device. The profile would, but cargo forgets that for a package with settings of its
//! own, and this one is built for size.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if is("PROFILE", "release") && is("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
}
