//! Puts the digests of the sources and their commit into programs, which run where neither sources nor git are.

#[path = "src/sources.rs"]
#[allow(dead_code)]
mod sources;

use std::{env, path::Path, process::Command};

fn main() {
    // Asked for when this runs, not when it is compiled: checkouts that share a target folder share the compiled script.
    let manifest = env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the crate's folder");
    let root = Path::new(&manifest).join("../..");
    if !root.join("tools/verify").is_dir() {
        // A package of this crate alone.
        println!("cargo::rerun-if-changed=build.rs");
        println!("cargo::rustc-env=FLOE_SOURCE_DIGESTS=");
        println!("cargo::rustc-env=FLOE_COMMIT=unknown");
        return;
    }
    let paths = || sources::GROUPS.into_iter().flat_map(|(_, paths)| paths);
    for path in paths() {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }
    let digests = sources::of_sources(&root).expect("the sources can be read");
    let digests: Vec<String> = digests.into_iter().map(|(group, digest)| format!("{group}={digest}")).collect();
    println!("cargo::rustc-env=FLOE_SOURCE_DIGESTS={}", digests.join(","));

    let git = |arguments: &[&str]| {
        let output = Command::new("git").current_dir(&root).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    // A commit moves no source file, but the branch's log.
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    let changed = git(&[&["status", "--porcelain", "--"], paths().copied().collect::<Vec<_>>().as_slice()].concat());
    let commit = match (git(&["rev-parse", "HEAD"]), changed.as_deref()) {
        (Some(commit), Some("")) => commit,
        (Some(commit), _) => format!("{commit} with changes"),
        (None, _) => "unknown".to_owned(),
    };
    println!("cargo::rustc-env=FLOE_COMMIT={commit}");
}
