//! The reference kernels against their members, which have tests of their own.

use super::{Pooled, averaged, cases, quantized};
use crate::conv::tests::never_panics;
use crate::host::testing;
use crate::pool::Pooling;
use crate::reduce::Reduction;
use crate::{Family, Kernel, KernelError};

/// A case's members.
fn members(kernel: &Kernel) -> [Kernel; 2] {
    match kernel {
        Kernel::PooledConv(Pooled { conv, pool }) => [Kernel::Conv(conv.clone()), Kernel::Pool(pool.clone())],
        Kernel::PooledQuantizedConv(Pooled { conv, pool }) => {
            [Kernel::QuantizedConv(conv.clone()), Kernel::Pool(pool.clone())]
        }
        Kernel::AveragedConv(Pooled { conv, pool }) => [Kernel::Conv(conv.clone()), Kernel::Reduce(pool.clone())],
        _ => panic!("another family"),
    }
}

#[test]
fn cases_are_their_members_in_turn() {
    for kernel in [cases::cases(), quantized::cases::cases(), averaged::cases::cases()].concat() {
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
