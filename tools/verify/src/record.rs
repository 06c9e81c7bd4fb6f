//! The record that the repository keeps of a run on a GPU: `targets/verified/GPU.json`. `targets/verified/README.md` says
//! what is where in it.

use crate::sections;
use anyhow::{Context, Result, bail, ensure};
use floe::selftest::record;
use floe_conformance::sources::{COMMIT, digests};
use floe_cuda::{Device, Options};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// What must be the same for sections of one record: the GPU, its driver, the sources.
fn header() -> Result<&'static Map<String, Value>> {
    static HEADER: OnceLock<Map<String, Value>> = OnceLock::new();
    if let Some(header) = HEADER.get() {
        return Ok(header);
    }
    let device = Device::open(Options::default())?;
    let info = device.info();
    let module = fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    let fields = [
        ("gpu", json!(info.name)),
        ("architecture", json!(info.architecture)),
        ("multiprocessors", json!(info.multiprocessors)),
        ("driver", json!(info.driver)),
        ("module", json!(module.lines().next().unwrap_or_default().trim())),
    ];
    let mut header: Map<String, Value> = fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    header.append(&mut of_this_build());
    Ok(HEADER.get_or_init(|| header))
}

/// Commit and digests of this program.
fn of_this_build() -> Map<String, Value> {
    let sources = digests().collect::<BTreeMap<_, _>>();
    [("commit".to_owned(), json!(COMMIT)), ("sources".to_owned(), json!(sources))].into_iter().collect()
}

/// Whether the fields of a record's part `run` are these.
fn made_with(record: &Map<String, Value>, fields: &Map<String, Value>) -> bool {
    fields.iter().all(|(key, value)| record.get("run").and_then(|run| run.get(key)) == Some(value))
}

/// Puts `section` into a record, under `part` and `key`. What another program, GPU or driver wrote is dropped: a record
/// vouches for one state of the sources.
///
/// # Errors
/// Those of the file system and of the GPU.
pub fn update(path: &Path, part: &str, key: &str, section: Value) -> Result<()> {
    put(path, header()?, part, key, section)
}

/// [`update`] of a record with this header.
fn put(path: &Path, header: &Map<String, Value>, part: &str, key: &str, section: Value) -> Result<()> {
    let _others_wait = lock(path)?;
    let mut record = match read(path) {
        Ok(record) if made_with(&record, header) => record,
        _ => Map::from_iter([("run".to_owned(), Value::Object(header.clone()))]),
    };
    // The date of the last section.
    record["run"]["date"] = json!(record::today());
    let sections = record.entry(part).or_insert_with(|| json!({}));
    sections.as_object_mut().context("a record's part is an object")?.insert(key.to_owned(), section);
    write(path, record)
}

/// Keeps other processes from changing a record until the file that is returned is dropped. The lock is on the record's
/// folder, since the record itself is replaced by every change.
fn lock(path: &Path) -> Result<File> {
    let folder = floe_files::folder_of(path);
    let file = File::open(folder).and_then(|file| file.lock().map(|()| file));
    file.with_context(|| format!("a lock on {}", folder.display()))
}

fn read(path: &Path) -> Result<Map<String, Value>> {
    let name = || path.display().to_string();
    serde_json::from_slice(&fs::read(path).with_context(name)?).with_context(name)
}

fn write(path: &Path, record: Map<String, Value>) -> Result<()> {
    floe_files::write(path, record::text(&Value::Object(record))).with_context(|| path.display().to_string())
}

/// The sections that a record lacks. `PART` or `PART/KEY` in `skipped` are not missed.
///
/// # Errors
/// Returns an error if `skipped` names no section.
fn lacks(record: &Map<String, Value>, skipped: &[String]) -> Result<Vec<String>> {
    if is_self_test(record) {
        return Ok(lacks_of_self_test(record));
    }
    let required = sections::required()?;
    let names = |part: &str, key: &str, name: &str| name == part || name.split_once('/') == Some((part, key));
    if let Some(name) = skipped.iter().find(|name| !required.iter().any(|(part, key)| names(part, key, name))) {
        bail!("no section is called '{name}'; they are {}", names_of_parts(&required));
    }
    let missing = required.iter().filter(|(part, key)| {
        record.get(*part).and_then(|sections| sections.get(key)).is_none()
            && !skipped.iter().any(|name| names(part, key, name))
    });
    Ok(missing.map(|(part, key)| format!("{part}/{key}")).collect())
}

fn names_of_parts(required: &[(&'static str, String)]) -> String {
    let mut parts: Vec<&str> = required.iter().map(|(part, _)| *part).collect();
    parts.dedup();
    parts.join(", ") + ", or one section of them as PART/KEY"
}

/// Whether a record is one of `floe selftest`.
fn is_self_test(record: &Map<String, Value>) -> bool {
    record.contains_key("selftest")
}

/// What the record of a self-test lacks: families, where the bundle had some only, and cases that were not run.
fn lacks_of_self_test(record: &Map<String, Value>) -> Vec<String> {
    let bundle = record.get("run").map_or(&Value::Null, |run| &run["bundle"]);
    let sections = |value: &Value| value.as_object().into_iter().flat_map(Map::values).cloned().collect::<Vec<_>>();
    let tallies =
        record.get("selftest").map(sections).unwrap_or_default().iter().flat_map(sections).collect::<Vec<_>>();
    let count = |tally: &Value| {
        tally["passed"].as_u64().unwrap_or(0) + tally["failures"].as_array().map_or(0, |list| list.len() as u64)
    };
    let (run, cases) = (tallies.iter().map(count).sum::<u64>(), bundle["cases"].as_u64().unwrap_or(u64::MAX));
    let families = (bundle["whole"] != true).then(|| "selftest: the bundle has not every kernel family".to_owned());
    families.into_iter().chain((run < cases).then(|| format!("selftest: {run} of {cases} cases were run"))).collect()
}

/// The sections that a record in the making still lacks; all of them where it is of other sources, or is not there.
///
/// # Errors
/// Returns an error if `skipped` names no section.
pub fn missing(path: &Path, skipped: &[String]) -> Result<Vec<String>> {
    let record = read(path).ok().filter(|record| made_with(record, &of_this_build()));
    lacks(&record.unwrap_or_default(), skipped)
}

/// Moves a record that was made in `scratch` to its place if no section is missing, and says what is in it. What was
/// skipped is put down in it. Whether it was moved and nothing failed.
///
/// # Errors
/// Returns an error if a file cannot be read or written, or if `skipped` names no section.
pub fn finish(scratch: &Path, place: &Path, skipped: &[String]) -> Result<(Vec<String>, bool)> {
    let mut record = read(scratch)?;
    ensure!(made_with(&record, &of_this_build()), "{} is of another build of this program", scratch.display());
    let mut lines = summary(&record);
    let missing = lacks(&record, skipped)?;
    if !missing.is_empty() {
        lines.push(format!("{} sections are missing, so {} is left as it was:", missing.len(), place.display()));
        lines.extend(missing.into_iter().map(|name| format!("      {name}")));
        return Ok((lines, false));
    }
    if !skipped.is_empty() {
        record["run"]["skipped"] = json!(skipped);
        lines.push(format!("skipped: {}", skipped.join(", ")));
    }
    let failures = failures(&record);
    write(place, record)?;
    fs::remove_file(scratch).with_context(|| scratch.display().to_string())?;
    lines.extend(failures.iter().map(|failure| format!("FAIL  {failure}")));
    let which = if skipped.is_empty() { "every section" } else { "every section that was not skipped" };
    lines.push(format!("{}: {which} ran, {} failures", place.display(), failures.len()));
    Ok((lines, failures.is_empty() && skipped.is_empty()))
}

/// One line for each part: how many sections there are, and how many of them hold a failure.
fn summary(record: &Map<String, Value>) -> Vec<String> {
    let parts = record.iter().filter(|(part, _)| *part != "run");
    let line = |(part, sections): (&String, &Value)| {
        let sections: Vec<&Value> = sections.as_object().into_iter().flat_map(Map::values).collect();
        let failed = sections.iter().filter(|section| !of_value("", section).is_empty()).count();
        format!("{part:<10} {:>4} sections, {failed} with failures", sections.len())
    };
    parts.map(line).collect()
}

/// Every failure in a record, with the path of its section.
fn failures(record: &Map<String, Value>) -> Vec<String> {
    record.iter().flat_map(|(part, sections)| of_value(part, sections)).collect()
}

/// What the lists `failures` of a value hold, and tallies that count nothing as passed.
fn of_value(path: &str, value: &Value) -> Vec<String> {
    let Some(object) = value.as_object() else { return Vec::new() };
    let mut found = Vec::new();
    for (key, value) in object {
        match (key.as_str(), value) {
            ("failures", Value::Array(failures)) => {
                found.extend(failures.iter().map(|why| format!("{path}: {}", why.as_str().unwrap_or("no text"))));
            }
            // A number tells that something is wrong even where the list was cut.
            ("failures", other) => found.push(format!("{path}: {other} instead of a list of failures")),
            ("failed", failed) if failed.as_u64() != Some(0) => found.push(format!("{path}: {failed} failed")),
            ("passed", passed) if passed.as_u64() == Some(0) => found.push(format!("{path}: nothing passed")),
            (key, value) => {
                found.extend(of_value(&if path.is_empty() { key.to_owned() } else { format!("{path}/{key}") }, value));
            }
        }
    }
    found
}

/// Says of every record of a folder whether it is of the sources with these digests, complete, and without failures: some
/// lines each, and whether all are.
///
/// # Errors
/// Those of the file system, and where a record is none.
pub fn check(folder: &Path, digests: &[(&str, String)]) -> Result<(Vec<String>, bool)> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    let mut sound = !files.is_empty();
    let mut lines = Vec::new();
    for file in files {
        let name = file.display().to_string();
        let record = read(&file)?;
        let (lines_of_it, sound_itself) = check_record(&name, &record, digests)?;
        lines.extend(lines_of_it);
        sound &= sound_itself;
    }
    if lines.is_empty() {
        lines.push(format!("{}: no GPU has verified these sources", folder.display()));
    }
    Ok((lines, sound))
}

/// What [`check`] says of one record.
fn check_record(name: &str, record: &Map<String, Value>, digests: &[(&str, String)]) -> Result<(Vec<String>, bool)> {
    /// Failures and sections that are named; more are counted.
    const NAMED: usize = 20;
    let run = record.get("run").cloned().unwrap_or_default();
    let text = |field: &str, absent: &str| run[field].as_str().unwrap_or(absent).to_owned();
    let what = format!("{} on {}, commit {}", text("gpu", "?"), text("date", "an unknown day"), text("commit", "?"));
    let stale = digests.iter().filter(|(group, digest)| run["sources"][*group].as_str() != Some(digest));
    let stale: Vec<&str> = stale.map(|(group, _)| *group).collect();
    let missing = lacks(record, &[])?;
    let failures = failures(record);
    let mut lines = Vec::new();
    if !stale.is_empty() {
        lines.push(format!("{name}: STALE ({what}): changed since: {}", stale.join(", ")));
    }
    if !missing.is_empty() {
        lines.push(format!("{name}: INCOMPLETE ({what}): {} sections are missing", missing.len()));
        lines.extend(missing.iter().take(NAMED).map(|name| format!("      {name}")));
    }
    if !failures.is_empty() {
        lines.push(format!("{name}: FAILED ({what}): {} failures", failures.len()));
        lines.extend(failures.iter().take(NAMED).map(|failure| format!("      {failure}")));
    }
    let sound = lines.is_empty();
    if sound {
        let how = if is_self_test(record) { " by a self-test" } else { "" };
        lines.push(format!("{name}: verified these sources{how} ({what})"));
    } else {
        let maker =
            if is_self_test(record) { "floe selftest, with a bundle of these sources," } else { "tools/verify/gpu" };
        lines.push(format!("      {maker} makes the record anew"));
    }
    lines.extend(summary(record).into_iter().map(|line| format!("      {line}")));
    Ok((lines, sound))
}

#[cfg(test)]
mod tests {
    use super::*;
    use floe_conformance::sources;

    const DIGESTS: [(&str, &str); 2] = [("engine", "aaa"), ("compiler", "bbb")];

    fn sources() -> Vec<(&'static str, String)> {
        DIGESTS.into_iter().map(|(group, digest)| (group, digest.to_owned())).collect()
    }

    /// A record with every section, in which all passed.
    fn sound() -> Map<String, Value> {
        let run = json!({"gpu": "a GPU", "date": "2026-01-02", "commit": "c0ffee", "sources": BTreeMap::from(DIGESTS)});
        let mut record = Map::from_iter([("run".to_owned(), run)]);
        for (part, key) in sections::required().unwrap() {
            record.entry(part).or_insert_with(|| json!({}))[key] = match part {
                "kernels" => json!({"conv": {"passed": 3, "failures": []}}),
                _ => json!({"passed": 1, "failures": []}),
            };
        }
        record
    }

    fn checked(record: &Map<String, Value>) -> (String, bool) {
        let (lines, sound) = check_record("a.json", record, &sources()).unwrap();
        (lines.join("\n"), sound)
    }

    #[test]
    fn a_record_of_these_sources_without_failures_is_sound() {
        let (text, sound) = checked(&sound());
        assert!(sound && text.contains("verified these sources (a GPU on 2026-01-02, commit c0ffee)"), "{text}");
    }

    #[test]
    fn groups_that_changed_are_named() {
        let mut record = sound();
        record["run"]["sources"]["compiler"] = json!("old");
        let (text, sound) = checked(&record);
        assert!(!sound && text.contains("changed since: compiler\n") && !text.contains("verified these"), "{text}");
        // A record that knows one digest only, as records once did.
        record["run"]["sources"] = json!("aaa");
        assert!(checked(&record).0.contains("changed since: engine, compiler\n"));
    }

    #[test]
    fn a_failure_anywhere_is_a_failure_of_the_record() {
        for (part, key) in sections::required().unwrap() {
            let mut record = sound();
            let section = &mut record[part][&key];
            let tally = if part == "kernels" { &mut section["conv"] } else { section };
            tally["failures"] = json!(["it is wrong"]);
            let (text, sound) = checked(&record);
            assert!(!sound && text.contains("FAILED") && text.contains("it is wrong"), "{part}/{key}: {text}");
            let section = &mut record[part][&key];
            let tally = if part == "kernels" { &mut section["conv"] } else { section };
            *tally = json!({"passed": 0, "failures": []});
            assert!(checked(&record).0.contains("nothing passed"), "{part}/{key}");
            // As records had it before they named what failed.
            let section = &mut record[part][&key];
            let tally = if part == "kernels" { &mut section["conv"] } else { section };
            *tally = json!({"passed": 9, "failed": 1});
            assert!(checked(&record).0.contains("1 failed"), "{part}/{key}");
        }
    }

    #[test]
    fn a_missing_section_makes_a_record_incomplete() {
        let mut record = sound();
        record["networks"].as_object_mut().unwrap().remove("smart-turn-v3.2-qdq-steps-f16 h200 f16").unwrap();
        let (text, sound) = checked(&record);
        assert!(!sound && text.contains("INCOMPLETE") && text.contains("qdq-steps-f16"), "{text}");
    }

    /// The record of a self-test with the program's own writer.
    fn self_test() -> Map<String, Value> {
        use floe::selftest::{
            bundle::{Case, Check, FORMAT, Manifest, NETWORKS},
            record::{Tally, of},
        };
        let case = |family: &str| Case {
            name: family.into(),
            family: family.into(),
            check: Check::Network { bound: floe::selftest::agreement::Bound::EXACT, shape: 0 },
        };
        let manifest = Manifest {
            format: FORMAT,
            target: "jetson-orin-nano".into(),
            made_by: "floec".into(),
            commit: "c0ffee".into(),
            sources: DIGESTS.into_iter().map(|(group, digest)| (group.to_owned(), digest.to_owned())).collect(),
            whole: true,
            cases: vec![case("conv"), case(NETWORKS)],
        };
        let tally = || Tally { passed: 1, ..Tally::default() };
        let tallies = BTreeMap::from(["conv", NETWORKS].map(|family| (family.to_owned(), tally())));
        let device = Map::from_iter([("gpu".to_owned(), json!("Orin"))]);
        serde_json::from_str(&record::text(&of(&manifest, "00", device, 1.0, &tallies))).unwrap()
    }

    #[test]
    fn a_self_test_is_held_to_its_own_cases() {
        let (text, sound) = checked(&self_test());
        assert!(sound && text.contains("verified these sources by a self-test (Orin on "), "{text}");
        assert!(text.contains("selftest      1 sections, 0 with failures"), "{text}");
        let changed = |change: fn(&mut Map<String, Value>)| {
            let mut record = self_test();
            change(&mut record);
            let (text, sound) = checked(&record);
            assert!(!sound && text.contains("floe selftest"), "{text}");
            text
        };
        let stale = changed(|record| record["run"]["sources"]["compiler"] = json!("old"));
        assert!(stale.contains("STALE") && stale.contains("changed since: compiler\n"), "{stale}");
        let partial = changed(|record| record["run"]["bundle"]["whole"] = json!(false));
        assert!(partial.contains("INCOMPLETE") && partial.contains("not every kernel family"), "{partial}");
        let cut = changed(|record| record["run"]["bundle"]["cases"] = json!(3));
        assert!(cut.contains("INCOMPLETE") && cut.contains("2 of 3 cases were run"), "{cut}");
        let wrong = changed(|record| {
            record["selftest"]["jetson-orin-nano"]["conv"] = json!({"passed": 0, "failures": ["conv: it is wrong"]});
        });
        assert!(wrong.contains("FAILED") && wrong.contains("jetson-orin-nano/conv: conv: it is wrong"), "{wrong}");
    }

    #[test]
    fn processes_that_share_a_record_lose_no_section() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.json.part");
        std::thread::scope(|scope| {
            for process in ["first", "second"] {
                let path = &path;
                scope.spawn(move || {
                    for section in 0..50 {
                        put(path, &Map::new(), process, &section.to_string(), json!({"passed": 1})).unwrap();
                    }
                });
            }
        });
        let record = read(&path).unwrap();
        assert_eq!(["first", "second"].map(|part| record[part].as_object().unwrap().len()), [50, 50]);
    }

    #[test]
    fn only_a_record_with_every_section_is_moved_into_place() {
        let folder = tempfile::tempdir().unwrap();
        let (scratch, place) = (folder.path().join("scratch"), folder.path().join("record.json"));
        let mut record = sound();
        record["run"].as_object_mut().unwrap().append(&mut of_this_build());
        record["soak"] = json!({});
        write(&scratch, record.clone()).unwrap();
        assert_eq!(missing(&scratch, &[]).unwrap().len(), 2);
        assert!(missing(&scratch, &["soak".to_owned()]).unwrap().is_empty());
        assert!(missing(&scratch, &["sock".to_owned()]).unwrap_err().to_string().contains("soak"));
        // Not complete: nothing is moved.
        let (lines, sound_and_moved) = finish(&scratch, &place, &[]).unwrap();
        assert!(
            !sound_and_moved && !place.exists() && lines.join("\n").contains("2 sections are missing"),
            "{lines:?}"
        );
        // What is skipped is no secret.
        assert!(!finish(&scratch, &place, &["soak".to_owned()]).unwrap().1);
        assert!(place.exists() && !scratch.exists());
        let (text, sound_itself) = checked(&read(&place).unwrap());
        assert!(!sound_itself && text.contains("INCOMPLETE"), "{text}");
        // A failing section is a section.
        record["soak"] = sound()["soak"].clone();
        record["guards"]["h200 f16 device driver"]["failures"] = json!(["missed a NaN"]);
        write(&scratch, record.clone()).unwrap();
        let (lines, passed) = finish(&scratch, &place, &[]).unwrap();
        assert!(!passed && lines.join("\n").contains("FAIL  guards/h200 f16 device driver: missed a NaN"), "{lines:?}");
        // Another build's sections do not count.
        record["run"]["sources"]["engine"] = json!("other");
        write(&scratch, record).unwrap();
        assert_eq!(missing(&scratch, &[]).unwrap().len(), sections::required().unwrap().len());
        assert!(finish(&scratch, &place, &[]).unwrap_err().to_string().contains("another build"));
    }

    #[test]
    fn the_digests_are_those_of_the_sources() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let found = sources::of_sources(&root).unwrap();
        assert!(found.iter().map(|(group, _)| *group).eq(digests().map(|(group, _)| group)));
    }

    #[test]
    fn a_change_is_of_its_group_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = |path: &str| folder.path().join(path);
        for (_, paths) in sources::GROUPS {
            for path in paths {
                if path.contains('.') {
                    fs::create_dir_all(file(path).parent().unwrap()).unwrap();
                    fs::write(file(path), "").unwrap();
                } else {
                    fs::create_dir_all(file(path)).unwrap();
                }
            }
        }
        let before = sources::of_sources(folder.path()).unwrap();
        for (group, paths) in sources::GROUPS {
            for path in paths {
                let path = if path.contains('.') { file(path) } else { file(path).join("new.rs") };
                fs::write(&path, "changed").unwrap();
                let after = sources::of_sources(folder.path()).unwrap();
                let changed = before.iter().zip(&after).filter(|(a, b)| a != b).map(|(a, _)| a.0);
                assert_eq!(changed.collect::<Vec<_>>(), [group], "{}", path.display());
                if path.ends_with("new.rs") { fs::remove_file(&path) } else { fs::write(&path, "") }.unwrap();
            }
        }
        fs::remove_file(file("tools/conformance/audio.py")).unwrap();
        assert!(sources::of_sources(folder.path()).unwrap_err().to_string().contains("audio.py"));
    }
}
