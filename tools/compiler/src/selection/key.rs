//! What timing tables call candidates, and what people call kernels.

use crate::nvrtc::cache;
use floe_kernels::{
    Kernel, MAX_INPUTS, MAX_OUTPUTS, View,
    codegen::{Candidate, Packing},
};

/// What a timing table calls a candidate: 16 hexadecimal digits of a hash of everything that its time depends on, which
/// is the generated sources, how they are launched, and how its memory is laid out.
pub fn key(candidate: &Candidate) -> String {
    let packing: Vec<String> = candidate.packing.iter().map(describe_packing).collect();
    let mut parts = vec![format!("{} {} {packing:?}", candidate.workspace, candidate.counters)];
    for launch in &candidate.launches {
        let geometry = (launch.grid, launch.block, launch.shared, &launch.arguments);
        parts.extend([launch.source.to_string(), launch.entry.clone(), format!("{geometry:?}")]);
    }
    cache::key(parts.iter().map(String::as_str)).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn describe_packing(packing: &Packing) -> String {
    match packing {
        Packing::Keep => String::new(),
        Packing::View(view) => format!("{} {:?} {:?}", view.dtype.name(), view.shape, view.strides),
        Packing::Transform(transform) => transform.to_string(),
    }
}

/// A kernel in words: its family, then the shapes and types of inputs and outputs.
pub fn describe(kernel: &Kernel) -> String {
    let family = kernel.family();
    let view = |view: &View| {
        let extents: Vec<String> = view.shape.iter().map(u32::to_string).collect();
        format!("{}:{}", extents.join("x"), view.dtype.name())
    };
    let inputs: Vec<String> = (0..MAX_INPUTS).filter_map(|i| family.input(i)).map(view).collect();
    let outputs: Vec<String> = (0..MAX_OUTPUTS).filter_map(|i| family.output(i)).map(view).collect();
    format!("{} {} -> {}", family.name(), inputs.join(" "), outputs.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use floe_kernels::codegen::{Argument, Launch};

    #[test]
    fn keys_follow_whatever_changes_the_time() {
        let launch = Launch::new("kernel".to_owned(), "k", 1, 32, vec![Argument::Input(0), Argument::Output(0)]);
        let base = Candidate::new("direct", "a".into(), vec![launch], 1.0);
        assert_eq!(key(&base).len(), 16);
        assert_eq!(key(&base), key(&Candidate { cost: 2.0, configuration: "renamed".into(), ..base.clone() }));
        let mut changes = [base.clone(), base.clone(), base.clone(), base.clone()];
        changes[0].launches[0].grid[0] = 2;
        changes[1].launches[0].source = " ".to_owned().into();
        changes[2].workspace = 16;
        changes[3].launches[0].arguments.swap(0, 1);
        assert!(changes.iter().all(|changed| key(changed) != key(&base)));
    }
}
