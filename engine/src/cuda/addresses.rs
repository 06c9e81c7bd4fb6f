//! Where a session's regions lie on the device.

use super::api::CUdeviceptr;
use crate::{
    bindings::Slots,
    plan::format::{Operand, Region},
};

/// Device addresses of a session's regions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    pub weights: CUdeviceptr,
    /// The arena's leading part of `counted` bytes.
    pub counters: CUdeviceptr,
    pub counted: u64,
    pub arena: CUdeviceptr,
    pub bindings: CUdeviceptr,
    pub counter: CUdeviceptr,
    pub report: CUdeviceptr,
}

impl Addresses {
    pub fn of(&self, operand: &Operand, slots: &Slots) -> CUdeviceptr {
        let base = match operand.region {
            Region::Weights => self.weights,
            // The check has proven that no operand lies in both parts.
            Region::Arena if operand.offset < self.counted => self.counters,
            Region::Arena => self.arena,
            // The check has proven that the binding exists.
            Region::Binding(number) => self.bindings + slots.get(usize::from(number)).map_or(0, |slot| slot.offset),
            Region::Counter => self.counter,
            Region::Report => self.report,
        };
        base + operand.offset
    }
}
