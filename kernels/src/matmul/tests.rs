//! The reference kernel against the definition in f64.

use super::{MatMul, cases};
use crate::conv::tests::{any_view, never_panics};
use crate::host::testing::{self, Operand, Values, element};
use crate::narrow::{F8E4M3, F8E5M2};
use crate::pointwise::Epilogue;
use crate::{DType, Family, Kernel};
use proptest::prelude::*;

fn expected(product: &MatMul, operands: &[Operand], index: &[i64]) -> f64 {
    let rank = index.len();
    let (mut a, mut b) = (index.to_vec(), index.to_vec());
    let mut sum = 0.0;
    for k in 0..i64::from(product.a.shape[rank - 1]) {
        a[rank - 1] = k;
        b[rank - 2] = k;
        sum += element(&product.a, &operands[0], &a) * element(&product.b, &operands[1], &b);
    }
    let value = testing::finish(&product.epilogue, operands, 2, index[rank - 1], index, sum);
    match product.output.dtype {
        DType::F8E4M3 => F8E4M3::from_f32(value as f32).to_f32().into(),
        DType::F8E5M2 => F8E5M2::from_f32(value as f32).to_f32().into(),
        _ => value,
    }
}

fn compare(product: &MatMul) {
    let tolerance = if product.output.dtype == DType::F64 { 1e-12 } else { 5e-5 };
    let kernel = Kernel::MatMul(product.clone());
    // Products of the ends of integer types may wrap, which f64 does not.
    let special = if product.output.dtype.is_float() { Values::Special } else { Values::Signed };
    for values in [Values::Moderate, special] {
        testing::compare_of(&kernel, values, tolerance, |operands, index| expected(product, operands, index));
    }
}

#[test]
fn cases_agree_with_the_definition() {
    for kernel in cases::cases() {
        let Kernel::MatMul(product) = &kernel else { panic!("another family") };
        compare(product);
    }
}

#[test]
fn factors_may_be_of_different_float_types() {
    for kernel in cases::cases() {
        let Kernel::MatMul(mut product) = kernel else { panic!("another family") };
        if product.a.dtype == DType::F32 {
            product.b.dtype = DType::F16;
            product.output.dtype = DType::Bf16;
            compare(&product);
        }
    }
}

#[test]
fn integers_wrap() {
    let mut kernel = cases::cases().pop().unwrap();
    let Kernel::MatMul(product) = &mut kernel else { panic!("another family") };
    for view in [&mut product.a, &mut product.b, &mut product.output] {
        view.dtype = DType::U8;
    }
    let filled = |view: &crate::View| Operand::filled(view.bytes().unwrap(), 200);
    let operands = [filled(&product.a), filled(&product.b)];
    let terms = *product.a.shape.last().unwrap();
    let wanted = (terms * 200 * 200) as u8;
    assert!(testing::run(&kernel, &operands).iter().all(|&x| x == wanted));
}

#[test]
fn what_does_not_fit_floats_of_8_bits_is_refused() {
    let good = cases::cases().into_iter().find_map(|kernel| match kernel {
        Kernel::MatMul(product) if product.output.dtype == DType::F8E4M3 => Some(product),
        _ => None,
    });
    let good = good.expect("a case");
    let refused = |change: &dyn Fn(&mut MatMul)| {
        let mut bad = good.clone();
        change(&mut bad);
        let refused = bad.check().is_err();
        never_panics(&Kernel::MatMul(bad));
        refused
    };
    assert!(!refused(&|_| ()));
    for dtype in [DType::F16, DType::F32, DType::I8, DType::F8E4M3Fnuz] {
        assert!(refused(&|bad| bad.a.dtype = dtype) && refused(&|bad| bad.b.dtype = dtype), "{dtype:?}");
    }
    assert!(refused(&|bad| bad.output.dtype = DType::F8E4M3Fnuz));
    assert!(refused(&|bad| bad.output.dtype = DType::I8));
    assert!(refused(&|bad| bad.output.dtype = DType::F64));
    // Sums that nothing scales are not rounded to 8 bits.
    assert!(refused(&|bad| bad.epilogue.program = None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(a in any_view(), b in any_view(), output in any_view(), bias in any::<bool>()) {
        let product = MatMul { a, b, output, epilogue: Epilogue { bias, ..Epilogue::default() } };
        never_panics(&Kernel::MatMul(product.clone()));
        never_panics(&Kernel::MatMul(product.plausible()));
    }
}

impl MatMul {
    /// The same with ranks, extents and types that fit.
    fn plausible(mut self) -> Self {
        let rank = self.output.rank();
        for view in [&mut self.a, &mut self.b] {
            let depth = view.shape[1];
            view.dtype = self.output.dtype;
            view.strides.resize(rank, 1).unwrap();
            view.shape = self.output.shape.clone();
            view.shape[rank - 1] = depth;
        }
        self.b.shape[rank - 2] = self.a.shape[rank - 1];
        self.b.shape[rank - 1] = self.output.shape[rank - 1];
        self
    }
}
