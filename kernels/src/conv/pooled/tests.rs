//! The reference kernels against their members, which have tests of their own.

use super::{Pooled, averaged, cases, quantized};
use crate::conv::tests::never_panics;
use crate::host::testing;
use crate::pool::Pooling;
use crate::quantized_average::cases::average_of;
use crate::quantized_conv::cases::Finish;
use crate::reduce::Reduction;
use crate::{DType, Family, Kernel, KernelError};

/// A case's members.
fn members(kernel: &Kernel) -> [Kernel; 2] {
    match kernel {
        Kernel::PooledConv(Pooled { conv, pool }) => [Kernel::Conv(conv.clone()), Kernel::Pool(pool.clone())],
        Kernel::PooledQuantizedConv(Pooled { conv, pool }) => {
            [Kernel::QuantizedConv(conv.clone()), Kernel::Pool(pool.clone())]
        }
        Kernel::AveragedConv(Pooled { conv, pool }) => [Kernel::Conv(conv.clone()), Kernel::Reduce(pool.clone())],
        Kernel::AveragedQuantizedConv(Pooled { conv, pool }) => {
            [Kernel::QuantizedConv(conv.clone()), Kernel::QuantizedAverage(pool.clone())]
        }
        _ => panic!("another family"),
    }
}

#[test]
fn cases_are_their_members_in_turn() {
    let of_maxima = [cases::cases(), quantized::cases::cases()];
    let of_averages = [averaged::cases::cases(), averaged::quantized::cases::cases()];
    for kernel in [of_maxima, of_averages].into_iter().flatten().flatten() {
        let [conv, pool] = members(&kernel);
        let inputs = testing::inputs(&kernel, 5);
        let image = testing::run(&conv, &inputs);
        assert!(*testing::run(&kernel, &inputs) == *testing::run(&pool, &[image]), "{kernel:?}");
    }
}

#[test]
fn what_pools_something_else_is_refused() {
    for kernel in cases::cases() {
        let Kernel::PooledConv(good) = &kernel else { panic!("another family") };
        let refused = |change: &dyn Fn(&mut super::PooledConv)| {
            let mut bad = good.clone();
            change(&mut bad);
            let error = bad.check();
            never_panics(&Kernel::PooledConv(bad));
            error
        };
        assert_eq!(refused(&|bad| bad.pool.input.offset += 8), Err(KernelError::Shape("pooled image")));
        let average = refused(&|bad| bad.pool.kind = Pooling::AverageExcludingPads);
        assert_eq!(average, Err(KernelError::Parameter("kind of pooling")));
        assert!(refused(&|bad| bad.pool.output.shape[1] += 1).is_err());
        assert!(refused(&|bad| bad.conv.geometry.groups = 0).is_err());
    }
}

#[test]
fn averages_of_something_else_are_refused() {
    for kernel in averaged::cases::cases() {
        let Kernel::AveragedConv(good) = &kernel else { panic!("another family") };
        let refused = |change: &dyn Fn(&mut averaged::AveragedConv)| {
            let mut bad = good.clone();
            change(&mut bad);
            let error = bad.check();
            never_panics(&Kernel::AveragedConv(bad));
            error
        };
        assert_eq!(refused(&|bad| bad.pool.input.offset += 8), Err(KernelError::Shape("pooled image")));
        assert_eq!(refused(&|bad| bad.pool.kind = Reduction::Sum), Err(KernelError::Parameter("kind of reduction")));
        let part = refused(&|bad| bad.pool.output = bad.pool.input.clone());
        let is_pixel = good.pool.input.shape[2..].iter().all(|&extent| extent == 1);
        assert!(is_pixel || part == Err(KernelError::Shape("an average of other than a whole image")));
        let channels = refused(&|bad| bad.pool.output.shape[1] = 1);
        assert_eq!(channels, Err(KernelError::Shape("an average of other than a whole image")));
    }
}

#[test]
fn averages_of_other_than_8_bits_are_refused() {
    for kernel in averaged::quantized::cases::cases() {
        let Kernel::AveragedQuantizedConv(good) = &kernel else { panic!("another family") };
        let refused = |change: &dyn Fn(&mut averaged::quantized::AveragedQuantizedConv)| {
            let mut bad = good.clone();
            change(&mut bad);
            let error = bad.check();
            never_panics(&Kernel::AveragedQuantizedConv(bad));
            error
        };
        assert_eq!(refused(&|bad| bad.pool.image.offset += 8), Err(KernelError::Shape("pooled image")));
        let wide = refused(&|bad| {
            for view in [&mut bad.conv.geometry.output, &mut bad.pool.image] {
                view.dtype = DType::I32;
            }
        });
        assert_eq!(wide, Err(KernelError::Type("average of quantised elements")));
        let layered = refused(&|bad| {
            bad.pool = average_of(bad.pool.image.clone(), [DType::I8; 2], 0.0, 8, [Finish::Requantise(DType::I8); 2]);
        });
        assert_eq!(layered, Err(KernelError::Parameter("layers behind an average")));
        assert!(refused(&|bad| bad.pool.requantise.output.shape[1] += 1).is_err());
    }
}
