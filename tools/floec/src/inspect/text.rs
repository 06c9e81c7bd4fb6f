//! What `floec inspect` prints of a plan.

use super::prediction;
use crate::output;
use serde_json::Value;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn string(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The report of [`super::plan::report`] as text.
pub fn plan(report: &Value) -> String {
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
        let text = super::plan(&report);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert!(lines.ends_with(&["f32: a state", "channels last: an input lies so"]), "{text}");
    }
}
