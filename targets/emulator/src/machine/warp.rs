//! Instructions that lanes of a warp execute together: shuffles, votes, matches, reductions.

use super::lanes::{Registers, Slot, lanes_of, mask_of};
use super::reader::{Reader, Result};
use crate::ptx::{Operand, Type};

#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Shuffle {
        mode: Mode,
        d: Slot,
        p: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
        members: Slot,
    },
    Vote {
        kind: Vote,
        d: Slot,
        a: Slot,
        negated: bool,
        members: Slot,
    },
    /// Lanes with an equal value.
    MatchAny {
        long: bool,
        d: Slot,
        a: Slot,
        members: Slot,
    },
    MatchAll {
        long: bool,
        d: Slot,
        p: Slot,
        a: Slot,
        members: Slot,
    },
    Reduce {
        kind: Reduce,
        d: Slot,
        a: Slot,
        members: Slot,
    },
    Active {
        d: Slot,
    },
    Synchronise {
        members: Slot,
    },
    Elect {
        d: Slot,
        p: Slot,
        members: Slot,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Mode {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Vote {
    All,
    Any,
    Uniform,
    Ballot,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Reduce {
    Add,
    MinUnsigned,
    MaxUnsigned,
    MinSigned,
    MaxSigned,
    And,
    Or,
    Xor,
}

/// Decodes the instruction if it is one of a warp.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Option<Op>> {
    let operands = reader.operands();
    let pair = |operand: &'_ Operand| match operand {
        Operand::Pair(both) => (both[0].clone(), both[1].clone()),
        other => (other.clone(), Operand::Sink),
    };
    let count =
        |wanted: usize| if operands.len() == wanted { Ok(()) } else { Err(format!("{} operands", operands.len())) };
    let synchronises = reader.takes("sync");
    let warp = reader.opcode == "bar" && reader.takes("warp");
    let op = match reader.opcode {
        "shfl" => {
            let modes = [("up", Mode::Up), ("down", Mode::Down), ("bfly", Mode::Butterfly), ("idx", Mode::Index)];
            let mode = reader.choice(&modes).ok_or("this mode")?;
            count(5)?;
            reader.takes("b32");
            let (d, p) = pair(&operands[0]);
            let (d, p) = (reader.destination(&d, 4)?, reader.predicate_destination(&p)?);
            let a = reader.value(&operands[1], Type::B32)?;
            let [b, c, members] = [2, 3, 4].map(|i| reader.value(&operands[i], Type::U32));
            Op::Shuffle { mode, d, p, a, b: b?, c: c?, members: members? }
        }
        "vote" => {
            let kinds = [("all", Vote::All), ("any", Vote::Any), ("uni", Vote::Uniform), ("ballot", Vote::Ballot)];
            let kind = reader.choice(&kinds).ok_or("this mode")?;
            count(3)?;
            let ballot = matches!(kind, Vote::Ballot);
            reader.takes(if ballot { "b32" } else { "pred" });
            let d = if ballot {
                reader.destination(&operands[0], 4)?
            } else {
                reader.predicate_destination(&operands[0])?
            };
            let (a, negated) = reader.predicate(&operands[1])?;
            Op::Vote { kind, d, a, negated, members: reader.value(&operands[2], Type::U32)? }
        }
        "match" => {
            let all = reader.choice(&[("all", true), ("any", false)]).ok_or("this mode")?;
            let r#type = reader.r#type()?;
            count(3)?;
            let (d, p) = pair(&operands[0]);
            let (d, p) = (reader.destination(&d, 4)?, reader.predicate_destination(&p)?);
            let a = reader.value(&operands[1], r#type)?;
            let members = reader.value(&operands[2], Type::U32)?;
            let long = r#type.bytes() == 8;
            if all { Op::MatchAll { long, d, p, a, members } } else { Op::MatchAny { long, d, a, members } }
        }
        "redux" => {
            let name = ["add", "min", "max", "and", "or", "xor"].into_iter().find(|name| reader.takes(name));
            let r#type = reader.r#type()?;
            count(3)?;
            let signed = r#type == Type::S32;
            let kind = match name.ok_or("this operation")? {
                "add" => Reduce::Add,
                "min" if signed => Reduce::MinSigned,
                "max" if signed => Reduce::MaxSigned,
                "min" => Reduce::MinUnsigned,
                "max" => Reduce::MaxUnsigned,
                "and" => Reduce::And,
                "or" => Reduce::Or,
                _ => Reduce::Xor,
            };
            if r#type.bytes() != 4 || r#type == Type::F32 {
                return Err(format!("type {type:?}"));
            }
            let d = reader.destination(&operands[0], 4)?;
            let (a, members) = (reader.value(&operands[1], r#type)?, reader.value(&operands[2], Type::U32)?);
            Op::Reduce { kind, d, a, members }
        }
        "activemask" => {
            reader.takes("b32");
            return Ok(Some(Op::Active { d: reader.destination(reader.operand(0)?, 4)? }));
        }
        "elect" => {
            count(2)?;
            let (d, p) = pair(&operands[0]);
            let d = reader.destination(&d, 4)?;
            Op::Elect { d, p: reader.predicate_destination(&p)?, members: reader.value(&operands[1], Type::U32)? }
        }
        "bar" if warp => {
            count(1)?;
            Op::Synchronise { members: reader.value(&operands[0], Type::U32)? }
        }
        _ => {
            if synchronises {
                reader.restore("sync");
            }
            return Ok(None);
        }
    };
    if !synchronises {
        return Err("a form without '.sync'".to_owned());
    }
    Ok(Some(op))
}

impl Op {
    /// Lanes that must be here before any goes on.
    pub fn members(&self, r: &Registers<'_>, lane: usize) -> u32 {
        match self {
            Self::Active { .. } => 0,
            Self::Shuffle { members, .. }
            | Self::Vote { members, .. }
            | Self::MatchAny { members, .. }
            | Self::MatchAll { members, .. }
            | Self::Reduce { members, .. }
            | Self::Synchronise { members }
            | Self::Elect { members, .. } => r.row(*members)[lane],
        }
    }
}

/// Executes the instruction for `lanes`. Of the member masks, which may differ, each lane's own counts.
pub(super) fn execute(op: &Op, r: &mut Registers<'_>, lanes: u32) {
    match *op {
        Op::Shuffle { mode, d, p, a, b, c, .. } => {
            let (values, amounts, controls) = (*r.row(a), *r.row(b), *r.row(c));
            let mut valid = 0;
            let result = std::array::from_fn(|lane| {
                let (amount, control) = ((amounts[lane] & 31) as usize, controls[lane]);
                let (clamp, segment) = ((control & 31) as usize, (control >> 8 & 31) as usize);
                let last = (lane & segment) | (clamp & !segment);
                let first = lane & segment;
                let (from, inside) = match mode {
                    Mode::Up => (lane.wrapping_sub(amount), lane as isize - amount as isize >= last as isize),
                    Mode::Down => (lane + amount, lane + amount <= last),
                    Mode::Butterfly => (lane ^ amount, lane ^ amount <= last),
                    Mode::Index => {
                        let from = first | (amount & !segment);
                        (from, from <= last)
                    }
                };
                valid |= u32::from(inside) << lane;
                values[if inside { from & 31 } else { lane }]
            });
            r.set_row(d, &result, lanes);
            r.set_predicate(p, valid, lanes);
        }
        Op::Vote { kind, d, a, negated, members } => {
            let value = (r.predicate(a) ^ u32::from(negated).wrapping_neg()) & lanes;
            let masks = *r.row(members);
            let of = |lane: usize| (value & masks[lane], lanes & masks[lane]);
            match kind {
                Vote::Ballot => r.set_row(d, &std::array::from_fn(|lane| of(lane).0), lanes),
                Vote::All => r.set_predicate(d, mask_of(|lane| of(lane).0 == of(lane).1), lanes),
                Vote::Any => r.set_predicate(d, mask_of(|lane| of(lane).0 != 0), lanes),
                Vote::Uniform => r.set_predicate(d, mask_of(|lane| of(lane).0 == 0 || of(lane).0 == of(lane).1), lanes),
            }
        }
        Op::MatchAny { long, d, a, members } => {
            let (values, masks) = (values(r, a, long), *r.row(members));
            let result =
                std::array::from_fn(|lane| mask_of(|other| values[other] == values[lane]) & lanes & masks[lane]);
            r.set_row(d, &result, lanes);
        }
        Op::MatchAll { long, d, p, a, members } => {
            let (values, masks) = (values(r, a, long), *r.row(members));
            let all = |lane: usize| {
                let wanted = lanes & masks[lane];
                mask_of(|other| values[other] == values[lane]) & wanted == wanted
            };
            let result = std::array::from_fn(|lane| if all(lane) { lanes & masks[lane] } else { 0 });
            r.set_row(d, &result, lanes);
            r.set_predicate(p, mask_of(all), lanes);
        }
        Op::Reduce { kind, d, a, members } => {
            let (values, masks) = (*r.row(a), *r.row(members));
            let combine = |x: u32, y: u32| match kind {
                Reduce::Add => x.wrapping_add(y),
                Reduce::MinUnsigned => x.min(y),
                Reduce::MaxUnsigned => x.max(y),
                Reduce::MinSigned => (x as i32).min(y as i32) as u32,
                Reduce::MaxSigned => (x as i32).max(y as i32) as u32,
                Reduce::And => x & y,
                Reduce::Or => x | y,
                Reduce::Xor => x ^ y,
            };
            let result = std::array::from_fn(|lane| {
                lanes_of(lanes & masks[lane]).map(|other| values[other]).reduce(combine).unwrap_or(0)
            });
            r.set_row(d, &result, lanes);
        }
        Op::Active { d } => r.set_row(d, &[lanes; 32], lanes),
        Op::Synchronise { .. } => {}
        Op::Elect { d, p, members } => {
            let masks = *r.row(members);
            let leader = |lane: usize| (lanes & masks[lane]).trailing_zeros();
            r.set_row(d, &std::array::from_fn(leader), lanes);
            r.set_predicate(p, mask_of(|lane| leader(lane) == lane as u32), lanes);
        }
    }
}

fn values(r: &Registers<'_>, slot: Slot, long: bool) -> [u64; 32] {
    if long { r.long(slot) } else { r.row(slot).map(u64::from) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::evaluate;

    /// 32 lanes with their numbers plus 100.
    fn lanes() -> Vec<[u64; 3]> {
        (0..32).map(|lane| [100 + lane, lane, 0]).collect()
    }

    #[test]
    fn shuffles_stay_in_their_segments() {
        let run = |mode: &str, amount: u32, control: u32| {
            evaluate(
                &format!("shfl.sync.{mode}.b32 %r3|%p0, %r4, {amount}, {control}, -1; @!%p0 add.s32 %r3, %r3, 1000;"),
                &lanes(),
            )
        };
        let expect = |from: fn(u64) -> Option<u64>| -> Vec<u64> {
            (0..32).map(|lane| from(lane).map_or(1100 + lane, |other| 100 + other)).collect()
        };
        assert_eq!(run("bfly", 5, 31), expect(|lane| Some(lane ^ 5)));
        assert_eq!(run("idx", 7, 31), expect(|_| Some(7)));
        assert_eq!(run("up", 1, 0), expect(|lane| lane.checked_sub(1)));
        assert_eq!(run("down", 3, 31), expect(|lane| Some(lane + 3).filter(|other| *other < 32)));
        // Segments of eight.
        assert_eq!(run("down", 1, 0x181f), expect(|lane| (lane % 8 < 7).then_some(lane + 1)));
        assert_eq!(run("idx", 2, 0x181f), expect(|lane| Some(lane / 8 * 8 + 2)));
    }

    #[test]
    fn votes_count_members() {
        let ballot = evaluate("setp.gt.u32 %p0, %r5, 27; vote.sync.ballot.b32 %r3, %p0, -1;", &lanes());
        assert_eq!(ballot, [0xf000_0000; 32]);
        let all =
            evaluate("setp.lt.u32 %p0, %r5, 32; vote.sync.all.pred %p1, %p0, -1; selp.u32 %r3, 1, 0, %p1;", &lanes());
        assert_eq!(all, [1; 32]);
        let any =
            evaluate("setp.gt.u32 %p0, %r5, 31; vote.sync.any.pred %p1, %p0, -1; selp.u32 %r3, 1, 0, %p1;", &lanes());
        assert_eq!(any, [0; 32]);
        let sum = evaluate("redux.sync.add.s32 %r3, %r5, -1;", &lanes());
        assert_eq!(sum, [496; 32]);
        let same = evaluate("and.b32 %r7, %r5, 3; match.any.sync.b32 %r3, %r7, -1;", &lanes());
        assert_eq!(same[5], 0x2222_2222);
        assert_eq!(evaluate("mov.u32 %r3, %lanemask_lt;", &lanes())[4], 15);
    }

    #[test]
    fn a_shuffle_waits_for_its_members() {
        // Lanes 16 and on come by another way.
        let body = "setp.lt.u32 %p0, %r5, 16; @%p0 bra JOIN; add.s32 %r4, %r4, 1000; JOIN: shfl.sync.bfly.b32 %r3, %r4, 16, 31, -1;";
        let result = evaluate(body, &lanes());
        assert_eq!((result[0], result[16]), (1116, 100));
    }
}
