//! Results from elsewhere that a replay's outputs are compared with.

use crate::{
    metrics::{Agreement, Bound, Error, classes},
    npz::{self, OwnedArray},
    outputs::Output,
    tensor::numbers,
};
use anyhow::{Context, Result, bail};
use std::{fmt::Write, path::Path};

/// Expected outputs by name.
#[derive(Clone, Debug)]
pub struct Reference(Vec<(String, OwnedArray)>);

impl Reference {
    /// Reads a `.npz` file with an array for each output; some may be missing.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is none, and names it.
    pub fn read(file: &Path) -> Result<Self> {
        Ok(Self(npz::read(file).with_context(|| format!("--compare {}", file.display()))?))
    }

    /// Compares outputs with it: a line for each, and whether all are finite that should be.
    ///
    /// # Errors
    /// Returns an error if an array fits no output, or none is there.
    pub fn compare(&self, outputs: &[Output<'_>]) -> Result<(String, bool)> {
        let mut text = String::new();
        let (mut finite, mut compared) = (true, 0);
        for output in outputs {
            let binding = &output.binding;
            let Some((_, expected)) = self.0.iter().find(|(name, _)| name == binding.name) else { continue };
            let shape: Vec<usize> = binding.shape.iter().map(|&extent| extent as usize).collect();
            let found = numbers(binding.dtype, &output.bytes);
            let expected = numbers(expected.dtype, &expected.bytes);
            if expected.len() != found.len() {
                bail!("--compare: '{}' has {} elements, the output {}", binding.name, expected.len(), found.len());
            }
            let error = Error::of(&expected, &found, Bound::default());
            // Writing into a string cannot fail.
            let _ = write!(
                text,
                "error of {}: largest {:.3e}, relative L2 {:.3e}, cosine {:.7}",
                binding.name,
                error.largest,
                error.relative(),
                error.cosine()
            );
            if let Some(classes) = classes(&shape, &expected).filter(|_| binding.dtype.is_float()) {
                let mut agreement = Agreement::default();
                agreement.add(&expected, &found, classes);
                let [first, fifth] = [agreement.share_1(), agreement.share_5()].map(|share| 100.0 * share);
                let _ = write!(text, ", top-1 {first:.2} %, top-5 {fifth:.2} %");
            }
            if error.unfinite > 0 {
                let _ = write!(text, ", {} of {} not finite", error.unfinite, error.elements);
            }
            text.push('\n');
            finite &= error.unfinite == 0;
            compared += 1;
        }
        if compared == 0 {
            let list = |names: &mut dyn Iterator<Item = &str>| names.collect::<Vec<_>>().join(", ");
            bail!(
                "--compare: the file holds {}, the plan's outputs are {}",
                list(&mut self.0.iter().map(|(name, _)| name.as_str())),
                list(&mut outputs.iter().map(|output| output.binding.name))
            );
        }
        Ok((text, finite))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floe_engine::plan::format::{Binding, Direction};
    use floe_kernels::{DType, Dims};

    #[test]
    fn outputs_are_held_to_the_arrays_of_their_names() {
        let floats = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let shape = Dims::from_slice(&[1, 2]).unwrap();
        let binding = Binding { name: "y", direction: Direction::Output, dtype: DType::F32, shape, content: "" };
        let outputs = [Output { binding, bytes: floats(&[3.0, 4.5]) }];
        let reference = |name: &str, values: &[f32]| {
            Reference(vec![(
                name.to_owned(),
                OwnedArray { dtype: DType::F32, shape: vec![1, 2], bytes: floats(values) },
            )])
        };
        let (text, finite) = reference("y", &[3.0, 4.0]).compare(&outputs).unwrap();
        assert!(text.starts_with("error of y: largest 5.000e-1, relative L2 1.000e-1, cosine 0.99"), "{text}");
        assert!(text.contains("top-1 100.00 %") && finite);
        let (text, finite) = reference("y", &[3.0, f32::NAN]).compare(&outputs).unwrap();
        assert!(text.contains("1 of 2 not finite") && !finite);
        let error = reference("z", &[3.0, 4.0]).compare(&outputs).unwrap_err().to_string();
        assert_eq!(error, "--compare: the file holds z, the plan's outputs are y");
        assert!(reference("y", &[3.0]).compare(&outputs).is_err());
    }
}
