//! Where a session's regions lie on the device.

use super::api::CUdeviceptr;
use crate::{
    bindings::Slots,
    plan::{
        Variant,
        format::{Operand, Region},
    },
};

/// Device addresses of a session's regions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    pub weights: CUdeviceptr,
    /// The arena's leading part, one for all shapes.
    pub counters: CUdeviceptr,
    /// What lies behind the counters.
    pub arena: Arena,
    pub bindings: CUdeviceptr,
    pub counter: CUdeviceptr,
    pub report: CUdeviceptr,
}

/// Where the part of the arena lies that no replay leaves for the next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arena {
    /// Here, behind the counters of the shape that has most of them.
    Behind(CUdeviceptr),
    /// In a scratch of several sessions, where the whole arena has room.
    Scratch(CUdeviceptr),
}

impl Addresses {
    /// Address of an operand of `shape`.
    pub fn of(&self, operand: &Operand, shape: &Variant<'_>, slots: &Slots) -> CUdeviceptr {
        let base = match operand.region {
            Region::Weights => self.weights,
            // The check has proven that no operand lies in both parts.
            Region::Arena if operand.offset < shape.header().zeroed_bytes => self.counters,
            Region::Arena => match self.arena {
                // Behind at least as many bytes of counters.
                Arena::Behind(start) => start - shape.own_counter_bytes(),
                Arena::Scratch(start) => start,
            },
            // The check has proven that the binding exists.
            Region::Binding(number) => self.bindings + slots.get(usize::from(number)).map_or(0, |slot| slot.offset),
            Region::Counter => self.counter,
            Region::Report => self.report,
        };
        base + operand.offset
    }
}
