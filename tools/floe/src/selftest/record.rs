//! The record of a self-test: a part of what `targets/verified` holds, in the same form.

pub use super::date::today;

use super::bundle::Manifest;
use crate::session::Place;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, fmt::Write as _};

/// What became of a kernel family's cases, or of the networks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Tally {
    /// Cases whose results are right.
    pub passed: usize,
    /// Largest error of those: relative L2 of half types and of networks, part of the bound of others.
    pub worst: f64,
    /// Seconds that the cases took, plans loaded and results compared.
    pub seconds: f64,
    /// Cases whose results are wrong, or that could not run; empty when all is well.
    pub failures: Vec<String>,
}

/// The device in the words of a record.
pub fn device(place: &Place) -> Map<String, Value> {
    let module = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    let board = std::fs::read_to_string("/proc/device-tree/model").unwrap_or_default();
    let fields = match place.device().map(|device| device.info()) {
        Some(info) => json!({
            "gpu": info.name,
            "architecture": info.architecture,
            "multiprocessors": info.multiprocessors,
            "driver": info.driver,
            "module": module.lines().next().unwrap_or_default().trim(),
            "board": board.trim_end_matches('\0'),
        }),
        None => json!({"gpu": place.describe()}),
    };
    fields.as_object().cloned().unwrap_or_default()
}

/// The record of a bundle's run; `digest` is the bundle's SHA-256.
pub fn of(
    manifest: &Manifest,
    digest: &str,
    device: Map<String, Value>,
    seconds: f64,
    tallies: &BTreeMap<String, Tally>,
) -> Value {
    let mut run = device;
    let bundle = json!({
        "sha256": digest, "made_by": manifest.made_by, "cases": manifest.cases.len(), "whole": manifest.whole,
    });
    let fields = [
        ("date", json!(today())),
        ("commit", json!(manifest.commit)),
        ("sources", json!(manifest.sources)),
        ("bundle", bundle),
        ("program", json!(concat!("floe ", env!("CARGO_PKG_VERSION")))),
        ("seconds", json!(seconds)),
    ];
    run.extend(fields.map(|(key, value)| (key.to_owned(), value)));
    json!({"run": run, "selftest": {&manifest.target: tallies}})
}

/// A record as text: on one line what holds something else than objects, so that a section takes a line. Fractions have seven
/// significant digits.
pub fn text(record: &Value) -> String {
    let mut text = String::new();
    print(record, 0, &mut text);
    text + "\n"
}

fn print(value: &Value, depth: usize, text: &mut String) {
    let folder = |value: &Value| value.as_object().is_some_and(|o| !o.is_empty() && o.values().all(Value::is_object));
    match value {
        Value::Object(object) if folder(value) => {
            *text += "{\n";
            for (index, (key, value)) in object.iter().enumerate() {
                let comma = if index + 1 == object.len() { "" } else { "," };
                // Writing into a string cannot fail.
                let _ = write!(text, "{}{}: ", "  ".repeat(depth + 1), json!(key));
                print(value, depth + 1, text);
                *text += comma;
                *text += "\n";
            }
            let _ = write!(text, "{}}}", "  ".repeat(depth));
        }
        _ => *text += &rounded(value).to_string(),
    }
}

/// A value whose fractions have seven significant digits.
fn rounded(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let short = number.as_f64().and_then(|x| format!("{x:.6e}").parse::<f64>().ok());
            short.map_or_else(|| value.clone(), |short| json!(short))
        }
        Value::Array(values) => values.iter().map(rounded).collect(),
        Value::Object(object) => object.iter().map(|(key, value)| (key.clone(), rounded(value))).collect(),
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_takes_one_line() {
        let text = text(&json!({"run": {"gpu": "a GPU"}, "networks": {"a": {"cosine": 1.0 / 3.0, "n": 3}}}));
        let network = "    \"a\": {\"cosine\":0.3333333,\"n\":3}\n";
        assert!(text.contains(network) && text.lines().count() == 6, "{text}");
    }
}
