//! Lists the descriptions that lie in `descriptions`: adding a target is adding its file.

use std::{env, fmt::Write, fs, path::Path};

fn main() {
    println!("cargo::rerun-if-changed=descriptions");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("descriptions");
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("the folder of descriptions")
        .map(|entry| entry.expect("its entries").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort_by_key(|path| path.file_stem().map(ToOwned::to_owned));
    let mut list = String::from("&[\n");
    for file in &files {
        let text = fs::read_to_string(file).expect("a description in UTF-8");
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
            let value = value.unwrap_or_else(|| panic!("{} has no line '{name} = …'", file.display()));
            // Behind a number stands its source.
            value.split("  #").next().unwrap_or(value).to_owned()
        };
        let (name, architecture, multiprocessors) = (field("name"), field("architecture"), field("multiprocessors"));
        writeln!(
            list,
            "    Description {{ name: {name}, architecture: {architecture}, multiprocessors: {multiprocessors}, \
             text: include_str!({file:?}) }},"
        )
        .expect("a string takes all");
    }
    list.push(']');
    let out = env::var_os("OUT_DIR").expect("set by Cargo");
    fs::write(Path::new(&out).join("descriptions.rs"), list).expect("a file in OUT_DIR");
}
