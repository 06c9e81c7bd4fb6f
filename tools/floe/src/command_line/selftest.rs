//! `floe selftest`.

use super::{json::Json, options::DeviceArgument, progress::Progress};
use crate::{
    digest,
    plan_file::PlanFile,
    selftest::{
        bundle::{Bundle, Manifest},
        record::{self, Tally},
        replay::Replayer,
        supervise::{Line, supervise},
    },
    session::{DeviceKind, Place, Request},
    usage::Usage,
    watch::Watch,
};
use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

#[derive(Args)]
pub(super) struct SelfTest {
    /// The bundle, which `floec selftest-bundle` made for this device.
    pub(super) bundle: PathBuf,
    /// Where to run; by default on the GPU, and on the host where the bundle is for the host.
    #[arg(long, value_enum)]
    pub(super) device: Option<DeviceArgument>,
    /// Write the record here; by default into this folder, to a file named after the device and the day.
    #[arg(long, value_name = "FILE.json")]
    pub(super) record: Option<PathBuf>,
    /// Print the record in place of the text.
    #[arg(long)]
    pub(super) json: bool,
    /// Count a case as failed that takes longer than this, and go on with the next one.
    #[arg(long, value_name = "MS", default_value_t = 600_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) deadline: u64,
    /// Runs the cases from this number on, a line each. Not for people.
    #[arg(long, hide = true, value_name = "NUMBER")]
    pub(super) child: Option<usize>,
}

impl SelfTest {
    pub(super) fn run(&self) -> Result<()> {
        let mut bundle = Bundle::open(&self.bundle).map_err(|error| bad(&self.name(), &error))?;
        match self.child {
            Some(first) => self.replay(&mut bundle, first),
            None => self.test(&mut bundle),
        }
    }

    fn name(&self) -> String {
        self.bundle.display().to_string()
    }

    fn request(&self, manifest: &Manifest) -> Request {
        let device = self.device.map_or(DeviceKind::Auto, DeviceArgument::kind);
        let variant = Some(manifest.target.clone());
        Request { device, variant, ..Request::default() }
    }

    /// The child: cases from `first` on, until one breaks the device.
    fn replay(&self, bundle: &mut Bundle, first: usize) -> Result<()> {
        let mut replayer = Replayer::new(self.request(bundle.manifest()));
        let watch = Watch::deadline(Duration::from_millis(self.deadline), self.name())?;
        for number in first..bundle.manifest().cases.len() {
            let start = Instant::now();
            let working = watch.work("a case");
            let case = bundle.manifest().cases[number].clone();
            let verdict = bundle.parts(number).and_then(|parts| replayer.run(&case, &parts));
            drop(working);
            match verdict {
                Ok(verdict) => Line::Done(verdict, start.elapsed().as_secs_f64()).say()?,
                Err(error) => return Line::Broken(format!("{error:#}")).say(),
            }
        }
        Ok(())
    }

    /// The parent: starts children, and writes what they say.
    fn test(&self, bundle: &mut Bundle) -> Result<()> {
        let start = Instant::now();
        let device = self.device(bundle)?;
        let digest = digest::of_file(&self.bundle).with_context(|| self.name())?;
        let manifest = bundle.manifest();
        let record = self.record.clone().unwrap_or_else(|| default_name(&device).into());
        if record == Path::new("-") {
            return Err(Usage::new("--record names a file; --json prints the record").into());
        }
        // Before anything runs, which takes minutes.
        let mut file = Json::open(Some(&record), [self.bundle.as_path()])?;
        let progress = Progress::new(manifest.cases.len());
        let mut tallies = BTreeMap::<String, Tally>::new();
        let run = supervise(manifest.cases.len(), |number, verdict, seconds| {
            let case = &manifest.cases[number];
            let tally = tallies.entry(case.family.clone()).or_default();
            tally.seconds += seconds;
            match verdict {
                Ok(error) => {
                    tally.passed += 1;
                    tally.worst = tally.worst.max(error);
                }
                Err(why) => {
                    let failure = format!("{}: {why}", case.name);
                    progress.clear();
                    self.say(&format!("FAIL  {failure}"))?;
                    tally.failures.push(failure);
                }
            }
            progress.show_of(number + 1, manifest.cases.len());
            Ok(())
        });
        progress.clear();
        let run = run?;
        let seconds = start.elapsed().as_secs_f64();
        let written = record::of(manifest, &digest, device, seconds, &tallies);
        let text = record::text(&written);
        file.add(&text)?;
        file.finish()?;
        if self.json {
            io::stdout().lock().write_all(text.as_bytes())?;
        }
        self.summary(manifest, &written, &tallies, &record)?;
        let failed: usize = tallies.values().map(|tally| tally.failures.len()).sum();
        match (failed, manifest.cases.len() - run) {
            (0, 0) => Ok(()),
            (failed, 0) => bail!("{failed} of {run} cases failed"),
            (failed, rest) => {
                bail!("{failed} of {run} cases failed, the last ones each ended its process; {rest} were not run")
            }
        }
    }

    /// The device, after a look whether the bundle is for it.
    fn device(&self, bundle: &mut Bundle) -> Result<Map<String, Value>> {
        let name = self.name();
        let request = self.request(bundle.manifest());
        let parts = bundle.parts(0).map_err(|error| bad(&name, &error))?;
        let file = PlanFile::from_bytes(&parts.plan, bundle.manifest().cases[0].name.clone());
        let plan = file.plan().map_err(|error| bad(&name, &error))?;
        let target = &bundle.manifest().target;
        let is_for_host = plan.variants().all(|variant| variant.is_host());
        if is_for_host != matches!(request.device, DeviceKind::Host) && !matches!(request.device, DeviceKind::Auto) {
            return Err(
                Usage::new(format!("{name}: the bundle is for {target}, and --device names another kind")).into()
            );
        }
        let (place, _) = Place::choose(&plan, &request).map_err(|error| match error.downcast_ref() {
            Some(floe_cuda::Error::NoVariant { device, architecture, suggestion, .. }) => Usage::new(format!(
                "{name}: the bundle is for {target}; this GPU ({device}) is sm_{architecture} and needs one that `floec \
                 selftest-bundle --target {suggestion}` makes"
            ))
            .into(),
            _ => error,
        })?;
        Ok(record::device(&place))
    }

    fn summary(
        &self,
        manifest: &Manifest,
        record: &Value,
        tallies: &BTreeMap<String, Tally>,
        path: &Path,
    ) -> Result<()> {
        for (family, Tally { passed, worst, failures, .. }) in tallies {
            self.say(&format!("{family:<20} {passed:>4} passed, {} failed, worst error {worst:.1e}", failures.len()))?;
        }
        let passed: usize = tallies.values().map(|tally| tally.passed).sum();
        let failed: usize = tallies.values().map(|tally| tally.failures.len()).sum();
        let (device, seconds) = (record["run"]["gpu"].as_str().unwrap_or_default(), &record["run"]["seconds"]);
        let seconds = seconds.as_f64().unwrap_or_default();
        self.say(&format!("{} on {device}: {passed} passed, {failed} failed in {seconds:.1} s", manifest.target))?;
        self.say(&format!("wrote {}", path.display()))?;
        let repository = env!("CARGO_PKG_REPOSITORY");
        let to = match repository.is_empty() {
            true => "to whoever gave you the bundle".to_owned(),
            false => format!("with an issue at {repository}/issues"),
        };
        self.say(&format!(
            "Please send that file {to}, whatever it says: it holds the names of the device and its driver, the counts above, \
             and nothing else of this machine."
        ))
    }

    fn say(&self, line: &str) -> Result<()> {
        if !self.json {
            // Names come from the bundle: none of them commands the terminal.
            writeln!(io::stdout(), "{}", line.replace(char::is_control, " "))?;
        }
        Ok(())
    }
}

/// A bundle that is none, or is damaged: another file would do.
fn bad(name: &str, error: &anyhow::Error) -> anyhow::Error {
    Usage::new(format!("{name}: {error:#}")).into()
}

/// A file name from the device and the day, for example `orin-2026-11-23.json`.
fn default_name(device: &Map<String, Value>) -> String {
    let gpu = device.get("gpu").and_then(Value::as_str).unwrap_or("device").to_lowercase();
    let words = gpu.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    format!("{}-{}.json", words.collect::<Vec<_>>().join("-"), record::today())
}
