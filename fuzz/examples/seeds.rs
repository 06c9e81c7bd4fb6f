//! Writes the plans of the committed corpus: the small ones of the engine's tests, and the smallest of each kernel family.
//!
//! cargo run --example seeds, in this folder

#[path = "../../engine/tests/support/mod.rs"]
mod support;

use floe_engine::plan::{PlanWriter, VariantParts};
use floe_kernels::codegen::all_cases;
use std::{collections::BTreeMap, fs, path::Path};
use support::{candidates_parts, cuda_parts, host_parts, kernel_parts};

fn main() -> std::io::Result<()> {
    let write = |name: &str, parts: Vec<VariantParts<'static>>| {
        let file = parts.into_iter().fold(PlanWriter::new("seed", "fuzz"), PlanWriter::variant).finish();
        fs::write(Path::new("corpus/plan").join(name), file)
    };
    write("two_variants", vec![host_parts(), cuda_parts()])?;
    write("candidates", vec![candidates_parts()])?;
    // Of each family the case with the least work.
    let mut smallest = BTreeMap::new();
    for kernel in all_cases() {
        let family = kernel.family();
        let bytes: u64 = (0..kernel.outputs()).filter_map(|i| family.output(i)?.bytes().ok()).sum();
        let work = (family.flops(), bytes);
        let (name, kernel) = (family.name(), kernel.clone());
        smallest
            .entry(name)
            .and_modify(|best: &mut (_, _)| {
                if work < best.0 {
                    *best = (work, kernel.clone())
                }
            })
            .or_insert((work, kernel));
    }
    for (name, (_, kernel)) in smallest {
        write(name, vec![kernel_parts(kernel)])?;
    }
    Ok(())
}
