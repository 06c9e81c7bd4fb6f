//! `floe-verify controls`: real kernels, each broken by one edit, and what the emulator's watches must find in them.

use crate::{
    kernels::{Architecture, say, verify},
    launch::Gpu,
};
use anyhow::{Context, Result, anyhow, bail};
use floe_compiler::nvrtc::Compiler;
use floe_conformance::{
    cases::{Case, effort},
    operands::Prepared,
};
use floe_kernels::codegen::Candidate;

/// What is broken.
enum Edit {
    /// Text of the source, by another one, everywhere.
    Text(&'static str, &'static str),
    /// The first two arguments of the first launch change places.
    Swap,
}

/// A kernel, its defect, and what must be said about it.
struct Control {
    name: &'static str,
    arch: &'static str,
    family: &'static str,
    algorithm: &'static str,
    /// What its source holds.
    marks: &'static [&'static str],
    edit: Edit,
    said: &'static str,
}

const CONTROLS: [Control; 9] = [
    Control {
        name: "a missing barrier before the tile is finished",
        arch: "87ptx",
        family: "matmul",
        algorithm: "tensor_core_gemm",
        marks: &[],
        edit: Edit::Text("    __syncthreads();\n    finish_tile(o, t, staged", "    finish_tile(o, t, staged"),
        said: "race in shared memory",
    },
    Control {
        name: "a missing barrier in a reduction",
        arch: "87ptx",
        family: "reduce",
        algorithm: "",
        marks: &["reduce_columns"],
        edit: Edit::Text("__syncthreads();", ""),
        said: "race in shared memory",
    },
    Control {
        name: "a wrong wait count",
        arch: "87ptx",
        family: "matmul",
        algorithm: "tensor_core_gemm",
        marks: &["constexpr int STAGES = 3;"],
        edit: Edit::Text("copy_async_wait<STAGES - 2>();", "copy_async_wait<STAGES - 1>();"),
        said: "use of a copy's destination before its wait",
    },
    Control {
        name: "an off-by-one at an edge",
        arch: "87ptx",
        family: "pool",
        algorithm: "",
        marks: &["#define CLAMPED 0"],
        edit: Edit::Text(
            "if (!CLAMPED && (u32)x >= EXTENT_2) continue;",
            "if (!CLAMPED && (u32)x > EXTENT_2) continue;",
        ),
        said: "access outside its operand",
    },
    Control {
        name: "a missing fence between blocks",
        arch: "87ptx",
        family: "matmul",
        algorithm: "tensor_core_gemm",
        marks: &["constexpr int SPLIT = 2;"],
        edit: Edit::Text("__threadfence();", ""),
        said: "race between blocks",
    },
    Control {
        name: "swapped operands",
        arch: "87ptx",
        family: "pool",
        algorithm: "",
        marks: &[],
        edit: Edit::Swap,
        said: "access outside its operand",
    },
    Control {
        name: "a missing fence before the products of a warpgroup",
        arch: "90ptx",
        family: "matmul",
        algorithm: "warpgroup_gemm",
        marks: &[],
        edit: Edit::Text("        fence_async();\n", ""),
        said: "without a fence after their writes",
    },
    Control {
        name: "a missing wait for the products of a warpgroup",
        arch: "90ptx",
        family: "matmul",
        algorithm: "warpgroup_gemm",
        marks: &[],
        edit: Edit::Text("    warpgroup_wait<0>();\n", ""),
        said: "use of a product's sums before its wait",
    },
    Control {
        name: "a missing wait for the other blocks of a cluster",
        arch: "90ptx",
        family: "recurrent",
        algorithm: "cluster",
        marks: &[],
        edit: Edit::Text("        cluster_wait();\n#elif", "#elif"),
        said: "race in shared memory",
    },
];

/// Runs the subcommand; whether every defect was found, and nothing in the kernels as they are.
///
/// # Errors
/// Where NVRTC is missing or a control has no kernel.
pub fn run() -> Result<bool> {
    let mut all = true;
    for control in &CONTROLS {
        let arch: Architecture = control.arch.parse().map_err(|error: String| anyhow!(error))?;
        let compiler = Compiler::find(arch.target()?, None)?;
        let verdict = control.check(&compiler, arch).with_context(|| control.name)?;
        all &= verdict.is_ok();
        match verdict {
            Ok(said) => say(&format!("found   {}: {said}", control.name)),
            Err(why) => say(&format!("MISSED  {}: {why}", control.name)),
        }
    }
    Ok(all)
}

impl Control {
    /// Runs candidates of the smallest cases, as they are and broken, until the defect shows: an edge needs a case that has
    /// it. The first line of what was found, or why not.
    fn check(&self, compiler: &Compiler, arch: Architecture) -> Result<Result<String, String>> {
        let mut found: Vec<(u64, Case, usize)> = Vec::new();
        for case in arch.cases(&[self.family.to_owned()])? {
            let fits = |candidate: &Candidate| {
                let source = &candidate.launches[0].source;
                (self.algorithm.is_empty() || candidate.algorithm == self.algorithm)
                    && self.marks.iter().all(|mark| source.contains(mark))
                    && !matches!(self.edit, Edit::Text(good, _) if !source.contains(good))
            };
            let fitting = case.candidates.iter().flatten().enumerate().filter(|(_, candidate)| fits(candidate));
            let least = fitting.map(|(number, candidate)| (effort(&case, candidate), number)).min();
            if let Some((effort, number)) = least {
                found.push((effort, case, number));
            }
        }
        found.sort_by_key(|(effort, ..)| *effort);
        if found.is_empty() {
            bail!("no case fits");
        }
        let mut why = String::new();
        for (_, case, number) in found.into_iter().take(16) {
            let prepared = Prepared::new(&case.kernel, case.number)?;
            let mut candidate = case.candidates.as_ref().map_err(|why| anyhow!(why.clone()))?[number].clone();
            if let Err(error) = attempt(compiler, arch, &case, &prepared, &candidate) {
                return Ok(Err(format!("{} is not clean: {error:#}", case.what())));
            }
            match self.edit {
                Edit::Text(good, bad) => {
                    for launch in &mut candidate.launches {
                        launch.source = launch.source.replace(good, bad).into();
                    }
                }
                Edit::Swap => candidate.launches[0].arguments.swap(0, 1),
            }
            why = match attempt(compiler, arch, &case, &prepared, &candidate) {
                Ok(()) => format!("nothing was found in {}", case.what()),
                Err(error) => {
                    let error = format!("{error:#}");
                    if error.contains(self.said) {
                        return Ok(Ok(error.lines().next().unwrap_or_default().to_owned()));
                    }
                    format!("{}: {error}", case.what())
                }
            };
        }
        Ok(Err(why))
    }
}

fn attempt(
    compiler: &Compiler,
    arch: Architecture,
    case: &Case,
    prepared: &Prepared,
    candidate: &Candidate,
) -> Result<()> {
    let requests: Vec<_> = candidate.launches.iter().map(|launch| arch.request(launch)).collect();
    let images = compiler.compile_all(&requests, &|_, _| {})?;
    verify(&Gpu::emulated()?, case, prepared, candidate, &images).map(drop)
}
