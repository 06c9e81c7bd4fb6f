//! Runs ONNX test folders: `model.onnx` with `test_data_set_*/input_N.pb` and `output_N.pb`, as the ONNX backend suite
//! keeps them.

use crate::replay::replay;
use floe::session::{DeviceKind, Request};
use floe_compiler::{
    fused::FusedGraph,
    pipeline::{self, CompileError, CompileOptions, Precision},
    targets,
};
use floe_kernels::codegen::Target;
use floe_models::{
    ImportOptions, Tensor,
    onnx::{self, proto::TensorProto},
};
use prost::Message;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Cases of the ONNX backend suite: onnx 1.22.0, folders `node`, `simple`, `pytorch-converted` and `pytorch-operator`.
pub const CASES: usize = 1905;

/// Names of the cases of the suite that the compiler refuses, for every target; every other case passes.
pub fn refused() -> BTreeSet<&'static str> {
    include_str!("refused.txt").lines().filter(|line| !line.starts_with('#')).collect()
}

/// How far a value may be from its reference: `|a − b| ≤ absolute·scale + relative·|b|`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Absolute part.
    pub absolute: f64,
    /// Relative part.
    pub relative: f64,
    /// Whether the absolute part is scaled by the largest reference value of the tensor where that exceeds 1.
    pub scaled: bool,
}

impl Default for Tolerance {
    fn default() -> Self {
        Self { absolute: 1e-4, relative: 1e-3, scaled: true }
    }
}

/// What became of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// All outputs agree; the largest error as a fraction of what is allowed.
    Passed {
        /// 0 is exact, 1 the limit.
        worst: f64,
    },
    /// An output differs, or a run failed.
    Failed(String),
    /// Not supported, with the reason.
    Skipped(String),
}

/// How the inputs of a case reached its plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// Inputs of the plan.
    pub live: Vec<String>,
    /// Inputs of the model that had to become constants for the model to compile.
    pub constant: Vec<String>,
}

/// How much of a case a plan computes when it is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Every input of the model is an input of the plan.
    Live,
    /// Some inputs became constants, others are inputs of the plan.
    Baked,
    /// The plan has no input: everything was computed by the compiler.
    Folded,
}

impl Kind {
    /// The kind's name in outputs and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Baked => "baked",
            Self::Folded => "folded",
        }
    }
}

impl Inputs {
    /// The inputs of a case: an input that is a constant for one data set counts as one for all.
    pub fn of(sets: &[Prepared]) -> Self {
        let mut inputs = Self::default();
        for name in sets.iter().flat_map(|set| &set.constants) {
            if !inputs.constant.contains(name) {
                inputs.constant.push(name.clone());
            }
        }
        for (name, _) in sets.iter().flat_map(|set| &set.inputs) {
            if !inputs.constant.contains(name) && !inputs.live.contains(name) {
                inputs.live.push(name.clone());
            }
        }
        inputs
    }

    /// Which kind of case these inputs make.
    pub fn kind(&self) -> Kind {
        match (self.live.is_empty(), self.constant.is_empty()) {
            (true, _) => Kind::Folded,
            (false, true) => Kind::Live,
            (false, false) => Kind::Baked,
        }
    }
}

/// What became of a case, and of its inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The outcome.
    pub outcome: Outcome,
    /// Inputs of the plan and constants in it; `None` where the case did not compile.
    pub inputs: Option<Inputs>,
}

/// One set of inputs with the outputs that are expected.
#[derive(Clone, Debug, Default)]
pub struct DataSet {
    /// Inputs by number; `None` where the file is not a tensor.
    pub inputs: Vec<Option<Tensor>>,
    /// Expected outputs by number.
    pub outputs: Vec<Option<Tensor>>,
}

/// Folders of a case's data sets, in order.
pub fn data_sets(case: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(case).into_iter().flatten().flatten();
    let mut folders: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("test_data_set_")))
        .collect();
    folders.sort();
    folders
}

fn tensors(folder: &Path, prefix: &str) -> Vec<Option<Tensor>> {
    let files = (0..).map(|number| folder.join(format!("{prefix}_{number}.pb"))).take_while(|file| file.exists());
    files
        .map(|file| {
            let proto = TensorProto::decode(fs::read(file).ok()?.as_slice()).ok()?;
            onnx::tensor::read(&proto, None).ok()
        })
        .collect()
}

/// Reads a data set.
pub fn read(folder: &Path) -> DataSet {
    DataSet { inputs: tensors(folder, "input"), outputs: tensors(folder, "output") }
}

/// Names of a model's inputs that are not initializers, in order.
fn input_names(model: &[u8]) -> Result<Vec<String>, floe_models::ImportError> {
    let graph = onnx::decode(model)?.graph.unwrap_or_default();
    let initial = |name: &str| graph.initializer.iter().any(|tensor| tensor.name == name);
    Ok(graph.input.iter().map(|input| input.name.clone()).filter(|name| !initial(name)).collect())
}

/// The elements of an output that are there: those before a count along the dimension that its extent depends on data
/// along. Which one that is shows in what is expected.
///
/// # Errors
/// Where the count is not the extent that is expected.
fn counted(found: &Tensor, count: &Tensor, expected: &Tensor) -> Result<Tensor, String> {
    let count = count.to_i64().and_then(|count| count.first().copied()).and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or("has no valid count")?;
    let differs = |(d, extent): (usize, &usize)| (found.shape.get(d) != Some(extent)).then_some(d);
    let Some(axis) = expected.shape.iter().enumerate().find_map(differs) else {
        // All that there can be is there.
        return match expected.shape.contains(&count) {
            true => Ok(found.clone()),
            false => Err(format!("has {count} elements along a dimension, expected {:?}", expected.shape)),
        };
    };
    if found.shape.get(axis).is_none_or(|&most| count > most) || count != expected.shape[axis] {
        return Err(format!("has {count} elements along dimension {axis}, expected {:?}", expected.shape));
    }
    let mut shape = found.shape.clone();
    let slice = shape[axis..].iter().product::<usize>() * found.dtype.size();
    let kept = slice / shape[axis].max(1) * count;
    shape[axis] = count;
    let bytes = found.bytes().chunks(slice.max(1)).flat_map(|slice| &slice[..kept.min(slice.len())]).copied().collect();
    Ok(Tensor::new(found.dtype, shape, bytes))
}

/// The largest error as a fraction of what is allowed, or what is wrong.
///
/// # Errors
/// Where types, shapes or values disagree.
pub fn compare(found: &Tensor, expected: &Tensor, tolerance: Tolerance) -> Result<f64, String> {
    if found.dtype != expected.dtype || found.shape != expected.shape {
        return Err(format!(
            "is {:?} {:?}, expected {:?} {:?}",
            found.dtype, found.shape, expected.dtype, expected.shape
        ));
    }
    if expected.dtype.is_float8() {
        // A conversion has one result, whatever the tolerance; which of its codes a NaN has is open.
        let same = |(a, b): &(&f64, &f64)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        let count = found.to_f64().iter().zip(&expected.to_f64()).filter(|pair| !same(pair)).count();
        return if count == 0 { Ok(0.0) } else { Err(format!("{count} of {} 8-bit floats differ", found.elements())) };
    }
    if !expected.dtype.is_float() {
        let differing = found.to_i64().zip(expected.to_i64());
        let count = differing.map_or(0, |(a, b)| a.iter().zip(&b).filter(|(a, b)| a != b).count());
        return if count == 0 { Ok(0.0) } else { Err(format!("{count} of {} integers differ", found.elements())) };
    }
    let (found, expected) = (found.to_f64(), expected.to_f64());
    let largest = expected.iter().filter(|value| value.is_finite()).fold(1f64, |most, value| most.max(value.abs()));
    let absolute = tolerance.absolute * if tolerance.scaled { largest } else { 1.0 };
    let mut worst = 0f64;
    for (index, (&a, &b)) in found.iter().zip(&expected).enumerate() {
        if a == b || (a.is_nan() && b.is_nan()) {
            continue;
        }
        let error = (a - b).abs() / (absolute + tolerance.relative * b.abs());
        if !error.is_finite() {
            return Err(format!("element {index} is {a}, expected {b}"));
        }
        worst = worst.max(error);
    }
    if worst <= 1.0 {
        return Ok(worst);
    }
    let difference = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0f64, f64::max);
    Err(format!("largest error {difference:.3e}, {worst:.1} times what is allowed"))
}

/// Tensors by the name of the input or output that they belong to.
pub type Named = Vec<(String, Tensor)>;

/// A data set of a case, ready to be replayed.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The plan.
    pub plan: Vec<u8>,
    /// Inputs of the plan.
    pub inputs: Named,
    /// Inputs of the model that are constants of the plan.
    pub constants: Vec<String>,
    /// Outputs that are expected, in order.
    pub expected: Vec<Tensor>,
}

/// Compiles a case for a target, once for each data set, for the shapes of its inputs.
///
/// Where a model compiles only if values are known (axes, shapes and pads, which the suite passes as inputs), as few inputs
/// as possible become constants. With `ptx`, kernels are PTX in place of machine code.
///
/// # Errors
/// Returns the outcome of a case that cannot be replayed.
pub fn prepare(case: &Path, target: &Target, precision: Precision, ptx: bool) -> Result<Vec<Prepared>, Outcome> {
    let model = case.join("model.onnx");
    let names = fs::read(&model)
        .map_err(|error| error.to_string())
        .and_then(|bytes| input_names(&bytes).map_err(|error| error.to_string()));
    let names = names.map_err(Outcome::Skipped)?;
    let folders = data_sets(case);
    if folders.is_empty() {
        return Err(Outcome::Failed("the case has no test_data_set_* folder, so nothing was compared".into()));
    }
    let mut sets = Vec::new();
    for folder in folders {
        let data = read(&folder);
        if data.outputs.is_empty() {
            return Err(Outcome::Failed(format!("{} expects no output, so nothing was compared", folder.display())));
        }
        let dense = |what: &str| Outcome::Skipped(format!("an {what} is not a dense tensor of a supported type"));
        let inputs: Option<Vec<_>> = data.inputs.into_iter().collect();
        let inputs: Vec<_> = names.iter().cloned().zip(inputs.ok_or_else(|| dense("input"))?).collect();
        let (plan, inputs, constants) = compile_for(&model, inputs, target, precision, ptx)?;
        let expected = data.outputs.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| dense("output"))?;
        sets.push(Prepared { plan, inputs, constants, expected });
    }
    Ok(sets)
}

/// Replays every data set of a prepared case and compares its outputs.
pub fn compare_sets(
    sets: Result<Vec<Prepared>, Outcome>,
    tolerance: Tolerance,
    mut replay: impl FnMut(&[u8], &Named) -> Result<Named, String>,
) -> Report {
    let sets = match sets {
        Ok(sets) => sets,
        Err(outcome) => return Report { outcome, inputs: None },
    };
    let inputs = Some(Inputs::of(&sets));
    let worst = sets.iter().try_fold(0f64, |worst, set| {
        let outputs = replay(&set.plan, &set.inputs)?;
        Ok(worst.max(compare_outputs(&outputs, &set.expected, tolerance)?))
    });
    Report { outcome: worst.map_or_else(Outcome::Failed, |worst| Outcome::Passed { worst }), inputs }
}

/// The largest error of the outputs of a replay as a fraction of what is allowed.
fn compare_outputs(outputs: &Named, expected: &[Tensor], tolerance: Tolerance) -> Result<f64, String> {
    let mut worst = 0f64;
    for (number, expected) in expected.iter().enumerate() {
        let (name, found) = outputs.get(number).ok_or_else(|| format!("output {number} is missing"))?;
        let count = outputs.iter().find(|(other, _)| *other == format!("{name}.count"));
        let compared = match count {
            Some((_, count)) => counted(found, count, expected).and_then(|found| compare(&found, expected, tolerance)),
            None => compare(found, expected, tolerance),
        };
        worst = worst.max(compared.map_err(|reason| format!("output '{name}' {reason}"))?);
    }
    Ok(worst)
}

/// Runs a case on the host or on a GPU in software, which takes PTX. In [`Precision::F16`] the host stores values between inputs
/// and outputs as a GPU does.
pub fn run_on(device: DeviceKind, case: &Path, target: &Target, precision: Precision, tolerance: Tolerance) -> Report {
    let request = Request { device, variant: Some(target.name.clone()), ..Request::default() };
    let sets = prepare(case, target, precision, device == DeviceKind::Emulated);
    compare_sets(sets, tolerance, |plan, inputs| {
        replay(plan, inputs, &request, &mut None).map_err(|error| format!("{error:#}"))
    })
}

/// The outcome of a case on the host.
pub fn run_on_host(case: &Path, tolerance: Tolerance) -> Outcome {
    match targets::find("host") {
        Ok(host) => run_on(DeviceKind::Host, case, host, Precision::F32, tolerance).outcome,
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

/// Most elements of an input that may become a constant: axes, shapes, pads and scales have few, images and weights many.
const MOST_CONSTANT: usize = 256;

/// A plan for a model with these inputs, the inputs that are inputs of the plan, and the names of those that are constants.
///
/// All inputs are live where that compiles. Where it does not, all small ones become constants, and those that the model
/// compiles without are made live again, one after the other: floats first, since what they hold is data more often. As
/// another constant never keeps a model from compiling, no subset of those that are left would do.
fn compile_for(
    model: &Path,
    inputs: Named,
    target: &Target,
    precision: Precision,
    ptx: bool,
) -> Result<(Vec<u8>, Named, Vec<String>), Outcome> {
    let options = |constant: &[bool]| {
        let (mut shapes, mut constants) = (Vec::new(), Vec::new());
        for ((name, tensor), &constant) in inputs.iter().zip(constant) {
            if constant {
                constants.push((name.clone(), tensor.clone()));
            } else {
                shapes.push((name.clone(), tensor.shape.clone()));
            }
        }
        let import = ImportOptions { shapes, constants, ..ImportOptions::default() };
        CompileOptions {
            targets: vec![target.clone()],
            import,
            precision,
            half_on_host: true,
            ptx,
            ..CompileOptions::default()
        }
    };
    let mut constant = vec![false; inputs.len()];
    let mut compiled = pipeline::compile(model, &options(&constant), &|_| ());
    if !matches!(compiled, Ok(_) | Err(CompileError::Check(_))) {
        // Everything that may refuse a model, without compiling kernels.
        let try_with = |constant: &[bool]| -> Result<FusedGraph, String> {
            let options = options(constant);
            let graph = pipeline::import_and_fuse(model, &options, &|_| ()).map_err(|error| error.to_string())?;
            pipeline::schedule(&graph, target, &options).map_err(|error| error.to_string())?;
            Ok(graph)
        };
        constant = inputs.iter().map(|(_, tensor)| tensor.elements() <= MOST_CONSTANT).collect();
        // With more constants the reason is the better one.
        let mut graph = try_with(&constant).map_err(Outcome::Skipped)?;
        let mut numbers: Vec<usize> = (0..inputs.len()).filter(|&number| constant[number]).collect();
        numbers.sort_by_key(|&number| !inputs[number].1.dtype.is_float());
        for number in numbers {
            constant[number] = false;
            match try_with(&constant) {
                Ok(with_less) => graph = with_less,
                Err(_) => constant[number] = true,
            }
        }
        compiled = pipeline::compile_fused(&graph, &options(&constant), &|_| ());
    }
    let compiled = compiled.map_err(|error| match error {
        // A defect of the compiler, not something that it does not support.
        CompileError::Check(_) => Outcome::Failed(error.to_string()),
        error => Outcome::Skipped(error.to_string()),
    })?;
    let names = inputs.iter().zip(&constant).filter(|(_, constant)| **constant).map(|((name, _), _)| name.clone());
    let names = names.collect();
    let live = inputs.into_iter().zip(constant).filter(|(_, constant)| !constant).map(|(input, _)| input).collect();
    Ok((compiled.bytes, live, names))
}

/// Cases below a folder: itself where it is one, else those in it.
///
/// # Errors
/// Where the folder cannot be read or holds no case.
pub fn cases(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let is_case = |path: &Path| path.join("model.onnx").is_file();
    if is_case(folder) {
        return Ok(vec![folder.to_owned()]);
    }
    let entries =
        fs::read_dir(folder).map_err(|error| format!("cannot read folder '{}': {error}", folder.display()))?;
    let mut cases: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(|path| is_case(path)).collect();
    if cases.is_empty() {
        return Err(format!("'{}' holds no test case (a folder with model.onnx)", folder.display()));
    }
    cases.sort();
    Ok(cases)
}

/// The operator that a case is about: that of its model's only node; for a function body (`…_expanded`) that of the case
/// it expands. `None` for other graphs.
pub fn operator_of(case: &Path) -> Option<String> {
    let name = case.file_name()?.to_string_lossy().into_owned();
    let original = name.split_once("_expanded").map(|(original, _)| case.with_file_name(original));
    let path = original.filter(|path| path.is_dir()).unwrap_or_else(|| case.to_owned());
    let graph = onnx::decode(&fs::read(path.join("model.onnx")).ok()?).ok()?.graph?;
    let nodes: Vec<_> = graph.node.iter().filter(|node| node.op_type != "Constant").collect();
    match nodes.as_slice() {
        [] if graph.node.len() == 1 => Some("Constant".to_owned()),
        [node] if matches!(node.domain.as_str(), "" | "ai.onnx") => Some(node.op_type.clone()),
        [node] => Some(format!("{}.{}", node.domain, node.op_type)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_with_a_count_is_compared_up_to_it() {
        let found = Tensor::i64(&[2, 3], &[0, 1, -1, 4, 5, -1]);
        let expected = Tensor::i64(&[2, 2], &[0, 1, 4, 5]);
        let count = |count| Tensor::i64(&[], &[count]);
        assert_eq!(counted(&found, &count(2), &expected).unwrap().to_i64(), expected.to_i64());
        assert!(counted(&found, &count(1), &expected).unwrap_err().contains("1 elements along dimension 1"));
        assert!(counted(&found, &count(-1), &expected).is_err());
        assert!(counted(&found, &count(3), &found).is_ok());
        assert!(counted(&found, &count(1), &found).is_err());
        let nothing = Tensor::i64(&[2, 0], &[]);
        assert_eq!(counted(&found, &count(0), &nothing).unwrap().shape, [2, 0]);
    }

    #[test]
    fn floats_of_8_bits_agree_in_every_bit_but_those_of_nan() {
        let tensor = |codes: [u8; 3]| Tensor::new(floe_models::DType::F8E4M3, vec![3], codes.to_vec());
        let tolerance = Tolerance { absolute: 1.0, relative: 1.0, scaled: true };
        assert!(compare(&tensor([0x38, 0x80, 0x7f]), &tensor([0x38, 0x80, 0xff]), tolerance).is_ok());
        // The next number, and a zero of the other sign.
        for wrong in [[0x39, 0x80, 0x7f], [0x38, 0, 0x7f], [0x38, 0x80, 0x7e]] {
            assert!(compare(&tensor(wrong), &tensor([0x38, 0x80, 0x7f]), tolerance).unwrap_err().contains("1 of 3"));
        }
    }

    #[test]
    fn a_constant_of_one_data_set_is_one_of_the_case() {
        let set = |live: &[&str], constants: &[&str]| Prepared {
            plan: Vec::new(),
            inputs: live.iter().map(|name| ((*name).to_owned(), Tensor::f32(&[], &[0.0]))).collect(),
            constants: constants.iter().map(|name| (*name).to_owned()).collect(),
            expected: Vec::new(),
        };
        let inputs = Inputs::of(&[set(&["x", "k"], &[]), set(&["x"], &["k"])]);
        assert_eq!(inputs, Inputs { live: vec!["x".into()], constant: vec!["k".into()] });
        assert_eq!(inputs.kind(), Kind::Baked);
        assert_eq!(Inputs::of(&[set(&["x"], &[])]).kind(), Kind::Live);
        assert_eq!(Inputs::of(&[set(&[], &["x"])]).kind(), Kind::Folded);
        assert_eq!(Inputs::of(&[set(&[], &[])]).kind(), Kind::Folded);
    }

    #[test]
    fn lists_name_no_case_twice() {
        let list = include_str!("refused.txt");
        assert_eq!(refused().len(), list.lines().filter(|line| !line.starts_with('#')).count());
        let beyond: Vec<_> = crate::f16::CLASSES.iter().flat_map(|(_, cases)| *cases).collect();
        assert_eq!(beyond.iter().collect::<BTreeSet<_>>().len(), beyond.len());
    }

    #[test]
    fn comparison_knows_type_shape_nan_and_scale() {
        let tolerance = Tolerance { absolute: 1e-3, relative: 0.0, scaled: false };
        let a = Tensor::f32(&[2], &[1.0, f32::NAN]);
        assert_eq!(compare(&a, &a, tolerance), Ok(0.0));
        assert!(compare(&a, &Tensor::f32(&[2], &[1.0, 2.0]), tolerance).is_err());
        assert!(compare(&a, &Tensor::f32(&[1, 2], &[1.0, f32::NAN]), tolerance).is_err());
        assert!(compare(&Tensor::i64(&[1], &[1]), &Tensor::i64(&[1], &[2]), tolerance).is_err());
        let big = Tensor::f32(&[1], &[1000.5]);
        assert!(compare(&big, &Tensor::f32(&[1], &[1000.0]), tolerance).is_err());
        assert!(compare(&big, &Tensor::f32(&[1], &[1000.0]), Tolerance { scaled: true, ..tolerance }).is_ok());
    }
}
