//! Calibration tables of other programs: between which ends values lie, by name.
//!
//! | file | written by | holds of each value |
//! |---|---|---|
//! | `calibration.json` | `write_calibration_table` and `save_tensors_data` of `onnxruntime.quantization` | both ends; older versions write them as a pair |
//! | `*.cache` | TensorRT's calibrators, for `trtexec --calib` | after a line `TRT-<version>-<algorithm>`, its largest size divided by 127: the hexadecimal digits of an f32 ("Calibration file" in NVIDIA's README of sampleINT8) |
//!
//! ONNX Runtime also writes `calibration.cache` and `calibration.flatbuffers`. They hold one end alone, the larger, which cuts off
//! what is further from 0 on the other side, and are refused.

use crate::{Error, calibrate::Observations, observe::Histogram};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, fs, path::Path};

/// The first word of a table of TensorRT.
const TENSORRT: &str = "TRT-";
const WANTED: &str = "it is no calibration table with whole ranges; give the calibration.json that ONNX Runtime writes, or a table \
                      of TensorRT, which begins with 'TRT-'";

/// Least and largest values, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    ranges: BTreeMap<String, (f32, f32)>,
}

impl Table {
    /// Reads a table.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or is none of the tables above.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes = fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        Self::parse(&bytes).map_err(|reason| Error::Table(format!("'{}': {reason}", path.display())))
    }

    /// The table in a file's bytes.
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| WANTED)?;
        let ranges = match text.strip_prefix(TENSORRT) {
            Some(text) => tensorrt(text)?,
            None if text.trim_start().starts_with('{') => {
                let all: Map<String, Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
                onnx_runtime(&all)?
            }
            None => return Err(WANTED.into()),
        };
        Ok(Self { ranges })
    }

    /// The table as if the ends of each range had been seen.
    pub fn observations(&self) -> Observations {
        let histogram = |&(low, high): &(f32, f32)| {
            let mut histogram = Histogram::default();
            histogram.add(&[low, high]);
            histogram
        };
        let histograms = self.ranges.iter().map(|(name, range)| (name.clone(), histogram(range))).collect();
        Observations { histograms, ..Observations::default() }
    }
}

type Ranges = BTreeMap<String, (f32, f32)>;

/// The lines behind the word that a table of TensorRT begins with.
fn tensorrt(text: &str) -> Result<Ranges, String> {
    let line = |(number, line): (usize, &str)| {
        let wrong = || format!("line {}: '{line}' is not a name, a colon and eight hexadecimal digits", number + 1);
        let (name, digits) = line.rsplit_once(": ").ok_or_else(wrong)?;
        let bits = u32::from_str_radix(digits.trim(), 16).map_err(|_| wrong())?;
        let largest = f32::from_bits(bits).abs() * 127.0;
        Ok((name.to_owned(), (-largest, largest)))
    };
    text.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty()).map(line).collect()
}

/// `TensorsData`, or what lies in it: an object of `TensorData`, or of pairs.
fn onnx_runtime(all: &Map<String, Value>) -> Result<Ranges, String> {
    let values = match all.get("data") {
        Some(Value::Object(data)) if all.contains_key("calibration_method") => data,
        _ => all,
    };
    let range = |(name, value): (&String, &Value)| {
        let (low, high) = match value {
            Value::Array(pair) => (pair.first(), pair.get(1)),
            value => (value.get("lowest"), value.get("highest")),
        };
        let ends = low.and_then(|low| end(low, f32::min)).zip(high.and_then(|high| end(high, f32::max)));
        match ends {
            Some((low, high)) if low <= high => Ok((name.clone(), (low, high))),
            Some((low, high)) => Err(format!("the range of '{name}' is empty: from {low} to {high}")),
            None => Err(format!("'{name}' has no numbers 'lowest' and 'highest'")),
        }
    };
    values.iter().map(range).collect()
}

/// A number, an array of NumPy as ONNX Runtime writes it, or the outermost of the numbers of all channels.
fn end(value: &Value, outermost: fn(f32, f32) -> f32) -> Option<f32> {
    match value {
        Value::Number(number) => number.as_f64().map(|number| number as f32),
        Value::Array(values) => {
            let ends: Option<Vec<f32>> = values.iter().map(|value| end(value, outermost)).collect();
            ends?.into_iter().reduce(outermost)
        }
        Value::Object(array) => end(array.get("data")?, outermost),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(text: &str) -> Vec<(String, (f32, f32))> {
        Table::parse(text.as_bytes()).unwrap().ranges.into_iter().collect()
    }

    fn one(name: &str, low: f32, high: f32) -> Vec<(String, (f32, f32))> {
        vec![(name.to_owned(), (low, high))]
    }

    #[test]
    fn every_form_of_onnx_runtime_is_read() {
        let array = |data: &str| format!(r#"{{"data": {data}, "dtype": "float32", "CLS": "numpy.array"}}"#);
        let of = |low: &str, high: &str| format!(r#"{{"lowest": {low}, "highest": {high}, "CLS": "TensorData"}}"#);
        let whole = format!(
            r#"{{"CLS": "TensorsData", "data": {{"x": {}}},
                "calibration_method": {{"CLS": "CalibrationMethod", "value": "CalibrationMethod.MinMax"}}}}"#,
            of(&array("-1.5"), &array("[2.5]"))
        );
        assert_eq!(ranges(&whole), one("x", -1.5, 2.5));
        assert_eq!(ranges(&format!(r#"{{"data": {}}}"#, of("-1.5", "2.5"))), one("data", -1.5, 2.5));
        assert_eq!(ranges(r#"{"x": [-1.5, 2.5]}"#), one("x", -1.5, 2.5));
        let channels = of(&array("[[-1.0], [-3.0]]"), &array("[[2.0], [1.0]]"));
        assert_eq!(ranges(&format!(r#"{{"x": {channels}}}"#)), one("x", -3.0, 2.0));
    }

    /// The first lines of the example in NVIDIA's README of sampleINT8.
    #[test]
    fn scales_of_tensorrt_are_those_of_the_largest_size() {
        let found =
            ranges("TRT-7000-EntropyCalibration2\ndata: 3c008912\n(Unnamed Layer* 1) [Scale]_output: 3c88edfc\n\n");
        let [(scale, (low, high)), (data, range)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((scale.as_str(), data.as_str()), ("(Unnamed Layer* 1) [Scale]_output", "data"));
        // 0x3c008912 is 0.0078451801.
        assert!((range.1 - 0.007_845_18 * 127.0).abs() < 1e-6 && range.0 == -range.1, "{range:?}");
        assert!((high - 0.016_715_04 * 127.0).abs() < 1e-4 && low == &-high, "{high}");
    }

    #[test]
    fn what_is_no_table_is_told() {
        for (text, word) in [
            ("x 2.5\ny 3.0\n", "give the calibration.json"),
            ("", "give the calibration.json"),
            ("{", "EOF"),
            (r#"{"x": {"lowest": 1}}"#, "'x' has no numbers 'lowest' and 'highest'"),
            (r#"{"x": [1]}"#, "'x' has no numbers"),
            (r#"{"x": [2, 1]}"#, "the range of 'x' is empty: from 2 to 1"),
            ("TRT-8601-MinMaxCalibration\nx: 3c0089zz", "line 2: 'x: 3c0089zz'"),
            ("TRT-8601-MinMaxCalibration\nx", "line 2: 'x'"),
        ] {
            let said = Table::parse(text.as_bytes()).unwrap_err();
            assert!(said.contains(word), "{text}: {said}");
        }
        assert!(Table::parse(b"\x10\0\0\0\xff\xfe").unwrap_err().contains("give the calibration.json"));
    }
}
