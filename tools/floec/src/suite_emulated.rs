//! Cases of `floec suite` on a GPU in software, with every access watched.

use anyhow::{Context, Result, bail};
use floe::{
    emulated::Emulated,
    inputs::length,
    session::{DeviceKind, Request},
};
use floe_compiler::{
    pipeline::Precision,
    suite::{self, Named, Report, Tolerance, model_dtype},
};
use floe_emulator::driver::Mode;
use floe_engine::{
    host::Block,
    plan::{Plan, format::Direction},
};
use floe_kernels::codegen::Target;
use floe_models::Tensor;
use std::path::Path;

/// Runs a case. A finding is a failure.
pub fn run(case: &Path, target: &Target, precision: Precision, tolerance: Tolerance) -> Report {
    let sets = suite::prepare_ptx(case, target, precision);
    suite::judge(sets, tolerance, |plan, inputs| replay(plan, inputs, target).map_err(|error| format!("{error:#}")))
}

fn replay(bytes: &[u8], inputs: &Named, target: &Target) -> Result<Named> {
    let mut file = vec![Block::ZERO; bytes.len().div_ceil(size_of::<Block>())];
    let aligned: &mut [u8] = bytemuck::cast_slice_mut(&mut file);
    aligned[..bytes.len()].copy_from_slice(bytes);
    let plan = Plan::parse(&aligned[..bytes.len()]).map_err(|error| anyhow::anyhow!("{error}"))?;
    let variant = Some(target.name.clone());
    let request = Request { device: DeviceKind::Emulated, variant, ..Request::default() };
    let (mut emulated, variant) = Emulated::choose(&plan, &request)?;
    emulated.set_mode(Mode::Watch);
    let mut session = emulated.session(variant)?;
    for (number, binding) in session.bindings(Direction::Input) {
        let (_, tensor) = inputs.iter().find(|(name, _)| name == binding.name).context("an input of the plan")?;
        session.write(number, tensor.bytes())?;
    }
    let replayed = session.replay();
    if let Some(finding) = emulated.emulator().findings().first() {
        bail!("{finding}");
    }
    replayed?;
    let mut outputs = Vec::new();
    for (number, binding) in session.bindings(Direction::Output) {
        let mut bytes = vec![0; length(&binding)?];
        session.read(number, &mut bytes)?;
        let shape = binding.shape.iter().map(|&extent| extent as usize).collect();
        outputs.push((binding.name.to_owned(), Tensor::new(model_dtype(binding.dtype), shape, bytes)));
    }
    Ok(outputs)
}
