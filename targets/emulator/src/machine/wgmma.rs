//! Products of tiles in shared memory by four warps together (`wgmma`).
//!
//! Each warp multiplies its 16 of the 64 rows when it comes to the instruction. On a GPU the operands are read at some time
//! between that and the wait: the watch holds them until then, and with them the registers of
//! the sums. Sums are those of [`matrix`].

use super::access::To;
use super::fault::FaultKind;
use super::lanes::{Registers, Slot, vectorised};
use super::matrix;
use super::memory::Memory;
use super::reader::{Reader, Result};
use super::sums::{Factor, Factors, Sums};
use super::transfer::{Context, Refused, read_bytes};
use super::watch::{Kind, Order, Watch};
use crate::ptx::{Operand, Type};

#[derive(Clone, Debug)]
pub(super) enum Op {
    Multiply(Box<Multiply>),
    /// Orders registers, which are in order here.
    Fence,
    Commit,
    /// Groups that may stay pending.
    Wait(u32),
}

#[derive(Clone, Debug)]
pub(super) struct Multiply {
    factor: Factor,
    sums: Sums,
    /// Four for each 8 columns.
    d: Box<[Slot]>,
    /// Descriptors of the tiles.
    a: Slot,
    b: Slot,
    /// Whether the products are added to `d`.
    adds: (Slot, bool),
}

impl Multiply {
    /// Rows that it adds to.
    pub fn rows_of_sums(&self) -> impl Iterator<Item = u32> {
        self.d.iter().map(|slot| slot.0)
    }
}

/// Decodes the instruction if it is one of a warpgroup.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Option<Op>> {
    if reader.opcode != "wgmma" {
        return Ok(None);
    }
    if !(reader.takes("sync") & reader.takes("aligned")) {
        return Err("this form".to_owned());
    }
    if reader.takes("fence") {
        return Ok(Some(Op::Fence));
    }
    if reader.takes("commit_group") {
        return Ok(Some(Op::Commit));
    }
    if reader.takes("wait_group") {
        return Ok(Some(Op::Wait(u32::try_from(reader.number(0)?).unwrap_or(u32::MAX))));
    }
    if !reader.takes("mma_async") {
        return Err("this form".to_owned());
    }
    let shape = reader.next().and_then(|shape| shape.strip_prefix("m64n")?.strip_suffix("k16")?.parse::<u32>().ok());
    let columns = shape.filter(|columns| columns % 8 == 0 && (8..=256).contains(columns)).ok_or("this shape")?;
    let factor = match (reader.r#type()?, reader.r#type()?, reader.r#type()?) {
        (Type::F32, Type::F16, Type::F16) => Factor::F16,
        (Type::F32, Type::Bf16, Type::Bf16) => Factor::Bf16,
        types => return Err(format!("types {types:?}")),
    };
    let operands = reader.operands();
    let [d, a, b, adds, scales @ ..] = operands else { return Err(format!("{} operands", operands.len())) };
    let plain = [1, 1, 0, 0].map(Operand::Integer);
    if scales != plain || matches!(a, Operand::Vector(_)) || reader.elements(d).len() != columns as usize / 2 {
        return Err("operands that are negated, transposed or in registers".to_owned());
    }
    let mut slots = Vec::new();
    for element in reader.elements(d) {
        // What it holds is added to.
        reader.value(element, Type::F32)?;
        slots.push(reader.destination(element, 4)?);
    }
    let (a, b) = (reader.value(a, Type::B64)?, reader.value(b, Type::B64)?);
    let adds = reader.predicate(adds)?;
    let sums = Sums::of(reader.capability);
    Ok(Some(Op::Multiply(Box::new(Multiply { factor, sums, d: slots.into(), a, b, adds }))))
}

/// Where 16 rows of 32 bytes lie, from `first` on: lane `2 * row + half` has the address of half a row.
fn rows(descriptor: u64, first: u32) -> Option<[u64; 32]> {
    let field = |at: u32| (descriptor >> at & 0x3fff) << 4;
    // Swizzle over 128 bytes, from a multiple of 1024 on.
    if descriptor >> 62 != 1 || descriptor >> 49 & 7 != 0 {
        return None;
    }
    let (start, stride) = (field(0), field(32));
    Some(std::array::from_fn(|lane| {
        let (row, half) = (u64::from(first) + lane as u64 / 2, lane as u64 % 2);
        let address = start + row / 8 * stride + row % 8 * 128 + half * 16;
        address ^ (address >> 7 & 7) << 4
    }))
}

impl<M: Memory, W: Watch> Context<'_, '_, M, W> {
    /// Multiplies: all 32 lanes take part.
    pub fn multiply_tiles(&mut self, op: &Multiply, r: &mut Registers<'_>) -> std::result::Result<(), Refused> {
        let columns = 2 * op.d.len() as u32;
        let descriptors = [op.a, op.b].map(|slot| r.long(slot)[0]);
        let find = |operand: usize, first| {
            rows(descriptors[operand], first).ok_or((FaultKind::Descriptor(descriptors[operand]), 0))
        };
        // Sixteen rows at a time; the last of `b` may be eight.
        let a = find(0, self.warp % 4 * 16)?;
        self.read_rows(&a, u32::MAX)?;
        let mut b = Vec::new();
        for first in (0..columns).step_by(16) {
            let rows = find(1, first)?;
            self.read_rows(&rows, if columns - first < 16 { 0xffff } else { u32::MAX })?;
            b.push(rows);
        }
        if r.predicate(op.adds.0) & 1 == u32::from(op.adds.1) {
            op.d.iter().for_each(|slot| r.set_row(*slot, &[0; 32], u32::MAX));
        }
        products(op, r, self.shared, &a, &b);
        Ok(())
    }

    fn read_rows(&mut self, addresses: &[u64; 32], lanes: u32) -> std::result::Result<(), Refused> {
        self.check(To::Shared, addresses, 16, lanes, false)?;
        self.tell(To::Shared, Kind::AsyncLoad, Order::Weak, addresses, 16, lanes);
        Ok(())
    }
}

vectorised! {
    fn products(op: &Multiply, r: &mut Registers<'_>, shared: &[u8], a: &[u64; 32], b: &[[u64; 32]]) {
        let half_row = |address: u64| {
            let words = read_bytes(shared, address as usize, 16);
            [0, 1, 2, 3, 4, 5, 6, 7].map(|i: usize| words[i / 2] >> (16 * (i % 2)) & 0xffff)
        };
        let mut rows = [[0; 16]; 16];
        for (lane, address) in a.iter().enumerate() {
            rows[lane / 2][lane % 2 * 8..][..8].copy_from_slice(&half_row(*address));
        }
        for (eight, d) in op.d.chunks_exact(4).enumerate() {
            let mut columns = [[0; 8]; 16];
            for (i, address) in b[eight / 2][eight % 2 * 16..][..16].iter().enumerate() {
                for (k, bits) in half_row(*address).into_iter().enumerate() {
                    columns[i % 2 * 8 + k][i / 2] = bits;
                }
            }
            let d = [d[0], d[1], d[2], d[3]];
            let factors = Factors { factor: op.factor, depth: 16, a: &rows, b: &columns };
            matrix::floats(op.sums, &factors, (&d, &d, false), r);
        }
    }
}
