//! The committed header is what cbindgen makes of the sources, and the headers beside it agree with Floe's other parts.

use std::{fs, path::Path};

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_header_is_that_of_the_sources() {
    let mut config = cbindgen::Config::from_file(folder().join("cbindgen.toml")).unwrap();
    config.parse.parse_deps = false;
    let operators = folder().join("../operators/src/lib.rs");
    let bindings =
        cbindgen::Builder::new().with_src(operators).with_crate(folder()).with_config(config).generate().unwrap();
    let mut generated = Vec::new();
    bindings.write(&mut generated);
    // What Rust programs have to promise is said once for all functions in the header's introduction.
    let generated = without_safety(std::str::from_utf8(&generated).unwrap());

    let path = folder().join("../include/floe.h");
    if std::env::var_os("FLOE_BLESS").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap();
    assert!(committed == generated, "engine/include/floe.h is stale: FLOE_BLESS=1 cargo test -p floe-c writes it anew");
}

/// Drops the sections `# Safety` of the documentation.
fn without_safety(header: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut inside = false;
    for line in header.lines() {
        if line.trim_start() == "// # Safety" {
            inside = true;
            // The empty line before.
            kept.pop();
        }
        inside &= line.trim_start().starts_with("//");
        if !inside {
            kept.push(line);
        }
    }
    kept.join("\n") + "\n"
}
