//! A plan in the making: the variants of each target, shape by shape.

use crate::{
    emit::{self, Pool, Variant},
    forms::Forms,
    fused::FusedGraph,
    kernel_graph::OwnedBinding,
    pipeline::{self, COMPILER, CompileError, CompileOptions, CompiledPlan, Progress, VariantReport},
};
use floe_engine::plan::{
    Plan, PlanError, PlanWriter,
    format::{Direction, MAX_SHAPES, MAX_VARIANTS},
};

/// The variants of one target, and what they have in common.
#[derive(Debug, Default)]
struct Group {
    pool: Pool,
    forms: Forms,
    variants: Vec<(Variant, VariantReport)>,
}

/// A plan in the making.
pub(crate) struct Assembly<'a> {
    options: &'a CompileOptions,
    progress: &'a (dyn Fn(Progress<'_>) + Sync),
    model: String,
    shapes: usize,
    /// One for each target.
    groups: Vec<Group>,
}

impl<'a> Assembly<'a> {
    pub fn new(options: &'a CompileOptions, progress: &'a (dyn Fn(Progress<'_>) + Sync)) -> Self {
        let groups = options.targets.iter().map(|_| Group::default()).collect();
        Self { options, progress, model: String::new(), shapes: 0, groups }
    }

    /// Adds a variant of each target, for the shapes of a network.
    ///
    /// # Errors
    /// What is wrong with the network, or with its shapes beside those before.
    pub fn add(&mut self, fused: &FusedGraph) -> Result<(), CompileError> {
        pipeline::check(fused, self.options)?;
        self.shapes += 1;
        let number = self.shapes;
        let refuse = |reason: String| CompileError::Shapes { number, reason };
        if number > MAX_SHAPES || number * self.groups.len() > MAX_VARIANTS as usize {
            let most = MAX_SHAPES.min(MAX_VARIANTS as usize / self.groups.len().max(1));
            return Err(refuse(format!("is one too many: for so many targets a plan holds {most} at most")));
        }
        self.model = emit::printable(&fused.name);
        let several = !self.options.further_shapes.is_empty();
        for (target, group) in self.options.targets.iter().zip(&mut self.groups) {
            let Group { pool, forms, variants } = group;
            forms.begin();
            let forms = several.then_some(forms);
            let made = pipeline::variant(fused, target, self.options, forms, pool, self.progress)?;
            for (earlier, _) in variants.iter() {
                differ(&earlier.bindings, &made.0.bindings).map_err(refuse)?;
            }
            variants.push(made);
        }
        Ok(())
    }

    /// Writes the plan.
    ///
    /// # Errors
    /// Where the engine's check refuses it.
    pub fn finish(self) -> Result<CompiledPlan, CompileError> {
        (self.progress)(Progress::Phase("write"));
        let (mut all, mut reports) = (Vec::new(), Vec::new());
        for Group { pool, variants, .. } in self.groups {
            let (mut variants, own): (Vec<_>, Vec<_>) = variants.into_iter().unzip();
            // A session runs all shapes, so it needs what the most demanding one does.
            let multiprocessors = variants.iter().map(|variant| variant.multiprocessors).max().unwrap_or(0);
            variants.iter_mut().for_each(|variant| variant.multiprocessors = multiprocessors);
            if let Some(first) = variants.first_mut() {
                pool.move_into(first);
            }
            all.push(variants);
            reports.extend(own);
        }
        let mut writer = PlanWriter::new(&self.model, COMPILER).version(self.options.version);
        for (shape, variant) in all.iter_mut().flat_map(|variants| variants.iter_mut().enumerate()) {
            writer = if shape == 0 { writer.variant(variant.parts()) } else { writer.shape(variant.parts()) };
        }
        let bytes = writer.finish();
        Plan::parse(&bytes).map_err(|error: PlanError| CompileError::Check(error.to_string()))?;
        Ok(CompiledPlan { bytes, variants: reports })
    }
}

/// Refuses a shape that is the same as an earlier one, or no other shape of the same network.
fn differ(earlier: &[OwnedBinding], new: &[OwnedBinding]) -> Result<(), String> {
    let inputs = |all: &[OwnedBinding]| {
        let inputs = all.iter().filter(|binding| binding.direction == Direction::Input);
        inputs.map(|binding| binding.shape.clone()).collect::<Vec<_>>()
    };
    if inputs(earlier) == inputs(new) {
        return Err("is the same as an earlier one: every input has equal extents in both".into());
    }
    if earlier.len() != new.len() {
        return Err(
            "gives the network other inputs or outputs than the first: compile it into a plan of its own".into()
        );
    }
    for (a, b) in earlier.iter().zip(new) {
        let name = &a.name;
        if (a.direction, a.dtype, &a.name, a.shape.len()) != (b.direction, b.dtype, &b.name, b.shape.len()) {
            return Err(format!(
                "gives '{name}' another type or number of dimensions than the first: compile it into a plan of its own"
            ));
        }
        if a.direction == Direction::State && a.shape != b.shape {
            return Err(format!(
                "gives state '{name}' other extents: a state keeps what it holds, so it has one shape. Make it an input and \
                 an output, without --state"
            ));
        }
    }
    Ok(())
}
