//! What the groups of instructions are decoded from: one instruction, its modifiers taken off one by one.

use super::lanes::{Row, Slot, Slots};
use super::program::Layout;
use crate::ptx::{Base, Instruction, Operand, Symbol, Type};
use std::collections::HashMap;

/// Why an instruction is refused.
pub(super) type Refusal = String;
pub(super) type Result<T> = std::result::Result<T, Refusal>;

/// Constants of a program, each once.
#[derive(Default)]
pub(super) struct Constants {
    pub rows: Vec<Row>,
    known: HashMap<(u64, bool), Slot>,
}

impl Constants {
    fn slot(&mut self, value: u64, long: bool) -> Slot {
        let rows = &mut self.rows;
        *self.known.entry((value, long)).or_insert_with(|| {
            let slot = Slot(rows.len() as u32 | Slot::CONSTANT);
            rows.push(Row([value as u32; 32]));
            if long {
                rows.push(Row([(value >> 32) as u32; 32]));
            }
            slot
        })
    }
}

/// An address operand: `base + offset`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub base: Slot,
    /// Whether the base has 64 bits.
    pub long: bool,
    pub offset: i64,
}

/// One instruction under decoding.
pub(super) struct Reader<'a> {
    pub instruction: &'a Instruction,
    /// First part of the name.
    pub opcode: &'a str,
    modifiers: Vec<&'a str>,
    /// Type of each register.
    pub types: &'a [Type],
    /// Slot of each register.
    pub slots: &'a [Slot],
    pub layout: &'a Layout,
    /// Compute capability of the device, such as 87.
    pub capability: u32,
    pub constants: &'a mut Constants,
    /// Registers read and written, for the analyses.
    pub uses: Vec<u32>,
    pub definitions: Vec<u32>,
}

impl<'a> Reader<'a> {
    pub fn new(
        instruction: &'a Instruction,
        types: &'a [Type],
        slots: &'a [Slot],
        (layout, capability): (&'a Layout, u32),
        constants: &'a mut Constants,
    ) -> Self {
        let mut parts = instruction.name.split('.');
        let opcode = parts.next().unwrap_or_default();
        let (uses, definitions) = (Vec::new(), Vec::new());
        Self {
            instruction,
            opcode,
            modifiers: parts.collect(),
            types,
            slots,
            layout,
            capability,
            constants,
            uses,
            definitions,
        }
    }

    /// Takes a modifier if it is there.
    pub fn takes(&mut self, name: &str) -> bool {
        match self.modifiers.iter().position(|modifier| *modifier == name) {
            Some(at) => {
                self.modifiers.remove(at);
                true
            }
            None => false,
        }
    }

    /// Puts a modifier back.
    pub fn restore(&mut self, name: &'a str) {
        self.modifiers.insert(0, name);
    }

    /// Takes the first of several modifiers that is there.
    pub fn choice<T: Copy>(&mut self, names: &[(&str, T)]) -> Option<T> {
        names.iter().find_map(|(name, value)| self.takes(name).then_some(*value))
    }

    /// Takes the first modifier that is a type.
    pub fn r#type(&mut self) -> Result<Type> {
        let at = self.modifiers.iter().position(|modifier| Type::named(modifier).is_some());
        let at = at.ok_or_else(|| "no type".to_owned())?;
        Type::named(self.modifiers.remove(at)).ok_or_else(|| "no type".to_owned())
    }

    /// Takes the next modifier, whatever it is.
    pub fn next(&mut self) -> Option<&'a str> {
        (!self.modifiers.is_empty()).then(|| self.modifiers.remove(0))
    }

    /// Ends the decoding: an error names a modifier that nobody took.
    pub fn finish(&self) -> Result<()> {
        match self.modifiers.first() {
            Some(left) => Err(format!("modifier '.{left}'")),
            None => Ok(()),
        }
    }

    pub fn operands(&self) -> &'a [Operand] {
        &self.instruction.operands
    }

    pub fn operand(&self, index: usize) -> Result<&'a Operand> {
        self.operands().get(index).ok_or_else(|| format!("operand {index} is missing"))
    }

    pub fn width(&self, register: u32) -> u32 {
        self.types[register as usize].bytes()
    }

    fn check(&self, register: u32, bytes: u32) -> Result<()> {
        let actual = self.types[register as usize];
        // 8-bit values live in 16-bit registers and wider ones; narrow values may come from wider registers.
        if actual == Type::Pred || actual.bytes() < bytes || bytes == 8 && actual.bytes() != 8 {
            return Err(format!("a register of type {actual:?} for {bytes} bytes"));
        }
        Ok(())
    }

    /// Slot of a destination of at least `bytes` bytes.
    pub fn destination(&mut self, operand: &Operand, bytes: u32) -> Result<Slot> {
        match *operand {
            Operand::Register(register) => {
                self.check(register, bytes)?;
                self.definitions.push(register);
                Ok(self.slots[register as usize])
            }
            Operand::Sink => Ok(Slot::SINK),
            _ => Err("destination that is no register".to_owned()),
        }
    }

    /// Slot of a source of a type.
    pub fn value(&mut self, operand: &Operand, r#type: Type) -> Result<Slot> {
        let long = r#type.bytes() == 8;
        match *operand {
            Operand::Register(register) => {
                self.check(register, r#type.bytes())?;
                self.uses.push(register);
                Ok(self.slots[register as usize])
            }
            Operand::Integer(_) | Operand::F32(_) | Operand::F64(_) => {
                Ok(self.constants.slot(literal(operand, r#type)?, long))
            }
            Operand::Symbol(symbol, offset) => {
                let address = self.layout.address(symbol)?.wrapping_add_signed(offset);
                Ok(self.constants.slot(address, long))
            }
            _ => Err("source that is neither a register nor a number".to_owned()),
        }
    }

    /// Slot of a predicate that is written.
    pub fn predicate_destination(&mut self, operand: &Operand) -> Result<Slot> {
        match *operand {
            Operand::Register(register) if self.types[register as usize] == Type::Pred => {
                self.definitions.push(register);
                Ok(self.slots[register as usize])
            }
            Operand::Sink => Ok(Slot::SINK),
            _ => Err("destination that is no predicate".to_owned()),
        }
    }

    /// Slot of a predicate that is read, and whether it is negated.
    pub fn predicate(&mut self, operand: &Operand) -> Result<(Slot, bool)> {
        match *operand {
            Operand::Register(register) | Operand::Not(register) if self.types[register as usize] == Type::Pred => {
                self.uses.push(register);
                Ok((self.slots[register as usize], matches!(operand, Operand::Not(_))))
            }
            Operand::Integer(value) => Ok((if value == 0 { Slot::FALSE } else { Slot::TRUE }, false)),
            _ => Err("source that is no predicate".to_owned()),
        }
    }

    /// Slots of `d, a, b, c`, of which the first `sources` sources are read with the same type.
    pub fn slots(&mut self, destination: Type, source: Type, sources: usize) -> Result<Slots> {
        let operands = self.operands();
        if operands.len() != sources + 1 {
            return Err(format!("{} operands", operands.len()));
        }
        let d = self.destination(&operands[0], destination.bytes())?;
        let mut all = [Slot::SINK; 3];
        for (slot, operand) in all.iter_mut().zip(&operands[1..]) {
            *slot = self.value(operand, source)?;
        }
        Ok(Slots { d, a: all[0], b: all[1], c: all[2] })
    }

    /// An operand that must be a number.
    pub fn number(&self, index: usize) -> Result<u64> {
        match self.operand(index)? {
            Operand::Integer(value) => Ok(*value),
            _ => Err(format!("operand {index} that is no number")),
        }
    }

    /// An address. Symbols become constants.
    pub fn address(&mut self, operand: &Operand) -> Result<Address> {
        let Operand::Address(base, offset) = *operand else { return Err("operand that is no address".to_owned()) };
        match base {
            Base::Register(register) => {
                let bytes = self.width(register);
                self.check(register, bytes.max(4))?;
                self.uses.push(register);
                Ok(Address { base: self.slots[register as usize], long: bytes == 8, offset })
            }
            Base::Symbol(symbol) => {
                let address = self.layout.address(symbol)?;
                Ok(Address { base: self.constants.slot(address, true), long: true, offset })
            }
            Base::Absolute => Ok(Address { base: self.constants.slot(0, true), long: true, offset }),
        }
    }

    /// The parameter that an address names, and the offset in it.
    pub fn parameter(&self, operand: &Operand) -> Option<(u32, i64)> {
        match *operand {
            Operand::Address(Base::Symbol(Symbol::Parameter(parameter)), offset) => Some((parameter, offset)),
            _ => None,
        }
    }

    /// Elements of a vector operand; of any other, the operand itself.
    pub fn elements<'o>(&self, operand: &'o Operand) -> &'o [Operand] {
        match operand {
            Operand::Vector(elements) => elements,
            other => std::slice::from_ref(other),
        }
    }
}

/// Bits of a number as a type.
pub(super) fn literal(operand: &Operand, r#type: Type) -> Result<u64> {
    let float = matches!(r#type, Type::F32 | Type::F64);
    Ok(match *operand {
        Operand::Integer(value) if float && value != 0 => {
            if r#type == Type::F32 {
                u64::from((value as i64 as f32).to_bits())
            } else {
                (value as i64 as f64).to_bits()
            }
        }
        Operand::Integer(value) => match r#type.bytes() {
            1 => value & 0xff,
            2 => value & 0xffff,
            4 => value & 0xffff_ffff,
            _ => value,
        },
        Operand::F32(bits) if r#type == Type::F64 => f64::from(f32::from_bits(bits)).to_bits(),
        Operand::F32(bits) if r#type.bytes() == 4 => u64::from(bits),
        Operand::F64(bits) if r#type.bytes() == 8 => bits,
        Operand::F64(bits) if r#type == Type::F32 => u64::from((f64::from_bits(bits) as f32).to_bits()),
        _ => return Err("number of another type".to_owned()),
    })
}
