//! Samples: inputs by name, from files or from a seed.
//!
//! What [`Samples::open`] takes, each any number of times:
//!
//! - `FILE.npz` with an array for each input, and `NAME=FILE.npy` or, for a network with one input, `FILE.npy`. An array with
//!   more rows than the input, or with one dimension more, holds several samples;
//! - a folder of such files, or of folders with a file `NAME.npy` for each input;
//! - an ONNX test folder: `input_0.pb`…, or folders `test_data_set_N` with them;
//! - Polygraphy's JSON, as its `--save-inputs` and `--save-outputs` write it;
//! - PNG and JPEG pictures, or a folder of them, which become an input by `--preprocess` words.

mod array;
mod picture;
mod polygraphy;

use anyhow::{Context, Result, bail};
use array::Arrays;
use floe::random::Generator;
use floe_compiler::preprocess::Preprocess;
use floe_models::{Fact, Tensor};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Mutex,
};

/// Inputs of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Where it comes from, for messages and for names of files.
    pub name: String,
    /// A tensor for each input.
    pub inputs: Vec<(String, Tensor)>,
}

/// Samples that are read one by one.
#[derive(Debug)]
pub struct Samples {
    facts: Vec<(String, Fact)>,
    role: Role,
    items: Vec<Item>,
    preprocess: Vec<Preprocess>,
    /// The files that were read last: they may hold many samples.
    read: Mutex<Vec<(PathBuf, Arrays)>>,
}

/// What the tensors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Inputs,
    /// Some may be missing, and only the number of elements counts.
    Outputs,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Self::Inputs => "input",
            Self::Outputs => "output",
        }
    }
}

#[derive(Clone, Debug)]
struct Item {
    name: String,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    /// Part `number` of arrays: one file with all of them, or one for each tensor.
    Arrays {
        files: Vec<(Option<usize>, PathBuf)>,
        number: usize,
    },
    /// `input_N.pb` in a folder.
    Onnx(PathBuf),
    Picture(PathBuf),
    /// In memory: a file that holds a few.
    Held(Vec<(String, Tensor)>),
    Random(u64),
}

impl Samples {
    /// Finds the samples of a network with these inputs. Pictures need a `preprocess` of the input that they become: its size
    /// of the frame gives way to the picture's own.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or does not fit; it says what would.
    pub fn open(paths: &[String], inputs: &[(String, Fact)], preprocess: &[Preprocess]) -> Result<Self> {
        Self::find(paths, inputs, preprocess, Role::Inputs)
    }

    /// Finds results of a network with these outputs, in the same forms: `output_0.pb` in ONNX test folders. Outputs may be
    /// missing.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_results(paths: &[String], outputs: &[(String, Fact)]) -> Result<Self> {
        Self::find(paths, outputs, &[], Role::Outputs)
    }

    /// Made-up samples, the same for the same seed: floats in [-1, 1), integers 0 or 1.
    pub fn random(inputs: &[(String, Fact)], count: usize, seed: u64) -> Self {
        let item = |number| Item {
            name: format!("random-{number}"),
            source: Source::Random(seed.wrapping_add(number as u64)),
        };
        Self {
            facts: inputs.to_vec(),
            role: Role::Inputs,
            items: (0..count).map(item).collect(),
            preprocess: Vec::new(),
            read: Mutex::default(),
        }
    }

    fn find(paths: &[String], facts: &[(String, Fact)], preprocess: &[Preprocess], role: Role) -> Result<Self> {
        let mut samples = Self {
            facts: facts.to_vec(),
            role,
            items: Vec::new(),
            preprocess: preprocess.to_vec(),
            read: Mutex::default(),
        };
        let mut named: Vec<(usize, PathBuf)> = Vec::new();
        for path in paths {
            match path.rsplit_once('=').filter(|_| !Path::new(path).exists()) {
                Some((name, file)) => named.push((samples.position(name)?, PathBuf::from(file))),
                None => samples.add(Path::new(path), 2).with_context(|| format!("samples '{path}'"))?,
            }
        }
        if let Some((_, first)) = named.first() {
            let name = stem(first);
            let files = named.into_iter().map(|(position, file)| (Some(position), file)).collect();
            samples.add_arrays(&name, files)?;
        }
        if samples.items.is_empty() {
            bail!("no samples are given");
        }
        Ok(samples)
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The name of a sample.
    ///
    /// # Panics
    /// Where there is no such sample.
    pub fn name(&self, number: usize) -> &str {
        &self.items[number].name
    }

    /// Keeps the first `count` samples.
    pub fn truncate(&mut self, count: usize) {
        self.items.truncate(count);
    }

    /// Reads a sample.
    ///
    /// # Errors
    /// Returns an error if its files cannot be read or do not fit.
    ///
    /// # Panics
    /// Where there is no such sample.
    pub fn load(&self, number: usize) -> Result<Sample> {
        let Item { name, source } = &self.items[number];
        let inputs = match source {
            Source::Arrays { files, number } => self.arrays(files, *number),
            Source::Onnx(folder) => self.onnx(folder),
            Source::Picture(file) => self.picture(file),
            Source::Held(tensors) => Ok(tensors.clone()),
            Source::Random(seed) => Ok(self.made_up(*seed)),
        };
        Ok(Sample { name: name.clone(), inputs: inputs.with_context(|| format!("sample '{name}'"))? })
    }

    fn position(&self, name: &str) -> Result<usize> {
        let found = self.facts.iter().position(|(known, _)| known == name || file_name(known) == name);
        found.with_context(|| {
            let known: Vec<_> = self.facts.iter().map(|(name, _)| name.as_str()).collect();
            let word = self.role.word();
            format!("there is no {word} '{name}', only {}", known.join(", "))
        })
    }

    /// Adds what lies at a path; folders in it down to `depth`.
    fn add(&mut self, path: &Path, depth: usize) -> Result<()> {
        if !path.is_dir() {
            return self.add_file(path);
        }
        if path.join(format!("{}_0.pb", self.role.word())).exists() {
            self.items.push(Item { name: stem(path), source: Source::Onnx(path.to_owned()) });
            return Ok(());
        }
        let entries = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        let (mut folders, mut files): (Vec<_>, Vec<_>) = entries.into_iter().partition(|path| path.is_dir());
        folders.sort_by_key(|path| in_order(path));
        files.sort_by_key(|path| in_order(path));
        folders.retain(|folder| !stem(folder).starts_with('.'));
        if folders.iter().any(|folder| stem(folder).starts_with("test_data_set_")) {
            folders.retain(|folder| stem(folder).starts_with("test_data_set_"));
            files.clear();
        }
        let of_tensor = |(position, (name, _)): (usize, &(String, Fact))| {
            let file = path.join(format!("{}.npy", file_name(name)));
            file.is_file().then_some((Some(position), file))
        };
        let own: Vec<_> = self.facts.iter().enumerate().filter_map(of_tensor).collect();
        if !own.is_empty() && (self.role == Role::Outputs || own.len() == self.facts.len()) {
            return self.add_arrays(&stem(path), own);
        }
        let before = self.items.len();
        for file in files.iter().filter(|file| !matches!(Kind::of(file), None | Some(Kind::Json))) {
            self.add_file(file).with_context(|| format!("'{}'", file.display()))?;
        }
        for folder in folders.iter().filter(|_| depth > 0) {
            self.add(folder, depth - 1)?;
        }
        if self.items.len() == before && depth == 2 {
            let word = self.role.word();
            bail!(
                "the folder holds no samples: .npz or .npy files, pictures (.png, .jpg), {word}_0.pb, or folders with a \
                 file NAME.npy for each {word}"
            );
        }
        Ok(())
    }

    fn add_file(&mut self, file: &Path) -> Result<()> {
        if !file.exists() {
            bail!("there is no such file or folder");
        }
        match Kind::of(file) {
            Some(Kind::Npz) => self.add_arrays(&stem(file), vec![(None, file.to_owned())]),
            Some(Kind::Npy) => {
                // Of several, the one that the file is called after.
                let position = match self.facts.len() {
                    1 => 0,
                    _ => self.position(&stem(file)).with_context(|| {
                        let word = self.role.word();
                        format!("a .npy file alone is enough for a network with one {word} only: write NAME=FILE.npy, or give a .npz file")
                    })?,
                };
                self.add_arrays(&stem(file), vec![(Some(position), file.to_owned())])
            }
            Some(Kind::Json) => self.add_polygraphy(file),
            Some(Kind::Picture) if self.role == Role::Inputs => {
                let [preprocess] = self.preprocess.as_slice() else {
                    bail!(
                        "a picture needs a --preprocess of the input that it becomes, for example '{}=rgb:640x480,range=0..1'",
                        self.facts.first().map_or("image", |(name, _)| name.as_str())
                    );
                };
                self.position(&preprocess.input)?;
                if let Some((other, _)) = self.facts.iter().find(|(name, _)| *name != preprocess.input) {
                    bail!("a picture gives input '{}', but '{other}' has none: use .npz files", preprocess.input);
                }
                self.items.push(Item { name: stem(file), source: Source::Picture(file.to_owned()) });
                Ok(())
            }
            _ => bail!("it is none of .npz, .npy, .json, .png and .jpg"),
        }
    }

    fn add_polygraphy(&mut self, file: &Path) -> Result<()> {
        let names: Vec<&str> = self.facts.iter().map(|(name, _)| name.as_str()).collect();
        let samples = polygraphy::read(file, &names)?;
        let count = samples.len();
        for (number, arrays) in samples.into_iter().enumerate() {
            let mut tensors = Vec::new();
            for (name, fact) in &self.facts {
                match arrays.iter().find(|(found, _)| found == name) {
                    Some((_, array)) => {
                        let tensor = array::sample(array, fact, 0, self.role == Role::Outputs);
                        tensors.push((name.clone(), tensor.with_context(|| format!("{} '{name}'", self.role.word()))?));
                    }
                    None if self.role == Role::Outputs => {}
                    None => bail!("it has no array for input '{name}'"),
                }
            }
            let name = if count == 1 { stem(file) } else { format!("{}-{number}", stem(file)) };
            self.items.push(Item { name, source: Source::Held(tensors) });
        }
        Ok(())
    }

    /// Adds the samples that files of arrays hold: as many as the array with most has; one of a single sample goes with each.
    fn add_arrays(&mut self, name: &str, files: Vec<(Option<usize>, PathBuf)>) -> Result<()> {
        let mut counts = Vec::new();
        for (position, file) in &files {
            let arrays = Arrays::read(file, *position).with_context(|| format!("'{}'", file.display()))?;
            for (position, (name, fact)) in self.facts.iter().enumerate() {
                if let Some(array) = arrays.find(position, name, self.facts.len()) {
                    let count = array::samples(array, fact, self.role == Role::Outputs)
                        .with_context(|| format!("'{}': {} '{name}'", file.display(), self.role.word()))?;
                    counts.push((name.clone(), count));
                }
            }
        }
        if self.role == Role::Inputs
            && let Some((missing, _)) =
                self.facts.iter().find(|(name, _)| counts.iter().all(|(found, _)| found != name))
        {
            let files: Vec<_> = files.iter().map(|(_, file)| file.display().to_string()).collect();
            bail!("'{}' has no array for input '{missing}'", files.join("', '"));
        }
        let count = counts.iter().map(|(_, count)| *count).max().context("it holds none of the tensors")?;
        if let Some((name, other)) = counts.iter().find(|(_, other)| *other != count && *other != 1) {
            bail!("'{name}' has {other} samples where another array has {count}");
        }
        for number in 0..count {
            let name = if count == 1 { name.to_owned() } else { format!("{name}-{number}") };
            self.items.push(Item { name, source: Source::Arrays { files: files.clone(), number } });
        }
        Ok(())
    }

    fn arrays(&self, files: &[(Option<usize>, PathBuf)], number: usize) -> Result<Vec<(String, Tensor)>> {
        let mut tensors = Vec::new();
        let mut read = self.read.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for (own, file) in files {
            let known = read.iter().position(|(path, arrays)| path == file && arrays.is_of(*own));
            let place = match known {
                Some(place) => place,
                None => {
                    // Files of one sample each are read once.
                    read.retain(|(path, _)| files.iter().any(|(_, file)| file == path));
                    let arrays = Arrays::read(file, *own).with_context(|| format!("'{}'", file.display()))?;
                    read.push((file.clone(), arrays));
                    read.len() - 1
                }
            };
            let arrays = &read[place].1;
            for (position, (name, fact)) in self.facts.iter().enumerate() {
                if let Some(array) = arrays.find(position, name, self.facts.len()) {
                    let tensor = array::sample(array, fact, number, self.role == Role::Outputs)
                        .with_context(|| format!("{} '{name}'", self.role.word()))?;
                    tensors.push((name.clone(), tensor));
                }
            }
        }
        Ok(tensors)
    }

    fn onnx(&self, folder: &Path) -> Result<Vec<(String, Tensor)>> {
        let mut tensors = Vec::new();
        for (number, (name, fact)) in self.facts.iter().enumerate() {
            let file = folder.join(format!("{}_{number}.pb", self.role.word()));
            if self.role == Role::Outputs && !file.exists() {
                continue;
            }
            let tensor = array::read_onnx(&file).with_context(|| format!("'{}'", file.display()))?;
            let fits = if self.role == Role::Outputs {
                tensor.elements() == fact.elements()
            } else {
                tensor.shape == fact.shape
            };
            if !fits {
                bail!(
                    "'{}' is of shape {:?}, {} '{name}' of {:?}",
                    file.display(),
                    tensor.shape,
                    self.role.word(),
                    fact.shape
                );
            }
            let tensor = array::converted(&tensor, fact.dtype).with_context(|| format!("'{}'", file.display()))?;
            tensors.push((name.clone(), tensor.reshaped(fact.shape.clone())));
        }
        Ok(tensors)
    }

    fn picture(&self, file: &Path) -> Result<Vec<(String, Tensor)>> {
        let preprocess = self.preprocess.first().context("a picture needs a --preprocess")?;
        let (name, fact) = &self.facts[self.position(&preprocess.input)?];
        Ok(vec![(name.clone(), picture::tensor(file, fact, preprocess)?)])
    }

    fn made_up(&self, seed: u64) -> Vec<(String, Tensor)> {
        let tensor = |(name, fact): &(String, Fact)| {
            let mut bytes = vec![0; fact.bytes() as usize];
            Generator::new(seed, name).fill(fact.dtype, &mut bytes);
            (name.clone(), Tensor::new(fact.dtype, fact.shape.clone(), bytes))
        };
        self.facts.iter().map(tensor).collect()
    }
}

/// What a file is, by its ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Npz,
    Npy,
    Json,
    Picture,
}

impl Kind {
    fn of(file: &Path) -> Option<Self> {
        match file.extension()?.to_string_lossy().to_ascii_lowercase().as_str() {
            "npz" => Some(Self::Npz),
            "npy" => Some(Self::Npy),
            "json" => Some(Self::Json),
            "png" | "jpg" | "jpeg" => Some(Self::Picture),
            _ => None,
        }
    }
}

/// A file's name without its ending; a folder's name.
fn stem(path: &Path) -> String {
    let name = if path.is_dir() { path.file_name() } else { path.file_stem() };
    name.map_or_else(|| "samples".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// A tensor's name as a file's: letters, digits, `.`, `_` and `-` stay.
pub fn file_name(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' };
    name.chars().take(200).map(keep).collect()
}

/// By name, numbers in it by their size: `x10` behind `x9`.
fn in_order(path: &Path) -> Vec<(u64, String)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut parts = vec![(0, String::new())];
    let mut digits = String::new();
    for c in name.chars().chain(std::iter::once('\0')) {
        if c.is_ascii_digit() && digits.len() < 18 {
            digits.push(c);
            continue;
        }
        if !digits.is_empty() {
            parts.push((digits.parse().unwrap_or(0), String::new()));
            digits.clear();
        }
        if let Some((_, text)) = parts.last_mut() {
            text.push(c);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use floe::{npy::Array, npz, pictures::Picture};
    use floe_models::DType;

    fn facts() -> Vec<(String, Fact)> {
        vec![("x:0".into(), Fact::new(DType::F32, &[1, 2])), ("n".into(), Fact::new(DType::I64, &[]))]
    }

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn npy(path: &Path, dtype: DType, shape: &[u64], bytes: &[u8]) {
        let mut file = Vec::new();
        Array { dtype, shape: shape.to_vec(), bytes }.write(&mut file).unwrap();
        fs::write(path, file).unwrap();
    }

    /// Writes a PNG whose columns have these colours.
    fn picture(path: &Path, width: usize, height: usize, colour: impl Fn(usize) -> [u8; 3]) {
        let rgb = (0..width * height).flat_map(|pixel| colour(pixel % width)).collect();
        fs::write(path, Picture { width, height, rgb }.to_png().unwrap()).unwrap();
    }

    fn text(path: &Path) -> String {
        path.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_file_of_many_samples_is_cut_into_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("all.npz");
        let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let n = 7i64.to_le_bytes();
        let file = npz::bytes([
            ("x:0", Array { dtype: DType::F32, shape: vec![3, 2], bytes: &x }),
            ("n", Array { dtype: DType::I64, shape: vec![], bytes: &n }),
        ]);
        fs::write(&path, file.unwrap()).unwrap();
        let samples = Samples::open(&[text(&path)], &facts(), &[]).unwrap();
        assert_eq!(samples.len(), 3);
        let second = samples.load(1).unwrap();
        assert_eq!(second.name, "all-1");
        assert_eq!(second.inputs[0].1.to_f64(), [3.0, 4.0]);
        assert_eq!(second.inputs[1].1.to_i64(), Some(vec![7]));
        // The same in a file for each input.
        npy(&folder.path().join("a.npy"), DType::F32, &[3, 2], &x);
        npy(&folder.path().join("b.npy"), DType::I64, &[3], &[7i64, 8, 9].map(i64::to_le_bytes).concat());
        let paths = ["x:0=a.npy", "n=b.npy"].map(|pair| pair.replace('=', &format!("={}/", text(folder.path()))));
        let samples = Samples::open(&paths, &facts(), &[]).unwrap();
        assert_eq!(samples.len(), 3);
        for (number, expected) in [(2, 9), (0, 7), (1, 8)] {
            let sample = samples.load(number).unwrap();
            assert_eq!(sample.inputs[0].1.to_f64()[0], 1.0 + 2.0 * number as f64);
            assert_eq!(sample.inputs[1].1.to_i64(), Some(vec![expected]));
        }
    }

    #[test]
    fn folders_hold_a_sample_a_file_or_a_folder_a_sample() {
        let folder = tempfile::tempdir().unwrap();
        let facts = facts();
        for name in ["s10", "s9"] {
            let sample = folder.path().join(name);
            fs::create_dir(&sample).unwrap();
            npy(&sample.join("x_0.npy"), DType::F64, &[2], &[1.5f64, 2.0].map(f64::to_le_bytes).concat());
            npy(&sample.join("n.npy"), DType::I32, &[], &3i32.to_le_bytes());
        }
        let samples = Samples::open(&[text(folder.path())], &facts, &[]).unwrap();
        assert_eq!((samples.len(), samples.name(0), samples.name(1)), (2, "s9", "s10"));
        let sample = samples.load(0).unwrap();
        assert_eq!((sample.inputs[0].1.dtype, sample.inputs[0].1.to_f64()), (DType::F32, vec![1.5, 2.0]));
        assert_eq!(sample.inputs[1].1.to_i64(), Some(vec![3]));

        let plain = folder.path().join("s9/x_0.npy");
        let one = &facts[..1];
        let samples = Samples::open(&[format!("x:0={}", text(&plain))], one, &[]).unwrap();
        assert_eq!(samples.load(0).unwrap().inputs[0].1.to_f64(), [1.5, 2.0]);
        assert_eq!(Samples::open(&[text(&plain)], one, &[]).unwrap().len(), 1);
    }

    #[test]
    fn what_does_not_fit_is_said_with_what_would() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        npy(&path, DType::F32, &[3], &[0; 12]);
        let error =
            |paths: &[String], facts: &[(String, Fact)]| format!("{:#}", Samples::open(paths, facts, &[]).unwrap_err());
        let facts = facts();
        let said = error(&[text(&path)], &facts[..1]);
        assert!(said.ends_with("input 'x:0': it holds f32 [3], but f32 [1, 2] is needed"), "{said}");
        let said = error(&[format!("y={}", text(&path))], &facts);
        assert!(said.ends_with("there is no input 'y', only x:0, n"), "{said}");
        let said = error(&[text(&folder.path().join("none"))], &facts);
        assert!(said.ends_with("there is no such file or folder"), "{said}");
        npy(&path, DType::I64, &[1, 2], &[0; 16]);
        let said = error(&[text(&path)], &facts[..1]);
        assert!(said.contains("it holds i64, but f32 is needed"), "{said}");
        fs::remove_file(&path).unwrap();
        assert!(error(&[text(folder.path())], &facts).contains("the folder holds no samples"));
        picture(&folder.path().join("a.png"), 2, 2, |_| [0; 3]);
        assert!(error(&[text(folder.path())], &facts[..1]).contains("--preprocess"));
    }

    #[test]
    fn pictures_become_tensors_by_the_words_of_preprocess() {
        let folder = tempfile::tempdir().unwrap();
        picture(&folder.path().join("a.png"), 4, 2, |x| [if x < 2 { 255 } else { 0 }, 0, 51]);
        let facts = [("image".to_owned(), Fact::new(DType::F32, &[1, 3, 2, 4]))];
        let words = Preprocess::parse("image=rgb:640x480,range=0..1").unwrap();
        let samples = Samples::open(&[text(folder.path())], &facts, &[words]).unwrap();
        let values = samples.load(0).unwrap().inputs[0].1.to_f64();
        let expected = [[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0; 4], [0.0; 4], [0.2; 4], [0.2; 4]].concat();
        assert!(values.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6), "{values:?}");
    }

    #[test]
    fn random_samples_are_the_same_for_a_seed_and_differ_from_one_another() {
        let samples = Samples::random(&facts(), 2, 5);
        assert_eq!(samples.load(0).unwrap(), Samples::random(&facts(), 1, 5).load(0).unwrap());
        assert_ne!(samples.load(0).unwrap().inputs, samples.load(1).unwrap().inputs);
    }
}
