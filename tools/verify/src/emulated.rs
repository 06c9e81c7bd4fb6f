//! `floe-verify kernels --emulated`: candidates of kernel cases on a GPU in software, with every access watched.

use crate::{
    kernels::{Case, Tally, say, verify},
    launch::Gpu,
    operands::Prepared,
};
use anyhow::{Result, bail};
use floe_compiler::nvrtc::{Compiler, Request};
use floe_emulator::ptx::Module;
use floe_kernels::codegen::{Candidate, Target};
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// How long a candidate takes here, roughly: threads, and what they compute.
pub fn effort(case: &Case, candidate: &Candidate) -> u64 {
    let extents = |launch: &floe_kernels::codegen::Launch| [launch.grid, launch.block].concat();
    let threads = |launch| extents(launch).into_iter().map(u64::from).product::<u64>();
    100 * candidate.launches.iter().map(threads).sum::<u64>() + case.kernel.family().flops()
}

/// Keeps of each family's algorithms, for each combination of element types, the candidate that takes least effort; of those
/// with another kernel, and those whose blocks form clusters, count as another algorithm.
pub fn keep_smallest(cases: &mut Vec<Case>) {
    let mut smallest: BTreeMap<String, (u64, usize, usize)> = BTreeMap::new();
    for (place, case) in cases.iter().enumerate() {
        for (number, candidate) in case.candidates.iter().flatten().enumerate() {
            let entries: Vec<&str> = candidate.launches.iter().map(|launch| launch.entry.as_str()).collect();
            let clusters = candidate.launches.iter().any(|launch| launch.cluster > 1);
            let (family, algorithm) = (case.kernel.family().name(), candidate.algorithm);
            let key = format!("{family} {algorithm} {} {entries:?} {clusters}", case.types());
            let found = (effort(case, candidate), place, number);
            smallest.entry(key).and_modify(|kept| *kept = found.min(*kept)).or_insert(found);
        }
    }
    let kept: Vec<(usize, usize)> = smallest.into_values().map(|(_, place, number)| (place, number)).collect();
    for (place, case) in cases.iter_mut().enumerate() {
        let mut number = 0..;
        if let Ok(candidates) = &mut case.candidates {
            candidates.retain(|_| number.next().is_some_and(|number| kept.contains(&(place, number))));
        }
    }
    cases.retain(|case| case.candidates.as_ref().is_ok_and(|candidates| !candidates.is_empty()));
}

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
            tallies.entry(case.kernel.family().name().to_owned()).or_default().add(tally);
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
