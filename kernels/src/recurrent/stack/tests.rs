//! The reference kernel against ONNX's formulas in f64, and against nonsense.

use super::{RecurrentStack, cases::cases};
use crate::conv::tests::never_panics;
use crate::host::testing::{self, Operand, element};
use crate::host::{Element, cast_mut, with_element};
use crate::recurrent::tests::expected;
use crate::{DType, Family, Kernel, View};

/// An operand of the test's own: contiguous f32 values.
fn operand(view: &View, values: impl Iterator<Item = f64>) -> Operand {
    let mut operand = Operand::filled(view.bytes().unwrap(), 0);
    let to = cast_mut::<f32>(&mut operand, 0).unwrap();
    to.iter_mut().zip(values).for_each(|(to, value)| *to = value as f32);
    operand
}

fn rounded(dtype: DType, x: f64) -> f64 {
    with_element!(dtype, T => T::from_f64(x).to_f64())
}

fn compare(stack: &RecurrentStack) {
    let kernel = Kernel::RecurrentStack(stack.clone());
    let mut inputs = testing::inputs(&kernel, 42);
    let [first, projection, second] = stack.parts();
    // Weights of a trained network keep sums of any number of units moderate.
    let [.., units] = stack.first.extents();
    for weights in stack.weights() {
        with_element!(stack.first.weights.dtype, T => {
            for x in cast_mut::<T>(&mut inputs[weights], 0).unwrap() {
                *x = T::from_f64(x.to_f64() * 1.5 / f64::from(units).sqrt());
            }
        });
    }
    let below = expected(&stack.first, &inputs[..first]);
    let sequence: Vec<f64> = below.sequence.iter().map(|&x| rounded(stack.first.sequence.dtype, x)).collect();
    let matrix = &stack.projection.b;
    let projected = &stack.second.projected;
    let columns = i64::from(*projected.shape.last().unwrap());
    let sums = sequence.chunks_exact(units as usize).flat_map(|row| {
        let inputs = &inputs;
        (0..columns).map(move |n| {
            let product = |(k, x): (usize, &f64)| {
                let at = [&vec![0; matrix.rank() - 2][..], &[k as i64, n]].concat();
                x * element(matrix, &inputs[first], &at)
            };
            let bias = if stack.projection.epilogue.bias {
                let at = View::contiguous(DType::F32, &[columns as u32]).unwrap();
                element(&at, &inputs[first + 1], &[n])
            } else {
                0.0
            };
            row.iter().enumerate().map(product).sum::<f64>() + bias
        })
    });
    let mut of_second = vec![operand(projected, sums)];
    of_second.extend(inputs[first + projection..][..second].iter().cloned());
    let wanted = expected(&stack.second, &of_second);
    for (index, output) in testing::run_all(&kernel, &inputs).into_iter().enumerate() {
        let view = stack.output(index).unwrap();
        let wanted = [&wanted.sequence, &wanted.hidden, &wanted.cell][index];
        let tolerance = match view.dtype {
            DType::F16 => 2e-3,
            DType::Bf16 => 1.6e-2,
            _ => 5e-5,
        };
        let [t, _, b, h] = stack.second.extents().map(i64::from);
        let places: Vec<Vec<i64>> = match index {
            0 => (0..t * b * h).map(|i| vec![i / (b * h), 0, i / h % b, i % h]).collect(),
            _ => (0..b * h).map(|i| vec![0, i / h, i % h]).collect(),
        };
        assert_eq!(places.len(), wanted.len());
        for (at, &wanted) in places.iter().zip(wanted) {
            let got = element(view, &output, at);
            let near = (got - wanted).abs() <= tolerance * (1.0 + wanted.abs());
            assert!(near, "output {index} at {at:?}: {got}, not {wanted}: {stack:?}");
        }
    }
}

#[test]
fn cases_agree_with_the_formulas() {
    for kernel in cases() {
        let Kernel::RecurrentStack(stack) = &kernel else { panic!("another family") };
        compare(stack);
    }
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    for kernel in cases() {
        let Kernel::RecurrentStack(good) = &kernel else { panic!("another family") };
        assert_eq!(good.check(), Ok(()));
        let refused = |change: &dyn Fn(&mut RecurrentStack)| {
            let mut bad = good.clone();
            change(&mut bad);
            let refused = bad.check().is_err();
            never_panics(&Kernel::RecurrentStack(bad));
            refused
        };
        assert!(refused(&|bad| bad.projection.a.offset += 1));
        assert!(refused(&|bad| bad.projection.output.dtype = DType::F16));
        assert!(refused(&|bad| bad.projection.a.strides[0] += 1));
        assert!(refused(&|bad| bad.second.projected.shape[0] += 1));
        assert!(refused(&|bad| bad.first.sequence.shape[1] = 2));
        assert!(refused(&|bad| bad.projection.epilogue.extras.push(bad.projection.output.clone()).unwrap()));
        assert!(refused(&|bad| bad.first.weights.shape.clear()));
    }
}
