//! Whatever is done to a plan, reading it gives a checked plan or an error, and a checked plan replays without panic.

use crate::support::{
    Aligned, candidates_parts, cuda_parts, host_parts, kernel_parts, rewrite, seal, two_shapes, write,
};
use floe_engine::{
    host::{self, Block},
    plan::{
        Plan, VariantParts,
        format::{MAGIC, VERSION},
    },
};
use floe_kernels::{Kernel, codegen::all_cases};
use proptest::{prelude::*, sample::Index};
use serde_json::{Number, Value, json};
use std::sync::LazyLock;

/// More work than this is legal, but not for a test.
const WORK: u64 = 1 << 20;

/// Functions for operators of all names: they read and write everything that they get.
struct Any;

impl host::Operators for Any {
    fn has(&self, _: &str) -> bool {
        true
    }

    fn run(&self, call: &mut host::Call<'_, '_>) -> Result<(), u32> {
        let sum = call.inputs.iter().flat_map(|input| *input).fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        call.outputs.iter_mut().for_each(|output| output.fill(sum));
        call.workspace.fill(sum);
        for (view, bytes) in call.operator.inputs.iter().zip(call.inputs) {
            assert_eq!(view.bytes().unwrap(), bytes.len() as u64);
        }
        Ok(())
    }
}

/// Whether the plan is legal.
fn parse_and_replay(bytes: &[u8]) -> bool {
    let bytes = Aligned::new(bytes);
    let Ok(plan) = Plan::parse(&bytes) else { return false };
    if plan.verify_blobs().is_ok() {
        let unsigned = plan.file_bytes() as usize - if plan.is_signed() { 72 } else { 0 };
        assert!(rewrite(&plan, &bytes) == bytes[..unsigned], "a plan of another layout than the writer's");
    }
    for variant in plan.variants() {
        assert_eq!(variant.steps().count(), variant.header().steps as usize);
        let _ = (variant.images().count(), variant.notes().count(), variant.memory());
        for candidate in variant.candidates() {
            // What the check has promised.
            for launch in &candidate.launches {
                assert!(!variant.candidate_image(launch.image).bytes().is_empty());
                assert!(launch.arguments.iter().all(|a| usize::from(a.operand) < candidate.operands.len()));
            }
        }
        assert_eq!(variant.candidates().count(), variant.header().candidates as usize);
        let too_much = variant.steps().any(|step| step.host_operations() > WORK);
        if !variant.is_host() || too_much || host::memory_bytes(&variant) > 1 << 20 {
            continue;
        }
        let mut memory = vec![Block::ZERO; host::blocks(&variant)];
        let mut session = host::Session::init_with(variant, bytemuck::cast_slice_mut(&mut memory), &Any).unwrap();
        session.replay().unwrap();
        session.replay().unwrap();
        let shapes: Vec<_> = session.variant().shapes().collect();
        for shape in shapes {
            session.choose(shape.number()).unwrap();
            if shape.steps().map(|step| step.host_operations()).fold(0, u64::saturating_add) <= WORK {
                session.replay().unwrap();
            }
        }
    }
    true
}

/// Kernels of every family that are small enough to be replayed, without infinite parameters, which JSON has not.
static KERNELS: LazyLock<Vec<Kernel>> = LazyLock::new(|| {
    let mut kernels = all_cases();
    kernels.push(Kernel::Custom(floe_kernels::custom::example()));
    kernels.retain(|kernel| {
        let whole = serde_json::to_value(kernel).and_then(serde_json::from_value::<Kernel>).is_ok();
        let bytes = kernel_parts(kernel.clone()).header.arena_bytes;
        whole && kernel.family().flops() < WORK && bytes < 1 << 17
    });
    kernels
});

/// One change of a tree of values.
#[derive(Clone, Debug)]
enum Change {
    Number(i64),
    Float(f64),
    /// Adds to a number.
    Add(i64),
    /// Removes the last of some values, or adds a copy of it.
    Shorten,
    Lengthen,
    /// Puts a value in the place of another.
    Copy(Index),
}

/// Numbers at which something may overflow or end.
const EDGES: [i64; 20] = [
    0,
    1,
    2,
    3,
    7,
    8,
    16,
    255,
    256,
    65_535,
    (1 << 24) + 1,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 40,
    i64::MAX,
    -1,
    -2,
    -(1 << 31),
    i64::MIN,
];

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => prop::sample::select(&EDGES[..]).prop_map(Change::Number),
        1 => prop::sample::select(vec![0.0, -0.5, 1e-30, 1e30, f64::MAX]).prop_map(Change::Float),
        2 => prop::sample::select(vec![-8, -1, 1, 8]).prop_map(Change::Add),
        1 => Just(Change::Shorten),
        1 => Just(Change::Lengthen),
        1 => any::<Index>().prop_map(Change::Copy),
    ]
}

/// Calls `visit` with every value of a tree.
fn walk(value: &mut Value, visit: &mut impl FnMut(&mut Value)) {
    visit(value);
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| walk(value, visit)),
        Value::Object(fields) => fields.values_mut().for_each(|value| walk(value, visit)),
        _ => {}
    }
}

impl Change {
    /// Whether a value can be changed so.
    fn fits(&self, value: &Value) -> bool {
        match self {
            Self::Number(_) | Self::Add(_) | Self::Float(_) => value.is_number(),
            Self::Shorten | Self::Lengthen => value.is_array(),
            Self::Copy(_) => true,
        }
    }

    /// How many values of a tree can be changed so.
    fn places(&self, tree: &mut Value) -> usize {
        let mut places = 0;
        walk(tree, &mut |value| places += usize::from(self.fits(value)));
        places
    }
}

/// Changes the value of this number among those that the change fits.
fn apply(tree: &mut Value, place: usize, change: &Change) {
    let mut all = Vec::new();
    if matches!(change, Change::Copy(_)) {
        walk(tree, &mut |value| all.push(value.clone()));
    }
    let mut left = place as isize;
    walk(tree, &mut |value| {
        if left < 0 || !change.fits(value) {
            return;
        }
        left -= 1;
        if left >= 0 {
            return;
        }
        *value = match (change, &*value) {
            (&Change::Number(number), _) => json!(number),
            (&Change::Float(number), _) => json!(number),
            (&Change::Add(number), found) => json!(found.as_i64().unwrap_or(0).wrapping_add(number)),
            (Change::Shorten, Value::Array(values)) => json!(values[..values.len().saturating_sub(1)]),
            (Change::Lengthen, Value::Array(values)) => {
                let last = values.last().cloned().unwrap_or(Value::Number(Number::from(7)));
                json!([&values[..], &[last]].concat())
            }
            (Change::Copy(other), _) => all[other.index(all.len())].clone(),
            (_, found) => found.clone(),
        };
    });
}

/// A plan whose steps were changed as values, so that it still decodes, and is signed.
fn with_hostile_steps(
    parts: VariantParts<'static>,
    changes: &[(Index, Change)],
    arena: Option<u64>,
) -> Option<Vec<u8>> {
    let mut steps = serde_json::to_value(&parts.steps).unwrap();
    for (at, change) in changes {
        let places = change.places(&mut steps);
        if places > 0 {
            apply(&mut steps, at.index(places), change);
        }
    }
    with_steps(parts, steps, arena)
}

/// A signed plan with steps from such values, if there are such steps.
fn with_steps(mut parts: VariantParts<'static>, steps: Value, arena: Option<u64>) -> Option<Vec<u8>> {
    parts.steps = serde_json::from_value(steps).ok()?;
    parts.header.arena_bytes = arena.unwrap_or(parts.header.arena_bytes);
    // Plans without notes are legal; their number would have to be that of the steps.
    parts.notes.clear();
    Some(write([parts]).to_vec())
}

#[test]
fn every_family_is_mutated() {
    let mut families: Vec<&str> = KERNELS.iter().map(|kernel| kernel.family().name()).collect();
    families.dedup();
    for kernel in all_cases() {
        assert!(families.contains(&kernel.family().name()), "no small case of {}", kernel.family().name());
    }
    // And unchanged they pass.
    for kernel in KERNELS.iter() {
        let file = with_hostile_steps(kernel_parts(kernel.clone()), &[], None).unwrap();
        assert!(parse_and_replay(&file), "{kernel:?}");
    }
}

/// Every number of every kernel, changed to a few edges in turn: neighbouring kernels and numbers get others.
#[test]
fn every_number_is_changed() {
    for (index, kernel) in KERNELS.iter().enumerate() {
        let parts = kernel_parts(kernel.clone());
        let steps = serde_json::to_value(&parts.steps).unwrap();
        let places = Change::Number(0).places(&mut steps.clone());
        for (place, turn) in (0..places).flat_map(|place| (0..3).map(move |turn| (place, turn))) {
            let number = EDGES[(index + place + 7 * turn) % EDGES.len()];
            let mut steps = steps.clone();
            apply(&mut steps, place, &Change::Number(number));
            if let Some(file) = with_steps(parts.clone(), steps, None) {
                parse_and_replay(&file);
            }
        }
    }
}

/// Changes bytes inside a section, by its number in the file's table, and reads what has become of it.
fn change_section(mut bytes: Vec<u8>, section: usize, changes: Vec<(Index, u8)>) {
    let entry = 96 + 24 * section;
    let field = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let (start, length) = (field(entry + 8), field(entry + 16));
    for (index, value) in changes.into_iter().filter(|_| length > 0) {
        bytes[start + index.index(length)] = value;
    }
    seal(&mut bytes);
    parse_and_replay(&bytes);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Hostile parameters for every kernel family, operands out of range or over each other.
    #[test]
    fn hostile_kernels(
        kernel in any::<Index>(),
        changes in prop::collection::vec((any::<Index>(), change()), 1..4),
        arena in prop::option::weighted(0.1, prop::sample::select(vec![0, 64, 1 << 19, 1 << 40, 1 << 62, u64::MAX])),
    ) {
        let parts = kernel_parts(KERNELS[kernel.index(KERNELS.len())].clone());
        if let Some(file) = with_hostile_steps(parts, &changes, arena) {
            parse_and_replay(&file);
        }
    }

    /// Steps that wait for themselves or for later ones, read what is not there, write what they may not.
    #[test]
    fn hostile_steps(changes in prop::collection::vec((any::<Index>(), change()), 1..4), host: bool) {
        let parts = if host { host_parts() } else { cuda_parts() };
        if let Some(file) = with_hostile_steps(parts, &changes, None) {
            parse_and_replay(&file);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes(changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..8), signed: bool) {
        let mut bytes = write([host_parts(), cuda_parts()]).to_vec();
        for (index, value) in changes {
            let at = index.index(bytes.len());
            bytes[at] = value;
        }
        if signed {
            seal(&mut bytes);
        }
        parse_and_replay(&bytes);
    }

    /// Changes inside the steps' section only, where most of what a plan can say is said.
    #[test]
    fn changed_steps(changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..4), host: bool) {
        change_section(write([if host { host_parts() } else { cuda_parts() }]).to_vec(), 2, changes);
    }

    /// Changes inside a section of a plan with several shapes.
    #[test]
    fn changed_shapes(section in 1usize..41, changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..4)) {
        change_section(two_shapes(), section, changes);
    }

    /// Changes inside the candidates of a candidates plan.
    #[test]
    fn changed_candidates(changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..4)) {
        change_section(write([candidates_parts()]).to_vec(), 9, changes);
    }

    #[test]
    fn cut_and_pasted(cut in any::<Index>(), paste in any::<Index>(), length in 1usize..64) {
        let mut bytes = write([host_parts()]).to_vec();
        let from = cut.index(bytes.len() - length);
        let to = paste.index(bytes.len() - length);
        bytes.copy_within(from..from + length, to);
        seal(&mut bytes);
        parse_and_replay(&bytes);
    }

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..2048), magic: bool) {
        let mut bytes = bytes;
        if magic && bytes.len() >= 12 {
            bytes[..8].copy_from_slice(&MAGIC);
            bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        }
        parse_and_replay(&bytes);
    }
}
