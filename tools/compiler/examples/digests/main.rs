//! Digests of all that the compiler decides, to see whether a change of the compiler changed a plan: steps, offsets, weights and
//! CUDA sources of every model below some folders, for every target in its default precision. Nothing is compiled for a GPU.
//! A debug build also checks every form between the stages; it fails where one breaks a rule.
//!
//! ```text
//! cargo run --release -p floe-compiler --example digests -- .cache/references --write before.tsv
//! cargo run --release -p floe-compiler --example digests -- .cache/references --check before.tsv
//! ```
//!
//! `--check` prints what differs, and which models it could not compare, and exits with 1 where something differs. `--only TEXT`
//! takes the models whose names contain the text. Models that are not there are no difference: the folder of references has what
//! `tools/conformance/references.py` and `tools/conformance/quantized_cases.py` make, and exports of `tools/benchmark/networks.py` need PyTorch.

mod models;
mod plan;
mod source;
mod table;

use floe_compiler::{
    pipeline::{CompileOptions, import_and_fuse},
    targets,
};
use models::Model;
use plan::Digest;
use rayon::prelude::*;
use std::{cmp::Reverse, fs, path::PathBuf, process::ExitCode, rc::Rc, time::Instant};
use table::{REFUSED, Table};

#[derive(Default)]
struct Arguments {
    folders: Vec<PathBuf>,
    write: Option<PathBuf>,
    check: Option<PathBuf>,
    only: Option<String>,
}

impl Arguments {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut parsed = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--write" => parsed.write = Some(value()?.into()),
                "--check" => parsed.check = Some(value()?.into()),
                "--only" => parsed.only = Some(value()?),
                _ if argument.starts_with('-') => return Err(format!("there is no option {argument}")),
                _ => parsed.folders.push(argument.into()),
            }
        }
        match parsed.folders.is_empty() {
            true => Err("usage: digests FOLDER… [--check TABLE] [--write TABLE] [--only TEXT]".to_owned()),
            false => Ok(parsed),
        }
    }

    fn wants(&self, model: &str) -> bool {
        self.only.as_ref().is_none_or(|text| model.contains(text))
    }
}

fn main() -> ExitCode {
    match Arguments::parse(std::env::args().skip(1)).and_then(|arguments| run(&arguments)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let start = Instant::now();
    let before = arguments.check.as_ref().map(|path| {
        let text = fs::read_to_string(path).map_err(|error| format!("cannot read '{}': {error}", path.display()))?;
        Table::read(&text).map_err(|error| format!("'{}': {error}", path.display()))
    });
    let before = before.transpose()?;
    let mut models = Vec::new();
    for folder in &arguments.folders {
        models.extend(models::below(folder)?);
    }
    models.retain(|model| arguments.wants(&model.name));
    let (table, defects) = digests(models)?;
    eprintln!("{} plans in {:.0} s", table.len(), start.elapsed().as_secs_f64());
    if defects > 0 {
        return Err(format!("{defects} of them show a defect of the compiler"));
    }
    let mut code = ExitCode::SUCCESS;
    if let Some(before) = before {
        let compared = table.compare(&before);
        for skipped in compared.skipped.iter().filter(|line| arguments.wants(line)) {
            eprintln!("not compared: {skipped}");
        }
        compared.differences.iter().for_each(|difference| println!("{difference}"));
        println!("{} plans differ, {} are the same", compared.differences.len(), compared.same);
        if !compared.differences.is_empty() {
            code = ExitCode::FAILURE;
        }
    }
    match &arguments.write {
        Some(path) => {
            fs::write(path, table.write()).map_err(|error| format!("cannot write '{}': {error}", path.display()))?;
        }
        None if arguments.check.is_none() => print!("{}", table.write()),
        None => {}
    }
    Ok(code)
}

/// The digests of models for every target, and how often the compiler was wrong. The largest models come first, so that none is
/// left alone at the end.
fn digests(mut models: Vec<Model>) -> Result<(Table, usize), String> {
    models.sort_by_key(|model| Reverse(model.bytes));
    let digested: Vec<_> = models.par_iter().with_max_len(1).map(of_model).collect::<Result<_, _>>()?;
    let (mut table, mut defects) = (Table::default(), 0);
    for (model, (file, plans, wrong)) in models.iter().zip(digested) {
        defects += wrong;
        for (target, parts) in plans {
            table.insert(&model.name, &file, target, parts);
        }
    }
    Ok((table, defects))
}

type Plans = Vec<(&'static str, Vec<String>)>;

/// The digest of a model's file, those of its plan for each target, and how often the compiler was wrong.
fn of_model(model: &Model) -> Result<(String, Plans, usize), String> {
    let bytes = fs::read(&model.path).map_err(|error| format!("cannot read '{}': {error}", model.path.display()))?;
    let file = Digest::of(&bytes).to_string();
    drop(bytes);
    let options = CompileOptions { import: model.import.clone(), ..CompileOptions::default() };
    let fused = import_and_fuse(&model.path, &options, &|_| ()).map_err(Rc::new);
    let mut defects = 0;
    let plans = targets::all().iter().map(|target| {
        let plan = fused.as_ref().map_err(Rc::clone);
        let plan = plan.and_then(|fused| plan::of_variant(fused, target));
        let parts = match plan {
            Ok(parts) => parts.all().iter().map(Digest::to_string).collect(),
            Err(reason) => {
                eprintln!("refused: {} for {}: {reason}", model.name, target.name);
                defects += usize::from(reason.is_defect());
                vec![REFUSED.to_owned()]
            }
        };
        (target.name.as_str(), parts)
    });
    let plans = plans.collect();
    Ok((file, plans, defects))
}

#[cfg(test)]
mod tests {
    use super::*;
    use floe_compiler::pipeline::fuse;
    use floe_models::{DType, Fact, Graph, Node, Op, Tensor, TensorId, op::Unary};
    use plan::Parts;
    use std::path::Path;

    /// A product with weights and an activation; then another product.
    fn network(weight: f32, activation: Unary, width: usize) -> Graph {
        let mut graph = Graph { name: "small".into(), ..Graph::default() };
        let shape = [16, width];
        let x = graph.add_value("x", Fact::new(DType::F32, &shape));
        graph.inputs.push(x);
        let weights: Vec<f32> = (0..width * width).map(|i| weight + (i % 7) as f32).collect();
        let weights = graph.add_constant("weights", Tensor::f32(&[width, width], &weights));
        let mut value = x;
        let mut node = |op: Op, inputs: Vec<TensorId>, name: &str| {
            let output = graph.add_value(name, Fact::new(DType::F32, &shape));
            graph.nodes.push(Node { name: name.into(), op, inputs, outputs: vec![output], sources: vec![name.into()] });
            output
        };
        for name in ["first", "second"] {
            value = node(Op::MatMul, vec![value, weights], name);
            value = node(Op::Unary(activation), vec![value], &format!("{name}_activation"));
        }
        value = node(Op::Softmax { axis: 1, log: false }, vec![value], "softmax");
        graph.outputs.push(value);
        graph
    }

    fn parts(graph: Graph, target: &str) -> Parts {
        plan::of_variant(&fuse(graph, &|_| ()).unwrap(), targets::find(target).unwrap()).unwrap()
    }

    /// Names of the parts that differ.
    fn changed(a: Parts, b: Parts) -> Vec<&'static str> {
        let pairs = a.all().into_iter().zip(b.all());
        plan::PARTS.into_iter().zip(pairs).filter(|(_, (a, b))| a != b).map(|(part, _)| part).collect()
    }

    #[test]
    fn a_difference_is_seen_in_the_part_that_holds_it() {
        for target in ["host", "jetson-orin-nano", "h200"] {
            let plan = |weight, activation, width| parts(network(weight, activation, width), target);
            let original = plan(1.0, Unary::Relu, 32);
            assert_eq!(original, plan(1.0, Unary::Relu, 32), "{target}");
            assert_eq!(changed(original, plan(2.0, Unary::Relu, 32)), ["weights"], "{target}");
            // The host's kernels stand in its steps.
            let kernels = if target == "host" { "steps" } else { "source" };
            assert_eq!(changed(original, plan(1.0, Unary::Tanh, 32)), [kernels], "{target}");
            let wider = changed(original, plan(1.0, Unary::Relu, 64));
            assert!(wider.contains(&"steps") && wider.contains(&"offsets") && wider.contains(&"weights"), "{wider:?}");
        }
    }

    #[test]
    fn names_of_nodes_are_no_difference() {
        let mut renamed = network(1.0, Unary::Relu, 32);
        for node in &mut renamed.nodes {
            node.name = format!("other {}", node.name);
            node.sources.clear();
        }
        for target in ["host", "h200"] {
            assert_eq!(parts(renamed.clone(), target), parts(network(1.0, Unary::Relu, 32), target));
        }
    }

    /// A debug build checks every form, so that making the digests is the test.
    #[test]
    #[ignore = "needs the models that tools/test prepares"]
    fn every_form_of_every_model_is_legal() {
        let folder = std::env::var_os("FLOE_REFERENCES").expect("FLOE_REFERENCES names the folder of the models");
        let models = models::below(Path::new(&folder)).unwrap();
        assert!(models.len() > 100, "{} models are too few", models.len());
        let (_, defects) = digests(models).unwrap();
        assert_eq!(defects, 0, "defects of the compiler, see above");
    }
}
