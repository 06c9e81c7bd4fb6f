//! `floe-verify kernels --emulated`: candidates of kernel cases on a GPU in software, with every access watched.

use crate::{
    kernels::{Tally, say, verify},
    launch::Gpu,
};
use anyhow::{Result, bail};
use floe_compiler::nvrtc::{Compiler, Request};
use floe_conformance::{cases::Case, operands::Prepared};
use floe_emulator::ptx::Module;
use floe_kernels::codegen::Target;
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Returns an error if the driver's compiler may contract a multiplication and an addition: the kernel's bits are then not
/// those that the emulator computes. `fmaf` or `__fmul_rn` in the source decides.
pub fn no_contractions(ptx: &[u8]) -> Result<()> {
    let module = Module::parse(str::from_utf8(ptx)?.trim_end_matches('\0'))?;
    for kernel in module.kernels() {
        if let Some(pair) = kernel.contractions().first() {
            let line = pair.source.map_or(String::new(), |(_, line)| format!(", line {line} of the CUDA source"));
            bail!("{}: lines {} and {} of the PTX may become one fma{line}", kernel.name, pair.product, pair.sum);
        }
    }
    Ok(())
}

/// Runs every candidate of the cases.
///
/// # Errors
/// Where NVRTC is missing. Wrong results and findings are in the tallies.
pub fn run(
    cases: &[Case],
    requests: impl Fn(&Case) -> Vec<Request> + Sync,
    target: &Target,
    verbose: bool,
) -> Result<BTreeMap<String, Tally>> {
    let compiler = Compiler::find(target, None)?;
    let tallies = Mutex::new(BTreeMap::<String, Tally>::new());
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut tally = Tally::default();
            match Prepared::new(&case.kernel, case.number) {
                Err(error) => tally.fail(format!("{}: {error:#}", case.what())),
                Ok(prepared) => {
                    let mut images = compiler.try_compile_all(&requests(case), &|_, _| {}).into_iter();
                    for candidate in case.candidates.iter().flatten() {
                        let what = format!("{} | {} {}", case.what(), candidate.algorithm, candidate.configuration);
                        let compiled = images.by_ref().take(candidate.launches.len()).collect::<Result<Vec<_>, _>>();
                        let started = std::time::Instant::now();
                        let verified = compiled.map_err(anyhow::Error::from).and_then(|images| {
                            images.iter().try_for_each(|image| no_contractions(&image.bytes))?;
                            verify(&Gpu::emulated()?, case, &prepared, candidate, &images)
                        });
                        match verified {
                            Ok((error, _)) => {
                                tally.passed += 1;
                                tally.worst = tally.worst.max(error);
                                if verbose {
                                    say(&format!("pass  {what}: {error:.1e}, {:.1?}", started.elapsed()));
                                }
                            }
                            Err(error) => tally.fail(format!("{what}: {error:#}")),
                        }
                    }
                }
            }
            let mut tallies = tallies.lock().unwrap_or_else(PoisonError::into_inner);
            tallies.entry(case.family().to_owned()).or_default().add(tally);
        }
    };
    // Threads of their own: an emulator belongs to one, and waits there for the pool that runs its blocks.
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    Ok(tallies.into_inner().unwrap_or_else(PoisonError::into_inner))
}
