//! Arguments of calls, right and wrong.

use crate::{DATA_BYTES, Program, driver, find_symbol};
use arbitrary::{Result, Unstructured};
use floe_c::options::SessionOptions;
use std::{ffi::c_void, mem::MaybeUninit, ptr::null_mut};

/// What a handle may stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plan,
    Session,
    Weights,
    Scratch,
    Nothing,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Plan, Self::Session, Self::Weights, Self::Scratch, Self::Nothing];

    /// Whether sessions share it.
    pub fn is_shared(self) -> bool {
        matches!(self, Self::Weights | Self::Scratch)
    }

    /// Its number among what sessions share.
    pub fn shared(self) -> usize {
        usize::from(self == Self::Scratch)
    }
}

/// A pointer that may be wrong: null, or one byte off, which only `u8` and `void` can bear.
pub fn spoil<T>(input: &mut Unstructured<'_>, pointer: *mut T) -> Result<*mut T> {
    Ok(match input.int_in_range(0..=15)? {
        0 => null_mut(),
        1 if align_of::<T>() > 1 => pointer.cast::<u8>().wrapping_add(1).cast(),
        _ => pointer,
    })
}

/// A length that is `right`, less, or beyond what memory can have.
pub fn length(input: &mut Unstructured<'_>, right: usize) -> Result<usize> {
    Ok(match input.int_in_range(0..=15)? {
        0 => 0,
        1 => right.saturating_sub(1),
        2 => usize::MAX,
        3 => isize::MAX as usize + 1,
        4 => input.int_in_range(0..=right)?,
        _ => right,
    })
}

impl Program {
    /// Where the thing of some kind and number lies.
    pub fn place<T>(&mut self, kind: Kind, slot: usize) -> *mut T {
        self.memory[kind as usize][slot].as_mut_ptr().cast()
    }

    /// Any handle: of that kind, of another, or none at all.
    pub fn handle<T>(&mut self, input: &mut Unstructured<'_>, kind: Kind) -> Result<*mut T> {
        let slot = input.int_in_range(0..=1)?;
        let kind = if input.ratio(1, 16)? { *input.choose(&Kind::ALL)? } else { kind };
        let place = self.place::<c_void>(kind, slot);
        Ok(match input.int_in_range(0..=15)? {
            0 => null_mut(),
            1 => place.wrapping_byte_add(input.int_in_range(0..=63)?).cast(),
            _ => place.cast(),
        })
    }

    /// Where data comes from or goes to, and as how much. `of` is the session that is read or written: that data overlaps
    /// its memory is for the library to find, but of the memory of another one it cannot know.
    pub fn data(&mut self, input: &mut Unstructured<'_>, of: Option<usize>) -> Result<(*mut c_void, usize)> {
        let bytes = length(input, 16)?;
        let pointer = match (input.int_in_range(0..=15)?, of) {
            (0, _) => null_mut(),
            (1, Some(slot)) => self.place::<c_void>(Kind::Session, slot).wrapping_byte_add(64),
            // The very end of what is there: a byte more would be noticed.
            _ => self.data.as_mut_ptr_range().end.wrapping_byte_sub(bytes.min(DATA_BYTES)).cast(),
        };
        Ok((pointer, bytes))
    }

    /// Options, in more memory than they need.
    pub fn options(&mut self, input: &mut Unstructured<'_>) -> Result<[SessionOptions; 4]> {
        let right = size_of::<SessionOptions>();
        let shared = |input: &mut Unstructured<'_>| input.ratio(1, 3);
        let options = SessionOptions {
            struct_bytes: if input.ratio(1, 8)? { input.int_in_range(0..=4 * right)? } else { right },
            find_symbol: if input.ratio(15, 16)? { Some(find_symbol) } else { None },
            find_symbol_context: null_mut(),
            stream: if input.ratio(1, 4)? { driver::EXTERNAL_STREAM } else { null_mut() },
            mapped: input.int_in_range(0..=1)?,
            wait: input.int_in_range(0..=4)?,
            guard: input.int_in_range(0..=1)?,
            reserved: u32::from(input.ratio(1, 32)?),
            weights: if shared(input)? { self.handle(input, Kind::Weights)? } else { null_mut() },
            scratch: if shared(input)? { self.handle(input, Kind::Scratch)? } else { null_mut() },
            operators: std::ptr::null(),
            operator_count: if input.ratio(1, 32)? { 1 } else { 0 },
        };
        // SAFETY: all fields may be zero; larger structures of later versions end with zeros.
        let mut all = [options; 4].map(|_| unsafe { MaybeUninit::<SessionOptions>::zeroed().assume_init() });
        all[0] = options;
        Ok(all)
    }

    /// The number of what options share, as far as the library may look at it.
    pub fn sharing(&mut self, options: &SessionOptions) -> [Option<usize>; 2] {
        let known = options.struct_bytes;
        let mut slot = |kind, handle: *const c_void, end: usize| {
            (0..2).find(|&slot| known >= end && self.place::<c_void>(kind, slot).cast_const() == handle)
        };
        let end = |offset: usize| offset + size_of::<*const c_void>();
        [
            slot(Kind::Weights, options.weights.cast(), end(std::mem::offset_of!(SessionOptions, weights))),
            slot(Kind::Scratch, options.scratch.cast(), end(std::mem::offset_of!(SessionOptions, scratch))),
        ]
    }
}
