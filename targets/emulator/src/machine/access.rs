//! Loads, stores, atomics, and asynchronous copies.

use super::atomic::Operation;
use super::lanes::Slot;
use super::reader::{Address, Reader, Result};
use super::watch::{Order, WAIT_ALL};
use crate::ptx::{Operand, Type};

/// Where an access goes as the instruction says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    Global,
    Shared,
    Local,
    /// The top byte of each address says.
    Generic,
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Load(Transfer),
    Store(Transfer),
    /// A parameter at an offset that is known: value for all lanes.
    Parameter {
        destinations: Box<[Slot]>,
        offset: u32,
        element: Element,
    },
    Atomic {
        to: To,
        operation: Operation,
        bytes: u32,
        d: Slot,
        address: Address,
        b: Slot,
        c: Slot,
        order: Order,
    },
    Copy {
        shared: Address,
        global: Address,
        bytes: u32,
        source: Option<Slot>,
        ignore: Option<(Slot, bool)>,
    },
    /// Bytes of global memory that level 2 is to have: so many, or a line's.
    Prefetch {
        address: Address,
        bytes: Option<Slot>,
    },
    Commit,
    /// Groups that may stay pending.
    Wait(u32),
    Fence {
        device: bool,
    },
    /// Orders what is read and written directly before what asynchronous instructions do.
    ProxyFence,
    /// Hints: of prefetching, of dependent launches.
    Nothing,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Element {
    pub bytes: u32,
    pub signed: bool,
    /// Whether registers have 64 bits.
    pub long: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Transfer {
    pub to: To,
    pub address: Address,
    /// Destinations or sources.
    pub slots: [Slot; 8],
    pub count: u32,
    pub element: Element,
    pub order: Order,
}

/// Takes a state space; generic if there is none.
fn space(reader: &mut Reader<'_>) -> To {
    let spaces = [
        ("global", To::Global),
        ("const", To::Global),
        ("shared::cta", To::Shared),
        ("shared", To::Shared),
        ("local", To::Local),
    ];
    reader.choice(&spaces).unwrap_or(To::Generic)
}

/// Takes order and scope.
fn order(reader: &mut Reader<'_>) -> Order {
    let orders = [
        ("weak", Order::Weak),
        ("relaxed", Order::Relaxed),
        ("volatile", Order::Relaxed),
        ("acquire", Order::Acquire),
        ("release", Order::Release),
        ("acq_rel", Order::AcquireRelease),
    ];
    let order = reader.choice(&orders).unwrap_or(Order::Weak);
    let _ = reader.takes("cta") || reader.takes("cluster") || reader.takes("gpu") || reader.takes("sys");
    order
}

/// Takes hints about caches, which change nothing here.
fn hints(reader: &mut Reader<'_>) -> Result<()> {
    if reader.instruction.name.contains("cache_hint") {
        return Err("cache hints".to_owned());
    }
    for hint in [
        "ca",
        "cg",
        "cs",
        "lu",
        "cv",
        "wb",
        "wt",
        "nc",
        "evict_last",
        "evict_normal",
        "evict_first",
        "L1::evict_normal",
        "L1::evict_unchanged",
        "L1::evict_first",
        "L1::evict_last",
        "L1::no_allocate",
        "L2::64B",
        "L2::128B",
        "L2::256B",
        "L2::evict_first",
        "L2::evict_last",
        "L2::evict_normal",
    ] {
        reader.takes(hint);
    }
    Ok(())
}

/// Decodes the instruction if it accesses memory.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Option<Op>> {
    let asynchronous = reader.opcode == "cp" && reader.takes("async");
    let opcode = reader.opcode;
    match opcode {
        "ld" | "ldu" => load(reader).map(Some),
        "st" => store(reader).map(Some),
        "atom" | "red" => atomic(reader).map(Some),
        "cp" if asynchronous => copy(reader).map(Some),
        "fence" if reader.takes("proxy") => {
            let form = reader.takes("async");
            reader.takes("shared::cta");
            if form { Ok(Some(Op::ProxyFence)) } else { Err("this fence".to_owned()) }
        }
        // What it orders is the state of barriers, which is in order here.
        "fence" if reader.takes("mbarrier_init") => {
            let form = reader.takes("release") & reader.takes("cluster");
            if form { Ok(Some(Op::Nothing)) } else { Err("this fence".to_owned()) }
        }
        "membar" | "fence" => {
            let _ = reader.takes("sc") || reader.takes("acq_rel") || reader.takes("acquire") || reader.takes("release");
            let scopes = [("cta", false), ("cluster", true), ("gl", true), ("gpu", true), ("sys", true)];
            let device = reader.choice(&scopes).ok_or("this fence")?;
            Ok(Some(Op::Fence { device }))
        }
        "prefetch" if reader.takes("global") => {
            while reader.next().is_some() {}
            Ok(Some(Op::Prefetch { address: reader.address(reader.operand(0)?)?, bytes: None }))
        }
        "prefetch" | "prefetchu" | "applypriority" | "discard" | "griddepcontrol" | "nanosleep" | "setmaxnreg" => {
            if reader.opcode == "discard" {
                return Err("it makes bytes undefined".to_owned());
            }
            while reader.next().is_some() {}
            for operand in reader.operands() {
                match operand {
                    Operand::Address(..) => drop(reader.address(operand)?),
                    Operand::Register(_) => drop(reader.value(operand, Type::U32)?),
                    _ => {}
                }
            }
            Ok(Some(Op::Nothing))
        }
        _ => Ok(None),
    }
}

fn elements(reader: &mut Reader<'_>) -> u32 {
    reader.choice(&[("v2", 2), ("v4", 4), ("v8", 8)]).unwrap_or(1)
}

fn load(reader: &mut Reader<'_>) -> Result<Op> {
    let order = order(reader);
    // Parameters of calls are local variables.
    let parameters = reader.takes("param") || reader.takes("param::entry") || reader.takes("param::func");
    let to = space(reader);
    hints(reader)?;
    let count = elements(reader);
    let r#type = reader.r#type()?;
    let operands = reader.operands();
    if operands.len() != 2 {
        return Err(format!("{} operands", operands.len()));
    }
    let destinations = reader.elements(&operands[0]);
    if destinations.len() != count as usize || r#type.bytes() * count > 16 || matches!(r#type, Type::Pred | Type::B128)
    {
        return Err("a vector of this size".to_owned());
    }
    let long = match destinations[0] {
        Operand::Register(register) => reader.width(register) == 8,
        _ => r#type.bytes() == 8,
    };
    let mut slots = [Slot::SINK; 8];
    for (slot, operand) in slots.iter_mut().zip(destinations) {
        *slot = reader.destination(operand, r#type.bytes())?;
        if matches!(*operand, Operand::Register(register) if (reader.width(register) == 8) != long) {
            return Err("registers of several widths".to_owned());
        }
    }
    let element = Element { bytes: r#type.bytes(), signed: r#type.is_signed(), long };
    let own = if parameters { reader.parameter(&operands[1]) } else { None };
    if let Some((parameter, offset)) = own {
        let parameter = &reader.layout.parameters[parameter as usize];
        let end = offset + i64::from(r#type.bytes() * count);
        if offset < 0 || end > i64::from(parameter.bytes) || offset % i64::from(r#type.bytes()) != 0 {
            return Err("an offset outside the parameter".to_owned());
        }
        let offset = parameter.offset + offset as u32;
        return Ok(Op::Parameter { destinations: slots[..count as usize].into(), offset, element });
    }
    let to = if parameters { To::Local } else { to };
    let address = reader.address(&operands[1])?;
    Ok(Op::Load(Transfer { to, address, slots, count, element, order }))
}

fn store(reader: &mut Reader<'_>) -> Result<Op> {
    let order = order(reader);
    let parameters = reader.takes("param") || reader.takes("param::func");
    let to = if parameters { To::Local } else { space(reader) };
    hints(reader)?;
    let count = elements(reader);
    let r#type = reader.r#type()?;
    let operands = reader.operands();
    if operands.len() != 2 {
        return Err(format!("{} operands", operands.len()));
    }
    let address = reader.address(&operands[0])?;
    let sources = reader.elements(&operands[1]);
    if sources.len() != count as usize || r#type.bytes() * count > 16 || matches!(r#type, Type::Pred | Type::B128) {
        return Err("a vector of this size".to_owned());
    }
    let mut slots = [Slot::SINK; 8];
    for (slot, operand) in slots.iter_mut().zip(sources) {
        *slot = reader.value(operand, r#type)?;
    }
    let element = Element { bytes: r#type.bytes(), signed: false, long: r#type.bytes() == 8 };
    Ok(Op::Store(Transfer { to, address, slots, count, element, order }))
}

fn atomic(reader: &mut Reader<'_>) -> Result<Op> {
    let reduces = reader.opcode == "red";
    let order = match order(reader) {
        Order::Weak => Order::Relaxed,
        order => order,
    };
    let to = space(reader);
    hints(reader)?;
    let names = ["add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"];
    let name = names.iter().find(|name| reader.takes(name)).ok_or("this operation")?;
    reader.takes("noftz");
    let r#type = reader.r#type()?;
    let operation = Operation::new(name, r#type)?;
    let bytes = r#type.bytes();
    let operands = reader.operands();
    let first = usize::from(!reduces);
    let count = first + if *name == "cas" { 3 } else { 2 };
    if operands.len() != count || !matches!(bytes, 4 | 8) {
        return Err("this form".to_owned());
    }
    let d = if reduces { Slot::SINK } else { reader.destination(&operands[0], bytes)? };
    let address = reader.address(&operands[first])?;
    let b = reader.value(&operands[first + 1], r#type)?;
    let c = if *name == "cas" { reader.value(&operands[first + 2], r#type)? } else { b };
    Ok(Op::Atomic { to, operation, bytes, d, address, b, c, order })
}

fn copy(reader: &mut Reader<'_>) -> Result<Op> {
    if reader.takes("commit_group") {
        return Ok(Op::Commit);
    }
    if reader.takes("wait_all") {
        return Ok(Op::Wait(WAIT_ALL));
    }
    if reader.takes("wait_group") {
        return Ok(Op::Wait(u32::try_from(reader.number(0)?).unwrap_or(u32::MAX - 1).min(u32::MAX - 1)));
    }
    let bulk = reader.takes("bulk");
    if bulk && reader.takes("prefetch") && reader.takes("L2") && reader.takes("global") {
        let (address, bytes) = (reader.address(reader.operand(0)?)?, reader.value(reader.operand(1)?, Type::U32)?);
        return Ok(Op::Prefetch { address, bytes: Some(bytes) });
    }
    if bulk || reader.takes("mbarrier") {
        return Err("bulk copies and their barriers".to_owned());
    }
    if !(reader.takes("shared") || reader.takes("shared::cta")) || !reader.takes("global") {
        return Err("these spaces".to_owned());
    }
    hints(reader)?;
    let bytes = match reader.number(2)? {
        bytes @ (4 | 8 | 16) => bytes as u32,
        other => return Err(format!("{other} bytes")),
    };
    let operands = reader.operands();
    let (shared, global) = (reader.address(&operands[0])?, reader.address(&operands[1])?);
    let (mut source, mut ignore) = (None, None);
    match operands.get(3) {
        None => {}
        Some(operand @ (Operand::Register(_) | Operand::Not(_))) => {
            let is_predicate = matches!(operand, Operand::Not(_))
                || matches!(*operand, Operand::Register(register) if reader.types[register as usize] == Type::Pred);
            if is_predicate {
                ignore = Some(reader.predicate(operand)?);
            } else {
                source = Some(reader.value(operand, Type::U32)?);
            }
        }
        Some(operand @ Operand::Integer(_)) => source = Some(reader.value(operand, Type::U32)?),
        Some(_) => return Err("this size of the source".to_owned()),
    }
    if operands.len() > 4 {
        return Err(format!("{} operands", operands.len()));
    }
    Ok(Op::Copy { shared, global, bytes, source, ignore })
}
