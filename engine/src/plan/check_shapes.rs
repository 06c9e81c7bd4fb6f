//! The check of variants of one target: one network, with the same weights and kernels, for different shapes.

use super::{
    PlanError, SectionKind, ShapesProblem,
    file::{Entry, VARIANT_SECTIONS, entry_index},
    format::{Binding, Direction, MAX_SHAPES, VariantHeader},
    reader::{Plan, Variant},
    section::add,
};

/// Sections that variants of one target share.
const SHARED: [SectionKind; 4] =
    [SectionKind::Kernels, SectionKind::ImageTable, SectionKind::Weights, SectionKind::Images];

/// Checks the variants of each target against one another, after each of them was found sound. A function of its own, so that its
/// stack and that of decoding do not add up.
#[inline(never)]
pub(super) fn check_shapes(plan: &Plan<'_>) -> Result<(), PlanError> {
    for variant in plan.variants() {
        let number = variant.number();
        let first = number - variant.place();
        check_variant(plan, &variant, first)
            .map_err(|problem| PlanError::Shapes { variant: number as u32, problem })?;
    }
    Ok(())
}

/// Checks a variant against those before it. The variants of its target begin with number `first`.
fn check_variant(plan: &Plan<'_>, variant: &Variant<'_>, first: usize) -> Result<(), ShapesProblem> {
    if plan.variants().take(first).any(|earlier| earlier.header().target == variant.header().target) {
        return Err(ShapesProblem::Apart);
    }
    if variant.place() >= MAX_SHAPES {
        return Err(ShapesProblem::TooMany);
    }
    if variant.number() == first {
        return Ok(());
    }
    for earlier in variant.shapes().take(variant.place()) {
        if inputs(&earlier).map(|binding| binding.shape).eq(inputs(variant).map(|binding| binding.shape)) {
            return Err(ShapesProblem::Equal { other: earlier.number() as u32 });
        }
    }
    let leading = variant.shapes().next().ok_or(ShapesProblem::Apart)?;
    check_headers(leading.header(), variant.header())?;
    for (position, section) in VARIANT_SECTIONS.into_iter().enumerate().filter(|(_, kind)| SHARED.contains(kind)) {
        let slice = |variant: &Variant<'_>| {
            let entry = Entry::read(plan.bytes, entry_index(variant.number(), position))?;
            entry.slice(plan.bytes)
        };
        let (of_leading, own) = (slice(&leading), slice(variant));
        // Blobs may be gigabytes: they are stored once, so not compared.
        let same = match section.is_blob() {
            true => of_leading.map(<[u8]>::as_ptr_range) == own.map(<[u8]>::as_ptr_range),
            false => of_leading == own,
        };
        if !same {
            return Err(ShapesProblem::Section(section.name()));
        }
    }
    for ((number, binding), wanted) in (0..).zip(variant.bindings()).zip(leading.bindings()) {
        if !agrees(&binding, &wanted) {
            return Err(ShapesProblem::Binding(number));
        }
    }
    check_memory(variant)
}

fn inputs<'a>(variant: &Variant<'a>) -> impl Iterator<Item = Binding<'a>> + use<'a> {
    variant.bindings().filter(|binding| binding.direction == Direction::Input)
}

/// Refuses a header that differs in more than what depends on shapes: the steps and the arena.
fn check_headers(leading: &VariantHeader<'_>, header: &VariantHeader<'_>) -> Result<(), ShapesProblem> {
    let fields = [
        ("architecture", leading.architecture == header.architecture),
        ("tuned_for", leading.tuned_for == header.tuned_for),
        ("image_kind", leading.image_kind == header.image_kind),
        ("driver", leading.driver == header.driver),
        ("nvrtc", leading.nvrtc == header.nvrtc),
        ("precision", leading.precision == header.precision),
        ("multiprocessors", leading.multiprocessors == header.multiprocessors),
        ("bindings", leading.bindings == header.bindings),
    ];
    let differs = fields.iter().find(|(_, agrees)| !agrees);
    differs.map_or(Ok(()), |(field, _)| Err(ShapesProblem::Field(field)))
}

/// Whether a binding is the same in both shapes. States keep what they hold, so not even their extents may differ.
fn agrees(a: &Binding<'_>, b: &Binding<'_>) -> bool {
    let same = (a.name, a.direction, a.dtype, a.shape.len()) == (b.name, b.direction, b.dtype, b.shape.len());
    same && (a.direction != Direction::State || a.shape == b.shape)
}

/// Adds up what a session of all shapes up to this one needs at most.
fn check_memory(variant: &Variant<'_>) -> Result<(), ShapesProblem> {
    let shapes = || variant.shapes().take(variant.place() + 1);
    let parts = shapes().map(|shape| shape.header().arena_bytes).chain([variant.weights().len() as u64]);
    let bindings = shapes().flat_map(|shape| shape.bindings()).map(|binding| binding.bytes().unwrap_or(u64::MAX));
    parts.chain(bindings).try_fold(0, add).map(drop).map_err(|_| ShapesProblem::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_differ_in_arena_and_steps_alone() {
        let header = VariantHeader { target: "gpu", architecture: 87, ..VariantHeader::default() };
        let other = VariantHeader { arena_bytes: 9, arena_lower_bound: 8, zeroed_bytes: 7, steps: 6, ..header.clone() };
        assert_eq!(check_headers(&header, &other), Ok(()));
        type Change = fn(&mut VariantHeader<'_>);
        let changes: [(&str, Change); 8] = [
            ("architecture", |header| header.architecture += 1),
            ("tuned_for", |header| header.tuned_for += 1),
            ("image_kind", |header| header.image_kind = super::super::format::ImageKind::Ptx),
            ("driver", |header| header.driver += 1),
            ("nvrtc", |header| header.nvrtc = "12.6"),
            ("precision", |header| header.precision = "f16"),
            ("multiprocessors", |header| header.multiprocessors += 1),
            ("bindings", |header| header.bindings += 1),
        ];
        for (field, change) in changes {
            let mut changed = header.clone();
            change(&mut changed);
            assert_eq!(check_headers(&header, &changed), Err(ShapesProblem::Field(field)));
        }
    }
}
