//! Operand bytes as elements.

use super::{Walk, movement, with_element};
use crate::{DType, Family, KernelError, MAX_INPUTS, MAX_OUTPUTS, View};
use bytemuck::Pod;

/// Operand bytes as elements; bytes after the last whole element are left out.
///
/// # Errors
/// `Misaligned(operand)`.
pub(crate) fn cast<T: Pod>(bytes: &[u8], operand: usize) -> Result<&[T], KernelError> {
    let whole = bytes.len() - bytes.len() % size_of::<T>().max(1);
    if whole == 0 {
        return Ok(&[]); // an empty operand may lie anywhere
    }
    bytemuck::try_cast_slice(&bytes[..whole]).map_err(|_| KernelError::Misaligned(operand as u8))
}

/// As [`cast`], for writing.
///
/// # Errors
/// `Misaligned(operand)`.
pub(crate) fn cast_mut<T: Pod>(bytes: &mut [u8], operand: usize) -> Result<&mut [T], KernelError> {
    let whole = bytes.len() - bytes.len() % size_of::<T>().max(1);
    if whole == 0 {
        return Ok(&mut []);
    }
    bytemuck::try_cast_slice_mut(&mut bytes[..whole]).map_err(|_| KernelError::Misaligned(operand as u8))
}

/// Checks number, length and alignment of all operands of a family against its parameters: every reference kernel's first line.
///
/// Operands count inputs first, then outputs, then the workspace.
///
/// # Errors
/// Those of [`Family::check`], `OperandCount`, `OperandTooShort` or `Misaligned`.
pub(crate) fn check_operands(
    family: &impl Family,
    inputs: &[&[u8]],
    outputs: &[&mut [u8]],
    workspace: &[u8],
) -> Result<(), KernelError> {
    family.check()?;
    let fits = |bytes: &[u8], needed: u64, align: usize, operand: usize| {
        if (bytes.len() as u64) < needed {
            Err(KernelError::OperandTooShort(operand as u8))
        } else if needed > 0 && !bytes.as_ptr().addr().is_multiple_of(align) {
            Err(KernelError::Misaligned(operand as u8))
        } else {
            Ok(())
        }
    };
    for i in 0..=MAX_INPUTS {
        match (family.input_bytes(i)?, inputs.get(i)) {
            // An input without a view is a vector of f32 parameters.
            (Some(needed), Some(bytes)) => fits(bytes, needed, family.input(i).map_or(4, |v| v.dtype.size()), i)?,
            (None, None) => break,
            _ => return Err(KernelError::OperandCount),
        }
    }
    for i in 0..=MAX_OUTPUTS {
        match (family.output(i), outputs.get(i)) {
            (Some(view), Some(bytes)) => fits(bytes, view.bytes()?, view.dtype.size(), inputs.len() + i)?,
            (None, None) => break,
            _ => return Err(KernelError::OperandCount),
        }
    }
    fits(workspace, family.host_workspace(), 64, inputs.len() + outputs.len())
}

/// Reads `row.len()` elements, `step` apart from element `start` on, as f32; those outside the operand stay as they are.
pub(crate) fn load_row(dtype: DType, bytes: &[u8], start: usize, step: i32, row: &mut [f32]) {
    with_element!(dtype, T => movement::load_row(cast::<T>(bytes, 0).unwrap_or(&[]), start, step.into(), row));
}

/// Writes a row of f32 values, converted, `step` apart from element `start` on; nothing outside the operand.
pub(crate) fn store_row(dtype: DType, bytes: &mut [u8], start: usize, step: i32, row: &[f32]) {
    with_element!(dtype, T => movement::store_row(cast_mut::<T>(bytes, 0).unwrap_or(&mut []), start, step.into(), row));
}

/// Writes zeros into the padded channels of a channels-last view (see [`View::padded_channels`]); nothing for other views.
pub(crate) fn clear_padding(view: &View, bytes: &mut [u8]) {
    let Some(&channels) = view.shape.get(1) else { return };
    if view.padded_channels <= channels {
        return;
    }
    let size = view.dtype.size();
    let mut dims = view.shape.clone();
    dims[1] = 1;
    let padding = (view.padded_channels - channels) as usize * size;
    for [pixel] in Walk::new(&dims, [&view.strides], [view.offset]) {
        // A view that nothing has checked yet may begin before its operand.
        let start = pixel.checked_add(channels as usize).and_then(|element| element.checked_mul(size));
        let place = start.and_then(|start| Some(start..start.checked_add(padding)?));
        if let Some(padded_channels) = place.and_then(|place| bytes.get_mut(place)) {
            padded_channels.fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Strides;

    #[test]
    fn padding_is_cleared_within_the_operand_alone() {
        let strides: Strides = [-5, 1].into_iter().collect();
        let view = View { padded_channels: 4, strides, ..View::contiguous(DType::F32, &[3, 1]).unwrap() };
        let mut bytes = [7; 32];
        clear_padding(&view, &mut bytes);
        // The second and third pixel lie in front of it.
        assert_eq!(bytes[..4], [7; 4]);
        assert_eq!(bytes[4..16], [0; 12]);
        assert_eq!(bytes[16..], [7; 16]);
    }
}
