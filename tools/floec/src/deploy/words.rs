//! The command line of `floe` that runs on the device: files it reads are copied there first, files it writes come back.

use crate::output::keep_inputs;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// A folder on the device, in the deployment's, for what a run reads.
const READ: &str = "inputs";
/// The same for what a run writes; emptied before each.
pub const WRITTEN: &str = "results";

/// Options of `floe` that name something it reads.
const READS: [&str; 5] = ["--input", "--compare", "--labels", "--public-key", "--timings"];
/// Options of `floe` that name something it writes.
const WRITES: [&str; 5] = ["--json", "--output-dir", "--draw", "--output", "-o"];

/// A file that the run reads.
#[derive(Debug, PartialEq)]
pub struct Read {
    /// Where it is here.
    pub local: PathBuf,
    /// Where it goes, below the deployment's folder.
    pub remote: String,
}

/// A file or a folder that the run writes.
#[derive(Debug, PartialEq)]
pub struct Written {
    /// Where it will be on the device, below the deployment's folder.
    pub remote: String,
    /// Where it comes to here.
    pub local: PathBuf,
}

/// A command line for the device.
#[derive(Debug, Default)]
pub struct Words {
    /// What `floe` is called with, the plan included.
    pub words: Vec<String>,
    /// Files to copy before.
    pub reads: Vec<Read>,
    /// Files to fetch after.
    pub writes: Vec<Written>,
}

impl Words {
    /// Puts the plan behind the command and replaces files of this machine by those that stand for them on the device.
    ///
    /// # Errors
    /// Returns an error if the command is not one of `floe` that takes a plan, or an option lacks its value.
    pub fn new(given: &[String], plan: &str) -> Result<Self> {
        let mut given = given.iter();
        let Some(command) = given.next() else { return Ok(Self::default()) };
        if !["run", "bench", "profile", "measure"].contains(&command.as_str()) {
            bail!(
                "'{command}' is no command of floe that takes a plan: write -- run, bench, profile or measure, and its options"
            );
        }
        let mut words = Self { words: vec![command.clone(), format!("./{plan}")], ..Self::default() };
        while let Some(word) = given.next() {
            let (option, value) = match word.split_once('=') {
                Some((option, value)) if option.starts_with("--") => (option, Some(value.to_owned())),
                _ => (word.as_str(), None),
            };
            if !READS.contains(&option) && !WRITES.contains(&option) {
                words.words.push(word.clone());
                continue;
            }
            let Some(value) = value.or_else(|| given.next().cloned()) else { bail!("{option} needs a value") };
            // Standard output needs no file.
            if value == "-" {
                words.words.extend([option.to_owned(), value]);
                continue;
            }
            let value = if READS.contains(&option) { words.read(&value) } else { words.write(&value) };
            words.words.extend([option.to_owned(), value]);
        }
        let reads = || words.reads.iter().map(|read| read.local.as_path());
        if let Some(folder) = reads().find(|file| file.is_dir()) {
            bail!("'{}' is a folder, and only files travel: give one picture or a video", folder.display());
        }
        for written in &words.writes {
            keep_inputs(&written.local, reads())?;
        }
        Ok(words)
    }

    /// Where what `floe` writes as JSON comes to here; asks for it, at `place`, if the command line does not. `None` where it comes
    /// to standard output.
    pub fn json(&mut self, place: &Path) -> Option<PathBuf> {
        let asked = self.words.iter().position(|word| word == "--json").and_then(|at| self.words.get(at + 1));
        if let Some(asked) = asked {
            return self.writes.iter().find(|written| written.remote == *asked).map(|written| written.local.clone());
        }
        let there = self.write(&place.display().to_string());
        self.words.extend(["--json".to_owned(), there]);
        Some(place.to_owned())
    }

    fn write(&mut self, local: &str) -> String {
        let name = Path::new(local).file_name().unwrap_or_default().to_string_lossy();
        // A number in front: two options may name files of one name in two folders.
        let remote = format!("{WRITTEN}/{}-{name}", self.writes.len());
        self.writes.push(Written { remote: remote.clone(), local: local.into() });
        remote
    }

    fn read(&mut self, value: &str) -> String {
        // `NAME=FILE`, where a tensor's name may hold any character but `=`.
        let (name, file) = value.rsplit_once('=').map_or((None, value), |(name, file)| (Some(name), file));
        let file_name = Path::new(file).file_name().unwrap_or_default().to_string_lossy();
        let remote = format!("{READ}/{}-{file_name}", self.reads.len());
        self.reads.push(Read { local: file.into(), remote: remote.clone() });
        name.map_or(remote.clone(), |name| format!("{name}={remote}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Words> {
        Words::new(&line.split(' ').map(str::to_owned).collect::<Vec<_>>(), "net.floe")
    }

    #[test]
    fn files_are_replaced_and_all_else_stays() {
        let line = "run --input image=in/a.npy --input=mask=b.npy --random 7 --output-dir out --json=there/r.json";
        let found = words(line).unwrap();
        assert_eq!(
            found.words.join(" "),
            "run ./net.floe --input image=inputs/0-a.npy --input mask=inputs/1-b.npy --random 7 --output-dir results/0-out \
             --json results/1-r.json"
        );
        let read = |local: &str, remote: &str| Read { local: local.into(), remote: remote.into() };
        assert_eq!(found.reads, [read("in/a.npy", "inputs/0-a.npy"), read("b.npy", "inputs/1-b.npy")]);
        let written = |remote: &str, local: &str| Written { remote: remote.into(), local: local.into() };
        assert_eq!(found.writes, [written("results/0-out", "out"), written("results/1-r.json", "there/r.json")]);
    }

    #[test]
    fn json_is_asked_for_once() {
        let mut asked = words("bench --json=mine.json --warmup 1").unwrap();
        assert_eq!((asked.json("other".as_ref()), asked.writes.len()), (Some("mine.json".into()), 1));
        let mut added = words("bench --warmup 1").unwrap();
        assert_eq!(added.json("/tmp/times.json".as_ref()), Some("/tmp/times.json".into()));
        assert_eq!(added.words.join(" "), "bench ./net.floe --warmup 1 --json results/0-times.json");
    }

    #[test]
    fn standard_output_is_no_file() {
        let mut found = words("bench --json -").unwrap();
        assert_eq!((found.json("other".as_ref()), found.words.join(" ")), (None, "bench ./net.floe --json -".into()));
        assert!(found.writes.is_empty());
    }

    #[test]
    fn what_floe_cannot_do_is_refused() {
        let input = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let error = |line: String| words(&line).unwrap_err().to_string();
        assert!(error(format!("run --input x={input} --draw {input}")).contains("would be overwritten, which is read"));
        assert!(error("run --input x=.".into()).contains("'.' is a folder, and only files travel"));
        assert!(words("compile").unwrap_err().to_string().contains("no command of floe"));
        assert_eq!(words("run --input").unwrap_err().to_string(), "--input needs a value");
    }
}
