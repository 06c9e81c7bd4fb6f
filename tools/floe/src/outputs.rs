//! A session's outputs: reading them, a table about them, and files of them.

use crate::{
    inputs::length,
    npy::Array,
    session::Session,
    tensor::{Summary, largest, numbers},
    usage::{keep_inputs, written},
};
use anyhow::Result;
use floe_engine::plan::format::{Binding, Direction};
use floe_files::OutputFile;
use std::{
    collections::HashSet,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// One output after a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Output<'p> {
    /// What it is.
    pub binding: Binding<'p>,
    /// Its contents.
    pub bytes: Vec<u8>,
}

/// Reads every output, then every state.
///
/// # Errors
/// What the engine says.
pub fn read<'p>(session: &mut Session<'p, '_>) -> Result<Vec<Output<'p>>> {
    read_those(session, |_| true)
}

/// As [`read`], of the outputs and states whose names are `wanted`.
///
/// # Errors
/// What the engine says.
pub fn read_those<'p>(session: &mut Session<'p, '_>, wanted: impl Fn(&str) -> bool) -> Result<Vec<Output<'p>>> {
    let mut bindings = session.bindings(Direction::Output);
    bindings.extend(session.bindings(Direction::State));
    bindings.retain(|(_, binding)| wanted(binding.name));
    let read = |(number, binding): (usize, Binding<'p>)| {
        let mut bytes = vec![0; length(&binding)?];
        session.read(number, &mut bytes)?;
        Ok(Output { binding, bytes })
    };
    bindings.into_iter().map(read).collect()
}

/// Writes every output to `DIR/NAME.npy`: all of them beside their places first, then renamed, so that a failure leaves
/// nothing behind.
///
/// # Errors
/// Those of the file system, naming the file, and an error if it is one of those that are read.
pub fn save(outputs: &[Output<'_>], folder: &Path, reads: &[&Path]) -> Result<Vec<PathBuf>> {
    written(format_args!("output folder {}", folder.display()), fs::create_dir_all(folder))?;
    let mut taken = HashSet::new();
    let mut files = Vec::new();
    for output in outputs {
        let path = folder.join(format!("{}.npy", file_name(output.binding.name, &mut taken)));
        keep_inputs(&path, reads.iter().copied())?;
        let write = || -> io::Result<OutputFile> {
            let mut file = OutputFile::create(&path)?;
            let shape = output.binding.shape.iter().map(|&extent| u64::from(extent)).collect();
            Array { dtype: output.binding.dtype, shape, bytes: &output.bytes }
                .write(io::BufWriter::new(file.as_file_mut()))?;
            Ok(file)
        };
        files.push(written(path.display(), write())?);
    }
    let mut paths = Vec::new();
    for file in files {
        let path = file.path().to_owned();
        written(path.display(), file.commit())?;
        paths.push(path);
    }
    Ok(paths)
}

/// A file name from a tensor's name: letters, digits, `.`, `_` and `-` stay, no leading dot, not too long, none twice.
fn file_name(name: &str, taken: &mut HashSet<String>) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' };
    let mut base: String = name.chars().take(200).map(keep).collect();
    if base.is_empty() || base.starts_with('.') {
        base.insert(0, '_');
    }
    let mut result = base.clone();
    let mut number = 2;
    while !taken.insert(result.clone()) {
        result = format!("{base}_{number}");
        number += 1;
    }
    result
}

/// Prints a line about each output, and the five largest elements of those that are vectors.
///
/// # Errors
/// Those of the writer.
pub fn print(outputs: &[Output<'_>], mut writer: impl Write) -> io::Result<()> {
    let header = ["output", "type", "shape", "min", "max", "mean"].map(str::to_owned);
    let mut rows = vec![header];
    let mut vectors = Vec::new();
    for output in outputs {
        let elements = numbers(output.binding.dtype, &output.bytes);
        let summary = Summary::of(&elements);
        let shape: Vec<String> = output.binding.shape.iter().map(u32::to_string).collect();
        let not_finite = match summary.not_finite {
            0 => String::new(),
            count => format!(" ({count} not finite)"),
        };
        let state = if output.binding.direction == Direction::State { " (state)" } else { "" };
        rows.push([
            format!("{}{state}", output.binding.name),
            output.binding.dtype.name().to_owned(),
            if shape.is_empty() { "scalar".to_owned() } else { shape.join("x") },
            short(summary.min),
            short(summary.max),
            short(summary.mean) + &not_finite,
        ]);
        let longest = output.binding.shape.iter().copied().max().unwrap_or(1) as usize;
        if elements.len() > 1 && longest == elements.len() {
            let top = largest(&elements, 5);
            let top: Vec<String> = top.iter().map(|&place| format!("{place}: {}", short(elements[place]))).collect();
            vectors.push(format!("top of {}: {}", output.binding.name, top.join(", ")));
        }
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..6).map(width).collect();
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(
                |(column, (cell, &width))| {
                    if column < 3 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                },
            )
            .collect();
        writeln!(writer, "{}", cells.join("  ").trim_end())?;
    }
    vectors.iter().try_for_each(|line| writeln!(writer, "{line}"))
}

/// Six significant digits.
fn short(number: f64) -> String {
    match number {
        0.0 => "0".to_owned(),
        n if !n.is_finite() => n.to_string(),
        n if (1e-4..1e7).contains(&n.abs()) => {
            let decimals = (5 - n.abs().log10().floor() as i32).clamp(0, 9) as usize;
            let text = format!("{n:.decimals$}");
            if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
        }
        n => format!("{n:.4e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floe_kernels::{DType, Dims};

    fn output(name: &str, shape: &[u32], values: &[f32]) -> Output<'static> {
        let name = Box::leak(name.to_owned().into_boxed_str());
        let shape = Dims::from_slice(shape).unwrap();
        let binding = Binding { name, direction: Direction::Output, dtype: DType::F32, shape, content: "" };
        Output { binding, bytes: values.iter().flat_map(|value| value.to_le_bytes()).collect() }
    }

    #[test]
    fn names_become_harmless_and_stay_distinct() {
        let mut taken = HashSet::new();
        let names = ["a/b", "a:b", "../../etc/passwd", "", "a_b_2"].map(|name| file_name(name, &mut taken));
        assert_eq!(names, ["a_b", "a_b_2", "_.._.._etc_passwd", "_", "a_b_2_2"]);
    }

    #[test]
    fn a_failure_leaves_no_file_behind() {
        let folder = tempfile::tempdir().unwrap();
        // The second output's place is taken by a folder, which a rename cannot replace; the folder itself is not ours.
        fs::create_dir(folder.path().join("b.npy")).unwrap();
        assert!(save(&[output("b", &[1], &[1.0])], folder.path(), &[]).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let paths = save(&[output("c", &[1], &[1.0])], &folder.path().join("new/sub"), &[]).unwrap();
        assert!(paths[0].ends_with("new/sub/c.npy") && paths[0].is_file());
    }

    #[test]
    fn the_table_names_types_shapes_and_the_largest() {
        let mut text = Vec::new();
        print(&[output("scores", &[1, 3], &[0.25, f32::NAN, 2.0]), output("map", &[2, 2], &[0.0; 4])], &mut text)
            .unwrap();
        let text = String::from_utf8(text).unwrap();
        let expected = "output  type  shape   min  max                  mean\n\
                        scores  f32   1x3    0.25    2  1.125 (1 not finite)\n\
                        map     f32   2x2       0    0                     0\n\
                        top of scores: 2: 2, 0: 0.25, 1: NaN\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 1.0, -0.123_456_789, 123_456.7, 1e9, 1e-9].map(short);
        assert_eq!(texts, ["0", "1", "-0.123457", "123457", "1.0000e9", "1.0000e-9"]);
    }
}
