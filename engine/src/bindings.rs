//! Bindings as both kinds of session use them: finding one, and where it lies.

use crate::plan::{
    Variant,
    format::{Direction, MAX_BINDINGS},
};
use core::fmt;

/// Names a binding: by its name in the model, or by its number in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingRef<'n> {
    /// Number in the plan.
    Number(usize),
    /// Name in the model.
    Name(&'n str),
}

impl From<usize> for BindingRef<'_> {
    fn from(number: usize) -> Self {
        Self::Number(number)
    }
}

impl<'n> From<&'n str> for BindingRef<'n> {
    fn from(name: &'n str) -> Self {
        Self::Name(name)
    }
}

/// Why a binding cannot be written or read as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BindingError {
    /// No binding of that name or number goes that way.
    NotFound,
    /// The binding exists, but goes the other way.
    Direction {
        /// Which way it goes.
        found: Direction,
    },
    /// The slice has not exactly the binding's length.
    Length {
        /// Bytes of the binding.
        expected: u64,
        /// Bytes of the slice.
        found: u64,
    },
}

impl fmt::Display for BindingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => write!(f, "no such binding: `floec inspect` lists the plan's"),
            Self::Direction { found } => write!(
                f,
                "binding is {}",
                match found {
                    Direction::Input => "an input: it is written, not read",
                    Direction::Output => "an output: it is read, not written",
                    Direction::State => "a state: it is written and read, but not in place",
                }
            ),
            Self::Length { expected, found } => write!(f, "binding has {expected} bytes, but the slice has {found}"),
        }
    }
}

impl core::error::Error for BindingError {}

/// Whether a binding is written or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Write,
    Read,
    /// Written in place.
    Lend,
    /// Read in place.
    Borrow,
}

impl Access {
    fn fits(self, direction: Direction) -> bool {
        match self {
            Self::Write => direction != Direction::Output,
            Self::Read => direction != Direction::Input,
            Self::Lend => direction == Direction::Input,
            Self::Borrow => direction == Direction::Output,
        }
    }
}

/// Where a binding lies in a session's memory: at the same place in every shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// First byte, from the start of the bindings' memory.
    pub offset: u64,
    /// Bytes in the chosen shape, without padding.
    pub bytes: u64,
    pub direction: Direction,
}

/// Where all bindings of a variant lie, one behind another.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    slots: heapless::Vec<Slot, MAX_BINDINGS>,
    /// Bytes of all of them, padding included.
    #[cfg_attr(not(feature = "host"), allow(dead_code))]
    pub bytes: u64,
}

impl Slots {
    /// Lays the bindings out, each at a multiple of `alignment`, with room for the largest of the variant's shapes.
    pub fn new(variant: &Variant<'_>, alignment: u64) -> Self {
        let mut slots = heapless::Vec::new();
        let mut offset = 0;
        for (binding, most) in variant.bindings().zip(&variant.largest_bindings()) {
            let bytes = binding.bytes().unwrap_or(0);
            // The check has proven that there are at most MAX_BINDINGS and that their sum does not overflow.
            let _ = slots.push(Slot { offset, bytes, direction: binding.direction });
            offset += most.next_multiple_of(alignment);
        }
        Self { slots, bytes: offset }
    }

    /// Takes the lengths of another shape.
    pub fn choose(&mut self, shape: &Variant<'_>) {
        for (slot, binding) in self.slots.iter_mut().zip(shape.bindings()) {
            slot.bytes = binding.bytes().unwrap_or(0);
        }
    }

    /// Slot `number`.
    pub fn get(&self, number: usize) -> Option<Slot> {
        self.slots.get(number).copied()
    }

    /// All slots in order.
    pub fn iter(&self) -> impl Iterator<Item = Slot> {
        self.slots.iter().copied()
    }

    /// Number and slot of a binding that may be accessed so, with a slice of `length` bytes if there is one.
    pub fn find(
        &self,
        variant: &Variant<'_>,
        binding: BindingRef<'_>,
        access: Access,
        length: Option<usize>,
    ) -> Result<(usize, Slot), BindingError> {
        let number = match binding {
            BindingRef::Number(number) => number,
            BindingRef::Name(name) => {
                let named =
                    |fits: bool| variant.bindings().position(|b| b.name == name && access.fits(b.direction) == fits);
                // An input and an output may share a name; the access tells them apart.
                named(true).or_else(|| named(false)).ok_or(BindingError::NotFound)?
            }
        };
        let slot = self.get(number).ok_or(BindingError::NotFound)?;
        if !access.fits(slot.direction) {
            return Err(BindingError::Direction { found: slot.direction });
        }
        match length {
            Some(length) if slot.bytes != length as u64 => {
                Err(BindingError::Length { expected: slot.bytes, found: length as u64 })
            }
            _ => Ok((number, slot)),
        }
    }
}
