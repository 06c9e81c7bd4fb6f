//! Whole runs on small networks, each made so that one method has to help.

use crate::{
    Effort, Model, Options, Quantized, calibrate,
    evaluate::Budget,
    fold, insert,
    insert::Quantised,
    layers::{self, Layer},
    nodes, normalise,
    params::{Activations, Params},
    prepare,
    product::{product, relative},
    quantise, report, round,
    run::{self, Import, Network, Sample},
    smooth,
    testing::{self, Build, normal, random},
    weights,
};
use floe_models::{DType, Tensor, onnx::proto::NodeProto};
use std::collections::{BTreeMap, HashSet};

fn samples(count: u64, shape: &[usize]) -> Vec<Sample> {
    let elements = shape.iter().product();
    (0..count).map(|seed| vec![("x".to_owned(), Tensor::f32(shape, &normal(100 + seed, elements)))]).collect()
}

/// Two convolutions with an activation in between, whose channels are scaled apart and together again: `planted` of them.
fn planted(activation: &str, planted: &[f32]) -> Model {
    let channels = planted.len();
    let mut build = Build::new();
    let x = build.input("x", &[1, 4, 8, 8]);
    let mut first = normal(1, channels * 36);
    let mut second = normal(2, 4 * channels * 9);
    first.iter_mut().enumerate().for_each(|(i, value)| *value *= planted[i / 36]);
    second.iter_mut().enumerate().for_each(|(i, value)| *value /= planted[i / 9 % channels]);
    let bias: Vec<f32> = planted.iter().map(|scale| scale * 0.1).collect();
    let y = build.conv(&x, &first, [channels, 4, 3, 3], Some(&bias), 1);
    let y = match activation {
        "SiLU" => {
            let gate = build.node("Sigmoid", &[&y], vec![]);
            build.node("Mul", &[&y, &gate], vec![])
        }
        operator => build.node(operator, &[&y], vec![]),
    };
    let y = build.conv(&y, &second, [4, channels, 3, 3], None, 1);
    build.finish(&[&y])
}

fn quantised(model: &Model, samples: &Vec<Sample>, options: &Options) -> Quantized {
    quantise(model, samples, options, &|_| ()).expect("quantises")
}

fn operators(model: &Model) -> Vec<&str> {
    model.graph().node.iter().map(|node| node.op_type.as_str()).collect()
}

/// The layers, and what calibration saw of them.
fn observed(model: &Model, samples: &Vec<Sample>) -> (Vec<Layer>, calibrate::Observations) {
    let import = Import::default();
    let (layers, left) = layers::find(model, &run::facts(model, &import).unwrap()).unwrap();
    assert!(left.is_empty(), "{left:?}");
    let watched: Vec<String> = layers.iter().map(|layer| layer.input.clone()).collect();
    let network = Network::new(model, &import, &watched).unwrap();
    let numbers: Vec<usize> = (0..samples.len()).collect();
    let seen = calibrate::run(&network, samples, &numbers, &layers, 512, &|_, _| ()).unwrap();
    (layers, seen)
}

/// Channels a hundred times apart share one scale: that costs nearly everything unless they are evened out, which convolutions
/// take on where the function in between allows it.
#[test]
fn planted_ranges_are_evened_out() {
    let scales: Vec<f32> = (0..8).map(|channel| 1000f32.powf(channel as f32 / 7.0)).collect();
    for (activation, added) in [("Relu", false), ("SiLU", true)] {
        // Behind SiLU the scales would be others, so the weights behind it only make up for the size.
        let model = planted(activation, &scales);
        let samples = samples(6, &[1, 4, 8, 8]);
        let plain = quantised(&model, &samples, &Options { effort: Effort::Least, ..Options::default() });
        let better = quantised(&model, &samples, &Options::default());
        let (before, after) = (plain.distance.unwrap().relative, better.distance.unwrap().relative);
        assert!(after < before / 5.0, "{activation}: {before} {after} {:?}", better.stages);
        assert_eq!(better.smoothed.iter().map(|one| one.added).collect::<Vec<_>>(), [added], "{activation}");
    }
}

/// Evening out changes no output in floats.
#[test]
fn evening_out_keeps_the_function() {
    for activation in ["Relu", "SiLU", "HardSwish", "LeakyRelu"] {
        let mut model = planted(activation, &[1.0, 50.0, 0.02, 7.0, 1.0, 3.0]);
        model.set_opset("", 14);
        let samples = samples(3, &[1, 4, 8, 8]);
        normalise::run(&mut model).unwrap();
        let (layers, seen) = observed(&model, &samples);
        let mut evened = model.clone();
        let done = smooth::run(&mut evened, &layers, &seen, Activations::Any).unwrap();
        assert_eq!(done.len(), 1, "{activation}");
        let input = [samples[0][0].1.clone()];
        let (a, b) = (testing::run(&model, &input)[0].to_f64(), testing::run(&evened, &input)[0].to_f64());
        let largest = a.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < largest * 1e-5), "{activation}");
    }
}

/// A layer normalisation takes the factors for the product behind it.
#[test]
fn products_behind_a_normalisation_are_smoothed() {
    let mut build = Build::opset(17);
    let x = build.input("x", &[1, 40, 32]);
    let mut gamma = vec![1.0f32; 32];
    gamma[5] = 60.0;
    gamma[20] = 90.0;
    let scale = build.constant("g", Tensor::f32(&[32], &gamma));
    let shift = build.constant("h", Tensor::f32(&[32], &random(4, 32)));
    let y = build.node("LayerNormalization", &[&x, &scale, &shift], vec![]);
    let w = build.constant("w", Tensor::f32(&[32, 24], &normal(5, 32 * 24)));
    let y = build.node("MatMul", &[&y, &w], vec![]);
    let b = build.constant("b", Tensor::f32(&[24], &random(6, 24)));
    let y = build.node("Add", &[&y, &b], vec![]);
    let model = build.finish(&[&y]);
    let samples = samples(6, &[1, 40, 32]);
    let plain = quantised(&model, &samples, &Options { effort: Effort::Least, ..Options::default() });
    let better = quantised(&model, &samples, &Options::default());
    assert!(better.distance.unwrap().relative < plain.distance.unwrap().relative / 2.0, "{:?}", better.stages);
    assert_eq!(better.smoothed[0].into, ["LayerNormalization_0"]);
    assert!(!operators(&better.model).contains(&"Mul"));
}

/// One sample with an outlier that hardly matters: ranges by effect do without it.
#[test]
fn outliers_are_cut_off_where_that_helps() {
    let mut build = Build::new();
    let x = build.input("x", &[1, 512]);
    let w = build.constant(
        "w",
        Tensor::f32(&[512, 16], &{
            let mut weights = normal(1, 512 * 16);
            weights[..16].fill(1e-4);
            weights
        }),
    );
    let y = build.node("MatMul", &[&x, &w], vec![]);
    let model = build.finish(&[&y]);
    let mut samples = samples(32, &[1, 512]);
    for sample in &mut samples {
        let mut values = sample[0].1.to_vec::<f32>().unwrap();
        values[0] = 400.0;
        sample[0].1 = Tensor::f32(&[1, 512], &values);
    }
    // Another channel's weight would take the outlier on: without the graph's producer nothing is evened out.
    let plain = quantised(&model, &samples, &Options { effort: Effort::Least, ..Options::default() });
    let better = quantised(&model, &samples, &Options::default());
    assert!(better.distance.unwrap().relative < plain.distance.unwrap().relative / 5.0, "{:?}", better.stages);
    assert_ne!(better.values["x"].method.to_string(), "min-max");
}

/// Rounding all weights the same way shifts the results; the correction takes that back, exactly where the input is constant.
#[test]
fn biases_take_back_the_shift() {
    let mut build = Build::new();
    let x = build.input("x", &[8, 64]);
    let values: Vec<f32> = (0..64 * 4).map(|i| if i < 4 { 1.27 } else { 0.0145 }).collect();
    let w = build.constant("w", Tensor::f32(&[64, 4], &values));
    let b = build.constant("b", Tensor::f32(&[4], &[0.0; 4]));
    let y = build.node("Gemm", &[&x, &w, &b], vec![]);
    let model = build.finish(&[&y]);
    let samples: Vec<Sample> = (0..4)
        .map(|seed| {
            let values: Vec<f32> = normal(seed, 512).iter().map(|value| 3.0 + value * 0.1).collect();
            vec![("x".to_owned(), Tensor::f32(&[8, 64], &values))]
        })
        .collect();
    let better = quantised(&model, &samples, &Options::default());
    let (before, after) = (better.stages[0].distance.relative, better.stages[0].corrected.unwrap().relative);
    assert!(after < before / 3.0, "{:?}", better.stages);
}

/// Against rounding each weight by itself, on rows that were not seen.
#[test]
fn adaptive_rounding_lowers_the_error_on_other_rows() {
    for groups in [1, 4] {
        let mut build = Build::new();
        let x = build.input("x", &[1, 8, 12, 12]);
        let weights = normal(3, 8 * 8 / groups * 9);
        let y = build.conv(&x, &weights, [8, 8 / groups, 3, 3], None, groups as i64);
        let model = build.finish(&[&y]);
        // Channels that depend on one another, as those of networks do.
        let sample = |seed: u64| {
            let (own, common) = (normal(seed, 8 * 144), normal(seed + 50, 144));
            let values: Vec<f32> = own.iter().enumerate().map(|(i, v)| v * 0.2 + common[i % 144]).collect();
            vec![("x".to_owned(), Tensor::f32(&[1, 8, 12, 12], &values))]
        };
        let (layers, seen) = observed(&model, &(0..16).map(sample).collect());
        let (_, other) = observed(&model, &(100..108).map(sample).collect());
        let layer = &layers[0];
        // Coarse steps show the effect.
        let scales = weights::largest(layer, &weights, DType::I8).iter().map(|scale| scale * 16.0).collect::<Vec<_>>();
        let near = weights::rounded(&weights, &scales, DType::I8);
        let adapted = round::adapt(layer, &weights, &scales, &seen.rows[&layer.name]);
        let rows = &other.rows[&layer.name];
        let exact = product(layer, rows, &weights);
        let error = |weights: &weights::Weights| relative(&exact, &product(layer, rows, &weights.floats()));
        assert!(error(&adapted) < error(&near) * 0.7, "{groups}: {} {}", error(&adapted), error(&near));
        // Every weight is one of its two neighbours.
        let step = |(index, value): (usize, f32)| (value - weights[index]).abs() < scales[index / layer.depth] * 1.001;
        assert!(adapted.floats().into_iter().enumerate().all(step));
    }
}

/// A layer that cannot be rounded, among others that can: the budget keeps exactly it.
#[test]
fn a_budget_keeps_the_layer_that_costs_most() {
    let mut build = Build::new();
    let x = build.input("x", &[1, 4, 8, 8]);
    // A channel that is never positive, with weights behind it that take all the steps.
    let mut bias = vec![0.1; 8];
    bias[7] = -1000.0;
    let y = build.conv(&x, &normal(1, 8 * 36), [8, 4, 3, 3], Some(&bias), 1);
    let y = build.node("Relu", &[&y], vec![]);
    let mut fragile = normal(2, 8 * 8 * 9);
    (0..8).for_each(|output| fragile[(output * 8 + 7) * 9 + 4] = 300.0);
    let pooled = build.node("GlobalAveragePool", &[&y], vec![]);
    let shape = build.constant("s", Tensor::i64(&[2], &[1, 8]));
    let flat = build.node("Reshape", &[&pooled, &shape], vec![]);
    let w = build.constant("w", Tensor::f32(&[8, 6], &normal(9, 48)));
    let other = build.node("MatMul", &[&flat, &w], vec![]);
    let y = build.conv(&y, &fragile, [8, 8, 3, 3], None, 1);
    let model = build.finish(&[&y, &other]);
    let samples = samples(8, &[1, 4, 8, 8]);
    let least = Options { effort: Effort::Least, ..Options::default() };
    let free = quantised(&model, &samples, &least);
    let budget = Budget::Relative(0.05);
    assert!(!budget.holds(&free.distance.unwrap()), "{:?}", free.distance);
    let done = quantised(&model, &samples, &Options { budget: Some(budget), ..least });
    let kept: Vec<&str> = done.left.iter().map(|left| left.name.as_str()).collect();
    assert_eq!((done.within_budget, kept), (Some(true), vec!["Conv_5"]), "{:?}", done.reports);
    // One that allows nothing leaves nothing in 8 bits.
    let none = quantised(&model, &samples, &Options { budget: Some(Budget::Relative(0.0)), ..Options::default() });
    assert_eq!((none.within_budget, none.layers.len()), (Some(true), 0));
}

/// The file has what it should: integers between, none between a product and its activation, biases in steps of both scales.
#[test]
fn the_form_is_what_kernels_compute() {
    let mut build = Build::new();
    let x = build.input("x", &[1, 4, 8, 8]);
    let a = build.conv(&x, &normal(1, 8 * 36), [8, 4, 3, 3], Some(&random(2, 8)), 1);
    let a = build.node("Relu", &[&a], vec![]);
    let pooled =
        build.node("MaxPool", &[&a], vec![testing::ints("kernel_shape", &[1, 1]), testing::ints("strides", &[3, 3])]);
    let y = build.conv(&pooled, &normal(3, 8 * 72), [8, 8, 3, 3], Some(&random(4, 8)), 1);
    let y = build.node("Add", &[&y, &pooled], vec![]);
    let model = build.finish(&[&y]);
    let samples = samples(4, &[1, 4, 8, 8]);
    let done = quantised(&model, &samples, &Options { effort: Effort::Least, ..Options::default() });
    let expected = [
        "DequantizeLinear",
        "DequantizeLinear",
        "DequantizeLinear",
        "DequantizeLinear",
        "QuantizeLinear",
        "DequantizeLinear",
        "Conv",
        "Relu",
        "QuantizeLinear",
        "DequantizeLinear",
        "MaxPool",
        "QuantizeLinear",
        "DequantizeLinear",
        "Conv",
        "Add",
    ];
    let mut found = operators(&done.model);
    found[..6].sort_unstable();
    let mut sorted = expected;
    sorted[..6].sort_unstable();
    assert_eq!(found, sorted);
    // The pool's two sides have one scale.
    assert_eq!(done.values[&a].params, done.values[&pooled].params);
    assert_eq!((done.values[&a].params.zero, done.values[&a].params.dtype), (0, DType::U8));
    // TensorRT's form: nothing but i8 around 0, and no integer biases.
    let symmetric =
        Options { activations: Activations::Symmetric, float_bias: true, effort: Effort::Least, ..Options::default() };
    let done = quantised(&model, &samples, &symmetric);
    assert!(done.values.values().all(|choice| choice.params.zero == 0 && choice.params.dtype == DType::I8));
    assert!(done.model.graph().initializer.iter().all(|initializer| ![2, 6].contains(&initializer.data_type)));
}

/// One `Gemm`: 5 rows of 32 by 12 rows of weights, and a bias.
fn linear(mut build: Build) -> Model {
    let x = build.input("x", &[5, 32]);
    let w = build.constant("w", Tensor::f32(&[12, 32], &normal(1, 12 * 32)));
    let b = build.constant("b", Tensor::f32(&[12], &random(2, 12)));
    let y = build.node("Gemm", &[&x, &w, &b], vec![nodes::int_attribute("transB", 1)]);
    build.finish(&[&y])
}

/// What the written model computes is what its integers say, by arithmetic of its own.
#[test]
fn written_integers_mean_what_was_chosen() {
    let model = linear(Build::new());
    let input = normal(7, 5 * 32);
    let (layers, _) = observed(&model, &vec![vec![("x".into(), Tensor::f32(&[5, 32], &input))]]);
    let params = Params::affine(-2.0, 3.0);
    let exact = normal(1, 12 * 32);
    let rounded = weights::rounded(&exact, &weights::largest(&layers[0], &exact, DType::I8), DType::I8);
    let bias = random(2, 12);
    let form = [Quantised { layer: &layers[0], weights: rounded.clone(), bias: Some(bias.clone()) }];
    let written = insert::run(&model, &BTreeMap::from([("x".to_owned(), params)]), &form, false).unwrap();
    let found = testing::run(&written, &[Tensor::f32(&[5, 32], &input)])[0].to_f64();
    for (index, found) in found.into_iter().enumerate() {
        let (row, output) = (index / 12, index % 12);
        let step = f64::from(params.scale) * f64::from(rounded.scales[output]);
        let mut sum = (f64::from(bias[output]) / step).round();
        for k in 0..32 {
            let integer = (f64::from(input[row * 32 + k]) / f64::from(params.scale)).round_ties_even();
            let integer = (integer + f64::from(params.zero)).clamp(0.0, 255.0) - f64::from(params.zero);
            sum += integer * f64::from(rounded.elements[output * 32 + k]);
        }
        assert!((found - sum * step).abs() < 1e-5 * (1.0 + found.abs()), "{index}: {found} {}", sum * step);
    }
}

/// Interrupted at any record, the same command gives the same model.
#[test]
fn an_interrupted_run_goes_on() {
    let model = planted("Relu", &[1.0, 5.0, 0.1, 2.0]);
    let samples = samples(4, &[1, 4, 8, 8]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.checkpoint");
    let plain = quantised(&model, &samples, &Options { effort: Effort::High, ..Options::default() });
    let options = Options { effort: Effort::High, checkpoint: Some(path.clone()), ..Options::default() };
    // A panic in the progress stands for the interruption.
    let phases = std::sync::atomic::AtomicUsize::new(0);
    for stop in [3, 5, 8, 11] {
        phases.store(0, std::sync::atomic::Ordering::Relaxed);
        let interrupted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            quantise(&model, &samples, &options, &|progress| {
                if matches!(progress, crate::Progress::Phase(_)) {
                    assert!(phases.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < stop, "interrupted");
                }
            })
        }));
        assert!(interrupted.is_err());
    }
    assert!(path.exists());
    let done = quantised(&model, &samples, &options);
    assert!(done.resumed > 4 && !path.exists(), "{}", done.resumed);
    assert_eq!(done.model.encode().unwrap(), plain.model.encode().unwrap());
}

/// Operators whose attributes became inputs, and what folding leaves of constants.
#[test]
fn old_opsets_are_brought_up() {
    let mut build = Build::opset(11);
    let x = build.input("x", &[2, 3, 4, 4]);
    let w = build.constant("w", Tensor::f32(&[6, 3, 1, 1], &normal(1, 18)));
    let scale = build.constant("s", Tensor::f32(&[6], &random(2, 6)));
    let scale = build.node("Unsqueeze", &[&scale], vec![testing::ints("axes", &[1, 2])]);
    let y = build.node("Conv", &[&x, &w], vec![]);
    let y = build.node("Mul", &[&y, &scale], vec![]);
    let y = build.node("ReduceSum", &[&y], vec![testing::ints("axes", &[2]), nodes::int_attribute("keepdims", 0)]);
    let y = build.node("Softmax", &[&y], vec![nodes::int_attribute("axis", 1)]);
    let split = NodeProto {
        name: "split".into(),
        output: vec!["a".into(), "b".into()],
        ..nodes::node("Split", &[&y], "a", vec![testing::ints("split", &[2, 4]), nodes::int_attribute("axis", 1)])
    };
    build.push(split);
    let y = build.node("Unsqueeze", &["b"], vec![testing::ints("axes", &[0])]);
    let y = build.node("Squeeze", &[&y], vec![testing::ints("axes", &[0])]);
    let model = build.finish(&[&y, "a"]);
    let mut new = model.clone();
    prepare::run(&mut new, &Import::default(), 13).unwrap();
    assert_eq!(new.opset(), 13);
    assert!(!operators(&new).contains(&"Mul") && operators(&new).contains(&"Flatten"));
    let input = [Tensor::f32(&[2, 3, 4, 4], &normal(3, 96))];
    for (a, b) in testing::run(&model, &input).iter().zip(testing::run(&new, &input)) {
        assert_eq!(a.shape, b.shape);
        assert!(a.to_f64().iter().zip(b.to_f64()).all(|(a, b)| (a - b).abs() < 1e-5));
    }
    // Something that is quantised already, and no samples.
    let done = quantised(&model, &samples(2, &[2, 3, 4, 4]), &Options::default());
    let again = quantise(&done.model, &samples(2, &[2, 3, 4, 4]), &Options::default(), &|_| ());
    assert!(again.unwrap_err().to_string().contains("quantised already"));
    let none = quantise(&model, &Vec::new(), &Options::default(), &|_| ()).unwrap_err();
    assert!(none.is_usage() && none.to_string().contains("no samples"));
}

/// Names of nodes stay unique.
#[test]
fn names_are_unique() {
    let model = planted("SiLU", &[1.0, 100.0, 0.1, 2.0]);
    let done = quantised(&model, &samples(4, &[1, 4, 8, 8]), &Options::default());
    let mut seen = HashSet::new();
    assert!(done.model.graph().node.iter().all(|node| seen.insert(node.name.clone())));
    let mut made = HashSet::new();
    assert!(done.model.graph().node.iter().flat_map(|node| &node.output).all(|output| made.insert(output.clone())));
    let mut folded = model.clone();
    assert!(fold::run(&mut folded).unwrap().is_empty());
}

/// More samples than the first look takes, and one of the others is far out: ranges of all samples are kept only where they bring
/// the outputs no further off.
#[test]
fn ranges_of_all_samples_are_compared_with_those_of_the_first_look() {
    let mut build = Build::new();
    let x = build.input("x", &[1, 64]);
    let w = build.constant("w", Tensor::f32(&[64, 16], &normal(1, 64 * 16)));
    let y = build.node("MatMul", &[&x, &w], vec![]);
    let model = build.finish(&[&y]);
    let mut samples = samples(130, &[1, 64]);
    let mut values = normal(7, 64);
    values[3] = 1000.0;
    // The first look takes every other sample, and so do those that are measured.
    samples[1][0].1 = Tensor::f32(&[1, 64], &values);
    let result = quantised(&model, &samples, &Options::default());
    let stage = |name: &str| result.stages.iter().find(|stage| stage.name == name).expect("a stage");
    assert!(!stage("min-max of all samples").kept, "{:?}", result.stages);
    let kept: Vec<f64> = result.stages.iter().filter(|stage| stage.kept).map(|stage| stage.best().scores).collect();
    assert!(kept.is_sorted_by(|before, after| after <= before), "{kept:?}");
    assert!(result.distance.unwrap().scores <= stage("min-max").best().scores, "{:?}", result.stages);
}

/// Whose factors are quantised to integers for other programs is not in 8 bits for that; floats of 8 bits are multiplied.
#[test]
fn products_of_two_values_count_as_floats_also_where_their_factors_are_integers() {
    let mut build = Build::new();
    let x = build.input("x", &[1, 8, 16]);
    let w = build.constant("w", Tensor::f32(&[16, 8], &normal(1, 16 * 8)));
    let y = build.node("MatMul", &[&x, &w], vec![]);
    let z = build.node("MatMul", &[&y, &x], vec![]);
    let model = build.finish(&[&z]);
    let samples = samples(4, &[1, 8, 16]);
    for (all_products, activations) in
        [(false, Activations::Any), (true, Activations::Any), (false, Activations::Float8), (true, Activations::Float8)]
    {
        let options = Options { all_products, activations, ..Options::default() };
        let result = quantised(&model, &samples, &options);
        let report = report::eight_bits(&result, &options);
        let multiplied = all_products && activations == Activations::Float8;
        let narrow = if multiplied { 2 } else { 1 } * 8 * 8 * 16;
        assert_eq!(report["operations"], serde_json::json!({"8_bits": narrow, "all": 2 * 8 * 8 * 16}));
        let [left] = &result.left[..] else { panic!("{:?}", result.left) };
        assert_eq!(left.reason.contains("are quantised"), all_products);
        let quantisers = operators(&result.model).iter().filter(|name| **name == "QuantizeLinear").count();
        assert_eq!(quantisers, if all_products { 2 } else { 1 });
    }
}

/// What changed until opset 19, which has floats of 8 bits.
#[test]
fn opsets_without_floats_of_8_bits_are_brought_up() {
    let mut build = Build::opset(13);
    let x = build.input("x", &[1, 4, 6, 6]);
    let y = build.conv(&x, &normal(1, 8 * 36), [8, 4, 3, 3], Some(&random(2, 8)), 1);
    let split = NodeProto {
        name: "split".into(),
        output: vec!["a".into(), "b".into()],
        ..nodes::node("Split", &[&y], "a", vec![nodes::int_attribute("axis", 1)])
    };
    build.push(split);
    let y = build.node("ReduceMean", &["a"], vec![testing::ints("axes", &[2, 3])]);
    let model = build.finish(&[&y, "b"]);
    let samples = samples(3, &[1, 4, 6, 6]);
    let options = Options { activations: Activations::Float8, ..Options::default() };
    let done = quantised(&model, &samples, &options);
    assert_eq!((done.model.opset(), done.model.proto.ir_version), (19, 9));
    assert!(done.distance.unwrap().relative < 0.05, "{:?}", done.stages);
}

/// Floats of 8 bits: E4M3 around the product, with a scale for each output channel of the weights, and a float bias.
#[test]
fn floats_of_8_bits_mean_what_was_chosen() {
    let model = linear(Build::opset(19));
    let input = normal(7, 5 * 32);
    let samples = vec![vec![("x".to_owned(), Tensor::f32(&[5, 32], &input))]];
    let options = Options { activations: Activations::Float8, effort: Effort::Least, ..Options::default() };
    let result = quantised(&model, &samples, &options);
    assert_eq!(operators(&result.model), ["DequantizeLinear", "QuantizeLinear", "DequantizeLinear", "Gemm"]);
    let types: Vec<i32> = result.model.graph().initializer.iter().map(|initializer| initializer.data_type).collect();
    // The scales and the bias are floats; the weights and two zero points are E4M3, which ONNX numbers 17.
    assert_eq!(
        (types.iter().filter(|&&kind| kind == 17).count(), types.iter().filter(|&&kind| kind == 1).count()),
        (3, 3)
    );
    let report = report::eight_bits(&result, &options);
    assert_eq!((&report["format"], &report["fits_tensorrt"]), (&"fp8".into(), &serde_json::Value::Null));
    let params = result.values["x"].params;
    let exact = normal(1, 12 * 32);
    let (layers, _) = observed(&model, &samples);
    let weights =
        weights::rounded(&exact, &weights::largest(&layers[0], &exact, DType::F8E4M3), DType::F8E4M3).floats();
    let found = testing::run(&result.model, &[Tensor::f32(&[5, 32], &input)])[0].to_f64();
    let bias = random(2, 12);
    for (index, found) in found.into_iter().enumerate() {
        let (row, output) = (index / 12, index % 12);
        let inputs = params.round(&input[row * 32..][..32]);
        let products = inputs.iter().zip(&weights[output * 32..][..32]).map(|(a, b)| f64::from(*a) * f64::from(*b));
        let wanted = products.sum::<f64>() + f64::from(bias[output]);
        assert!((found - wanted).abs() < 1e-5 * (1.0 + found.abs()), "{index}: {found} {wanted}");
    }
    // Four digits of each factor.
    assert!((0.001..0.05).contains(&result.distance.unwrap().relative), "{:?}", result.distance);
}
