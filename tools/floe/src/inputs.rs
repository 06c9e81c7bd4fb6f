//! Contents of a session's inputs, from files or from a seed.

use crate::{
    npy::{Array, NpyError},
    random::Generator,
    session::Session,
    usage::{Usage, usage},
};
#[cfg(feature = "pictures")]
use anyhow::anyhow;
use anyhow::{Context, Result, bail};
use floe_engine::plan::format::{Binding, Direction};
use std::{
    fs,
    path::{Path, PathBuf},
    str::FromStr,
};

/// `NAME=FILE` of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Name of the input.
    pub name: String,
    /// File.
    pub file: PathBuf,
}

impl FromStr for Source {
    type Err = String;

    /// The file follows the last `=`, since names of tensors may contain any character.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.rsplit_once('=') {
            Some((name, file)) if !name.is_empty() && !file.is_empty() => {
                Ok(Self { name: name.to_owned(), file: PathBuf::from(file) })
            }
            _ => Err("expected NAME=FILE".to_owned()),
        }
    }
}

/// Bytes of one binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Number of the binding.
    pub binding: usize,
    /// Contents.
    pub bytes: Vec<u8>,
}

/// Gathers contents for every input: from `sources`, the rest random from `seed`. States may be given too.
///
/// # Errors
/// An unknown name, a file that does not fit, or an input without contents.
pub fn gather(session: &Session<'_, '_>, sources: &[Source], seed: Option<u64>) -> Result<Vec<Input>> {
    gather_except(session, sources, seed, None)
}

/// As [`gather`], without the input of number `except`.
///
/// # Errors
/// As [`gather`].
pub fn gather_except(
    session: &Session<'_, '_>,
    sources: &[Source],
    seed: Option<u64>,
    except: Option<usize>,
) -> Result<Vec<Input>> {
    let inputs = session.bindings(Direction::Input);
    let names = || inputs.iter().map(|(_, binding)| binding.name).collect::<Vec<_>>().join(", ");
    let mut gathered = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        if sources[..number].iter().any(|earlier| earlier.name == source.name) {
            return Err(Usage::new(format!("input '{}' is given twice", source.name)).into());
        }
        let states = session.bindings(Direction::State);
        let Some((number, binding)) = inputs.iter().chain(&states).find(|(_, binding)| binding.name == source.name)
        else {
            let said = format!("the plan has no input '{}'; its inputs are: {}", source.name, names());
            return Err(Usage::new(said).into());
        };
        if Some(*number) == except {
            continue;
        }
        let bytes = of(source, load(binding, &source.file))?;
        gathered.push(Input { binding: *number, bytes });
    }
    for (number, binding) in &inputs {
        if gathered.iter().any(|input| input.binding == *number) || Some(*number) == except {
            continue;
        }
        let Some(seed) = seed else {
            return Err(Usage::new(format!(
                "input '{}' ({}) is missing: give --input {0}=FILE.npy, or --random SEED to make it up",
                binding.name,
                describe(binding)
            ))
            .into());
        };
        gathered.push(Input { binding: *number, bytes: random(binding, seed)? });
    }
    Ok(gathered)
}

/// Random contents for a binding; the same for the same seed and name.
///
/// # Errors
/// Where the binding is too large for this machine.
pub fn random(binding: &Binding<'_>, seed: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length(binding)?];
    Generator::new(seed, binding.name).fill(binding.dtype, &mut bytes);
    Ok(bytes)
}

/// Bytes of a binding.
///
/// # Errors
/// Where it is too large for this machine.
pub fn length(binding: &Binding<'_>) -> Result<usize> {
    let bytes = binding.bytes().and_then(|bytes| usize::try_from(bytes).ok());
    bytes.with_context(|| format!("binding '{}' is too large for this machine", binding.name))
}

/// Element type and shape, for messages.
pub fn describe(binding: &Binding<'_>) -> String {
    format!("{} {:?}", binding.dtype.name(), binding.shape.as_slice())
}

/// Names the input that an error is about; its file is the user's.
pub(crate) fn of<T>(source: &Source, result: Result<T>) -> Result<T> {
    usage(result.with_context(|| format!("input '{}'", source.name)))
}

/// Of an array, or of a picture, the first of a folder or a video.
fn load(binding: &Binding<'_>, file: &Path) -> Result<Vec<u8>> {
    #[cfg(feature = "pictures")]
    if let Some(mut stream) = crate::pictures::Stream::open(file)? {
        crate::pictures::frame_of(binding)?;
        let shot = stream.next_shot()?.context("no picture")?;
        return Ok(crate::pictures::contents(binding, &shot.picture)?.0);
    }
    array(binding, file).with_context(|| file.display().to_string())
}

fn array(binding: &Binding<'_>, file: &Path) -> Result<Vec<u8>> {
    let contents = fs::read(file)?;
    let array = Array::parse(&contents).map_err(|error| no_array(binding, error))?;
    let same_shape = array.shape.iter().copied().eq(binding.shape.iter().map(|&extent| u64::from(extent)));
    if !array.holds(binding.dtype) || !same_shape {
        bail!("it holds {} {:?}, but the plan needs {}", array.dtype.name(), array.shape, describe(binding));
    }
    Ok(array.bytes.to_vec())
}

/// Why a file is none that this input takes.
fn no_array(binding: &Binding<'_>, error: NpyError) -> anyhow::Error {
    #[cfg(feature = "pictures")]
    if error == NpyError::Magic && crate::pictures::frame_of(binding).is_ok() {
        return anyhow!(
            "neither a PNG or JPEG picture, nor a Y4M or MJPEG video, nor a .npy file; others become one by `ffmpeg -i FILE OUT.png`"
        );
    }
    let _ = binding;
    error.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_name_and_a_file() {
        let source: Source = "x=a/b.npy".parse().unwrap();
        assert_eq!(source, Source { name: "x".into(), file: "a/b.npy".into() });
        assert_eq!("a=b=c.npy".parse::<Source>().unwrap().name, "a=b");
        for bad in ["x", "x=", "=f", ""] {
            assert!(bad.parse::<Source>().is_err(), "{bad}");
        }
    }
}
