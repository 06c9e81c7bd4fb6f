//! Mutations that keep kernels and steps valid: their parameters, changed as values rather than as bytes.

use crate::random::Random;
use ciborium::Value;
use floe_kernels::{Kernel, codegen::all_cases};
use serde::{Serialize, de::DeserializeOwned};
use std::sync::LazyLock;

/// The cases of every kernel family's tests that are small.
static CASES: LazyLock<Vec<Kernel>> = LazyLock::new(|| {
    let mut cases = all_cases();
    cases.push(Kernel::Custom(floe_kernels::custom::example()));
    cases.retain(|kernel| kernel.family().host_operations() < crate::replay::WORK / 4);
    cases
});

/// Any of the cases.
pub fn case(random: &mut Random) -> Kernel {
    CASES[random.below(CASES.len())].clone()
}

/// The kernel with some of its parameters changed so that its check still accepts it; itself where that does not succeed.
pub fn kernel(kernel: &Kernel, random: &mut Random) -> Kernel {
    const ATTEMPTS: usize = 8;
    for _ in 0..ATTEMPTS {
        let Some(changed) = value(kernel, random) else { continue };
        if changed.family().check().is_ok() && changed != *kernel {
            return changed;
        }
    }
    kernel.clone()
}

/// A value with one to three of those inside it changed, NaN and infinities among what floats become; `None` where that is no
/// such value any more. (CBOR has them, other than JSON.)
pub fn value<T: Serialize + DeserializeOwned>(value: &T, random: &mut Random) -> Option<T> {
    let mut tree = Value::serialized(value).ok()?;
    for _ in 0..=random.below(3) {
        change(&mut tree, random);
    }
    tree.deserialized().ok()
}

const FLOATS: [f64; 10] =
    [0.0, -0.0, 1.0, -0.5, 1e-30, 1e30, f32::MAX as f64, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];

/// Changes one value of a tree, or all that are equal to it: extents stand in several views.
fn change(tree: &mut Value, random: &mut Random) {
    let mut all = Vec::new();
    walk(tree, &mut |value| all.push(value.clone()));
    let Some(old) = random.pick(&all).cloned() else { return };
    let new = match &old {
        Value::Integer(number) => {
            let number = i64::try_from(i128::from(*number)).unwrap_or(i64::MAX);
            Value::from(match random.below(4) {
                0 => number.wrapping_add([-8, -2, -1, 1, 2, 8][random.below(6)]),
                1 => number.wrapping_mul(2),
                _ => random.number(),
            })
        }
        Value::Float(_) => Value::from(FLOATS[random.below(FLOATS.len())]),
        Value::Bool(value) => Value::from(!value),
        Value::Array(values) if !values.is_empty() => {
            let mut values = values.clone();
            let (from, to) = (random.below(values.len()), random.below(values.len()));
            match random.below(3) {
                0 => drop(values.remove(from)),
                1 => values.insert(to, values[from].clone()),
                _ => values.swap(from, to),
            }
            Value::Array(values)
        }
        // Something of another place, perhaps of the same kind.
        _ => random.pick(&all).cloned().unwrap_or(Value::Null),
    };
    let equal = random.below(3) == 0;
    // A NaN equals nothing, itself neither.
    let is_old = |value: &Value| {
        *value == old || matches!((value, &old), (Value::Float(a), Value::Float(b)) if a.is_nan() && b.is_nan())
    };
    let mut left = random.below(all.iter().filter(|value| is_old(value)).count());
    walk(tree, &mut |value| {
        if is_old(value) {
            if equal || left == 0 {
                *value = new.clone();
            }
            left = left.wrapping_sub(1);
        }
    });
}

/// Calls `visit` with every value of a tree, those inside first.
fn walk(value: &mut Value, visit: &mut impl FnMut(&mut Value)) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| walk(value, visit)),
        Value::Map(fields) => fields.iter_mut().for_each(|(_, value)| walk(value, visit)),
        _ => {}
    }
    visit(value);
}
