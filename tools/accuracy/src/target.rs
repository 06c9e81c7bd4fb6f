//! A target's plan that hands out what it stores, on a GPU or on one in software.

use crate::{network::unpack, samples::Sample};
use anyhow::{Context, Result, anyhow};
use floe::{
    inputs::length,
    session::{DeviceKind, Place, Request},
};
use floe_compiler::{exposed, pipeline::ExposedPlan};
use floe_engine::{
    host::Block,
    plan::{Plan, format::Direction},
};
use floe_models::{Fact, Tensor, TensorId};
use std::collections::HashMap;

/// What a replay left.
#[derive(Debug)]
pub struct Replayed<'e> {
    /// The network's outputs.
    pub outputs: Vec<(String, Tensor)>,
    /// Bytes of every binding that is no input.
    bytes: HashMap<usize, Vec<u8>>,
    places: &'e HashMap<TensorId, &'e exposed::ExposedValue>,
}

impl Replayed<'_> {
    /// A value of the fused graph in the model's type; `None` where no step stores it.
    ///
    /// # Errors
    /// Returns an error if it does not lie where the plan says.
    pub fn value(&self, id: TensorId, fact: &Fact) -> Result<Option<Tensor>> {
        let Some(value) = self.places.get(&id) else { return Ok(None) };
        let Some(bytes) = self.bytes.get(&value.binding) else { return Ok(None) };
        let range = value.bytes.start as usize..value.bytes.end as usize;
        let bytes = bytes.get(range).context("a value ends outside of its binding")?;
        // A part of memory that nobody needs may be missing at the end: of the last row's padding.
        let operand = exposed_operand(&value.located)?;
        unpack(&value.located, fact, bytes.get(operand..).context("a value ends outside of its binding")?).map(Some)
    }
}

/// By how much a value's own operand starts behind the one that kernels get.
fn exposed_operand(located: &floe_compiler::lower::Located) -> Result<usize> {
    let (aligned, _) = located.operand(16)?;
    let (own, _) = located.operand(1)?;
    Ok((own.offset - aligned.offset) as usize)
}

/// Replays the plan for every sample and hands out what it left. `describe` is told once what the device is.
///
/// # Errors
/// Returns an error if there is no such device, a sample does not fit, or a replay fails.
pub fn replay(
    plan: &ExposedPlan,
    target: &str,
    device: DeviceKind,
    samples: &mut dyn Iterator<Item = Result<Sample>>,
    each: &mut dyn FnMut(Sample, &Replayed<'_>) -> Result<()>,
) -> Result<String> {
    let mut file = vec![Block::ZERO; plan.bytes.len().div_ceil(size_of::<Block>())];
    let aligned: &mut [u8] = bytemuck::cast_slice_mut(&mut file);
    aligned[..plan.bytes.len()].copy_from_slice(&plan.bytes);
    let parsed = Plan::parse(&aligned[..plan.bytes.len()]).map_err(|error| anyhow!("{error}"))?;
    let places: HashMap<TensorId, &exposed::ExposedValue> = plan.values.iter().map(|value| (value.id, value)).collect();
    let request = Request { device, variant: Some(target.to_owned()), ..Request::default() };
    let (mut place, variant) = Place::choose(&parsed, &request)?;
    let described = place.describe();
    let mut session = place.session(variant)?;
    for sample in samples {
        let sample = sample?;
        session.reset()?;
        for (number, binding) in session.bindings(Direction::Input) {
            let given = sample.inputs.iter().find(|(name, _)| name == binding.name);
            let (_, tensor) = given.with_context(|| format!("input '{}' is missing", binding.name))?;
            session.write(number, tensor.bytes())?;
        }
        session.replay()?;
        let (mut outputs, mut bytes) = (Vec::new(), HashMap::new());
        for (number, binding) in session.bindings(Direction::Output) {
            let mut contents = vec![0; length(&binding)?];
            session.read(number, &mut contents)?;
            if binding.name != exposed::NAME {
                let shape = binding.shape.iter().map(|&extent| extent as usize).collect();
                outputs.push((binding.name.to_owned(), Tensor::new(binding.dtype, shape, contents.clone())));
            }
            bytes.insert(number, contents);
        }
        each(sample, &Replayed { outputs, bytes, places: &places })?;
    }
    Ok(described)
}
