//! Cases of a bundle for `floe selftest`: kernels as plans of one step or a few, and networks, with references from the host.

use crate::{bounds::Bounds, cases::Case, layout::Layout, operands::Prepared};
use anyhow::{Context, Result, anyhow, ensure};
use floe::{
    inputs::random,
    outputs,
    plan_file::PlanFile,
    selftest::bundle::{self, Check, KernelOutput, NETWORKS, Parts},
    session::{DeviceKind, Place, Request},
    shapes::describe,
    usage::usage,
};
use floe_compiler::{
    emit::{self, VariantIdentity},
    kernel_graph::{BufferRange, KernelGraph, OwnedBinding, Storage},
    nvrtc::Compiled,
    pipeline::{self, COMPILER, CompileOptions},
    place,
    schedule::{Note, Schedule, ScheduledStep, StepAction, StepOperand},
    targets,
};
use floe_engine::plan::{Plan, PlanWriter, format::Direction};
use floe_kernels::{
    DType, Dims,
    codegen::{Argument, Candidate, Target},
};
use std::ops::Range;

/// A case of a bundle with its files.
pub type Entry = (bundle::Case, Parts);

/// A candidate of a kernel case, compiled; on the host, the reference kernel.
///
/// # Errors
/// Returns an error if the reference kernel does, or the plan is not sound.
pub fn kernel(case: &Case, candidate: &Candidate, compiled: &[Compiled], identity: VariantIdentity) -> Result<Entry> {
    let prepared = Prepared::new(&case.kernel, case.number)?;
    let packed = |index| prepared.packed(&case.kernel, index, candidate.packing.get(index));
    let inputs = (0..prepared.inputs.len()).map(packed).collect::<Result<Vec<_>>>()?;
    let outputs: Vec<usize> = prepared.outputs.iter().map(|output| output.bytes().len()).collect();
    let family = case.kernel.family();
    let is_for_host = identity.architecture == 0;
    let workspace = if is_for_host { family.host_workspace() } else { candidate.workspace };
    let layout = Layout::new(&inputs, &outputs, usize::try_from(workspace)?, usize::try_from(candidate.counters)?);

    // All of its memory is one state: what is written before a replay, and read after it.
    let mut graph = KernelGraph::default();
    let bytes = layout.image.len() as u64;
    let shape = Dims::from_slice(&[u32::try_from(bytes)?]).map_err(|_| anyhow!("one extent"))?;
    graph.bindings.push(OwnedBinding {
        name: "memory".to_owned(),
        direction: Direction::State,
        dtype: DType::U8,
        shape,
        content: String::new(),
    });
    let buffer = graph.add_buffer("memory", bytes, Storage::Binding(0));
    let operand = |(range, written): (Range<usize>, bool)| StepOperand {
        range: BufferRange { buffer, offset: range.start as u64, bytes: range.len() as u64 },
        written,
        rows: None,
    };
    let note = Note {
        node: case.what(),
        sources: vec![case.what()],
        family: case.family().to_owned(),
        algorithm: candidate.algorithm.to_owned(),
        configuration: candidate.configuration.clone(),
        ..Note::default()
    };
    let step = |action, operands| ScheduledStep { action, operands, note: note.clone() };
    let steps = if is_for_host {
        let inputs = (0..layout.inputs.len()).map(Argument::Input);
        let scratch = (workspace > 0).then_some(Argument::Workspace(0));
        let arguments = inputs.chain((0..layout.outputs.len()).map(Argument::Output)).chain(scratch);
        let operands = arguments.map(|argument| operand(layout.operand(argument))).collect();
        vec![step(StepAction::Host(case.kernel.clone()), operands)]
    } else {
        let launches = candidate.launches.iter().map(|launch| {
            let operands = launch.arguments.iter().map(|&argument| operand(layout.operand(argument))).collect();
            step(StepAction::Launch(launch.clone()), operands)
        });
        launches.collect()
    };
    let mut schedule = Schedule { steps, graph, ..Schedule::default() };
    let placement = place::place(&schedule, targets::find(&identity.target)?);
    let mut variant = emit::emit(&mut schedule, &placement, compiled, identity)?;
    let plan = PlanWriter::new(&case.what(), COMPILER).variant(variant.parts()).finish();
    Plan::parse(&plan).map_err(|error| anyhow!("{}: {error}", case.what()))?;

    let views = crate::operands::outputs(family).into_iter().zip(&layout.outputs);
    let check = Check::Kernel {
        outputs: views.map(|(view, range)| KernelOutput { start: range.start as u64, view: view.clone() }).collect(),
        workspace: layout.workspace.start as u64,
        workspace_bytes: layout.workspace.len() as u64,
        allowance: case.allowance(candidate),
    };
    let name = format!("{} | {} {}", case.what(), candidate.algorithm, candidate.configuration);
    let name = name.trim_end().to_owned();
    let after = prepared.outputs.iter().flat_map(|output| output.bytes()).copied().collect();
    let parts = Parts { plan, before: layout.image, after };
    Ok((bundle::Case { name, family: case.family().to_owned(), check }, parts))
}

/// The plan of the quickstart's classifier of digits, for the target of the options and for the host: the network of a bundle for
/// which none is named.
///
/// # Errors
/// Returns an error if it cannot be compiled.
pub fn digits(mut options: CompileOptions) -> Result<Vec<u8>> {
    options.import.shapes = vec![("image".to_owned(), vec![1, 1, 8, 8])];
    if !options.targets.iter().any(Target::is_host) {
        options.targets.push(targets::find("host")?.clone());
    }
    let fused = pipeline::import_bytes_and_fuse(include_bytes!("digits.onnx"), &options, &|_| ())?;
    Ok(pipeline::compile_fused(&fused, &options, &|_| ())?.bytes)
}

/// A plan with a variant for the target and one for the host, which computes the references of random inputs: a case for each shape.
///
/// # Errors
/// Returns an error if there is no such variant, the host fails, or the network is not comparable end to end.
pub fn network(plan: Vec<u8>, name: &str, target: &str, seed: u64) -> Result<Vec<Entry>> {
    let file = PlanFile::from_bytes(&plan, name.to_owned());
    let parsed = file.plan()?;
    let variant = parsed.variants().find(|variant| variant.header().target == target);
    let variant = usage(variant.with_context(|| format!("{name}: it has no variant for {target}")))?;
    let held = Bounds::embedded()?.of(parsed.model(), variant.header().precision);
    let bound = held.comparable();
    let bound =
        bound.with_context(|| format!("{name}: its outputs cannot be compared end to end, as bounds.toml says"));
    let bound = usage(bound)?;
    let request = Request { device: DeviceKind::Host, ..Request::default() };
    let (mut place, host) = Place::choose(&parsed, &request)?;
    let directions = |variant: &floe_engine::plan::Variant<'_>| {
        variant.bindings().map(|b| (b.direction, b.name.to_owned(), b.bytes())).collect::<Vec<_>>()
    };
    ensure!(
        host.shapes().map(|shape| directions(&shape)).eq(variant.shapes().map(|shape| directions(&shape))),
        "{name}: its variants have other inputs and outputs"
    );
    let several = host.shapes().len() > 1;
    let mut entries = Vec::new();
    for (number, shape) in host.shapes().enumerate() {
        let name = if several { format!("{name} {}", describe(&shape)) } else { name.to_owned() };
        let mut session = place.session(shape)?;
        let mut before = Vec::new();
        for (number, binding) in session.bindings(Direction::Input) {
            let bytes = random(&binding, seed)?;
            session.write(number, &bytes)?;
            before.extend(bytes);
        }
        session.replay()?;
        let after = outputs::read(&mut session)?.into_iter().flat_map(|output| output.bytes).collect();
        let check = Check::Network { bound, shape: number as u32 };
        let case = bundle::Case { name, family: NETWORKS.to_owned(), check };
        entries.push((case, Parts { plan: plan.clone(), before, after }));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;
    use floe::selftest::replay::{Replayer, Verdict};
    use floe_compiler::nvrtc::Compiler;
    use floe_engine::plan::format::ImageKind;

    /// The smallest cases of a family.
    fn of_family(family: &str, target: &Target) -> Vec<Case> {
        let mut found = cases::cases(target, &[family.to_owned()]).unwrap();
        cases::keep_smallest(&mut found);
        found
    }

    fn replay(device: DeviceKind, target: &Target, (case, parts): &Entry) -> Result<Verdict> {
        let variant = Some(target.name.clone());
        Replayer::new(Request { device, variant, ..Request::default() }).run(case, parts)
    }

    #[test]
    fn every_family_passes_on_the_host() {
        let host = targets::find("host").unwrap();
        for family in floe_kernels::FAMILIES.iter().filter(|family| **family != "custom") {
            for case in of_family(family, host).iter().take(4) {
                let candidate = &case.candidates.as_ref().unwrap()[0];
                let entry = kernel(case, candidate, &[], VariantIdentity::of(host)).unwrap();
                assert_eq!(replay(DeviceKind::Host, host, &entry).unwrap(), Ok(0.0), "{}", entry.0.name);
            }
        }
    }

    #[test]
    fn a_network_passes_on_the_host_and_a_wrong_reference_is_found() {
        let host = targets::find("host").unwrap();
        let options = CompileOptions { targets: vec![host.clone()], ..CompileOptions::default() };
        let mut entry = network(digits(options).unwrap(), "digits", "host", 1).unwrap().remove(0);
        assert_eq!(replay(DeviceKind::Host, host, &entry).unwrap(), Ok(0.0));
        entry.1.after[3] ^= 0x40;
        assert!(replay(DeviceKind::Host, host, &entry).unwrap().unwrap_err().contains("output probabilities"));
    }

    /// Kernels for a Jetson, on a GPU in software; and what is planted in them is found.
    #[test]
    fn kernels_of_a_jetson_pass_in_software_and_defects_are_found() {
        let orin = targets::find("jetson-orin-nano").unwrap();
        let compiler = match Compiler::find(orin, None) {
            Ok(compiler) => compiler,
            Err(error) => {
                assert!(std::env::var_os("CI").is_none(), "CI must have NVRTC: {error}");
                return;
            }
        };
        let identity = VariantIdentity { image_kind: ImageKind::Ptx, ..VariantIdentity::of(orin) };
        let on_gpu = |entry: &Entry| replay(DeviceKind::Emulated, orin, entry).unwrap();
        let mut passed = 0;
        for family in ["softmax", "reduce", "matmul", "cumulative"] {
            for case in of_family(family, orin).iter().take(2) {
                let candidate = &case.candidates.as_ref().unwrap()[0];
                let requests = case.requests(orin.architecture, ImageKind::Ptx).into_iter().map(|(_, request)| request);
                let mut images = compiler.compile_all(&requests.collect::<Vec<_>>(), &|_, _| {}).unwrap();
                images.truncate(candidate.launches.len());
                let made = |images: &[Compiled]| kernel(case, candidate, images, identity.clone()).unwrap();
                let entry = made(&images);
                assert!(on_gpu(&entry).is_ok(), "{}: {:?}", entry.0.name, on_gpu(&entry));
                passed += 1;
                // Other references.
                let mut wrong = entry.clone();
                wrong.1.after.fill(0x3c);
                assert!(on_gpu(&wrong).is_err(), "{}", entry.0.name);
                // A kernel that does nothing.
                let text = String::from_utf8(images[0].bytes.clone()).unwrap();
                let body = text.find("\n{\n").unwrap() + 3;
                images[0].bytes = format!("{}ret;\n{}", &text[..body], &text[body..]).into_bytes();
                let why = on_gpu(&made(&images)).unwrap_err();
                assert!(!why.is_empty(), "{}", entry.0.name);
            }
        }
        assert!(passed >= 7, "{passed}");
    }
}
