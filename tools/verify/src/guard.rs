//! `floe-verify guard`: a NaN or an infinity anywhere in an output of any float type is seen by the plan's guards, and
//! nothing else is.

use anyhow::{Context, Result, bail};
use floe::{
    inputs::length,
    outputs,
    session::{DeviceKind, MemoryKind, Place, Request, Session, wait_name},
    tensor::numbers,
};
use floe_compiler::{
    pipeline::{self, CompileOptions, Precision},
    targets,
};
use floe_conformance::operands::Buffer;
use floe_engine::{
    cuda::Wait,
    plan::{
        Plan,
        format::{Binding, Direction},
    },
};
use floe_kernels::DType;
use floe_models::{Fact, Graph, Node, Op, op::Binary};
use half::{bf16, f16};
use serde::Serialize;

/// What to watch.
#[derive(clap::Args)]
pub struct Arguments {
    /// What to compile for.
    #[arg(long, value_name = "TARGET", default_value = "h200")]
    target: String,
}

/// What was found in one precision and kind of memory.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Target of the variant.
    pub target: String,
    /// Its precision.
    pub precision: String,
    /// Where inputs and outputs lay.
    pub memory: &'static str,
    /// How the host waited.
    pub wait: &'static str,
    /// Replays with a NaN or an infinity somewhere, and as many without.
    pub planted: usize,
    /// What is wrong; empty when all is well.
    pub failures: Vec<String>,
}

/// Float types, each with a finite number whose square it cannot hold.
const TYPES: [(DType, f64); 4] = [(DType::F32, 1e30), (DType::F16, 300.0), (DType::Bf16, 1e30), (DType::F64, 1e200)];
/// Elements of every tensor: no multiple of any vector's, and enough for several blocks of a guard.
const ELEMENTS: usize = 20_011;
/// Places where something is planted: ends, vectors' and blocks' borders, the middle.
const PLACES: [usize; 7] = [0, 3, 2047, 4096, ELEMENTS / 2, ELEMENTS - 2, ELEMENTS - 1];

/// Squares a tensor of each float type.
fn network() -> Graph {
    let mut graph = Graph { name: "guard".to_owned(), ..Graph::default() };
    for (dtype, _) in TYPES {
        let fact = Fact::new(dtype, &[ELEMENTS]);
        let input = graph.add_value(dtype.name(), fact.clone());
        let name = format!("{} squared", dtype.name());
        let output = graph.add_value(name.clone(), fact);
        let (op, sources) = (Op::Binary(Binary::Mul), vec![name.as_str().into()]);
        graph.nodes.push(Node { name, op, inputs: vec![input; 2], outputs: vec![output], sources });
        graph.inputs.push(input);
        graph.outputs.push(output);
    }
    graph
}

fn compile(target: &str, precision: Precision) -> Result<Buffer> {
    let options =
        CompileOptions { targets: vec![targets::find(target)?.clone()], precision, ..CompileOptions::default() };
    let fused = pipeline::fuse(network(), &|_| ())?;
    let plan = pipeline::compile_fused(&fused, &options, &|_| ())?;
    let mut aligned = Buffer::filled(plan.bytes.len(), 0);
    aligned.bytes_mut().copy_from_slice(&plan.bytes);
    Ok(aligned)
}

/// Runs the subcommand.
///
/// # Errors
/// Where NVRTC or the GPU is missing. What guards miss is in the reports.
pub fn run(arguments: &Arguments) -> Result<Vec<Report>> {
    let mut reports = Vec::new();
    for precision in [Precision::F32, Precision::F16] {
        let file = compile(&arguments.target, precision)?;
        let plan = Plan::parse(file.bytes())?;
        for (memory, wait) in [
            (MemoryKind::Device, Wait::Driver),
            (MemoryKind::Mapped, Wait::Driver),
            (MemoryKind::Device, Wait::Poll),
            (MemoryKind::Mapped, Wait::Poll),
        ] {
            let memory_kind = Some(memory);
            let request =
                Request { device: DeviceKind::Cuda, memory: memory_kind, wait, guard: true, ..Request::default() };
            let (mut place, variant) = Place::choose(&plan, &request)?;
            let header = variant.header().clone();
            let (planted, failures) = watch(&mut place.session(variant)?)?;
            reports.push(Report {
                target: header.target.to_owned(),
                precision: header.precision.to_owned(),
                memory: memory.name(),
                wait: wait_name(wait),
                planted,
                failures,
            });
        }
    }
    Ok(reports)
}

/// Plants a NaN of either sign and an overflow at every place of every output, alone, and then in all outputs at a time:
/// the number of replays with one, and what is wrong.
fn watch(session: &mut Session<'_, '_>) -> Result<(usize, Vec<String>)> {
    let inputs = session.bindings(Direction::Input);
    let (mut planted, mut failures) = (0, Vec::new());
    let clean = inputs.iter().map(|(_, input)| encode(input, &harmless())).collect::<Result<Vec<_>>>()?;
    for ((number, _), bytes) in inputs.iter().zip(&clean) {
        session.write(*number, bytes)?;
    }
    failures.extend(replay(session, &[], "nothing")?);
    for ((number, input), bytes) in inputs.iter().zip(&clean) {
        let Some(&(dtype, large)) = TYPES.iter().find(|(dtype, _)| *dtype == input.dtype) else {
            bail!("input {} has no float type", input.name)
        };
        let output = format!("{} squared", dtype.name());
        for place in PLACES {
            for value in [f64::NAN, -f64::NAN, large, -large, f64::INFINITY] {
                let mut values = harmless();
                values[place] = value;
                session.write(*number, &encode(input, &values)?)?;
                let what = format!("{value} squared at {place} of {output}");
                failures.extend(replay(session, &[&output], &what)?);
                session.write(*number, bytes)?;
                failures.extend(replay(session, &[], &format!("nothing after {what}"))?);
                planted += 1;
            }
        }
    }
    for (number, input) in &inputs {
        session.write(*number, &encode(input, &[f64::NAN; ELEMENTS])?)?;
    }
    let outputs: Vec<String> = TYPES.iter().map(|(dtype, _)| format!("{} squared", dtype.name())).collect();
    let outputs: Vec<&str> = outputs.iter().map(String::as_str).collect();
    failures.extend(replay(session, &outputs, "NaN everywhere")?);
    Ok((planted + 1, failures))
}

/// Replays once: what is wrong where not exactly the `expected` outputs hold something that is not finite, or the guards see
/// it otherwise.
fn replay(session: &mut Session<'_, '_>, expected: &[&str], what: &str) -> Result<Vec<String>> {
    session.replay()?;
    // Before the outputs are read: so `guard` itself has to wait.
    let watched = session.guard()?;
    let found: Vec<&str> = outputs::read(session)?
        .into_iter()
        .filter(|output| numbers(output.binding.dtype, &output.bytes).iter().any(|number| !number.is_finite()))
        .map(|output| output.binding.name)
        .collect();
    let mut failures = Vec::new();
    if found != expected {
        failures.push(format!("{what}: not finite are {found:?}, not {expected:?}"));
    }
    if watched.as_deref().is_some_and(|watched| watched != expected) {
        failures.push(format!("{what}: guards saw {watched:?}, not {expected:?}"));
    }
    Ok(failures)
}

/// Numbers whose squares every float type holds; some are 0, the largest square lies just below the greatest f16.
fn harmless() -> Vec<f64> {
    (0..ELEMENTS).map(|number| [0.0, -0.0, 1.0, -0.5, 255.0][number % 5]).collect()
}

/// An input's bytes.
fn encode(input: &Binding<'_>, values: &[f64]) -> Result<Vec<u8>> {
    let bytes: Vec<u8> = match input.dtype {
        DType::F32 => values.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect(),
        DType::F16 => values.iter().flat_map(|&value| f16::from_f64(value).to_le_bytes()).collect(),
        DType::Bf16 => values.iter().flat_map(|&value| bf16::from_f64(value).to_le_bytes()).collect(),
        DType::F64 => values.iter().flat_map(|&value| value.to_le_bytes()).collect(),
        dtype => bail!("{} is no float type", dtype.name()),
    };
    let length = length(input)?;
    (bytes.len() == length).then_some(bytes).with_context(|| format!("input {} has {length} bytes", input.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The host watches too.
    #[test]
    fn what_is_planted_is_not_finite_in_its_output_alone() {
        let file = compile("host", Precision::F32).unwrap();
        let plan = Plan::parse(file.bytes()).unwrap();
        let request = Request { device: DeviceKind::Host, ..Request::default() };
        let (mut place, variant) = Place::choose(&plan, &request).unwrap();
        let (planted, failures) = watch(&mut place.session(variant).unwrap()).unwrap();
        assert_eq!((planted, failures), (TYPES.len() * PLACES.len() * 5 + 1, vec![]));
    }

    #[test]
    fn a_missing_or_superfluous_sighting_is_a_failure() {
        let file = compile("host", Precision::F32).unwrap();
        let plan = Plan::parse(file.bytes()).unwrap();
        let request = Request { device: DeviceKind::Host, ..Request::default() };
        let (mut place, variant) = Place::choose(&plan, &request).unwrap();
        let mut session = place.session(variant).unwrap();
        assert_eq!(replay(&mut session, &[], "zeros").unwrap(), [""; 0]);
        // Neither the outputs nor the guard, which the host has too, hold what is expected.
        assert_eq!(replay(&mut session, &["f16 squared"], "zeros").unwrap().len(), 2);
    }
}
