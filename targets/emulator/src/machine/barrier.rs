//! Barriers of a block.

use super::lanes::Slot;
use super::reader::{Reader, Result};
use crate::ptx::Type;

/// A barrier instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    /// Which of the 16.
    pub barrier: Slot,
    /// How many threads it waits for; all if none.
    pub count: Option<Slot>,
    pub waits: bool,
    pub reduce: Option<Reduce>,
}

/// Predicate that is combined over all threads that arrive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reduce {
    pub kind: Kind,
    pub d: Slot,
    pub source: (Slot, bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Count,
    And,
    Or,
}

/// Decodes the instruction if it is a barrier of the block.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Option<Op>> {
    if !matches!(reader.opcode, "bar" | "barrier") {
        return Ok(None);
    }
    let _ = (reader.takes("cta"), reader.takes("aligned"));
    let operands = reader.operands();
    if reader.takes("red") {
        let kinds = [("popc", Kind::Count), ("and", Kind::And), ("or", Kind::Or)];
        let kind = reader.choice(&kinds).ok_or("this reduction")?;
        reader.takes(if kind == Kind::Count { "u32" } else { "pred" });
        if !matches!(operands.len(), 3 | 4) {
            return Err(format!("{} operands", operands.len()));
        }
        let d = match kind {
            Kind::Count => reader.destination(&operands[0], 4)?,
            Kind::And | Kind::Or => reader.predicate_destination(&operands[0])?,
        };
        let barrier = reader.value(&operands[1], Type::U32)?;
        let count = if operands.len() == 4 { Some(reader.value(&operands[2], Type::U32)?) } else { None };
        let source = reader.predicate(&operands[operands.len() - 1])?;
        return Ok(Some(Op { barrier, count, waits: true, reduce: Some(Reduce { kind, d, source }) }));
    }
    let waits = reader.takes("sync");
    if !waits && !reader.takes("arrive") || !matches!(operands.len(), 1 | 2) {
        return Err("this form".to_owned());
    }
    let barrier = reader.value(&operands[0], Type::U32)?;
    let count = match operands.get(1) {
        Some(operand) => Some(reader.value(operand, Type::U32)?),
        None => None,
    };
    if !waits && count.is_none() {
        return Err("an arrival without a number of threads".to_owned());
    }
    Ok(Some(Op { barrier, count, waits, reduce: None }))
}

/// State of one barrier.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Barrier {
    /// Threads arrived.
    pub threads: u32,
    /// The same, with a warp counted as 32 as the hardware counts where a number is given.
    pub padded: u32,
    pub expected: Option<u32>,
    pub held: u32,
}

impl Barrier {
    /// Whether all threads have arrived, of a block with `live` threads.
    pub fn is_complete(&self, live: u32) -> bool {
        self.threads > 0 && self.expected.map_or(self.threads >= live, |expected| self.padded >= expected)
    }

    /// Result of a reduction.
    pub fn reduced(&self, kind: Kind) -> u32 {
        match kind {
            Kind::Count => self.held,
            Kind::And => u32::from(self.held == self.threads).wrapping_neg(),
            Kind::Or => u32::from(self.held > 0).wrapping_neg(),
        }
    }
}
