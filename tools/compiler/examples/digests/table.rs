//! The table of digests: a line for each model and target, and how two tables differ.

use crate::plan::PARTS;
use std::collections::{BTreeMap, BTreeSet};

/// First line of a table.
const HEAD: &str = "# model\tfile\ttarget\tsteps\toffsets\tweights\tsource";
/// What stands in place of digests where a model cannot be compiled for a target.
pub const REFUSED: &str = "refused";

/// Digests by model and target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    models: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    /// Digest of the model's file.
    file: String,
    /// Digests of the parts by target; of a refused one [`REFUSED`] alone.
    targets: BTreeMap<String, Vec<String>>,
}

/// What became of the comparison of two tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Plans that are the same.
    pub same: usize,
    /// What differs: model, target and parts.
    pub differences: Vec<String>,
    /// Models that only one of the tables has, or that were made from another file.
    pub skipped: Vec<String>,
}

impl Table {
    /// Adds a plan.
    pub fn insert(&mut self, model: &str, file: &str, target: &str, parts: Vec<String>) {
        let entry = self.models.entry(model.to_owned()).or_default();
        entry.file = file.to_owned();
        entry.targets.insert(target.to_owned(), parts);
    }

    /// Number of plans.
    pub fn len(&self) -> usize {
        self.models.values().map(|entry| entry.targets.len()).sum()
    }

    /// As text.
    pub fn write(&self) -> String {
        let mut text = format!("{HEAD}\n");
        for (model, entry) in &self.models {
            for (target, parts) in &entry.targets {
                text += &format!("{model}\t{}\t{target}\t{}\n", entry.file, parts.join("\t"));
            }
        }
        text
    }

    /// From text.
    ///
    /// # Errors
    /// Returns an error if a line is none of a table; it names the line.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().enumerate();
        if lines.next().map(|(_, head)| head) != Some(HEAD) {
            return Err(format!("it does not begin with '{}'", HEAD.replace('\t', " ")));
        }
        let mut table = Self::default();
        for (number, line) in lines {
            let fields: Vec<&str> = line.split('\t').collect();
            let [model, file, target, parts @ ..] = fields.as_slice() else {
                return Err(format!("line {} has no model, file and target", number + 1));
            };
            if parts.len() != PARTS.len() && parts != [REFUSED] {
                return Err(format!("line {} has {} digests, not {}", number + 1, parts.len(), PARTS.len()));
            }
            table.insert(model, file, target, parts.iter().map(|part| (*part).to_owned()).collect());
        }
        Ok(table)
    }

    /// What differs from a table to this one.
    pub fn compare(&self, before: &Self) -> Comparison {
        let mut result = Comparison::default();
        let names: BTreeSet<&String> = self.models.keys().chain(before.models.keys()).collect();
        for model in names {
            let (old, new) = match (before.models.get(model), self.models.get(model)) {
                (Some(old), Some(new)) if old.file == new.file => (old, new),
                (Some(_), Some(_)) => {
                    result.skipped.push(format!("{model}: another file than the table was made from"));
                    continue;
                }
                (None, _) => {
                    result.skipped.push(format!("{model}: not in the table"));
                    continue;
                }
                (_, None) => {
                    result.skipped.push(format!("{model}: in none of the folders"));
                    continue;
                }
            };
            let targets: BTreeSet<&String> = old.targets.keys().chain(new.targets.keys()).collect();
            for target in targets {
                match (old.targets.get(target), new.targets.get(target)) {
                    (Some(old), Some(new)) if old == new => result.same += 1,
                    (Some(old), Some(new)) => {
                        let what = difference(old, new);
                        result.differences.push(format!("{model} for {target}: {what}"));
                    }
                    (None, _) => result.differences.push(format!("{model} for {target}: not in the table")),
                    (_, None) => result.differences.push(format!("{model} for {target}: only in the table")),
                }
            }
        }
        result
    }
}

fn difference(old: &[String], new: &[String]) -> String {
    match (old, new) {
        ([_], _) => "was refused".to_owned(),
        (_, [_]) => "is refused now".to_owned(),
        _ => {
            let changed = PARTS.iter().zip(old.iter().zip(new)).filter(|(_, (old, new))| old != new);
            changed.map(|(part, _)| *part).collect::<Vec<_>>().join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(digests: &str) -> Vec<String> {
        digests.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_table_that_was_written_is_read_again() {
        let mut table = Table::default();
        table.insert("quantized/a", "12ab", "host", parts("1 2 3 4"));
        table.insert("b", "34cd", "h200", parts(REFUSED));
        assert_eq!((Table::read(&table.write()), table.len()), (Ok(table), 2));
        assert!(Table::read("model\n").is_err());
        let short = format!("{HEAD}\na\tb\thost\t1\t2\n");
        assert_eq!(Table::read(&short).unwrap_err(), "line 2 has 2 digests, not 4");
    }

    #[test]
    fn a_comparison_names_what_differs() {
        let (mut before, mut after) = (Table::default(), Table::default());
        for (model, target, old, new) in [
            ("a", "host", "1 2 3 4", "1 2 3 4"),
            ("a", "h200", "1 2 3 4", "1 9 3 5"),
            ("b", "host", "1 2 3 4", REFUSED),
            ("b", "h200", REFUSED, "1 2 3 4"),
        ] {
            before.insert(model, "file", target, parts(old));
            after.insert(model, "file", target, parts(new));
        }
        before.insert("c", "file", "host", parts("1 2 3 4"));
        after.insert("d", "file", "host", parts("1 2 3 4"));
        before.insert("e", "file", "host", parts("1 2 3 4"));
        after.insert("e", "other", "host", parts("1 2 3 4"));
        after.insert("a", "file", "a100", parts("1 2 3 4"));
        let found = after.compare(&before);
        let differences = [
            "a for a100: not in the table",
            "a for h200: offsets, source",
            "b for h200: was refused",
            "b for host: is refused now",
        ];
        let skipped =
            ["c: in none of the folders", "d: not in the table", "e: another file than the table was made from"];
        assert_eq!((found.same, found.differences, found.skipped), (1, parts_of(&differences), parts_of(&skipped)));
    }

    fn parts_of(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }
}
