//! What was quantised, why not the rest, and what it cost: as JSON, and as text made of that.

use crate::{
    Options, Quantized,
    layers::{self, Left},
    packed::WeightOnly,
    params::Activations,
};
use floe_models::DType;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Of a model in 8 bits.
pub fn eight_bits(result: &Quantized, options: &Options) -> Value {
    let layers = result.layers.iter().map(|layer| {
        let report = result.reports.get(&layer.name).cloned().unwrap_or_default();
        let choice = result.values.get(&layer.input);
        json!({
            "node": layer.name,
            "operator": layer.operator(),
            "operations": layer.operations,
            "error": report.error.map(f64::sqrt),
            "error_of_outputs_alone": report.alone,
            "expected_us": report.expected.map(|[f16, bits]| json!({"f16": f16, "8_bits": bits})),
            "input": {
                "value": layer.input,
                "parameters": choice.map(|choice| choice.params.json()),
                "method": choice.map(|choice| choice.method.to_string()),
                "error_min_max": choice.and_then(|choice| choice.errors).map(|[first, _]| first.sqrt()),
                "error": choice.and_then(|choice| choice.errors).map(|[_, best]| best.sqrt()),
            },
        })
    });
    let layered: u64 = result.layers.iter().map(|layer| layer.operations).sum();
    let all = layered + result.left.iter().map(|left| left.operations).sum::<u64>();
    let multiplied = result.left.iter().filter(|left| left.reason == layers::BOTH_FLOAT8);
    let operations = layered + multiplied.map(|left| left.operations).sum::<u64>();
    let stages = result.stages.iter().map(|stage| {
        let mut value = stage.distance.json();
        value["method"] = json!(stage.name);
        value["kept"] = json!(stage.kept);
        value["corrected"] = json!(stage.corrected.map(|corrected| corrected.json()));
        value
    });
    let smoothed = result.smoothed.iter().map(|smoothed| {
        json!({
            "value": smoothed.value, "into": smoothed.into, "multiplication": smoothed.added,
            "error_before": smoothed.errors[0].sqrt(), "error_after": smoothed.errors[1].sqrt(),
        })
    });
    let affine = result.values.values().any(|choice| choice.params.dtype == DType::U8 || choice.params.zero != 0);
    let float8 = options.activations == Activations::Float8;
    json!({
        "kind": "8 bits",
        "format": if float8 { "fp8" } else { "int8" },
        "samples": result.samples,
        "resumed_records": result.resumed,
        "layers": layers.collect::<Vec<_>>(),
        "left": left(&result.left),
        "operations": {"8_bits": operations, "all": all},
        "folded": result.folded,
        "evened_out": smoothed.collect::<Vec<_>>(),
        "stages": stages.collect::<Vec<_>>(),
        "distance": result.distance.map(|distance| distance.json()),
        "budget": options.budget.map(|budget| budget.to_string()),
        "within_budget": result.within_budget,
        "target": options.target.as_ref().map(|target| target.name.clone()),
        "expected_us": result.expected.map(|[f16, bits]| json!({"f16": f16, "quantised": bits})),
        "fits_tensorrt":
            (!float8).then_some(options.activations == Activations::Symmetric && !affine && options.float_bias),
    })
}

/// Of a model with packed weights.
pub fn packed(result: &WeightOnly) -> Value {
    let layers = result.packed.iter().map(|packed| {
        json!({
            "node": packed.name, "error_nearest": packed.errors[0].sqrt(), "error": packed.errors[1].sqrt(),
            "bytes_before": packed.bytes[0], "bytes": packed.bytes[1],
        })
    });
    json!({"kind": "weights", "layers": layers.collect::<Vec<_>>(), "left": left(&result.left)})
}

fn left(left: &[Left]) -> Value {
    let one = |left: &Left| json!({"node": left.name, "operator": left.operator, "reason": left.reason, "operations": left.operations});
    left.iter().map(one).collect()
}

/// For people.
pub fn text(report: &Value) -> String {
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let layers = report["layers"].as_array().map_or(&[][..], Vec::as_slice);
    let mut text = String::new();
    if report["kind"] == "weights" {
        text += &format!("  {} matrix products with packed weights\n", layers.len());
        for layer in layers {
            text += &format!(
                "    {}: relative error {:.4} with each weight rounded by itself, {:.4} with compensation\n",
                layer["node"].as_str().unwrap_or_default(),
                number(&layer["error_nearest"]),
                number(&layer["error"]),
            );
        }
    } else {
        let operations = &report["operations"];
        let share = number(&operations["8_bits"]) / number(&operations["all"]).max(1.0);
        text += &format!(
            "  {} products in 8 bits, {:.1} % of the multiply-adds; {}\n",
            layers.len(),
            share * 100.0,
            match report["samples"].as_u64() {
                Some(0) => "ranges of the table, whose effect is not measured".to_owned(),
                _ => format!("{} samples", report["samples"]),
            },
        );
        for stage in report["stages"].as_array().into_iter().flatten() {
            let corrected = match stage["corrected"]["scores"].as_f64() {
                Some(corrected) => format!("; biases corrected {corrected:.5}"),
                None => String::new(),
            };
            text += &format!(
                "  {:24} relative error {:.5}{corrected}{}\n",
                stage["method"].as_str().unwrap_or_default(),
                number(&stage["scores"]),
                if stage["kept"] == true { "" } else { " (not kept)" },
            );
        }
        let distance = &report["distance"];
        if distance.is_object() {
            text += &format!(
                "  result: relative error {:.5}, cosine {:.6}, top-1 {:.4}\n",
                number(&distance["relative"]),
                number(&distance["cosine"]),
                number(&distance["top1"]),
            );
        }
        let smoothed = report["evened_out"].as_array().map_or(&[][..], Vec::as_slice);
        if !smoothed.is_empty() {
            let added = smoothed.iter().filter(|one| one["multiplication"] == true).count();
            text +=
                &format!("  channels evened out in {} values, {added} of them by a multiplication\n", smoothed.len());
        }
        if let (Some(f16), Some(bits)) =
            (report["expected_us"]["f16"].as_f64(), report["expected_us"]["quantised"].as_f64())
        {
            let target = report["target"].as_str().unwrap_or_default();
            text += &format!(
                "  expected on {target}: {f16:.0} µs in f16, {bits:.0} µs quantised ({:.2} times as fast)\n",
                f16 / bits
            );
        }
        if let (Some(budget), Some(holds)) = (report["budget"].as_str(), report["within_budget"].as_bool()) {
            text += &format!("  budget '{budget}': {}\n", if holds { "holds" } else { "does not hold" });
        }
        if report["fits_tensorrt"] == false {
            text += "  some values have zero points, which TensorRT does not take; --symmetric avoids them\n";
        }
    }
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for left in report["left"].as_array().into_iter().flatten() {
        let reason = left["reason"].as_str().unwrap_or_default();
        reasons.entry(reason).or_default().push(left["node"].as_str().unwrap_or_default());
    }
    for (reason, nodes) in reasons {
        const SHOWN: usize = 6;
        let more = if nodes.len() > SHOWN { format!(" and {} more", nodes.len() - SHOWN) } else { String::new() };
        text += &format!("  not: {reason}: {}{more}\n", nodes[..nodes.len().min(SHOWN)].join(", "));
    }
    text
}
