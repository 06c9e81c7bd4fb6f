//! Mutations of kernels that keep them valid: every kernel family's parameters, changed as values rather than as bytes.

use crate::random::Random;
use floe_kernels::{Kernel, codegen::all_cases};
use serde_json::{Value, json};
use std::sync::LazyLock;

/// The cases of every kernel family's tests that are small.
static CASES: LazyLock<Vec<Kernel>> = LazyLock::new(|| {
    let mut cases = all_cases();
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
    // JSON has no infinities: a kernel with one stays as it is.
    let Ok(tree) = serde_json::to_value(kernel) else { return kernel.clone() };
    for _ in 0..ATTEMPTS {
        let mut changed = tree.clone();
        for _ in 0..=random.below(3) {
            change(&mut changed, random);
        }
        let Ok(changed) = serde_json::from_value::<Kernel>(changed) else { continue };
        if changed.family().check().is_ok() && changed != *kernel {
            return changed;
        }
    }
    kernel.clone()
}

/// Changes one value of a tree, or all that are equal to it: extents stand in several views.
fn change(tree: &mut Value, random: &mut Random) {
    let mut all = Vec::new();
    walk(tree, &mut |value| all.push(value.clone()));
    let Some(old) = random.pick(&all).cloned() else { return };
    let new = match &old {
        Value::Number(number) => match (number.as_i64(), random.below(4)) {
            (Some(number), 0) => json!(number.wrapping_add([-8, -2, -1, 1, 2, 8][random.below(6)])),
            (Some(number), 1) => json!(number.wrapping_mul(2)),
            (Some(_), _) => json!(random.number()),
            (None, _) => json!([0.0, 1.0, -0.5, 1e-30, 1e30, f64::from(f32::MAX)][random.below(6)]),
        },
        Value::Bool(value) => json!(!value),
        Value::Array(values) if !values.is_empty() => {
            let mut values = values.clone();
            let (from, to) = (random.below(values.len()), random.below(values.len()));
            match random.below(3) {
                0 => drop(values.remove(from)),
                1 => values.insert(to, values[from].clone()),
                _ => values.swap(from, to),
            }
            json!(values)
        }
        // Something of another place, perhaps of the same kind.
        _ => random.pick(&all).cloned().unwrap_or(Value::Null),
    };
    let equal = random.below(3) == 0;
    let mut left = random.below(all.iter().filter(|value| **value == old).count());
    walk(tree, &mut |value| {
        if *value == old {
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
        Value::Object(fields) => fields.values_mut().for_each(|value| walk(value, visit)),
        _ => {}
    }
    visit(value);
}
