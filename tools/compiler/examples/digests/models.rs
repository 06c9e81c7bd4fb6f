//! The models below a folder, with the shapes that they are compiled for.

use floe_models::{ImportOptions, zoo};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A model to compile.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its path from the folder that was named, without `.onnx` or `/model.onnx`.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// Shapes and constants of its inputs.
    pub import: ImportOptions,
    /// Size of the file.
    pub bytes: u64,
}

/// All models below a folder, in order of their names. A folder with `model.onnx` is a case as `tools/conformance/references.py` makes it,
/// with the words of `floec compile` in the file `options`; any other `.onnx` file has the shapes that the zoo names for it, or
/// else those that it holds itself.
///
/// # Errors
/// Returns an error if a folder or a file cannot be read, or options are none of shapes and constants.
pub fn below(folder: &Path) -> Result<Vec<Model>, String> {
    let mut found = Vec::new();
    collect(folder, folder, &mut found)?;
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<Model>) -> Result<(), String> {
    let fail = |path: &Path, error: std::io::Error| format!("cannot read '{}': {error}", path.display());
    for entry in fs::read_dir(folder).map_err(|error| fail(folder, error))? {
        let path = entry.map_err(|error| fail(folder, error))?.path();
        if path.is_dir() {
            collect(root, &path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "onnx") {
            let case = path.file_name().is_some_and(|name| name == "model.onnx");
            let named = if case { folder.to_owned() } else { path.with_extension("") };
            let name = named.strip_prefix(root).unwrap_or(&named).to_string_lossy().replace('\\', "/");
            let words = folder.join("options");
            let import = match case && words.is_file() {
                true => options(&fs::read_to_string(&words).map_err(|error| fail(&words, error))?)
                    .map_err(|error| format!("'{}': {error}", words.display()))?,
                false => of_the_zoo(&name)?,
            };
            let bytes = fs::metadata(&path).map_err(|error| fail(&path, error))?.len();
            found.push(Model { name, path, import, bytes });
        }
    }
    Ok(())
}

/// `--shape NAME=1x2 --constant NAME=3`, words separated by spaces.
fn options(text: &str) -> Result<ImportOptions, String> {
    let mut import = ImportOptions::default();
    let mut words = text.split_whitespace();
    while let (Some(option), Some(value)) = (words.next(), words.next()) {
        let wrong = || format!("'{option} {value}' is neither --shape NAME=1x2x3 nor --constant NAME=NUMBER");
        let (name, value) = value.rsplit_once('=').ok_or_else(wrong)?;
        match option {
            "--shape" => {
                let extents = value.split('x').filter(|extent| !extent.is_empty()).map(str::parse);
                import.shapes.push((name.to_owned(), extents.collect::<Result<_, _>>().map_err(|_| wrong())?));
            }
            "--constant" => import.numbers.push((name.to_owned(), value.parse().map_err(|_| wrong())?)),
            _ => return Err(wrong()),
        }
    }
    Ok(import)
}

fn of_the_zoo(name: &str) -> Result<ImportOptions, String> {
    let models = zoo::models().map_err(|error| error.to_string())?;
    let inputs = models.into_iter().find(|model| model.name == name).map(|model| model.inputs).unwrap_or_default();
    let shapes = inputs.into_iter().map(|input| (input.name, input.shape)).collect();
    Ok(ImportOptions { shapes, ..ImportOptions::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_and_files_are_found_with_their_shapes() {
        let folder = tempfile::tempdir().unwrap();
        let case = folder.path().join("quantized/small");
        fs::create_dir_all(&case).unwrap();
        fs::write(case.join("model.onnx"), "abc").unwrap();
        fs::write(case.join("options"), "--constant sr=16000 --shape x:0=1x3 --shape y=\n").unwrap();
        fs::write(folder.path().join("dtln-stage1.onnx"), "").unwrap();
        fs::write(folder.path().join("other.onnx"), "").unwrap();
        let found = below(folder.path()).unwrap();
        let names: Vec<&str> = found.iter().map(|model| model.name.as_str()).collect();
        assert_eq!(names, ["dtln-stage1", "other", "quantized/small"]);
        assert_eq!(found[0].import.shapes[1], ("input_3".to_owned(), vec![1, 2, 128, 2]));
        assert!(found[1].import.shapes.is_empty());
        assert_eq!(found[2].import.shapes, [("x:0".to_owned(), vec![1, 3]), ("y".to_owned(), vec![])]);
        assert_eq!((found[2].import.numbers.clone(), found[2].bytes), (vec![("sr".to_owned(), 16000.0)], 3));
        fs::write(case.join("options"), "--half x=1").unwrap();
        assert!(below(folder.path()).unwrap_err().ends_with("neither --shape NAME=1x2x3 nor --constant NAME=NUMBER"));
    }
}
