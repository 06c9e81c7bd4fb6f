//! Operands: every access is held to the bytes that its pointer argument stands for, not merely to an allocation.

use super::steps::Touched;
use crate::{
    machine::{Access, Program, Roots},
    memory::Written,
};
use std::ops::Range;

/// What a pointer argument of a launch stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Name for people: `input 'image'`, `weights`, `arena`.
    pub name: String,
    /// Where in what `name` says it starts.
    pub offset: u64,
    /// Its addresses.
    pub range: Range<u64>,
    /// Whether the step may write it.
    pub written: bool,
}

impl Operand {
    /// Where in it some bytes are.
    fn at(&self, address: u64, bytes: u32) -> String {
        let Self { name, offset, range, .. } = self;
        let size = range.end - range.start;
        let within = address.wrapping_sub(range.start) as i64;
        let place = if *offset == 0 { String::new() } else { format!(" from byte {offset}") };
        format!("bytes {within}..{} of {name}{place}, which has {size}", within + i64::from(bytes))
    }
}

/// An operand while a launch runs.
#[derive(Debug)]
pub struct Watched<'a> {
    operand: &'a Operand,
    /// Which bytes of its allocation were written.
    bits: &'a Written,
    /// Whether all of it was when the launch began.
    complete: bool,
    /// Ranges that the launch writes and that it meets, by number.
    regions: Vec<usize>,
    /// What is touched, where a step is unordered with another that has operands there.
    touched: Option<&'a Touched>,
}

impl<'a> Watched<'a> {
    /// An operand in an allocation.
    pub fn new(operand: &'a Operand, bits: &'a Written, touched: Option<&'a Touched>) -> Self {
        let complete = bits.all(operand.range.start, operand.range.end - operand.range.start);
        Self { operand, bits, complete, regions: Vec::new(), touched }
    }

    /// Whether the step may write it.
    pub fn is_written(&self) -> bool {
        self.operand.written
    }

    /// Where in it some bytes are, in words.
    pub fn at(&self, address: u64, bytes: u32) -> String {
        self.operand.at(address, bytes)
    }

    /// Whether somebody wrote the bytes.
    #[inline]
    pub fn was_written(&self, address: u64, bytes: u32) -> bool {
        self.complete || self.bits.all(address, u64::from(bytes))
    }

    /// Notes a write.
    #[inline]
    pub fn mark(&self, address: u64, bytes: u32) {
        self.bits.mark(address, u64::from(bytes));
    }

    /// Notes an access for the comparison with other steps.
    #[inline]
    pub fn touch(&self, address: u64, bytes: u32, reads: bool, writes: bool, instruction: u32) {
        if let Some(touched) = self.touched {
            touched.note(address, u64::from(bytes), reads, writes, instruction);
        }
    }

    /// Written ranges that it meets, by number.
    pub fn regions(&self) -> &[usize] {
        &self.regions
    }

    #[inline]
    fn holds(&self, from: u64, to: u64) -> bool {
        self.operand.range.start <= from && to <= self.operand.range.end
    }
}

/// Whether an access is inside an operand.
pub enum Held<'o, 'a> {
    /// Inside this one.
    Inside(&'o Watched<'a>),
    /// Inside none that it may be; where it is instead.
    Outside(String),
}

/// The operands of a launch, in the order of its arguments.
#[derive(Debug)]
pub struct Operands<'a> {
    all: Vec<Watched<'a>>,
    /// For each instruction the operands that its address may derive from, a bit each.
    roots: Vec<u32>,
}

impl<'a> Operands<'a> {
    /// Of a kernel's launch.
    pub fn new(program: &Program, mut all: Vec<Watched<'a>>) -> Self {
        let any = if all.len() >= 32 { u32::MAX } else { (1 << all.len()) - 1 };
        let number = |offset: u32| program.parameters().iter().position(|parameter| parameter.offset == offset);
        let of_instruction = |instruction| match program.roots(instruction) {
            Roots::Parameters(offsets) if !offsets.is_empty() => {
                let numbers = offsets.iter().filter_map(|&offset| number(offset));
                numbers.fold(0u32, |bits, number| bits | 1u32.checked_shl(number as u32).unwrap_or(0)) & any
            }
            _ => any,
        };
        let roots = (0..program.len() as u32).map(of_instruction).collect();
        let written = written_ranges(&all);
        for operand in &mut all {
            let range = &operand.operand.range;
            let meets = |other: &Range<u64>| range.start < other.end && other.start < range.end;
            operand.regions = (0..written.len()).filter(|&number| meets(&written[number])).collect();
        }
        Self { all, roots }
    }

    /// Disjoint ranges that the launch may write.
    pub fn written_ranges(&self) -> Vec<Range<u64>> {
        written_ranges(&self.all)
    }

    fn candidates(&self, instruction: u32) -> impl Iterator<Item = &Watched<'a>> {
        let roots = self.roots.get(instruction as usize).copied().unwrap_or(u32::MAX);
        self.all.iter().zip(0..32).filter(move |(_, number)| roots >> number & 1 != 0).map(|(operand, _)| operand)
    }

    /// The operand that all lanes of an access are inside, where there is one and the access may be.
    #[inline]
    pub fn common(&self, instruction: u32, access: &Access<'_>) -> Option<&Watched<'a>> {
        let (mut from, mut to) = (u64::MAX, 0);
        for lane in 0..32 {
            if access.lanes >> lane & 1 != 0 {
                from = from.min(access.addresses[lane]);
                to = to.max(access.addresses[lane]);
            }
        }
        let writes = !matches!(access.kind, crate::machine::Kind::Load | crate::machine::Kind::AsyncLoad);
        let end = to.checked_add(u64::from(access.bytes))?;
        self.candidates(instruction).find(|operand| operand.holds(from, end) && (!writes || operand.is_written()))
    }

    /// The operand that an access of one lane is inside: one that may be written, where it writes and there is one.
    pub fn hold(&self, instruction: u32, address: u64, bytes: u32, writes: bool) -> Held<'_, 'a> {
        let end = address.saturating_add(u64::from(bytes));
        let inside = || self.candidates(instruction).filter(|operand| operand.holds(address, end));
        let best = inside().find(|operand| !writes || operand.is_written()).or_else(|| inside().next());
        if let Some(operand) = best {
            return Held::Inside(operand);
        }
        let distance = |operand: &&Watched<'a>| {
            let range = &operand.operand.range;
            if address < range.start { range.start - address } else { end.saturating_sub(range.end) }
        };
        let nearest = self.candidates(instruction).min_by_key(distance);
        Held::Outside(nearest.map_or("the kernel has no operands".to_owned(), |operand| operand.at(address, bytes)))
    }
}

fn written_ranges(all: &[Watched<'_>]) -> Vec<Range<u64>> {
    let written = all.iter().filter(|operand| operand.is_written()).map(|operand| operand.operand.range.clone());
    let mut ranges: Vec<Range<u64>> = written.collect();
    ranges.sort_by_key(|range| range.start);
    ranges.dedup_by(|later, earlier| {
        let meets = later.start < earlier.end;
        if meets {
            earlier.end = earlier.end.max(later.end);
        }
        meets
    });
    ranges
}

/// The smallest number of bytes that an instruction of a kernel accesses at once in device memory; a power of two.
pub fn smallest_access(program: &Program) -> u64 {
    let texts = (0..program.len() as u32).map(|instruction| program.text(instruction));
    texts.filter_map(access_bytes).min().unwrap_or(16).clamp(1, 16)
}

/// Bytes that a thread accesses by an instruction that may go to device memory.
fn access_bytes(text: &str) -> Option<u64> {
    let parts: Vec<&str> = text.split('.').collect();
    let shared_only = parts.contains(&"shared") && !parts.contains(&"global");
    if shared_only || ["param", "local", "const"].iter().any(|space| parts.contains(space)) {
        return None;
    }
    match parts[0] {
        "ld" | "ldu" | "st" | "atom" | "red" => {
            let digits = parts.last()?.trim_start_matches(|c: char| c.is_ascii_alphabetic());
            let bits: u64 = digits.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(8);
            let lanes = if parts.contains(&"v4") {
                4
            } else if parts.contains(&"v2") {
                2
            } else {
                1
            };
            Some(bits * lanes / 8)
        }
        // The instruction's text has no operands, so not the bytes either.
        "cp" => Some(4),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_tell_how_much_they_access() {
        assert_eq!(access_bytes("ld.global.nc.v4.u32"), Some(16));
        assert_eq!(access_bytes("st.global.u16"), Some(2));
        assert_eq!(access_bytes("ld.u8"), Some(1));
        assert_eq!(access_bytes("cp.async.cg.shared.global"), Some(4));
        assert_eq!(access_bytes("ld.shared.u8"), None);
        assert_eq!(access_bytes("ld.param.u64"), None);
        assert_eq!(access_bytes("add.s32"), None);
    }
}
