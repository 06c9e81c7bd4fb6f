//! Writes the CUDA source of every candidate of every test case into a folder, for a look at them or for NVRTC.
//!
//! `cargo run -p floe-kernels --features codegen --example dump_sources -- DIR ARCHITECTURE [FAMILY]`, for example
//! `… -- /tmp/sources 87 conv`. A file is called `NUMBER_family_algorithm.cu`, NUMBER being the case's place in
//! `all_cases()` and the candidate's and launch's number; its first line is a comment with the entry point.

use floe_kernels::codegen::{Target, all_cases};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, architecture, family @ ..] = arguments.as_slice() else {
        return Err("usage: dump_sources DIR ARCHITECTURE [FAMILY]".into());
    };
    let target = target(architecture.parse()?);
    std::fs::create_dir_all(directory)?;
    let (mut written, mut unsupported) = (0, 0);
    for (number, kernel) in all_cases().iter().enumerate() {
        let name = kernel.family().name();
        if family.first().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let candidates = match kernel.candidates(&target) {
            Ok(candidates) => candidates,
            Err(reason) => {
                println!("case {number} ({name}): {}", reason.0);
                unsupported += 1;
                continue;
            }
        };
        for (c, candidate) in candidates.iter().enumerate() {
            for (l, launch) in candidate.launches.iter().enumerate() {
                let file = format!("{number:04}-{c}-{l}_{name}_{}.cu", candidate.algorithm);
                let text = format!("// {} {:?} {:?}\n{}", launch.entry, launch.grid, launch.block, launch.source);
                std::fs::write(Path::new(directory).join(file), text)?;
                written += 1;
            }
        }
    }
    println!("{written} sources written, {unsupported} cases without a candidate");
    Ok(())
}

/// A machine of this architecture with an Orin's other numbers.
fn target(architecture: u32) -> Target {
    Target {
        name: format!("sm_{architecture}"),
        description: String::new(),
        gpu: String::new(),
        architecture,
        multiprocessors: 16,
        shared_per_block: if architecture < 80 { 96 << 10 } else { 99 << 10 },
        shared_per_multiprocessor: 164 << 10,
        l2_bytes: 4 << 20,
        bandwidth: 204.0,
        clock: 1300.0,
        f16_tflops: 42.0,
        int8_tops: 84.0,
        f32_tflops: 5.3,
        launch: 1.5,
        nvrtc: String::new(),
        driver: 12060,
    }
}
