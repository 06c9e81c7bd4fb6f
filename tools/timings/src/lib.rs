//! Timing tables: what candidates took on a real GPU. `floe measure` writes them on the device, `floec compile --timings`
//! reads them on the workstation.
//!
//! A table is text made of lines. Tables are merged by writing one behind another: where two entries are about the same
//! candidate on the same GPU, the later one holds.
//!
//! ```text
//! floe-timings 2
//! way 0 tensor_core_gemm 64x64x32 stages 3
//! way 1 direct
//! gpu NVIDIA H200
//! multiprocessors 132
//! clock 1980
//! problem conv 1x64x56x56:f16 64x64x3x3:f16 64:f32 -> 1x64x56x56:f16
//! times 5a0c36e1b2f4d798 4.812 0.031 0, 08db5c2e9e4bbb01 7.300 0.002 1
//! ```
//!
//! A `way` is an algorithm with its configuration, under a number that holds in this table. An entry of `times` is a
//! candidate's key, its time and the median absolute deviation of that time in microseconds, and the number of its way.
//! `gpu` (the driver's name of the device), `multiprocessors` (those that were used), `clock` (the device's highest clock in
//! MHz; for information) and `problem` hold for the lines that follow. Empty lines and lines that start with `#` mean
//! nothing. Tables of version 1, which have an entry a line with its algorithm and configuration in words, are read too.
#![warn(missing_docs)]

use std::{collections::BTreeMap, fmt, str::FromStr};

/// First line of a table, as it is written.
const HEADER: &str = "floe-timings 2";
/// First line of an earlier table, which is read.
const EARLIER: &str = "floe-timings 1";

/// A part of a GPU, or all of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    /// Name that the driver gives the GPU.
    pub gpu: String,
    /// Multiprocessors in use.
    pub multiprocessors: u32,
}

/// What was measured of one candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// Microseconds of one run inside a graph, the launch included.
    pub time: f64,
    /// Median absolute deviation of the time, microseconds.
    pub deviation: f64,
    /// Highest clock of the device in MHz, 0 where it is not known.
    pub clock: u32,
    /// The problem for people: family, shapes and types.
    pub problem: String,
    /// Algorithm.
    pub algorithm: String,
    /// Configuration of the algorithm; may be empty.
    pub configuration: String,
}

/// Measured times by device and candidate key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timings {
    entries: BTreeMap<Device, BTreeMap<String, Timing>>,
}

/// A line that is not part of a timing table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ParseError {
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

impl Timing {
    fn way(&self) -> (&str, &str) {
        (&self.algorithm, &self.configuration)
    }
}

/// How far a time must lie below another one to count as shorter: 2 %, and three times the deviation of either.
pub fn noise(a: &Timing, b: &Timing) -> f64 {
    (0.02 * a.time.max(b.time)).max(3.0 * a.deviation.max(b.deviation))
}

impl Timings {
    /// Adds an entry, in place of what was known of the candidate on that device.
    pub fn insert(&mut self, device: &Device, key: &str, timing: Timing) {
        self.entries.entry(device.clone()).or_default().insert(key.to_owned(), timing);
    }

    /// What a candidate took on a device.
    pub fn get(&self, device: &Device, key: &str) -> Option<&Timing> {
        self.entries.get(device)?.get(key)
    }

    /// Adds all entries of another table, which replace what is known here.
    pub fn merge(&mut self, other: Self) {
        for (device, entries) in other.entries {
            self.entries.entry(device).or_default().extend(entries);
        }
    }

    /// Drops the entries of problems whose family `is_known` denies; how many there were.
    pub fn retain_families(&mut self, is_known: impl Fn(&str) -> bool) -> usize {
        let before = self.len();
        let known = |timing: &Timing| is_known(timing.problem.split(' ').next().unwrap_or_default());
        self.entries.values_mut().for_each(|entries| entries.retain(|_, timing| known(timing)));
        self.entries.retain(|_, entries| !entries.is_empty());
        before - self.len()
    }

    /// The devices that there are entries for.
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        self.entries.keys()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.values().map(BTreeMap::len).sum()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Sorted by device, clock, problem, time and key, so that equal tables are equal texts.
impl fmt::Display for Timings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}")?;
        let all = self.entries.values().flat_map(BTreeMap::values);
        let mut ways: BTreeMap<_, usize> = all.map(|timing| (timing.way(), 0)).collect();
        for (number, (way, place)) in ways.iter_mut().enumerate() {
            *place = number;
            writeln!(f, "{}", format!("way {number} {} {}", way.0, way.1).trim_end())?;
        }
        for (device, entries) in &self.entries {
            writeln!(f, "gpu {}\nmultiprocessors {}", device.gpu, device.multiprocessors)?;
            let mut sorted: Vec<_> = entries.iter().collect();
            sorted.sort_by(|(key, a), (other, b)| {
                let places = (a.clock, &a.problem).cmp(&(b.clock, &b.problem));
                places.then(a.time.total_cmp(&b.time)).then_with(|| key.cmp(other))
            });
            for clock in sorted.chunk_by(|(_, a), (_, b)| a.clock == b.clock) {
                writeln!(f, "clock {}", clock[0].1.clock)?;
                for problem in clock.chunk_by(|(_, a), (_, b)| a.problem == b.problem) {
                    write!(f, "problem {}\ntimes ", problem[0].1.problem)?;
                    for (number, (key, timing)) in problem.iter().enumerate() {
                        let (comma, way) = (if number == 0 { "" } else { ", " }, ways[&timing.way()]);
                        write!(f, "{comma}{key} {:.3} {:.3} {way}", timing.time, timing.deviation)?;
                    }
                    writeln!(f)?;
                }
            }
        }
        Ok(())
    }
}

impl FromStr for Timings {
    type Err = ParseError;

    /// Reads one table, or several behind each other.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut timings = Self::default();
        let mut place = Place::default();
        let mut begun = false;
        for (number, line) in (1..).zip(text.lines()) {
            let fail = |problem: String| ParseError { line: number, problem };
            let line = line.trim_end();
            if line == HEADER || line == EARLIER {
                (begun, place) = (true, Place::default());
            } else if !line.is_empty() && !line.starts_with('#') {
                if !begun {
                    return Err(fail(format!("a timing table begins with '{HEADER}'")));
                }
                place.line(line, &mut timings).map_err(fail)?;
            }
        }
        Ok(timings)
    }
}

/// What the lines before said of the entries to come.
#[derive(Default)]
struct Place {
    gpu: Option<String>,
    multiprocessors: Option<u32>,
    clock: u32,
    problem: String,
    ways: BTreeMap<u32, String>,
}

impl Place {
    fn line(&mut self, line: &str, timings: &mut Timings) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').ok_or_else(|| format!("'{line}' is no entry"))?;
        match word {
            "gpu" => (self.gpu, self.multiprocessors, self.clock) = (Some(rest.to_owned()), None, 0),
            "multiprocessors" => self.multiprocessors = Some(number(rest)?),
            "clock" => self.clock = number(rest)?,
            "problem" => self.problem = rest.to_owned(),
            "way" => {
                let (place, way) = rest.split_once(' ').ok_or("a way without algorithm")?;
                self.ways.insert(number(place)?, way.to_owned());
            }
            "times" => rest.split(", ").try_for_each(|entry| {
                let (entry, place) = entry.rsplit_once(' ').ok_or_else(|| format!("'{entry}' is no entry"))?;
                let way = self.ways.get(&number(place)?).ok_or_else(|| format!("no way has the number {place}"))?;
                self.entry(&format!("{entry} {way}"), timings)
            })?,
            _ => self.entry(line, timings)?,
        }
        Ok(())
    }

    /// An entry with its algorithm and configuration in words.
    fn entry(&self, entry: &str, timings: &mut Timings) -> Result<(), String> {
        let (Some(gpu), Some(multiprocessors)) = (self.gpu.clone(), self.multiprocessors) else {
            return Err("an entry before 'gpu' and 'multiprocessors'".into());
        };
        let mut parts = entry.splitn(5, ' ');
        let key = parts.next().unwrap_or_default();
        let mut microseconds = || {
            let text = parts.next().unwrap_or_default();
            let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
            value.ok_or_else(|| format!("'{text}' is not a time in microseconds"))
        };
        let (time, deviation) = (microseconds()?, microseconds()?);
        let algorithm = parts.next().ok_or("an entry without algorithm")?.to_owned();
        let configuration = parts.next().unwrap_or_default().to_owned();
        let timing =
            Timing { time, deviation, clock: self.clock, problem: self.problem.clone(), algorithm, configuration };
        timings.insert(&Device { gpu, multiprocessors }, key, timing);
        Ok(())
    }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(time: f64, problem: &str) -> Timing {
        Timing {
            time,
            deviation: 0.125,
            clock: 1980,
            problem: problem.to_owned(),
            algorithm: "direct".to_owned(),
            configuration: if time < 2.0 { String::new() } else { "8x8 stages 3".to_owned() },
        }
    }

    fn table() -> (Device, Timings) {
        let device = Device { gpu: "NVIDIA H200".into(), multiprocessors: 132 };
        let slice = Device { multiprocessors: 16, ..device.clone() };
        let mut timings = Timings::default();
        timings.insert(&device, "aa", timing(3.5, "conv 1x2"));
        timings.insert(&device, "bb", timing(1.5, "conv 1x2"));
        timings.insert(&device, "cc", timing(9.0, "add 4"));
        timings.insert(&slice, "aa", timing(30.0, "conv 1x2"));
        (device, timings)
    }

    #[test]
    fn text_and_table_are_the_same() {
        let (_, timings) = table();
        let text = timings.to_string();
        assert_eq!(
            text,
            "floe-timings 2\nway 0 direct\nway 1 direct 8x8 stages 3\n\
             gpu NVIDIA H200\nmultiprocessors 16\nclock 1980\nproblem conv 1x2\n\
             times aa 30.000 0.125 1\n\
             gpu NVIDIA H200\nmultiprocessors 132\nclock 1980\nproblem add 4\n\
             times cc 9.000 0.125 1\nproblem conv 1x2\n\
             times bb 1.500 0.125 0, aa 3.500 0.125 1\n"
        );
        assert_eq!(text.parse::<Timings>().unwrap(), timings);
        assert_eq!(timings.len(), 4);
        assert_eq!(timings.devices().count(), 2);
    }

    #[test]
    fn an_earlier_table_is_read() {
        let text = "floe-timings 1\n\
             gpu NVIDIA H200\nmultiprocessors 16\nclock 1980\nproblem conv 1x2\n\
             aa 30.000 0.125 direct 8x8 stages 3\n\
             gpu NVIDIA H200\nmultiprocessors 132\nclock 1980\nproblem add 4\n\
             cc 9.000 0.125 direct 8x8 stages 3\nproblem conv 1x2\n\
             bb 1.500 0.125 direct\naa 3.500 0.125 direct 8x8 stages 3\n";
        assert_eq!(text.parse::<Timings>().unwrap(), table().1);
    }

    #[test]
    fn entries_of_unknown_families_are_dropped() {
        let (device, mut timings) = table();
        assert_eq!(timings.retain_families(|family| family == "add"), 3);
        assert_eq!((timings.len(), timings.devices().collect::<Vec<_>>()), (1, vec![&device]));
        assert!(timings.get(&device, "cc").is_some());
        // The family is the whole word.
        assert_eq!(timings.retain_families(|family| "add".starts_with(family) && family != "add"), 1);
        assert!(timings.is_empty());
    }

    #[test]
    fn concatenation_merges_and_the_later_entry_holds() {
        let (device, mut timings) = table();
        let mut newer = Timings::default();
        newer.insert(&device, "aa", timing(2.5, "conv 1x2"));
        newer.insert(&device, "dd", timing(4.0, "conv 1x2"));
        let text = format!("{timings}# a remark\n\n{newer}");
        let read: Timings = text.parse().unwrap();
        assert_eq!(read.get(&device, "aa").unwrap().time, 2.5);
        timings.merge(newer);
        assert_eq!(read, timings);
    }

    #[test]
    fn what_is_no_table_is_refused_with_its_line() {
        let refused = |text: &str| text.parse::<Timings>().unwrap_err().to_string();
        assert!(refused("gpu x").starts_with("line 1: a timing table begins"));
        assert_eq!(refused("floe-timings 1\naa 1 2 direct"), "line 2: an entry before 'gpu' and 'multiprocessors'");
        let entry = |entry: &str| refused(&format!("floe-timings 1\ngpu x\nmultiprocessors 4\n{entry}"));
        assert_eq!(entry("aa nan 0 direct"), "line 4: 'nan' is not a time in microseconds");
        assert_eq!(entry("aa 1 -1 direct"), "line 4: '-1' is not a time in microseconds");
        assert_eq!(entry("aa 1 1"), "line 4: an entry without algorithm");
        assert_eq!(entry("aa"), "line 4: 'aa' is no entry");
        assert_eq!(entry("clock fast"), "line 4: 'fast' is not a number");
        assert_eq!(entry("times aa 1 1 0"), "line 4: no way has the number 0");
        assert_eq!(entry("way 0 direct\ntimes aa 1 1 0, bb"), "line 5: 'bb' is no entry");
        assert_eq!(entry("way 0"), "line 4: a way without algorithm");
        // A table's ways are its own.
        assert_eq!(
            entry("way 0 direct\nfloe-timings 2\ngpu x\nmultiprocessors 4\ntimes aa 1 1 0"),
            "line 8: no way has the number 0"
        );
        // A new GPU forgets the multiprocessors of the last one.
        assert_eq!(entry("gpu y\naa 1 1 direct"), "line 5: an entry before 'gpu' and 'multiprocessors'");
    }

    #[test]
    fn a_difference_must_exceed_the_noise() {
        let at = |time, deviation| Timing { deviation, ..timing(time, "") };
        assert_eq!(noise(&at(10.0, 0.01), &at(9.0, 0.02)), 0.2);
        assert_eq!(noise(&at(10.0, 0.01), &at(9.0, 0.5)), 1.5);
    }
}
