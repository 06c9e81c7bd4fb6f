//! `floec deploy`: a model or plan to a device that ssh reaches, and a run there.

mod machine;
mod record;
mod remote;
mod words;

use crate::{
    compile, inspect,
    output::{self, Usage, usage},
};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use floe_engine::plan::format::MAGIC;
use machine::Machine;
use remote::{Remote, quoted};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tempfile::TempDir;
use words::{WRITTEN, Words};

const EXAMPLES: &str = "Examples:
  floec deploy resnet50.floe nano
  floec deploy resnet50.floe user@192.168.1.20:models -- bench --iterations 500
  floec deploy resnet50.onnx nano --target jetson-orin-nano --watch -- run --input image=cat.npy --output-dir out
  floec deploy resnet50.floe nano --ssh 'ssh -p 2222 -i key' --floe target/aarch64-unknown-linux-gnu/release/floe -- profile

What stands behind -- is a command line of floe without its plan. Files that it reads are copied to the device; files that it
writes come back. Host, port and keys are those of your own ssh and its configuration.

Exit codes: those of floe on the device, where it ran; 1 where the device cannot be reached or the compilation fails; 2 for bad
usage or input.";

/// Copy a plan and the runtime to a device, if they differ from what is there, and run it there.
#[derive(Args)]
// The group of the arguments of `compile` has its name.
#[group(skip)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// A model, with options of `floec compile`; or a plan.
    #[command(flatten)]
    source: compile::Arguments,
    /// The device, and a folder there: relative to the home folder, `floe` by default.
    #[arg(index = 2, value_name = "[USER@]HOST[:DIR]")]
    destination: String,
    /// The program `floe` for the device. By default one beside `floec` that fits the device's processor, else the device's own.
    #[arg(long, value_name = "FILE")]
    floe: Option<PathBuf>,
    /// The ssh to use, with options; words are split at blanks.
    #[arg(long, value_name = "COMMAND", default_value = "ssh")]
    ssh: String,
    /// Keep at it: whenever the model or plan changes, compile, copy and run again. Ctrl-C ends it.
    #[arg(long)]
    watch: bool,
    /// Where a record of every run is kept, a file for each device. By default in $XDG_STATE_HOME/floe/devices or
    /// ~/.local/state/floe/devices.
    #[arg(long, value_name = "DIR")]
    records: Option<PathBuf>,
    /// A command of floe with its options, without the plan.
    #[arg(index = 3, last = true, value_name = "COMMAND OF FLOE")]
    command: Vec<String>,
}

/// Host and folder of a destination.
fn destination(text: &str) -> Result<(&str, &str)> {
    // As scp has it; an IPv6 address stands in brackets.
    let end = text.find(']').map_or(0, |end| end + 1);
    let (host, folder) = match text[end..].find(':') {
        Some(colon) => (&text[..end + colon], &text[end + colon + 1..]),
        None => (text, ""),
    };
    let bare = host.rsplit('@').next().unwrap_or(host);
    if bare.is_empty() || host.starts_with('-') || host.contains(char::is_whitespace) {
        bail!("'{text}' is no destination: write [USER@]HOST[:DIR]");
    }
    Ok((host, if folder.is_empty() { "floe" } else { folder }))
}

/// When a file was changed, and how long it is: another pair, another file.
fn state(path: &Path) -> Option<(SystemTime, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// Waits until a file differs from `last` and has stopped to change.
fn wait_for_change(path: &Path, last: Option<(SystemTime, u64)>) {
    let mut before = last;
    loop {
        thread::sleep(Duration::from_millis(300));
        let now = state(path);
        // Editors and exporters replace a file in steps: absent, short, whole.
        if now.is_some() && now != last && now == before {
            return;
        }
        before = now;
    }
}

/// Runs `floec deploy`.
///
/// # Errors
/// Returns an error if the plan cannot be made, the device cannot be reached, or the run there fails.
pub fn run(arguments: &mut Arguments) -> Result<()> {
    let source = arguments.source.model().to_owned();
    let (host, folder) = usage(destination(&arguments.destination))?;
    if arguments.ssh.split_whitespace().next().is_none() {
        return usage(Err(anyhow!("--ssh names no command")));
    }
    let temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
    // Before anything connects.
    let mut last = state(&source);
    for written in usage(Words::new(&arguments.command, "plan"))?.writes {
        output::keep_inputs(&written.local, [source.as_path()])?;
    }
    let plan = make(&mut arguments.source, &source, &temporary)?;
    let remote = Remote::new(&arguments.ssh, host, folder)?;
    let machine = Machine::of(&remote)?;
    output::print(&format!("{host}: {machine}\n"))?;
    let floe = machine.install(&remote, arguments.floe.as_deref())?;
    let records = arguments.records.clone().or_else(record::default_folder);
    let once = |plan: &Path| deploy(&remote, &machine, &floe, plan, &arguments.command, records.as_deref());
    let mut result = once(&plan);
    while arguments.watch {
        if let Err(error) = &result {
            eprintln!("error: {}", output::harmless(&crate::message(error)));
        }
        output::print(&format!("watching {}; Ctrl-C ends it\n", source.display()))?;
        wait_for_change(&source, last);
        last = state(&source);
        result = make(&mut arguments.source, &source, &temporary).and_then(|plan| once(&plan));
    }
    result
}

/// The plan to deploy: the source itself, or what it compiles to.
fn make(compile: &mut compile::Arguments, source: &Path, temporary: &TempDir) -> Result<PathBuf> {
    let read = fs::read(source).with_context(|| format!("cannot read '{}'", source.display()));
    if usage(read)?.starts_with(&MAGIC) {
        if compile.has_targets() {
            return usage(Err(anyhow!("'{}' is a plan: --target goes with a model", source.display())));
        }
        return Ok(source.to_owned());
    }
    if !compile.has_targets() {
        return usage(Err(anyhow!("'{}' is no plan; a model needs a --target: see `floec targets`", source.display())));
    }
    let name = source.file_stem().context("the model's path has no file name")?;
    let plan = compile.output_or(&temporary.path().join(name).with_extension("floe"));
    compile::run(compile)?;
    Ok(plan)
}

/// Copies a plan and runs it.
fn deploy(
    remote: &Remote,
    machine: &Machine,
    floe: &str,
    plan: &Path,
    command: &[String],
    records: Option<&Path>,
) -> Result<()> {
    let name = plan.file_name().context("the plan's path has no file name")?.to_string_lossy().into_owned();
    // One that the engine would refuse need not travel.
    let bytes = inspect::map(plan)?;
    let model = usage(inspect::parse(&bytes, plan))?.model().to_owned();
    let (copied, digest) = remote.copy(plan, &name, false)?;
    let what = if copied { "copied" } else { "is there already" };
    output::print(&format!("{}: {name} {what}, {}\n", remote.host(), output::bytes(bytes.len() as u64)))?;
    if command.is_empty() {
        return Ok(());
    }

    let mut words = usage(Words::new(command, &name))?;
    let kept = tempfile::tempdir().context("cannot make a temporary folder")?;
    // The times of a bench belong into its record, whether or not the user wants them in a file.
    let json = if command[0] == "bench" { words.json(&kept.path().join("bench.json")) } else { None };
    for read in &words.reads {
        remote.copy(&read.local, &read.remote, false)?;
    }
    let line: Vec<String> = words.words.iter().map(|word| quoted(word)).collect();
    let code = remote.run(&format!("rm -rf {WRITTEN} && mkdir {WRITTEN} && {floe} {}", line.join(" ")))?;
    if code == 0 {
        for written in &words.writes {
            fetch(remote, &written.remote, &written.local, !written.local.starts_with(kept.path()))?;
        }
    }
    let result = json.filter(|_| code == 0).and_then(|file| fs::read_to_string(file).ok());
    let record = json!({
        "unix_time": SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        "host": remote.host(), "machine": machine, "floec": env!("CARGO_PKG_VERSION"),
        "plan": name, "model": model, "sha256": digest,
        "command": command, "exit_code": code,
        "result": result.and_then(|text| serde_json::from_str::<Value>(&text).ok()),
    });
    if let Some(folder) = records {
        let file = record::keep(folder, remote.host(), &record)?;
        output::print(&format!("record added to {}\n", file.display()))?;
    }
    match code {
        0 => Ok(()),
        2 => {
            let said = format!("{}: floe refused its command line or a file on it (exit code 2)", remote.host());
            Err(Usage::new(said).into())
        }
        code => bail!("{}: floe failed (exit code {code})", remote.host()),
    }
}

/// Fetches what a run has written: a file, or a folder with all in it.
fn fetch(remote: &Remote, name: &str, local: &Path, tell: bool) -> Result<()> {
    let kind = remote
        .output(&format!("if [ -d {0} ]; then echo folder; elif [ -f {0} ]; then echo file; fi", quoted(name)))?;
    match kind.trim() {
        "folder" => {
            for file in remote.fetch_folder(name, local)? {
                output::print(&format!("fetched {}\n", local.join(file).display()))?;
            }
        }
        "file" => {
            remote.fetch(name, local)?;
            if tell {
                output::print(&format!("fetched {}\n", local.display()))?;
            }
        }
        // Not every run writes what it may write.
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::destination;

    #[test]
    fn destinations_are_those_of_scp() {
        for (text, host, folder) in [
            ("nano", "nano", "floe"),
            ("nano:", "nano", "floe"),
            ("me@10.0.0.2:/opt/floe", "me@10.0.0.2", "/opt/floe"),
            ("me@[fe80::1]:models", "me@[fe80::1]", "models"),
        ] {
            assert_eq!(destination(text).unwrap(), (host, folder), "{text}");
        }
        for text in ["", ":dir", "me@", "-oProxyCommand=x", "a b:c"] {
            assert!(destination(text).unwrap_err().to_string().contains("write [USER@]HOST[:DIR]"), "{text}");
        }
    }
}
