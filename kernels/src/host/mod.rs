//! What the reference kernels share: typed access to operand bytes, walks over strided views, and the vector code.
//!
//! Nothing here allocates or panics. Offsets into operands are element counts; a reference kernel checks operand lengths once with
//! [`check_operands`], after which every offset that a checked view yields lies inside its operand.

pub(crate) mod axis;
pub(crate) mod correlate;
pub(crate) mod cpu;
mod direct;
mod element;
pub(crate) mod epilogue;
mod integers;
mod memory;
pub(crate) mod movement;
pub(crate) mod product;
pub(crate) mod stages;
pub(crate) mod stretch;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod tile;
mod walk;
pub(crate) mod window;

pub(crate) use element::{
    Boolean, Element, NARROW, check_plain, match_type, narrow_float, to_f32_odd, with_element, with_factor, with_plain,
};
pub(crate) use memory::{cast, cast_mut, check_operands, clear_padding, load_row, store_row};
pub(crate) use walk::Walk;
