//! Kernel cases on a target: what each family's kernels are verified on, their candidates, and how far these may be off.

use crate::operands::outputs;
use anyhow::{Result, bail};
use floe::selftest::operand::Allowance;
use floe_compiler::nvrtc::Request;
use floe_engine::plan::format::ImageKind;
use floe_kernels::{
    DType, Kernel,
    codegen::{Candidate, Launch, Target, all_cases},
};
use std::collections::BTreeMap;

/// A kernel and its candidates on a target.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its number among the cases of all families, which is the seed of its inputs.
    pub number: usize,
    /// The kernel.
    pub kernel: Kernel,
    /// Its candidates, or why there are none.
    pub candidates: Result<Vec<Candidate>, String>,
}

impl Case {
    /// Name of the family.
    pub fn family(&self) -> &'static str {
        self.kernel.family().name()
    }

    /// Element types of its operands.
    fn types(&self) -> String {
        let family = self.kernel.family();
        let views = (0..).map_while(|index| family.input(index)).chain(outputs(family));
        views.map(|view| view.dtype.name()).collect::<Vec<_>>().join(" ")
    }

    /// The case for people.
    pub fn what(&self) -> String {
        format!("case {} {}", self.number, self.name())
    }

    /// Family and operands: what stays when cases are added.
    fn name(&self) -> String {
        let family = self.kernel.family();
        let views: Vec<String> = (0..)
            .map_while(|index| family.input(index))
            .chain(outputs(family))
            .map(|view| format!("{}{:?}", view.dtype.name(), view.shape.as_slice()))
            .collect();
        format!("{} {}", family.name(), views.join(" "))
    }

    /// The case and why the family refuses it, where it does.
    pub fn refusal(&self) -> Option<String> {
        self.candidates.as_ref().err().map(|why| format!("{}: {why}", self.name()))
    }

    /// Every launch of every candidate, with the names of case and candidate.
    pub fn requests(&self, architecture: u32, image: ImageKind) -> Vec<(String, Request)> {
        let candidates = self.candidates.iter().flatten();
        let requests = candidates.flat_map(|candidate| {
            let name = format!("{} | {} {}", self.what(), candidate.algorithm, candidate.configuration);
            let request = move |launch: &Launch| Request::of(launch, architecture, image);
            candidate.launches.iter().map(move |launch| (name.clone(), request(launch)))
        });
        requests.collect()
    }

    /// How far a candidate may be off.
    pub fn allowance(&self, candidate: &Candidate) -> Allowance {
        Allowance {
            sums: sums(&self.kernel),
            relaxed: candidate.relaxed_tolerance.or_else(|| rounded_reference(&self.kernel)),
        }
    }
}

/// All cases of families, of all families where none is named.
///
/// # Errors
/// Returns an error if no family has one of the names.
pub fn cases(target: &Target, families: &[String]) -> Result<Vec<Case>> {
    if let Some(unknown) = families.iter().find(|name| !floe_kernels::FAMILIES.contains(&name.as_str())) {
        bail!("no family is called {unknown}; they are {}", floe_kernels::FAMILIES.join(", "));
    }
    let named = |kernel: &Kernel| families.is_empty() || families.iter().any(|name| name == kernel.family().name());
    let with_candidates = |(number, kernel): (usize, Kernel)| {
        let candidates = match target.is_host() {
            // What runs there is the reference kernel.
            true => Ok(vec![Candidate::new("host", String::new(), Vec::new(), 0.0)]),
            false => kernel.candidates(target).map_err(|unsupported| unsupported.0),
        };
        Case { number, kernel, candidates }
    };
    Ok(all_cases().into_iter().enumerate().filter(|(_, kernel)| named(kernel)).map(with_candidates).collect())
}

/// How long a candidate takes on a GPU in software, roughly: threads, and what they compute.
pub fn effort(case: &Case, candidate: &Candidate) -> u64 {
    let extents = |launch: &Launch| [launch.grid, launch.block].concat();
    let threads = |launch| extents(launch).into_iter().map(u64::from).product::<u64>();
    100 * candidate.launches.iter().map(threads).sum::<u64>() + case.kernel.family().flops()
}

/// Keeps of each family's algorithms, for each combination of element types, the candidate that takes least effort; of those
/// with another kernel, and those whose blocks form clusters, count as another algorithm.
pub fn keep_smallest(cases: &mut Vec<Case>) {
    let mut smallest: BTreeMap<String, (u64, usize, usize)> = BTreeMap::new();
    for (place, case) in cases.iter().enumerate() {
        for (number, candidate) in case.candidates.iter().flatten().enumerate() {
            let entries: Vec<&str> = candidate.launches.iter().map(|launch| launch.entry.as_str()).collect();
            let clusters = candidate.launches.iter().any(|launch| launch.cluster > 1);
            let (family, algorithm) = (case.family(), candidate.algorithm);
            let key = format!("{family} {algorithm} {} {entries:?} {clusters}", case.types());
            let found = (effort(case, candidate), place, number);
            smallest.entry(key).and_modify(|kept| *kept = found.min(*kept)).or_insert(found);
        }
    }
    let kept: Vec<(usize, usize)> = smallest.into_values().map(|(_, place, number)| (place, number)).collect();
    for (place, case) in cases.iter_mut().enumerate() {
        let mut number = 0..;
        if let Ok(candidates) = &mut case.candidates {
            candidates.retain(|_| number.next().is_some_and(|number| kept.contains(&(place, number))));
        }
    }
    cases.retain(|case| case.candidates.as_ref().is_ok_and(|candidates| !candidates.is_empty()));
}

/// The relative L2 error of a gate: its reference kernel rounds the average and the squeezed vector, where the fused kernels keep f32.
fn rounded_reference(kernel: &Kernel) -> Option<f64> {
    let gate = match kernel {
        Kernel::MbConv(block) => block.gate.is_some(),
        Kernel::SqueezeExcite(_) => true,
        _ => false,
    };
    let bound = match kernel.family().output(0)?.dtype {
        DType::F16 => 2e-3,
        DType::Bf16 => 1.6e-2,
        _ => return None,
    };
    gate.then_some(bound)
}

/// Whether a family adds up many terms, in another order on the GPU than on the host.
fn sums(kernel: &Kernel) -> bool {
    match kernel {
        Kernel::QuantizedConv(conv) => conv.is_float(),
        Kernel::Conv(_)
        | Kernel::AveragedConv(_)
        | Kernel::ConvTranspose(_)
        | Kernel::MatMul(_)
        | Kernel::MomentsMatMul(_)
        | Kernel::Reduce(_)
        | Kernel::Normalize(_)
        | Kernel::Pool(_)
        | Kernel::Cumulative(_) => true,
        _ => false,
    }
}
