//! Barriers in shared memory that count arrivals and bytes (`mbarrier`).
//!
//! A phase is complete when as many threads as the barrier was initialised for have arrived and all bytes that they
//! announced have come. `try_wait` may block, and does here until the phase is complete, so that threads that wait for
//! what never comes are found at once.

use super::fault::FaultKind;
use super::lanes::{Registers, Slot, lanes_of};
use super::reader::{Address, Reader, Result};
use super::transfer::{Refused, addresses};
use super::watch::Watch;
use crate::ptx::{Operand, Type};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub(super) enum Op {
    Initialise {
        address: Address,
        count: Slot,
    },
    /// One arrival, which announces bytes.
    Arrive {
        address: Address,
        bytes: Slot,
    },
    /// Until the phase of this parity is complete.
    Wait {
        d: Slot,
        address: Address,
        parity: Slot,
    },
}

/// Decodes the instruction if it is one of these barriers.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Option<Op>> {
    if reader.opcode != "mbarrier" {
        return Ok(None);
    }
    let kinds = [("init", 0), ("arrive", 1), ("try_wait", 2)];
    let kind = reader.choice(&kinds).ok_or("this form")?;
    let form = match kind {
        0 => true,
        1 => reader.takes("expect_tx"),
        _ => reader.takes("parity"),
    };
    if !form || !(reader.takes("shared") || reader.takes("shared::cta")) || !reader.takes("b64") {
        return Err("this form".to_owned());
    }
    let operands = reader.operands();
    if operands.len() != if kind == 0 { 2 } else { 3 } {
        return Err(format!("{} operands", operands.len()));
    }
    let _ = kind > 0 && (reader.takes("cta") || reader.takes("cluster"));
    Ok(Some(match kind {
        0 => Op::Initialise { address: reader.address(&operands[0])?, count: reader.value(&operands[1], Type::U32)? },
        1 => {
            reader.takes("release");
            if operands[0] != Operand::Sink {
                return Err("the state of a phase".to_owned());
            }
            Op::Arrive { address: reader.address(&operands[1])?, bytes: reader.value(&operands[2], Type::U32)? }
        }
        _ => {
            reader.takes("acquire");
            let d = reader.predicate_destination(&operands[0])?;
            Op::Wait { d, address: reader.address(&operands[1])?, parity: reader.value(&operands[2], Type::U32)? }
        }
    }))
}

/// State of one barrier.
#[derive(Clone, Copy, Debug)]
pub(super) struct Barrier {
    /// Arrivals of a phase, and those still missing.
    count: u32,
    missing: u32,
    /// Bytes announced that have not come; below zero where they came first.
    bytes: i64,
    phase: u32,
}

impl Barrier {
    /// Ends the phase if nothing is missing.
    fn completes(&mut self) -> bool {
        let complete = self.missing == 0 && self.bytes == 0;
        if complete {
            self.phase += 1;
            self.missing = self.count;
        }
        complete
    }
}

/// Barriers of a block by address.
pub(super) type Barriers = BTreeMap<u64, Barrier>;

fn find(barriers: &mut Barriers, address: u64) -> std::result::Result<&mut Barrier, FaultKind> {
    barriers.get_mut(&address).ok_or(FaultKind::Arrival { address, what: "is used and was never initialised" })
}

/// Bytes have come; whether that completes the phase.
pub(super) fn receive(barriers: &mut Barriers, address: u64, bytes: u32) -> std::result::Result<bool, FaultKind> {
    let barrier = find(barriers, address)?;
    barrier.bytes -= i64::from(bytes);
    Ok(barrier.completes())
}

/// Executes the instruction for `lanes` of a block with so many bytes of shared memory; whether they go on.
pub(super) fn execute<W: Watch>(
    op: &Op,
    r: &mut Registers<'_>,
    lanes: u32,
    (barriers, available): (&mut Barriers, usize),
    (watch, watched, warp): (&W, &mut W::Block, u32),
) -> std::result::Result<bool, Refused> {
    match op {
        Op::Initialise { address, count } => {
            let (places, counts) = (addresses(r, address), *r.row(*count));
            for lane in lanes_of(lanes) {
                let (address, count) = (places[lane], counts[lane]);
                if address % 8 != 0 || address + 8 > available as u64 {
                    let what = "is not at a multiple of 8 bytes of shared memory";
                    return Err((FaultKind::Arrival { address, what }, lane));
                }
                if count == 0 || count >= 1 << 20 {
                    return Err((FaultKind::Arrival { address, what: "waits for more threads than it can" }, lane));
                }
                barriers.insert(address, Barrier { count, missing: count, bytes: 0, phase: 0 });
            }
        }
        Op::Arrive { address, bytes } => {
            let (places, bytes) = (addresses(r, address), *r.row(*bytes));
            for lane in lanes_of(lanes) {
                let address = places[lane];
                let barrier = find(barriers, address).map_err(|kind| (kind, lane))?;
                if barrier.missing == 0 {
                    return Err((FaultKind::Arrival { address, what: "has more arrivals than it waits for" }, lane));
                }
                barrier.missing -= 1;
                barrier.bytes += i64::from(bytes[lane]);
                let complete = barrier.completes();
                if W::ACTIVE {
                    watch.arrival(watched, warp, address, complete);
                }
            }
        }
        Op::Wait { d, address, parity } => {
            let (places, parities) = (addresses(r, address), *r.row(*parity));
            for lane in lanes_of(lanes) {
                let barrier = find(barriers, places[lane]).map_err(|kind| (kind, lane))?;
                if barrier.phase & 1 == parities[lane] & 1 {
                    return Ok(false);
                }
            }
            if W::ACTIVE {
                lanes_of(lanes).for_each(|lane| watch.arrival_awaited(watched, warp, places[lane]));
            }
            r.set_predicate(*d, lanes, lanes);
        }
    }
    Ok(true)
}
