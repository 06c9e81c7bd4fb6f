//! `floec inspect` and `floec check`.

use crate::{
    keys, model,
    output::{self, usage},
    page, prediction, report,
};
use anyhow::{Context, anyhow};
use clap::Args;
use floe_engine::plan::{Plan, format::MAGIC};
use floe_models::onnx;
use memmap2::Mmap;
use serde_json::Value;
use std::{
    fs::File,
    path::{Path, PathBuf},
};

/// Show what is inside a plan, and why; or what a model holds, and whether Floe runs it.
#[derive(Args)]
#[command(after_help = "Examples:
  floec inspect resnet50.floe
  floec inspect resnet50.floe --json | jq '.variants[0].memory'
  floec inspect resnet50.floe --html resnet50.html
  floec inspect detector.onnx --shape images=1x3x640x640 --target jetson-orin-nano

Exit code: 1 where a model holds what is not supported; all such nodes are listed.")]
pub struct Arguments {
    /// A plan, or an ONNX model.
    file: PathBuf,
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
    /// Of a plan: write a self-contained HTML page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    model: model::Options,
}

/// Run the engine's own check on a plan, and compare its blobs with their digest; needs no GPU.
#[derive(Args)]
#[command(after_help = "Examples:
  floec check resnet50.floe && scp resnet50.floe jetson:
  floec check resnet50.floe --public-key plans.key.pub
  floec check resnet50.floe --public-key plans.key.pub --model-name resnet50 --least-version 3")]
pub struct CheckArguments {
    /// The plan.
    plan: PathBuf,
    /// Also check that the plan was signed with the private key of this public key: PEM, as `floec keygen` and OpenSSL
    /// write it.
    #[arg(long, value_name = "FILE")]
    public_key: Option<PathBuf>,
    /// Also check that the plan's version is not below this one.
    #[arg(long, value_name = "N", requires = "public_key")]
    least_version: Option<u32>,
    /// Also check that the plan is of the model with this name: that of the model's file, without its ending.
    #[arg(long, value_name = "NAME", requires = "public_key")]
    model_name: Option<String>,
}

/// Maps a file into memory; empty files, which cannot be mapped, fail in the check like any other.
pub fn map(path: &Path) -> anyhow::Result<Mmap> {
    let file = File::open(path).with_context(|| format!("cannot read '{}'", path.display()))?;
    // SAFETY: plans are read-only here; a file that somebody truncates meanwhile is outside of what we promise.
    unsafe { Mmap::map(&file) }.with_context(|| format!("cannot map '{}'", path.display()))
}

/// The checked plan in `bytes`.
pub fn parse<'a>(bytes: &'a [u8], path: &Path) -> anyhow::Result<Plan<'a>> {
    Plan::parse(bytes).map_err(|error| anyhow!("'{}' is not a sound plan: {error}", path.display()))
}

/// Runs `floec check`.
pub fn check(arguments: &CheckArguments) -> anyhow::Result<()> {
    let bytes = map(&arguments.plan)?;
    let plan = parse(&bytes, &arguments.plan)?;
    let name = arguments.plan.display();
    let sound = match &arguments.public_key {
        Some(file) => {
            plan.verify_signature(&keys::public(file)?).map_err(|error| anyhow!("'{name}': {error}"))?;
            "signed with this key and sound"
        }
        None => {
            plan.verify_blobs().map_err(|error| anyhow!("'{name}' is damaged: {error}"))?;
            if plan.is_signed() { "sound, signed (--public-key checks by whom)" } else { "sound, not signed" }
        }
    };
    plan.verify_release(arguments.model_name.as_deref(), arguments.least_version.unwrap_or(0))
        .map_err(|error| anyhow!("'{name}', of model '{}': {error}", plan.model()))?;
    let mut targets: Vec<_> = plan.variants().map(|variant| variant.header().target).collect();
    targets.dedup();
    output::print(&format!("{name}: {sound}, for {}\n", targets.join(", ")))
}

/// Runs `floec inspect`.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let bytes = map(&arguments.file)?;
    let is_plan = bytes.starts_with(&MAGIC) || arguments.html.is_some();
    if let Some(model) = (!is_plan).then(|| onnx::decode(&bytes).ok()).flatten() {
        return model::run(&arguments.file, &model, bytes.len(), &arguments.model, arguments.json);
    }
    arguments.model.none()?;
    let plan = parse(&bytes, &arguments.file)?;
    let report = report::plan(&plan);
    if let Some(path) = &arguments.html {
        usage(output::keep_inputs(path, [arguments.file.as_path()]))?;
        output::write_file(path, page::render(&report).as_bytes())?;
        if output::is_stdout(path) {
            return Ok(());
        }
        if !arguments.json {
            return output::print(&format!("{}: written\n", path.display()));
        }
    }
    if arguments.json {
        return output::print(&format!("{report:#}\n"));
    }
    output::print(&text(&report))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn string(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn text(report: &Value) -> String {
    let mut text = format!(
        "{}{} · {} · {} · sha256 {}{}\n",
        string(&report["model"]),
        match number(&report["version"]) {
            0 => String::new(),
            version => format!(" version {version}"),
        },
        output::bytes(number(&report["bytes"])),
        string(&report["compiler"]),
        string(&report["digest"]),
        if report["signed"] == true { " · signed" } else { "" },
    );
    for variant in items(&report["variants"]) {
        let memory = &variant["memory"];
        let host = number(&variant["architecture"]) == 0;
        text += &format!("\nvariant {}: {}", string(&variant["target"]), string(&variant["precision"]));
        let (shape, shapes) = (number(&variant["shape"]), number(&variant["shapes"]));
        if shapes > 1 {
            text += &format!(", shape {} of {shapes}", shape + 1);
        }
        if !host {
            text += &format!(
                ", sm_{} {} by NVRTC {}, driver interface {} or later",
                variant["architecture"],
                string(&variant["images"]),
                string(&variant["nvrtc"]),
                variant["driver"],
            );
        }
        let (arena, bound) = (number(&memory["arena"]), number(&variant["arena_lower_bound"]));
        text += &format!(
            "\n  memory: {} = weights {} + arena {} + bindings {}\n  arena: {arena} bytes, lower bound {bound} ({:.2}×)\n",
            output::bytes(number(&memory["total"])),
            output::bytes(number(&memory["weights"])),
            output::bytes(arena),
            output::bytes(number(&memory["bindings"])),
            arena as f64 / bound.max(1) as f64,
        );
        let session = &variant["session"];
        let place = if host {
            output::bytes(number(&session["host"])) + " of memory"
        } else {
            let [device, locked] = ["device", "page_locked"].map(|place| output::bytes(number(&session[place])));
            format!("{device} of device memory + {locked} page-locked")
        };
        text += &format!(
            "  session: {place} + object {}; at most {} of stack for INIT\n",
            output::bytes(number(&session["object"])),
            output::bytes(number(&session["stack"])),
        );
        let predicted = &variant["predicted"];
        if let Some(us) = predicted["us"].as_f64().filter(|_| number(&variant["candidates"]) == 0) {
            let [read, written] = ["dram_read", "dram_written"].map(|way| output::bytes(number(&predicted[way])));
            let [least, most] = prediction::SPREAD.map(|share| share * us);
            text += &format!(
                "  predicted: {us:.0} µs a replay, as measured slices go {least:.0} to {most:.0}; {read} from DRAM, {written} to it\n"
            );
        }
        for binding in items(&variant["bindings"]) {
            let shape: Vec<_> = items(&binding["shape"]).iter().map(Value::to_string).collect();
            text += &format!(
                "  {:6} {}: {} [{}]{}{}\n",
                string(&binding["direction"]),
                string(&binding["name"]),
                string(&binding["dtype"]),
                shape.join(", "),
                if string(&binding["content"]).is_empty() { "" } else { "  " },
                string(&binding["content"]),
            );
        }
        text += &format!(
            "  {:>4}  {:>9}  {:>9}  {:>9}  {:>8}           {}\n",
            "step",
            "bytes",
            if host { "" } else { "DRAM" },
            "MFLOP",
            if host { "" } else { "µs" },
            "kernel ← model nodes"
        );
        for step in items(&variant["steps"]) {
            let sources: Vec<_> = items(&step["sources"]).iter().map(string).collect();
            let expected = step["expected_us"].as_f64().unwrap_or_default();
            let configuration = string(&step["configuration"]);
            text += &format!(
                "  {:>4}  {:>9}  {:>9}  {:>9.2}  {:>8} {:8}  {} {}{}{} ← {}\n",
                step["step"],
                output::bytes(number(&step["bytes"])),
                match step["dram_read"].as_u64() {
                    Some(read) => output::bytes(read + number(&step["dram_written"])),
                    None => String::new(),
                },
                number(&step["flops"]) as f64 / 1e6,
                if host { String::new() } else { format!("{expected:.1}") },
                match (host, step["measured"].as_bool()) {
                    (true, _) => "",
                    (_, Some(true)) => "measured",
                    _ => "expected",
                },
                string(&step["family"]),
                string(&step["algorithm"]),
                if configuration.is_empty() { "" } else { " " },
                configuration,
                sources.join(", "),
            );
            for reason in items(&step["reasons"]) {
                text += &format!("{:62}{}\n", "", string(reason));
            }
            let runner_up = string(&step["runner_up"]);
            if !runner_up.is_empty() {
                let expected = step["runner_up_expected_us"].as_f64().unwrap_or_default();
                text += &format!("{:62}runner-up: {runner_up}, {expected:.1} µs\n", "");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_step_says_why_it_stores_f32_and_in_which_layout() {
        let step = serde_json::json!({"step": 0, "family": "reduce", "reasons": ["f32: a state", "channels last: an input lies so"]});
        let report = serde_json::json!({"variants": [{"architecture": 87, "steps": [step]}]});
        let text = super::text(&report);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert!(lines.ends_with(&["f32: a state", "channels last: an input lies so"]), "{text}");
    }
}
