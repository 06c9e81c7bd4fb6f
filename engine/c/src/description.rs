//! What a plan says of its variants and bindings, as C structures.

use core::ffi::c_char;
use floe_engine::plan::{Variant, format};
pub use floe_operators::{ElementType, FLOE_MAX_RANK};

/// Bytes of a name, the closing NUL included.
pub const FLOE_NAME_BYTES: usize = 256;

const _: () = assert!(FLOE_NAME_BYTES == format::MAX_NAME + 1);

/// Which way a binding goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Direction {
    /// Written before a replay.
    Input = 0,
    /// Read after a replay.
    Output = 1,
    /// Lives on between replays; written to set it, read to look at it, zero at first and after a reset.
    State = 2,
}

/// A variant: the plan, compiled for one kind of device.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct VariantInfo {
    /// Name of the target that it was compiled for, closed by NUL, for example `host` or `jetson-orin-nano`.
    pub target: [c_char; FLOE_NAME_BYTES],
    /// Compute capability of its GPU times ten, for example 87; 0 for the host.
    pub architecture: u32,
    /// Oldest driver that it runs on, as `cuDriverGetVersion` counts: 12020 is 12.2. 0 for the host.
    pub driver: u32,
    /// Fewest multiprocessors that its GPU must have; 0 where any number does.
    pub multiprocessors: u32,
    /// Number of bindings. They are numbered from 0.
    pub bindings: u32,
    /// Number of steps of a replay.
    pub steps: u32,
    /// Not used; 0.
    pub reserved: u32,
    /// Bytes of constants.
    pub weights_bytes: u64,
    /// Bytes of activations and scratch.
    pub arena_bytes: u64,
}

/// A binding: a named input, output or state. Its bytes are row-major without gaps.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct BindingInfo {
    /// Name in the model, closed by NUL. An input and an output may share one.
    pub name: [c_char; FLOE_NAME_BYTES],
    /// Which way it goes.
    pub direction: Direction,
    /// Type of its elements.
    pub element_type: ElementType,
    /// Number of dimensions.
    pub rank: u32,
    /// Extents, outermost first; 0 beyond `rank`.
    pub shape: [u32; FLOE_MAX_RANK],
    /// Bytes of one element.
    pub element_bytes: u32,
    /// Bytes of the whole binding: what a write gives and a read takes.
    pub bytes: u64,
}

/// A name of a checked plan with its closing NUL: at most 255 bytes, none of them NUL.
fn name(text: &str) -> [c_char; FLOE_NAME_BYTES] {
    let mut name = [0; FLOE_NAME_BYTES];
    for (place, &byte) in name[..format::MAX_NAME].iter_mut().zip(text.as_bytes()) {
        *place = byte as c_char;
    }
    name
}

impl VariantInfo {
    /// Describes a variant.
    pub fn new(variant: &Variant<'_>) -> Self {
        let header = variant.header();
        Self {
            target: name(header.target),
            architecture: header.architecture,
            driver: header.driver,
            multiprocessors: header.multiprocessors,
            bindings: header.bindings,
            steps: header.steps,
            reserved: 0,
            weights_bytes: variant.memory().weights,
            arena_bytes: variant.memory().arena,
        }
    }
}

impl BindingInfo {
    /// Describes a binding.
    pub fn new(binding: &format::Binding<'_>) -> Self {
        let mut shape = [0; FLOE_MAX_RANK];
        for (place, &extent) in shape.iter_mut().zip(&binding.shape) {
            *place = extent;
        }
        Self {
            name: name(binding.name),
            direction: binding.direction.into(),
            element_type: binding.dtype.into(),
            rank: binding.shape.len() as u32,
            shape,
            element_bytes: binding.dtype.size() as u32,
            // The check has proven that it does not overflow.
            bytes: binding.bytes().unwrap_or(0),
        }
    }
}

impl From<format::Direction> for Direction {
    fn from(direction: format::Direction) -> Self {
        match direction {
            format::Direction::Input => Self::Input,
            format::Direction::Output => Self::Output,
            format::Direction::State => Self::State,
        }
    }
}
