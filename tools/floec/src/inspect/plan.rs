//! What `floec inspect` knows of a plan, as data for text, JSON and HTML.

use super::{prediction, values};
use floe_compiler::targets;
use floe_engine::{
    cuda::InitOptions,
    plan::{
        Plan, Variant,
        format::{Action, Direction, Region},
    },
};
use floe_kernels::codegen::{Rate, Target};
use serde_json::{Value, json};

/// Everything of a plan that a person or a script may want to know.
pub fn report(plan: &Plan<'_>) -> Value {
    json!({
        "model": plan.model(),
        "version": plan.version(),
        "compiler": plan.compiler(),
        "bytes": plan.file_bytes(),
        "digest": plan.digest().iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
        "signed": plan.is_signed(),
        "variants": plan.variants().map(|variant| self::variant(&variant)).collect::<Vec<_>>(),
    })
}

fn variant(variant: &Variant<'_>) -> Value {
    let header = variant.header();
    let memory = variant.memory();
    let requirements = variant.requirements(InitOptions::default());
    let shape = variant.shapes().position(|shape| shape.number() == variant.number());
    let bindings = variant.bindings().map(|binding| {
        json!({
            "name": binding.name,
            "direction": match binding.direction {
                Direction::Input => "input",
                Direction::Output => "output",
                Direction::State => "state",
            },
            "dtype": binding.dtype.name(),
            "shape": binding.shape.as_slice(),
            "content": binding.content,
        })
    });
    let kernels: Vec<_> = variant.kernels().collect();
    let mut notes = variant.notes();
    // The host's caches and memory are unknown, and so is a target that another compiler described.
    let target = targets::find(header.target).ok().filter(|_| !variant.is_host());
    let predicted = target.map_or_else(Vec::new, |target| prediction::steps(variant, target));
    let steps = variant.steps().enumerate().map(|(number, step)| {
        let note = notes.next();
        let mut value = json!({
            "step": number,
            "after": step.after.as_slice(),
            "operands": step.operands.iter().map(|operand| {
                json!({"region": region(operand.region), "offset": operand.offset, "bytes": operand.bytes, "written": operand.written})
            }).collect::<Vec<_>>(),
        });
        match &step.action {
            Action::Host(kernel) => value["kernel"] = json!(kernel.family().name()),
            Action::Launch { kernel, grid, block, shared } => {
                value["kernel"] = json!(kernels.get(*kernel as usize).map_or("", |entry| entry.name));
                value["grid"] = json!(grid);
                value["block"] = json!(block);
                value["shared"] = json!(shared);
            }
        }
        if let Some(note) = note {
            value["sources"] = json!(note.sources.split(',').filter(|name| !name.is_empty()).collect::<Vec<_>>());
            value["reasons"] = json!(note.reasons.split("; ").filter(|reason| !reason.is_empty()).collect::<Vec<_>>());
            value["family"] = json!(note.family);
            value["algorithm"] = json!(note.algorithm);
            value["configuration"] = json!(note.configuration);
            value["bytes"] = json!(note.bytes);
            value["flops"] = json!(note.flops);
            value["expected_us"] = json!(note.expected);
            value["measured"] = json!(note.measured);
            value["runner_up"] = json!(note.runner_up);
            value["runner_up_expected_us"] = json!(note.runner_up_expected);
            value["floor_us"] = json!(note.floor);
        }
        if let Some(step) = predicted.get(number) {
            value["dram_read"] = json!(step.read);
            value["dram_written"] = json!(step.written);
            value["predicted_us"] = json!(step.time);
        }
        value
    });
    json!({
        "target": header.target,
        "shape": shape,
        "shapes": variant.shapes().len(),
        "architecture": header.architecture,
        "images": format!("{:?}", header.image_kind).to_lowercase(),
        "driver": header.driver,
        "nvrtc": header.nvrtc,
        "precision": header.precision,
        "memory": {
            "weights": memory.weights, "arena": memory.arena, "bindings": memory.bindings, "total": memory.total,
        },
        "session": {
            "object": requirements.object, "host": requirements.host, "device": requirements.device,
            "page_locked": requirements.page_locked, "stack": requirements.stack,
        },
        "arena_lower_bound": header.arena_lower_bound,
        "image_bytes": variant.images_bytes(),
        "candidates": header.candidates,
        "predicted": (!predicted.is_empty()).then(|| json!({
            "us": predicted.iter().map(|step| step.time).sum::<f64>(),
            "dram_read": predicted.iter().map(|step| step.read).sum::<u64>(),
            "dram_written": predicted.iter().map(|step| step.written).sum::<u64>(),
        })),
        "ceilings": target.map(ceilings),
        "bindings": bindings.collect::<Vec<_>>(),
        "steps": steps.collect::<Vec<_>>(),
        "values": values::of(variant).iter().map(|value| json!({
            "region": region(value.region),
            "offset": value.bytes.start,
            "bytes": value.bytes.end - value.bytes.start,
            "writer": value.writer,
            "readers": value.readers,
        })).collect::<Vec<_>>(),
    })
}

fn region(region: Region) -> String {
    match region {
        Region::Weights => "weights".to_owned(),
        Region::Arena => "arena".to_owned(),
        Region::Binding(binding) => format!("binding {binding}"),
        Region::Counter => "counter".to_owned(),
        Region::Report => "report".to_owned(),
    }
}

/// What a GPU can do at most: GB/s of its memory, and operations per microsecond by kind of arithmetic.
pub fn ceilings(target: &Target) -> Value {
    json!({
        "bandwidth": target.bandwidth,
        "rates": [
            {"name": "int8", "rate": target.peak(Rate::Int8)},
            {"name": "f16", "rate": target.peak(Rate::F16)},
            {"name": "f32", "rate": target.peak(Rate::F32)},
        ],
    })
}
