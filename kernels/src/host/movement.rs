//! Moving elements between strided operands: the inner loops of the copy, gather and pad reference kernels.

use super::{Element, cast, cast_mut, with_element};
use crate::loop_nest::{Axis, Nest, offset};
use crate::pointwise::{BLOCK, Register};
use crate::{DType, KernelError};

/// Copies elements of `size` bytes over a nest of (destination, source). Indices outside the operands do nothing.
///
/// # Errors
/// `Misaligned`: operand 0 is the source, 1 the destination.
pub(crate) fn move_elements(
    size: usize,
    nest: Nest<2>,
    starts: [usize; 2],
    destination: &mut [u8],
    source: &[u8],
) -> Result<(), KernelError> {
    match size {
        1 => move_typed::<u8>(nest, starts, destination, cast(source, 0)?),
        2 => move_typed::<u16>(nest, starts, cast_mut(destination, 1)?, cast(source, 0)?),
        4 => move_typed::<u32>(nest, starts, cast_mut(destination, 1)?, cast(source, 0)?),
        _ => move_typed::<u64>(nest, starts, cast_mut(destination, 1)?, cast(source, 0)?),
    }
    Ok(())
}

/// [`move_elements`] for a type that stands for all of its size.
fn move_typed<T: Copy>(mut nest: Nest<2>, starts: [usize; 2], destination: &mut [T], source: &[T]) {
    let Axis { extent, strides: [to_step, from_step] } = nest.pop();
    let extent = extent as usize;
    for [to, from] in nest.walk(starts) {
        if to_step == 1 && from_step == 1 {
            if let (Some(to), Some(from)) = (destination.get_mut(to..to + extent), source.get(from..from + extent)) {
                to.copy_from_slice(from);
            }
        } else if to_step == 1 {
            let row = destination.get_mut(to..to + extent).unwrap_or(&mut []);
            for (i, to) in row.iter_mut().enumerate() {
                *to = source.get(offset(from, from_step, i)).copied().unwrap_or(*to);
            }
        } else {
            for i in 0..extent {
                let element = source.get(offset(from, from_step, i));
                if let (Some(to), Some(&from)) = (destination.get_mut(offset(to, to_step, i)), element) {
                    *to = from;
                }
            }
        }
    }
}

/// Sets every element of a nest to `value`.
pub(crate) fn fill<T: Copy>(mut nest: Nest<1>, start: usize, destination: &mut [T], value: T) {
    let Axis { extent, strides: [step] } = nest.pop();
    let extent = extent as usize;
    for [to] in nest.walk([start]) {
        if step == 1 {
            destination.get_mut(to..to + extent).unwrap_or(&mut []).fill(value);
        } else {
            for i in 0..extent {
                if let Some(to) = destination.get_mut(offset(to, step, i)) {
                    *to = value;
                }
            }
        }
    }
}

/// Copies elements over a nest of (destination, source), converting each through a register of type `R`.
///
/// # Errors
/// As [`move_elements`].
pub(crate) fn convert_elements<R: Register>(
    mut nest: Nest<2>,
    starts: [usize; 2],
    (to_type, destination): (DType, &mut [u8]),
    (from_type, source): (DType, &[u8]),
) -> Result<(), KernelError> {
    let Axis { extent, strides: [to_step, from_step] } = nest.pop();
    let mut block = [R::default(); BLOCK];
    for [to, from] in nest.walk(starts) {
        for start in (0..extent as usize).step_by(BLOCK) {
            let row = &mut block[..BLOCK.min(extent as usize - start)];
            with_element!(from_type, T => load_row(cast::<T>(source, 0)?, offset(from, from_step, start), from_step, row));
            with_element!(to_type, T => store_row(cast_mut::<T>(destination, 1)?, offset(to, to_step, start), to_step, row));
        }
    }
    Ok(())
}

/// Reads a row of elements `step` apart into registers; outside the operand registers keep their value.
#[inline(always)]
pub(crate) fn load_row<T: Element, R: Register>(elements: &[T], start: usize, step: i64, row: &mut [R]) {
    match step {
        1 => {
            let elements = elements.get(start..).unwrap_or(&[]);
            row.iter_mut().zip(elements).for_each(|(register, &element)| *register = R::load(element));
        }
        0 => row.fill(elements.get(start).map_or(R::default(), |&element| R::load(element))),
        _ => {
            for (i, register) in row.iter_mut().enumerate() {
                if let Some(&element) = elements.get(offset(start, step, i)) {
                    *register = R::load(element);
                }
            }
        }
    }
}

/// Writes a row of registers to elements `step` apart; nothing outside the operand.
#[inline(always)]
pub(crate) fn store_row<T: Element, R: Register>(elements: &mut [T], start: usize, step: i64, row: &[R]) {
    if step == 1 {
        let elements = elements.get_mut(start..).unwrap_or(&mut []);
        elements.iter_mut().zip(row).for_each(|(element, &register)| *element = register.store());
    } else {
        for (i, &register) in row.iter().enumerate() {
            if let Some(element) = elements.get_mut(offset(start, step, i)) {
                *element = register.store();
            }
        }
    }
}
