//! `floe-verify kernels`: every candidate of every case against its reference kernel.
//!
//! The parent compiles everything in parallel, which fills the kernel cache, then runs each family in child processes:
//! an illegal access spoils a process' CUDA context for good. A child that dies or hangs is replaced by one that goes on
//! after the candidate that killed it.

use crate::{emulated, launch::Gpu};
use anyhow::{Context, Result, bail, ensure};
use floe::selftest::operand;
use floe_compiler::{
    nvrtc::{Compiler, Request, Resources},
    targets,
};
use floe_conformance::{
    cases::{self, Case},
    operands::{Prepared, outputs},
};
use floe_engine::plan::format::ImageKind;
use floe_kernels::codegen::{Candidate, Launch, Target};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, BufRead, BufReader, IsTerminal, Write},
    process::{Command, Stdio},
    str::FromStr,
    sync::{Mutex, mpsc},
    time::Duration,
};

/// Longest silence of a child before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// Children of one share that may die before the rest of it is given up: each costs about a second.
const DEATHS: usize = 16;

/// Architecture and kind of image, as `--arch` names them: `90`, `87ptx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Architecture {
    number: u32,
    image: ImageKind,
}

impl FromStr for Architecture {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, image) =
            text.strip_suffix("ptx").map_or((text, ImageKind::Cubin), |digits| (digits, ImageKind::Ptx));
        let number = digits.parse().map_err(|_| "expected a number such as 90 or 87ptx".to_owned())?;
        let known = targets::all().iter().any(|target| target.architecture == number && !target.is_host());
        if known { Ok(Self { number, image }) } else { Err(format!("no target has architecture {number}")) }
    }
}

impl std::fmt::Display for Architecture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.number, if self.image == ImageKind::Ptx { "ptx" } else { "" })
    }
}

impl Architecture {
    /// How to compile a launch.
    pub fn request(self, launch: &Launch) -> Request {
        Request::of(launch, self.number, self.image)
    }

    /// Every launch of every candidate of a case, with the candidate's name.
    fn requests(self, case: &Case) -> Vec<(String, Request)> {
        case.requests(self.number, self.image)
    }

    /// All cases of families on the target.
    pub fn cases(self, families: &[String]) -> Result<Vec<Case>> {
        cases::cases(self.target()?, families)
    }

    /// The largest target of the architecture: it offers the most configurations.
    pub fn target(self) -> Result<&'static Target> {
        let all = targets::all().iter().filter(|target| target.architecture == self.number);
        all.max_by_key(|target| target.multiprocessors).context("checked when it was parsed")
    }
}

/// What to verify.
#[derive(clap::Args)]
pub struct Arguments {
    /// Architecture to compile for: `90` is machine code, `87ptx` PTX that the driver compiles for its GPU.
    #[arg(long, default_value = "90")]
    arch: Architecture,
    /// Only this family; repeatable.
    #[arg(long = "family", value_name = "NAME")]
    families: Vec<String>,
    /// Child processes at a time; 1 for machine code, so that times are undisturbed, 8 for PTX, whose compilation by the
    /// driver takes longest.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Only compile, for machines without a GPU.
    #[arg(long)]
    compile_only: bool,
    /// Of each case only the candidate that the cost model chooses.
    #[arg(long, requires = "compile_only")]
    chosen: bool,
    /// Print the cases that the architecture's kernels refuse, as unsupported.txt has them, and do nothing else.
    #[arg(long)]
    list_unsupported: bool,
    /// On a GPU in software, with every access watched; needs PTX, and no GPU.
    #[arg(long, conflicts_with_all = ["compile_only", "jobs"])]
    emulated: bool,
    /// Of each algorithm, for each combination of element types, only the case that takes least effort.
    #[arg(long, conflicts_with = "chosen")]
    smallest: bool,
    /// Only candidates whose line with --verbose has this text in it; repeatable, then it must have all of them.
    #[arg(long, value_name = "TEXT")]
    matching: Vec<String>,
    /// Also print every passed candidate with its time.
    #[arg(long)]
    verbose: bool,
    /// Runs as a child: one family and a share of its cases, as JSON lines. Not for people.
    #[arg(long, hide = true, value_name = "INDEX/COUNT")]
    child: Option<String>,
    /// Where a child takes up: case and candidate after the one that killed its predecessor.
    #[arg(long, hide = true, value_name = "CASE:CANDIDATE")]
    after: Option<String>,
}

impl Arguments {
    /// The architecture as it was given, which is its key in the record.
    pub fn architecture(&self) -> String {
        self.arch.to_string()
    }

    /// Whether only some families run: a record's section has all.
    pub fn is_partial(&self) -> bool {
        !self.families.is_empty() || !self.matching.is_empty()
    }
}

/// One line of a child.
#[derive(Debug, Serialize, Deserialize)]
enum Line {
    /// A candidate is about to run.
    Start { case: usize, candidate: usize, what: String },
    /// It agrees with the reference kernel; error by the measure of its type, microseconds.
    Pass { error: f64, time: f64 },
    /// It does not.
    Fail { what: String, why: String },
    /// The family has no candidate for the case.
    Unsupported { what: String, why: String },
    /// All done.
    End,
}

/// Counts of one family, for the record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Candidates that agree with the reference kernel.
    pub passed: usize,
    /// Largest error of a passed candidate: relative L2 for half types, part of the bound for others.
    pub worst: f64,
    /// Cases that the family refuses on this target.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unsupported: Vec<String>,
    /// Candidates that do not agree, and what else is wrong; empty when all is well.
    pub failures: Vec<String>,
}

/// Runs the subcommand; a tally for each family, or nothing where only a part was done.
///
/// # Errors
/// Where NVRTC or the GPU is missing, or a kernel does not compile. Wrong results are in the tallies.
pub fn run(arguments: &Arguments) -> Result<BTreeMap<String, Tally>> {
    if let Some(share) = &arguments.child {
        child(arguments, share)?;
        return Ok(BTreeMap::new());
    }
    let mut cases = arguments.arch.cases(&arguments.families)?;
    if arguments.list_unsupported {
        cases.iter().filter_map(Case::refusal).for_each(|case| say(&format!("{} {case}", arguments.arch.number)));
        return Ok(BTreeMap::new());
    }
    let mut refused = refused(arguments.arch, &cases);
    if arguments.smallest {
        // Children of a run on a GPU would not know of it.
        ensure!(arguments.emulated || arguments.compile_only, "--smallest is for --emulated and --compile-only");
        cases::keep_smallest(&mut cases);
    }
    if !arguments.matching.is_empty() {
        ensure!(arguments.emulated || arguments.compile_only, "--matching is for --emulated and --compile-only");
        keep_matching(&mut cases, &arguments.matching);
        ensure!(!cases.is_empty(), "no candidate matches");
    }
    if arguments.emulated {
        if arguments.arch.image != ImageKind::Ptx {
            bail!("--emulated runs PTX: --arch {}ptx", arguments.arch.number);
        }
        let requests = |case: &Case| arguments.arch.requests(case).into_iter().map(|(_, request)| request).collect();
        return emulated::run(&cases, requests, arguments.arch.target()?, arguments.verbose);
    }
    if arguments.chosen {
        for candidates in cases.iter_mut().flat_map(|case| &mut case.candidates) {
            candidates.sort_by(|a, b| a.cost.total_cmp(&b.cost));
            candidates.truncate(1);
        }
    }
    let arrays = compile(arguments.arch, &cases)?;
    if arguments.compile_only {
        let mut wrong: Vec<String> = refused.into_values().flat_map(|tally| tally.failures).collect();
        if arrays > 0 {
            wrong.push(format!(
                "{arrays} kernels keep arrays in local memory, where an index that is not a constant puts them"
            ));
        }
        return if wrong.is_empty() { Ok(BTreeMap::new()) } else { bail!(wrong.join("\n")) };
    }
    // A missing GPU is one clear message, not one for each child.
    drop(Gpu::open()?);
    let mut families: Vec<&str> = cases.iter().map(|case| case.family()).collect();
    families.sort_unstable();
    families.dedup();
    let jobs = arguments.jobs.unwrap_or(if arguments.arch.image == ImageKind::Ptx { 8 } else { 1 }).max(1);
    // With several at a time each family is split, so that no single one holds the rest up.
    let shares = families.iter().flat_map(|family| (0..jobs).map(move |share| (*family, share)));
    let queue: Mutex<VecDeque<(&str, usize)>> = Mutex::new(shares.collect());
    let tallies = Mutex::new(BTreeMap::<String, Tally>::new());
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some((family, share)) = queue.lock().ok().and_then(|mut queue| queue.pop_front()) {
                    match supervise(arguments, family, &format!("{share}/{jobs}")) {
                        Ok(tally) => {
                            if let Ok(mut tallies) = tallies.lock() {
                                tallies.entry(family.to_owned()).or_default().add(tally);
                            }
                        }
                        Err(error) => {
                            if let Ok(mut failure) = failure.lock() {
                                *failure = Some(error.context(format!("family {family}")));
                            }
                        }
                    }
                }
            });
        }
    });
    if let Some(error) = failure.into_inner().ok().flatten() {
        return Err(error);
    }
    let mut tallies = tallies.into_inner().map_err(|_| anyhow::anyhow!("a thread of this program panicked"))?;
    for (family, tally) in &mut tallies {
        let refused = refused.remove(family).unwrap_or_default();
        refused.failures.iter().for_each(|failure| say(&format!("FAIL  {failure}")));
        tally.add(refused);
        if tally.passed == 0 {
            tally.fail(format!("{family}: nothing passed"));
        }
    }
    Ok(tallies)
}

/// Leaves of the cases the candidates whose lines have all of these texts in them.
fn keep_matching(cases: &mut Vec<Case>, texts: &[String]) {
    for case in &mut *cases {
        let what = case.what();
        let matches = |candidate: &Candidate| {
            let line = format!("{what} | {} {}", candidate.algorithm, candidate.configuration);
            texts.iter().all(|text| line.contains(text.as_str()))
        };
        if let Ok(candidates) = &mut case.candidates {
            candidates.retain(matches);
        }
    }
    cases.retain(|case| case.candidates.as_ref().is_ok_and(|candidates| !candidates.is_empty()));
}

/// The cases that families refuse on an architecture, and where these are not those of unsupported.txt, failures.
fn refused(arch: Architecture, cases: &[Case]) -> BTreeMap<String, Tally> {
    let family = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    let mut tallies: BTreeMap<String, Tally> =
        cases.iter().map(|case| (case.family().to_owned(), Tally::default())).collect();
    let listed = include_str!("../unsupported.txt").lines().filter_map(|line| line.split_once(' '));
    let mut expected: Vec<&str> =
        listed.filter(|(number, _)| *number == arch.number.to_string()).map(|(_, case)| case).collect();
    for case in cases.iter().filter_map(Case::refusal) {
        let tally = tallies.entry(family(&case)).or_default();
        match expected.iter().position(|expected| *expected == case) {
            Some(place) => drop(expected.swap_remove(place)),
            None => tally.failures.push(format!("is not supported, which unsupported.txt does not list: {case}")),
        }
        tally.unsupported.push(case);
    }
    for case in expected {
        // Families that were not asked for are not missed.
        if let Some(tally) = tallies.get_mut(&family(case)) {
            tally.failures.push(format!("is not refused, but unsupported.txt lists it: {case}"));
        }
    }
    tallies
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.worst = self.worst.max(other.worst);
        self.unsupported.extend(other.unsupported);
        self.failures.extend(other.failures);
    }

    /// Puts a failure down, and says so while others still run.
    pub(crate) fn fail(&mut self, failure: String) {
        say(&format!("FAIL  {failure}"));
        self.failures.push(failure);
    }
}

/// Compiles every launch of every candidate, in parallel, into the cache; says how many keep arrays in local memory.
fn compile(arch: Architecture, cases: &[Case]) -> Result<usize> {
    let compiler = Compiler::find(arch.target()?, None)?;
    let (names, requests): (Vec<String>, Vec<Request>) = cases.iter().flat_map(|case| arch.requests(case)).unzip();
    let _ = writeln!(io::stderr(), "compiling {} launches of {} cases for {arch}", requests.len(), cases.len());
    let terminal = io::stderr().is_terminal();
    let progress = |done: usize, all: usize| {
        if terminal {
            let _ = write!(io::stderr(), "\rcompiled {done} of {all}");
        }
    };
    let started = std::time::Instant::now();
    let results = compiler.try_compile_all(&requests, &progress);
    let refused: Vec<String> =
        results.iter().filter_map(|result| result.as_ref().err()).map(|e| e.to_string()).collect();
    let resources = results.iter().map(|result| result.as_ref().ok().and_then(|kernel| kernel.resources));
    let resources: Vec<Resources> = resources.map(Option::unwrap_or_default).collect();
    // How many kernels need any of it.
    let count = |what: &str, bytes: &dyn Fn(&Resources) -> u32| {
        let needy = resources.iter().zip(&names).zip(&requests).filter(|((resources, name), request)| {
            let bytes = bytes(resources);
            if bytes > 0 {
                let _ = writeln!(io::stderr(), "{} {what} {bytes} bytes: {name}", request.entry);
            }
            bytes > 0
        });
        needy.count()
    };
    let spills = count("spills", &|resources| resources.spill_stores);
    let arrays = count("keeps arrays in local memory,", &Resources::arrays);
    let _ = writeln!(
        io::stderr(),
        "{}NVRTC {} compiled {} launches for {arch} in {:.1} s, {spills} of them spill registers, {arrays} keep arrays in local memory",
        if terminal { "\r\x1b[K" } else { "" },
        compiler.version(),
        requests.len(),
        started.elapsed().as_secs_f64()
    );
    match refused.first() {
        Some(first) => bail!("{} launches do not compile; the first: {first}", refused.len()),
        None => Ok(arrays),
    }
}

/// Runs children for a share of a family until one of them reaches the end.
fn supervise(arguments: &Arguments, family: &str, share: &str) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut after: Option<String> = None;
    for _ in 0..DEATHS {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["kernels", "--arch", &arguments.arch.to_string(), "--family", family, "--child", share]);
        if let Some(after) = &after {
            command.args(["--after", after]);
        }
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(process.stdout.take().context("the child's output is a pipe")?);
        let (sender, receiver) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            lines.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok());
        });
        let mut running: Option<(usize, usize, String)> = None;
        let mut ended = false;
        let reason = loop {
            match receiver.recv_timeout(PATIENCE) {
                Ok(text) => match serde_json::from_str(&text) {
                    Ok(Line::Start { case, candidate, what }) => running = Some((case, candidate, what)),
                    Ok(Line::Pass { error, time }) => {
                        tally.passed += 1;
                        tally.worst = tally.worst.max(error);
                        if let (true, Some((_, _, what))) = (arguments.verbose, &running) {
                            say(&format!("pass  {what}: {error:.1e}, {time:.1} us"));
                        }
                    }
                    Ok(Line::Fail { what, why }) => {
                        tally.fail(format!("{what}: {why}"));
                    }
                    Ok(Line::Unsupported { what, why }) => {
                        if arguments.verbose {
                            say(&format!("none  {what}: {why}"));
                        }
                    }
                    Ok(Line::End) => ended = true,
                    Err(_) => say(&text),
                },
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    process.kill()?;
                    break "it hung";
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break "its process died",
            }
        };
        process.wait()?;
        // The reader ends with the pipe.
        let _ = reader.join();
        if ended {
            return Ok(tally);
        }
        let Some((case, candidate, what)) = running else { bail!("a child process ended before its first candidate") };
        let next = format!("{case}:{candidate}");
        if after.as_ref() == Some(&next) {
            bail!("a child process makes no progress after {what}");
        }
        // A child that could still report has counted its failure itself; one that could not has not.
        if reason == "it hung" || !matches!(process.wait()?.code(), Some(SPOILED)) {
            tally.fail(format!("{what}: {reason}"));
        }
        after = Some(next);
    }
    tally.fail(format!("{family}: given up after {DEATHS} candidates that spoiled their process"));
    Ok(tally)
}

/// Exit code of a child whose CUDA context is spoiled after it reported why.
const SPOILED: i32 = 3;

pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

/// One family's share of cases, reported as JSON lines.
fn child(arguments: &Arguments, share: &str) -> Result<()> {
    let pair = |text: &str, separator| -> Result<(usize, usize)> {
        let (a, b) = text.split_once(separator).context("two numbers")?;
        Ok((a.parse()?, b.parse()?))
    };
    let (index, count) = pair(share, '/')?;
    let after = arguments.after.as_deref().map(|after| pair(after, ':')).transpose()?;
    let mut cases = arguments.arch.cases(&arguments.families)?;
    cases.retain(|case| case.number % count.max(1) == index && after.is_none_or(|(first, _)| case.number >= first));
    let report = |line: &Line| -> Result<()> {
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, line)?;
        writeln!(out)?;
        Ok(out.flush()?)
    };
    let compiler = Compiler::find(arguments.arch.target()?, None)?;
    let gpu = Gpu::open()?;
    // The reference kernels run in parallel, a few cases ahead of the GPU.
    for chunk in cases.chunks(16) {
        let prepared: Vec<Result<Prepared>> =
            chunk.par_iter().map(|case| Prepared::new(&case.kernel, case.number)).collect();
        for (case, prepared) in chunk.iter().zip(prepared) {
            let what = case.what();
            let (prepared, candidates) = match (prepared, &case.candidates) {
                (Ok(prepared), Ok(candidates)) => (prepared, candidates),
                (Err(error), _) => {
                    report(&Line::Fail { what, why: format!("{error:#}") })?;
                    continue;
                }
                (_, Err(why)) => {
                    report(&Line::Unsupported { what, why: why.clone() })?;
                    continue;
                }
            };
            let (_, requests): (Vec<String>, Vec<Request>) = arguments.arch.requests(case).into_iter().unzip();
            let mut compiled = compiler.compile_all(&requests, &|_, _| {})?.into_iter();
            for (number, candidate) in candidates.iter().enumerate() {
                let images: Vec<_> = compiled.by_ref().take(candidate.launches.len()).collect();
                if after.is_some_and(|after| (case.number, number) <= after) {
                    continue;
                }
                let what = format!("{what} | {} {}", candidate.algorithm, candidate.configuration);
                report(&Line::Start { case: case.number, candidate: number, what: what.clone() })?;
                match verify(&gpu, case, &prepared, candidate, &images) {
                    Ok((error, time)) => report(&Line::Pass { error, time })?,
                    Err(error) => {
                        let spoiled = error.downcast_ref::<floe_cuda::Error>().is_some();
                        report(&Line::Fail { what, why: format!("{error:#}") })?;
                        if spoiled {
                            // Some driver errors would let us go on, but telling which is not worth it.
                            std::process::exit(SPOILED);
                        }
                    }
                }
            }
        }
    }
    report(&Line::End)
}

/// Runs one candidate and compares its outputs.
pub(crate) fn verify(
    gpu: &Gpu,
    case: &Case,
    prepared: &Prepared,
    candidate: &Candidate,
    images: &[floe_compiler::nvrtc::Compiled],
) -> Result<(f64, f64)> {
    let inputs = (0..prepared.inputs.len())
        .map(|index| prepared.packed(&case.kernel, index, candidate.packing.get(index)))
        .collect::<Result<Vec<_>>>()?;
    let lengths: Vec<usize> = prepared.outputs.iter().map(|output| output.bytes().len()).collect();
    let run = gpu.run(candidate, images, &inputs, &lengths)?;
    let mut worst = 0.0f64;
    let allowance = case.allowance(candidate);
    let views = outputs(case.kernel.family());
    for (index, (view, (expected, found))) in
        views.into_iter().zip(prepared.outputs.iter().zip(&run.outputs)).enumerate()
    {
        let error = operand::output(view, expected.bytes(), found.bytes(), allowance);
        worst = worst.max(error.map_err(|why| anyhow::anyhow!("output {index}: {why}"))?);
    }
    Ok((worst, run.time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_parsed() {
        let cubin: Architecture = "90".parse().unwrap();
        let ptx: Architecture = "87ptx".parse().unwrap();
        assert_eq!((cubin.to_string().as_str(), ptx.to_string().as_str()), ("90", "87ptx"));
        assert_eq!(ptx.target().unwrap().name, "jetson-agx-orin");
        assert!("12".parse::<Architecture>().is_err() && "h200".parse::<Architecture>().is_err());
    }

    /// On every architecture, the cases without candidates are those of unsupported.txt.
    #[test]
    fn unsupported_cases_are_listed() {
        let mut numbers: Vec<u32> =
            targets::all().iter().filter(|target| !target.is_host()).map(|target| target.architecture).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            let arch = Architecture { number, image: ImageKind::Cubin };
            let tallies = refused(arch, &arch.cases(&[]).unwrap());
            let wrong: Vec<String> = tallies.into_values().flat_map(|tally| tally.failures).collect();
            assert!(
                wrong.is_empty(),
                "sm_{number}; `floe-verify kernels --list-unsupported` prints the list: {wrong:#?}"
            );
        }
    }

    #[test]
    fn a_case_that_is_newly_refused_or_no_longer_is_a_failure() {
        let arch: Architecture = "87".parse().unwrap();
        let failures = |cases: &[Case]| refused(arch, cases)["matmul"].failures.clone();
        let mut cases = arch.cases(&["matmul".to_owned()]).unwrap();
        assert_eq!(failures(&cases), [""; 0]);
        let supported = cases.iter().position(|case| case.candidates.is_ok()).unwrap();
        cases[supported].candidates = Err("too large".to_owned());
        assert!(matches!(failures(&cases).as_slice(), [why] if why.contains("does not list")));
        cases[supported].candidates = Ok(Vec::new());
        let refused = cases.iter().position(|case| case.candidates.is_err()).unwrap();
        cases[refused].candidates = Ok(Vec::new());
        assert!(matches!(failures(&cases).as_slice(), [why] if why.contains("is not refused")));
    }
}
