//! The reference kernel against ONNX's formulas in f64 and against ONNX Runtime.

use super::{Activation, ActivationKind, Cell, Recurrent, cases::cases};
use crate::conv::tests::{any_view, never_panics};
use crate::host::testing::{self, Operand, POISON, element};
use crate::host::{Element, Walk, cast_mut, with_element};
use crate::{DType, Family, Kernel, View};
use proptest::prelude::*;
use std::collections::HashMap;

fn value(activation: Activation, x: f64) -> f64 {
    let (alpha, beta) = (f64::from(activation.alpha), f64::from(activation.beta));
    match activation.kind {
        ActivationKind::Relu => x.max(0.0),
        ActivationKind::Tanh => x.tanh(),
        ActivationKind::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        ActivationKind::Affine => alpha * x + beta,
        ActivationKind::LeakyRelu => x * if x < 0.0 { alpha } else { 1.0 },
        ActivationKind::ThresholdedRelu => x * f64::from(x >= alpha),
        ActivationKind::ScaledTanh => alpha * (beta * x).tanh(),
        ActivationKind::HardSigmoid => (alpha * x + beta).clamp(0.0, 1.0),
        ActivationKind::Elu => x.max(0.0) + alpha * x.min(0.0).exp_m1(),
        ActivationKind::Softsign => x / (1.0 + x.abs()),
        ActivationKind::Softplus => x.exp().ln_1p(),
    }
}

/// The three outputs by name of the formulas' letters: Y `[t, d, b, u]`, H and C `[d, b, u]`.
pub(super) struct Expected {
    pub(super) sequence: Vec<f64>,
    pub(super) hidden: Vec<f64>,
    pub(super) cell: Vec<f64>,
}

/// The formulas of the ONNX operators, one unit after another.
pub(super) fn expected(layer: &Recurrent, operands: &[Operand]) -> Expected {
    let [steps, directions, sequences, units] = layer.extents().map(|extent| extent as usize);
    let names = [
        Some("projected"),
        Some("weights"),
        layer.bias.as_ref().map(|_| "bias"),
        layer.initial_hidden.as_ref().map(|_| "hidden"),
        layer.initial_cell.as_ref().map(|_| "cell"),
        layer.lengths.as_ref().map(|_| "lengths"),
        layer.peepholes.as_ref().map(|_| "peepholes"),
    ];
    let position: HashMap<&str, usize> = names.into_iter().flatten().zip(0..).collect();
    let get = |name: &str, index: &[usize]| -> f64 {
        let Some(&operand) = position.get(name) else { return 0.0 };
        let index: Vec<i64> = index.iter().map(|&i| i as i64).collect();
        element(layer.input(operand).unwrap(), &operands[operand], &index)
    };
    let clip = f64::from(layer.clip);
    let mut result =
        Expected { sequence: vec![0.0; steps * directions * sequences * units], hidden: Vec::new(), cell: Vec::new() };
    for d in 0..directions {
        for b in 0..sequences {
            let f = |index: usize, x: f64| value(layer.activations[d][index], x.clamp(-clip, clip));
            let mut h: Vec<f64> = (0..units).map(|u| get("hidden", &[d, b, u])).collect();
            let mut c: Vec<f64> = (0..units).map(|u| get("cell", &[d, b, u])).collect();
            let length = if layer.lengths.is_some() { get("lengths", &[b]) as usize } else { steps }.min(steps);
            for step in 0..length {
                let t = if layer.reverse[d] { length - 1 - step } else { step };
                let product = |row: usize, state: &[f64]| -> f64 {
                    state.iter().enumerate().map(|(k, x)| x * get("weights", &[d, row, k])).sum()
                };
                let x = |gate: usize, u: usize| get("projected", &[t, b, d, gate * units + u]);
                let sum = |gate: usize, u: usize| x(gate, u) + product(gate * units + u, &h);
                let peephole = |gate: usize, u: usize| get("peepholes", &[d, gate * units + u]);
                let mut next = h.clone();
                let mut next_cell = c.clone();
                let reset: Vec<f64> = match layer.cell {
                    Cell::Gru { .. } => (0..units).map(|u| f(0, sum(1, u))).collect(),
                    _ => Vec::new(),
                };
                let scaled: Vec<f64> = reset.iter().zip(&h).map(|(r, h)| r * h).collect();
                for u in 0..units {
                    match layer.cell {
                        Cell::Rnn => next[u] = f(0, sum(0, u)),
                        Cell::Lstm { input_forget } => {
                            let input = f(0, sum(0, u) + peephole(0, u) * c[u]);
                            let forget =
                                if input_forget { 1.0 - input } else { f(0, sum(2, u) + peephole(2, u) * c[u]) };
                            next_cell[u] = forget * c[u] + input * f(1, sum(3, u));
                            let output = f(0, sum(1, u) + peephole(1, u) * next_cell[u]);
                            next[u] = output * value(layer.activations[d][2], next_cell[u]);
                        }
                        Cell::Gru { linear_before_reset } => {
                            let update = f(0, sum(0, u));
                            let recurrent = match linear_before_reset {
                                true => reset[u] * (product(2 * units + u, &h) + get("bias", &[d, u])),
                                false => product(2 * units + u, &scaled),
                            };
                            let candidate = f(1, x(2, u) + recurrent);
                            next[u] = (1.0 - update) * candidate + update * h[u];
                        }
                    }
                }
                (h, c) = (next, next_cell);
                result.sequence[((t * directions + d) * sequences + b) * units..][..units].copy_from_slice(&h);
            }
            if length == 0 {
                (h, c) = (vec![0.0; units], vec![0.0; units]);
            }
            result.hidden.extend(h);
            result.cell.extend(c);
        }
    }
    result
}

fn compare(layer: &Recurrent) {
    let kernel = Kernel::Recurrent(layer.clone());
    let mut inputs = testing::inputs(&kernel, 42);
    // Weights of a trained network keep sums of any number of units moderate.
    let scale = 1.5 / f64::from(layer.extents()[3]).sqrt();
    with_element!(layer.weights.dtype, T => {
        for x in cast_mut::<T>(&mut inputs[1], 0).unwrap() {
            *x = T::from_f64(x.to_f64() * scale);
        }
    });
    let wanted = expected(layer, &inputs);
    for (index, mut output) in testing::run_all(&kernel, &inputs).into_iter().enumerate() {
        let view = layer.output(index).unwrap();
        let wanted = [&wanted.sequence, &wanted.hidden, &wanted.cell][index];
        let tolerance = match view.dtype {
            DType::F16 => 1e-3,
            DType::Bf16 => 8e-3,
            _ => 2e-5,
        };
        let mut walk = Walk::new(&view.shape, [&view.strides], [view.offset]);
        for &wanted in wanted {
            let at: Vec<i64> = walk.index().iter().map(|&i| i64::from(i)).collect();
            let got = element(view, &output, &at);
            let near = (got - wanted).abs() <= tolerance * (1.0 + wanted.abs());
            assert!(near, "output {index} at {at:?}: {got}, not {wanted}: {layer:?}");
            let [place] = walk.next().unwrap();
            let size = view.dtype.size();
            output[place * size..][..size].fill(POISON);
        }
        assert!(walk.next().is_none());
        assert!(output.iter().all(|&b| b == POISON), "wrote outside its view: {layer:?}");
    }
}

#[test]
fn cases_agree_with_the_formulas() {
    for kernel in cases() {
        let Kernel::Recurrent(layer) = &kernel else { panic!("another family") };
        compare(layer);
    }
}

#[test]
fn contradictions_are_refused() {
    let layers: Vec<Recurrent> = cases()
        .into_iter()
        .map(|kernel| match kernel {
            Kernel::Recurrent(layer) => layer,
            _ => panic!("another family"),
        })
        .collect();
    let wrong: [fn(&mut Recurrent); 8] = [
        |layer| layer.projected.shape[3] += 1,
        |layer| layer.weights.dtype = DType::I32,
        |layer| layer.clip = f32::NAN,
        |layer| layer.reverse.clear(),
        |layer| layer.activations[0].clear(),
        |layer| layer.hidden.shape[1] += 1,
        |layer| layer.cell_state = if layer.cell_state.is_some() { None } else { Some(layer.hidden.clone()) },
        |layer| layer.lengths = Some(View::contiguous(DType::F32, &[layer.extents()[2]]).unwrap()),
    ];
    for damage in wrong {
        let mut layer = layers[3].clone();
        damage(&mut layer);
        assert!(layer.check().is_err());
    }
}

fn any_cell() -> impl Strategy<Value = Cell> {
    prop_oneof![
        Just(Cell::Rnn),
        any::<bool>().prop_map(|input_forget| Cell::Lstm { input_forget }),
        any::<bool>().prop_map(|linear_before_reset| Cell::Gru { linear_before_reset }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(
        case in 0..40_usize, cell in any_cell(), views in prop::collection::vec(any_view(), 3),
        replaced in 0..10_usize, dims in any::<bool>(), clip in any::<f32>(), directions in 0..3_usize,
    ) {
        let all = cases();
        let Kernel::Recurrent(mut layer) = all[case % all.len()].clone() else { panic!("another family") };
        let view = views[0].clone();
        match replaced {
            0 => layer.projected = view,
            1 => layer.weights = view,
            2 => layer.sequence = view,
            3 => layer.hidden = view,
            4 => layer.cell_state = Some(view),
            5 => layer.lengths = Some(view),
            6 => layer.cell = cell,
            7 => layer.clip = clip,
            8 => layer.reverse.truncate(directions),
            _ => layer.peepholes = Some(view),
        }
        if dims {
            layer.initial_hidden = Some(views[1].clone());
        }
        never_panics(&Kernel::Recurrent(layer));
    }
}
