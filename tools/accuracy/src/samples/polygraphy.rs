//! Polygraphy's JSON: inputs that it saved (a list of tensors by name), and results (the outputs of each iteration of each
//! runner). Arrays are `.npy` files in base64.

use anyhow::{Context, Result, bail};
use floe::{npy::Array, npz::OwnedArray};
use serde_json::Value;
use std::path::Path;

/// The arrays of each sample; of several runners those of the first.
pub fn read(file: &Path, names: &[&str]) -> Result<Vec<Vec<(String, OwnedArray)>>> {
    let json: Value = serde_json::from_slice(&std::fs::read(file)?).context("it is no JSON")?;
    // Results are pairs of a runner and its iterations.
    let found = match json.get("lst").and_then(Value::as_array) {
        Some(runners) => runners.first().and_then(|runner| runner.get(1)).unwrap_or(&Value::Null),
        None => &json,
    };
    let mut samples = Vec::new();
    gather(found, names, &mut samples)?;
    if samples.is_empty() {
        bail!(
            "it holds no arrays for {}, as Polygraphy's --save-inputs and --save-outputs write them",
            names.join(", ")
        );
    }
    Ok(samples)
}

/// Adds every object that has arrays under some of the names.
fn gather(value: &Value, names: &[&str], samples: &mut Vec<Vec<(String, OwnedArray)>>) -> Result<()> {
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| gather(item, names, samples)),
        Value::Object(object) => {
            let named = names.iter().filter_map(|&name| Some((name, encoded(object.get(name)?)?)));
            let mut sample = Vec::new();
            for (name, text) in named {
                let file = base64(text).with_context(|| format!("'{name}' is no base64"))?;
                let Array { dtype, shape, bytes } = Array::parse(&file).with_context(|| format!("'{name}'"))?;
                sample.push((name.to_owned(), OwnedArray { dtype, shape, bytes: bytes.to_vec() }));
            }
            if sample.is_empty() {
                return object.values().try_for_each(|value| gather(value, names, samples));
            }
            samples.push(sample);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The text of an array, which may be wrapped.
fn encoded(value: &Value) -> Option<&str> {
    match value.get("array") {
        Some(Value::String(text)) => Some(text),
        _ => encoded(value.get("values")?),
    }
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for c in text.trim_end_matches('=').bytes() {
        let six = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `numpy.save` of `numpy.array([[1, -2]], 'int16')` in base64, as Polygraphy has it.
    const ARRAY: &str = "k05VTVBZAQB2AHsnZGVzY3InOiAnPGkyJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDEsIDIpLCB9ICAg\
                         ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoBAP7/";

    fn samples(json: &str) -> Result<Vec<Vec<(String, OwnedArray)>>> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.json");
        std::fs::write(&file, json).unwrap();
        read(&file, &["x"])
    }

    #[test]
    fn inputs_and_results_are_read() {
        let array = format!(r#"{{"array": "{ARRAY}", "polygraphy_class": "ndarray"}}"#);
        let inputs = samples(&format!(r#"[{{"x": {array}, "other": 3}}, {{"x": {array}}}]"#)).unwrap();
        assert_eq!((inputs.len(), inputs[0][0].1.shape.as_slice()), (2, &[1, 2][..]));
        assert_eq!(inputs[1][0].1.bytes, [1, 0, 0xfe, 0xff]);
        let result = format!(r#"{{"outputs": {{"x": {{"values": {array}}}}}, "runtime": 1.0}}"#);
        let results = format!(r#"{{"lst": [["first", [{result}]], ["second", [{result}, {result}]]]}}"#);
        assert_eq!(samples(&results).unwrap().len(), 1);
    }

    #[test]
    fn other_json_is_refused() {
        for (text, word) in [("{", "no JSON"), ("{}", "--save-inputs"), (r#"{"x": {"array": "*"}}"#, "no base64")] {
            let said = samples(text).unwrap_err().to_string();
            assert!(said.contains(word), "{said}");
        }
        assert!(samples(r#"{"x": {"array": "AAAA"}}"#).is_err());
    }
}
