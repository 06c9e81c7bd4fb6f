//! One replay of a case's plan, on any device.

use crate::suite::Named;
use anyhow::{Context, Result, bail};
use floe::{
    inputs::length,
    session::{Place, Request, Session},
};
use floe_emulator::driver::Mode;
use floe_engine::{
    host::Block,
    plan::{Plan, format::Direction},
};
use floe_models::Tensor;

/// Replays the variant of a plan that the request names, once; outputs in the plan's order. The first plan opens the place.
/// A GPU in software watches every access, and a finding is an error.
///
/// # Errors
/// Returns an error if the plan, an input or the device is not usable, or the replay fails.
pub fn replay(bytes: &[u8], inputs: &Named, request: &Request, place: &mut Option<Place>) -> Result<Named> {
    let mut file = vec![Block::ZERO; bytes.len().div_ceil(size_of::<Block>())];
    let aligned: &mut [u8] = bytemuck::cast_slice_mut(&mut file);
    aligned[..bytes.len()].copy_from_slice(bytes);
    let plan = Plan::parse(&aligned[..bytes.len()]).map_err(|error| anyhow::anyhow!("{error}"))?;
    let name = request.variant.as_deref();
    let variant =
        plan.variants().find(|variant| Some(variant.header().target) == name).context("the plan's variant")?;
    let place = match place {
        Some(place) => place,
        None => place.insert(Place::choose(&plan, request)?.0),
    };
    if let Place::Emulated(emulated) = place {
        emulated.set_mode(Mode::Watch);
    }
    let outputs = place.session(variant).and_then(|session| once(session, inputs));
    if let Place::Emulated(emulated) = place
        && let Some(finding) = emulated.emulator().findings().first()
    {
        bail!("{finding}");
    }
    outputs
}

fn once(mut session: Session<'_, '_>, inputs: &Named) -> Result<Named> {
    for (number, binding) in session.bindings(Direction::Input) {
        let (_, tensor) = inputs.iter().find(|(name, _)| name == binding.name).context("an input of the plan")?;
        session.write(number, tensor.bytes())?;
    }
    session.replay()?;
    let outputs = session.bindings(Direction::Output).into_iter().map(|(number, binding)| {
        let mut bytes = vec![0; length(&binding)?];
        session.read(number, &mut bytes)?;
        let shape = binding.shape.iter().map(|&extent| extent as usize).collect();
        Ok((binding.name.to_owned(), Tensor::new(binding.dtype, shape, bytes)))
    });
    outputs.collect()
}
