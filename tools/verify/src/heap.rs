//! `floe-verify heap`: what RUN does to the heap of the process, Floe's code and the driver's together.
//!
//! This program defines the C library's allocating functions, counts, and passes each call on. The dynamic linker binds the
//! calls of every library to these definitions, also those of libraries that are opened later, such as `libcuda.so.1`. What
//! a library does with system calls of its own is not seen; the resident memory that `floe-verify soak` watches is.

use crate::allocations;
use anyhow::{Context, Result, bail, ensure};
use floe::{
    inputs,
    plan_file::PlanFile,
    session::{DeviceKind, MemoryKind, Place, Request, Session, wait_name},
};
use floe_engine::{
    cuda::{DriverApi, Phase, Wait, recording},
    plan::{Variant, format::Direction},
};
use serde::Serialize;
use std::{
    array,
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

/// Functions whose calls are counted. Both `mmap` and `mmap64` count as `mmap`, and `realloc` of nothing as `malloc`.
const FUNCTIONS: [&str; 8] =
    ["malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "free", "mmap", "munmap"];
const MALLOC: usize = 0;
const CALLOC: usize = 1;
const REALLOC: usize = 2;
const POSIX_MEMALIGN: usize = 3;
const ALIGNED_ALLOC: usize = 4;
const FREE: usize = 5;
const MMAP: usize = 6;
const MUNMAP: usize = 7;

static COUNTS: [AtomicU64; FUNCTIONS.len()] = [const { AtomicU64::new(0) }; FUNCTIONS.len()];

/// Calls of each function, in the order of [`FUNCTIONS`], by the whole process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts([u64; FUNCTIONS.len()]);

impl Counts {
    fn now() -> Self {
        Self(array::from_fn(|function| COUNTS[function].load(Ordering::Relaxed)))
    }

    fn add_since(&mut self, start: Self) {
        let now = Self::now();
        for (function, sum) in self.0.iter_mut().enumerate() {
            *sum += now.0[function] - start.0[function];
        }
    }

    fn since(start: Self) -> Self {
        let mut counts = Self::default();
        counts.add_since(start);
        counts
    }

    /// Calls that allocate, `realloc` included.
    fn made(self) -> i64 {
        [MALLOC, CALLOC, REALLOC, POSIX_MEMALIGN, ALIGNED_ALLOC]
            .into_iter()
            .map(|made| self.0[made].cast_signed())
            .sum()
    }

    /// Blocks and mappings that were made, less those that were given back.
    fn growth(self) -> [i64; 2] {
        let count = |function: usize| self.0[function].cast_signed();
        [self.made() - count(REALLOC) - count(FREE), count(MMAP) - count(MUNMAP)]
    }

    /// By name, without what was not called.
    fn named(self) -> BTreeMap<&'static str, u64> {
        FUNCTIONS.into_iter().zip(self.0).filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod interposed {
    use super::{ALIGNED_ALLOC, CALLOC, COUNTS, FREE, MALLOC, MMAP, MUNMAP, POSIX_MEMALIGN, REALLOC};
    use std::{
        ffi::{c_int, c_void},
        ptr::null_mut,
        sync::atomic::Ordering,
    };

    // The C library's own names for its functions, which nobody interposes.
    unsafe extern "C" {
        fn __libc_malloc(size: usize) -> *mut c_void;
        fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
        fn __libc_realloc(pointer: *mut c_void, size: usize) -> *mut c_void;
        fn __libc_memalign(alignment: usize, size: usize) -> *mut c_void;
        fn __libc_free(pointer: *mut c_void);
    }

    fn count(function: usize) {
        COUNTS[function].fetch_add(1, Ordering::Relaxed);
    }

    /// # Safety
    /// That of the C library's function.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
        count(MALLOC);
        // SAFETY: here and below, the call is passed on unchanged to the function that it was meant for, or to the one that
        // the C library implements it with.
        unsafe { __libc_malloc(size) }
    }

    /// # Safety
    /// That of the C library's function.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn calloc(number: usize, size: usize) -> *mut c_void {
        count(CALLOC);
        // SAFETY: as above.
        unsafe { __libc_calloc(number, size) }
    }

    /// # Safety
    /// That of the C library's function.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn realloc(pointer: *mut c_void, size: usize) -> *mut c_void {
        count(if pointer.is_null() { MALLOC } else { REALLOC });
        // SAFETY: as above.
        unsafe { __libc_realloc(pointer, size) }
    }

    /// # Safety
    /// That of the C library's function.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn free(pointer: *mut c_void) {
        if !pointer.is_null() {
            count(FREE);
        }
        // SAFETY: as above.
        unsafe { __libc_free(pointer) }
    }

    /// # Safety
    /// That of the C library's function.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn posix_memalign(place: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
        if !alignment.is_power_of_two() || !alignment.is_multiple_of(size_of::<*mut c_void>()) {
            return libc::EINVAL;
        }
        count(POSIX_MEMALIGN);
        // SAFETY: as above.
        let pointer = unsafe { __libc_memalign(alignment, size) };
        if pointer.is_null() {
            return libc::ENOMEM;
        }
        // SAFETY: the caller gives a valid place.
        unsafe { place.write(pointer) };
        0
    }

    /// # Safety
    /// That of the C library's function.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
        count(ALIGNED_ALLOC);
        // SAFETY: as above.
        unsafe { __libc_memalign(alignment, size) }
    }

    /// # Safety
    /// That of the C library's function.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
        // SAFETY: as above.
        unsafe { aligned_alloc(alignment, size) }
    }

    /// # Safety
    /// That of the C library's function.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn mmap(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void {
        count(MMAP);
        // SAFETY: as above; the system call has these parameters on every 64-bit Linux, and fails with -1, `MAP_FAILED`.
        let mapped = unsafe { libc::syscall(libc::SYS_mmap, address, length, protection, flags, file, offset) };
        null_mut::<c_void>().with_addr(mapped.cast_unsigned() as usize)
    }

    /// # Safety
    /// That of the C library's function.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn mmap64(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void {
        // SAFETY: as above.
        unsafe { mmap(address, length, protection, flags, file, offset) }
    }

    /// # Safety
    /// That of the C library's function.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn munmap(address: *mut c_void, length: usize) -> c_int {
        count(MUNMAP);
        // SAFETY: as above.
        unsafe { libc::syscall(libc::SYS_munmap, address, length) as c_int }
    }
}

/// What to replay.
#[derive(clap::Args)]
pub struct Arguments {
    /// A plan with a variant for this GPU.
    plan: PathBuf,
    /// Replays in each memory and way of waiting.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    replays: u32,
    /// Seed of the random inputs.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
}

/// What a caller does in RUN.
const OPERATIONS: [&str; 5] = ["reset", "write", "replay", "guard", "read"];

/// What was found in one kind of memory and way of waiting.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Name of the plan's file, without its ending.
    pub plan: String,
    /// Target of the variant.
    pub target: String,
    /// Its precision.
    pub precision: String,
    /// Where inputs and outputs lay.
    pub memory: &'static str,
    /// How the host waited.
    pub wait: &'static str,
    /// Replays whose calls were counted, each with a reset, every input written, guards asked and every output read.
    pub replays: u32,
    /// Calls of the C library's allocating functions while the session was made, beside those of Rust code: what shows that
    /// the driver's calls are seen.
    pub init: i64,
    /// Calls of the C library's allocating functions, by operation and function; operations without any are left out.
    pub heap: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    /// Blocks and mappings made less those given back.
    pub growth: [i64; 2],
    /// Allocations of Rust code, Floe's, among them.
    pub rust: u64,
    /// Functions of the driver that each operation calls.
    pub driver: BTreeMap<&'static str, BTreeSet<&'static str>>,
    /// What is wrong; empty when all is well.
    pub failures: Vec<String>,
}

/// Runs the subcommand: a report for each memory and way of waiting.
///
/// # Errors
/// Where the plan cannot be run at all. What is wrong otherwise is in the reports.
pub fn run(arguments: &Arguments) -> Result<Vec<Report>> {
    let file = PlanFile::open(&arguments.plan)?;
    let plan = file.plan()?;
    let mut reports = Vec::new();
    for memory in [MemoryKind::Device, MemoryKind::Mapped] {
        for wait in Wait::ALL {
            let request =
                Request { device: DeviceKind::Cuda, memory: Some(memory), wait, guard: true, ..Request::default() };
            let (mut place, variant) = Place::choose(&plan, &request)?;
            let mut report = measure(&mut place, &variant, arguments)?;
            let name = arguments.plan.file_stem().unwrap_or_default().to_string_lossy();
            (report.plan, report.memory, report.wait) = (name.into_owned(), memory.name(), wait_name(wait));
            reports.push(report);
        }
    }
    Ok(reports)
}

/// A session with what a caller needs for a round.
struct Round<'p, 'm> {
    session: Session<'p, 'm>,
    states: bool,
    inputs: Vec<inputs::Input>,
    outputs: Vec<(usize, Vec<u8>)>,
}

impl<'p, 'm> Round<'p, 'm> {
    fn new(session: Session<'p, 'm>, seed: u64) -> Result<Self> {
        let inputs = inputs::gather(&session, &[], Some(seed))?;
        let outputs = session.bindings(Direction::Output).into_iter();
        let outputs = outputs.map(|(number, binding)| Ok((number, vec![0; inputs::length(&binding)?])));
        let outputs = outputs.collect::<Result<_>>()?;
        let states = !session.bindings(Direction::State).is_empty();
        Ok(Self { session, states, inputs, outputs })
    }

    /// Each operation in turn; `after` is told which one is done.
    fn run(&mut self, mut after: impl FnMut(usize)) -> Result<()> {
        if self.states {
            self.session.reset()?;
        }
        after(0);
        for input in &self.inputs {
            self.session.write(input.binding, &input.bytes)?;
        }
        after(1);
        self.session.replay()?;
        after(2);
        if let Session::Cuda(session) = &mut self.session {
            let watched = session.guard().map(Iterator::count);
            ensure!(watched.is_ok(), "the session has no guard");
        }
        after(3);
        for (number, bytes) in &mut self.outputs {
            self.session.read(*number, bytes)?;
        }
        after(4);
        Ok(())
    }
}

/// Counts calls while a session replays.
fn measure(place: &mut Place, variant: &Variant<'_>, arguments: &Arguments) -> Result<Report> {
    let header = variant.header().clone();
    let (init, counts, rust) = {
        let (before, rust) = (Counts::now(), allocations::count());
        let session = place.session(variant.clone())?;
        let init = Counts::since(before).made() - (allocations::count() - rust).cast_signed();
        let mut round = Round::new(session, arguments.seed)?;
        // What is made once, at the first replays, belongs to nobody's thousandth.
        for _ in 0..100 {
            round.run(|_| ())?;
        }
        let (counts, rust) = count(&mut round, arguments.replays)?;
        (init, counts, rust)
    };
    let driver = driver_calls(place, variant, arguments.seed)?;
    let mut failures = Vec::new();
    if init <= 0 {
        failures
            .push("making a session called no allocating function but Rust's, so the driver's are not seen".to_owned());
    }
    if rust > 0 {
        failures.push(format!("{rust} Rust allocations in RUN"));
    }
    let growth = counts.iter().fold([0, 0], |[a, b], counts| {
        let [blocks, mappings] = counts.growth();
        [a + blocks, b + mappings]
    });
    // A driver may keep something now and then, but not for every replay.
    if growth.iter().any(|growth| growth.unsigned_abs() > u64::from(arguments.replays) / 100) {
        failures.push(format!("{} replays left {growth:?} more blocks and mappings", arguments.replays));
    }
    let calls = OPERATIONS.into_iter().zip(counts.into_iter().map(Counts::named));
    Ok(Report {
        plan: String::new(),
        target: header.target.to_owned(),
        precision: header.precision.to_owned(),
        memory: "",
        wait: "",
        replays: arguments.replays,
        init,
        heap: calls.filter(|(_, calls)| !calls.is_empty()).collect(),
        growth,
        rust,
        driver,
        failures,
    })
}

/// Calls of the allocating functions by operation, and allocations of Rust code.
fn count(round: &mut Round<'_, '_>, replays: u32) -> Result<([Counts; OPERATIONS.len()], u64)> {
    let mut sums = [Counts::default(); OPERATIONS.len()];
    let rust = allocations::count();
    for _ in 0..replays {
        let mut last = Counts::now();
        round.run(|operation| {
            sums[operation].add_since(last);
            last = Counts::now();
        })?;
    }
    Ok((sums, allocations::count() - rust))
}

/// Functions of the driver that each operation calls, over some rounds.
fn driver_calls(
    place: &mut Place,
    variant: &Variant<'_>,
    seed: u64,
) -> Result<BTreeMap<&'static str, BTreeSet<&'static str>>> {
    let Place::Cuda { api, .. } = place else { bail!("a GPU was asked for") };
    let own: DriverApi = *api;
    *api = recording::wrap(own, 0);
    let mut calls: BTreeMap<&str, BTreeSet<&str>> =
        OPERATIONS.into_iter().map(|name| (name, BTreeSet::new())).collect();
    let mut round = Round::new(place.session(variant.clone())?, seed)?;
    drop(recording::take());
    for _ in 0..10 {
        round.run(|operation| {
            let names = recording::take().into_iter().filter(|call| call.phase() == Phase::Run).map(|call| call.name());
            calls.entry(OPERATIONS[operation]).or_default().extend(names);
        })?;
    }
    drop(round);
    let Place::Cuda { api, .. } = place else { bail!("a GPU was asked for") };
    *api = own;
    calls.retain(|_, calls| !calls.is_empty());
    calls.get("replay").context("a replay calls the driver")?;
    Ok(calls)
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;
    use std::{fs, process::Command};

    /// A library that allocates when asked to, as a driver might.
    const LIBRARY: &str = r"
        #include <stdlib.h>
        #include <sys/mman.h>
        void plant(int times) {
            for (int i = 0; i < times; i++) {
                void *volatile p = malloc(100); p = realloc(p, 200); free(p);
                p = calloc(2, 100); free(p);
                p = aligned_alloc(64, 128); free(p);
                void *q; if (posix_memalign(&q, 64, 100)) abort(); free(q);
                p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (p == MAP_FAILED) abort();
                *(int *)p = 1;
                munmap(p, 4096);
            }
        }";

    /// Its function, and the library that must stay open for it.
    fn planted() -> (libloading::Library, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let (source, library) = (folder.path().join("plant.c"), folder.path().join("libplant.so"));
        fs::write(&source, LIBRARY).unwrap();
        let compiled = Command::new("cc").args(["-shared", "-fPIC", "-O0", "-o"]).arg(&library).arg(&source).status();
        assert!(compiled.unwrap().success());
        // SAFETY: the library has no initialiser.
        (unsafe { libloading::Library::new(&library) }.unwrap(), folder)
    }

    #[test]
    fn what_a_library_allocates_that_was_opened_later_is_counted() {
        let (library, _folder) = planted();
        // SAFETY: the function has this type.
        let plant = unsafe { library.get::<unsafe extern "C" fn(i32)>(b"plant") }.unwrap();
        let before = Counts::now();
        // SAFETY: it has no precondition.
        unsafe { plant(1000) };
        let counts = Counts::since(before);
        // Other tests allocate meanwhile.
        for (function, count) in FUNCTIONS.iter().zip(counts.0) {
            let least = if *function == "free" { 4000 } else { 1000 };
            assert!(count >= least, "{function}: {count}");
        }
        assert_eq!(counts.named().len(), FUNCTIONS.len());
        assert!(counts.made() >= 5000);
    }

    #[test]
    fn growth_is_what_is_not_given_back() {
        let mut counts = Counts::default();
        (counts.0[MALLOC], counts.0[CALLOC], counts.0[FREE], counts.0[REALLOC]) = (5, 2, 6, 9);
        (counts.0[MMAP], counts.0[MUNMAP]) = (1, 3);
        assert_eq!(counts.growth(), [1, -2]);
        assert_eq!(Counts::default().named(), BTreeMap::new());
    }
}
