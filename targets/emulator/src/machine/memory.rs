//! Memory of the device as a launch sees it: the one place of the machine with raw pointers.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Device memory, by address.
///
/// # Safety
///
/// [`Memory::region`] must return memory that is readable and writable, for as long as the launch lasts, over all
/// of the region's bytes; `host` must be aligned as `start` is, modulo 16; and nobody but launches may access it
/// meanwhile other than through atomics.
pub unsafe trait Memory: Sync {
    /// Returns the allocation that `address` lies in. Addresses lie below `1 << 56`.
    fn region(&self, address: u64) -> Option<Region>;
}

/// One allocation.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// First device address.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
    /// Where the bytes really are.
    pub host: NonNull<u8>,
}

// SAFETY: a region is an address; every access goes through atomics.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// Up to 16 bytes that one lane loads or stores, lowest first.
pub(super) type Words = [u32; 4];

/// A place in a region, valid and aligned for as many bytes as it was asked for.
#[derive(Clone, Copy)]
pub(super) struct Place(NonNull<u8>);

/// Finds places, most of them in the region that the last one was in.
pub(super) struct Finder<'a, M> {
    memory: &'a M,
    last: Region,
}

impl<'a, M: Memory> Finder<'a, M> {
    pub fn new(memory: &'a M) -> Self {
        Self { memory, last: Region { start: 0, bytes: 0, host: NonNull::dangling() } }
    }

    /// Returns the place of `bytes` bytes (1, 2, 4, 8 or 16) at a multiple of their number, if one region holds them.
    #[inline(always)]
    pub fn find(&mut self, address: u64, bytes: u32) -> Option<Place> {
        debug_assert!(matches!(bytes, 1 | 2 | 4 | 8 | 16) && address.is_multiple_of(u64::from(bytes)));
        if !self.last.holds(address, bytes) {
            self.last = self.memory.region(address)?;
            if !self.last.holds(address, bytes) {
                return None;
            }
        }
        // SAFETY: the offset lies inside the region.
        Some(Place(unsafe { self.last.host.add((address - self.last.start) as usize) }))
    }
}

impl Region {
    #[inline(always)]
    fn holds(&self, address: u64, bytes: u32) -> bool {
        let offset = address.wrapping_sub(self.start);
        offset < self.bytes && u64::from(bytes) <= self.bytes - offset
    }
}

/// Reads or writes through relaxed atomics: plain moves on the usual machines, and no undefined behaviour where blocks
/// race. SAFETY of all four: a [`Place`] is valid for these bytes and aligned to them, as [`Finder::find`] was told.
impl Place {
    #[inline(always)]
    pub fn read(self, bytes: u32) -> Words {
        let at = self.0.as_ptr();
        match bytes {
            // SAFETY: above.
            1 => [u32::from(unsafe { AtomicU8::from_ptr(at) }.load(Ordering::Relaxed)), 0, 0, 0],
            // SAFETY: above.
            2 => [u32::from(unsafe { AtomicU16::from_ptr(at.cast()) }.load(Ordering::Relaxed)), 0, 0, 0],
            // SAFETY: above.
            4 => [unsafe { AtomicU32::from_ptr(at.cast()) }.load(Ordering::Relaxed), 0, 0, 0],
            8 => {
                // SAFETY: above.
                let low = unsafe { AtomicU64::from_ptr(at.cast()) }.load(Ordering::Relaxed);
                [low as u32, (low >> 32) as u32, 0, 0]
            }
            _ => {
                // SAFETY: above.
                let low = unsafe { AtomicU64::from_ptr(at.cast()) }.load(Ordering::Relaxed);
                // SAFETY: above.
                let high = unsafe { AtomicU64::from_ptr(at.cast::<u64>().add(1)) }.load(Ordering::Relaxed);
                [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32]
            }
        }
    }

    #[inline(always)]
    pub fn write(self, bytes: u32, words: Words) {
        let at = self.0.as_ptr();
        let long = |i: usize| u64::from(words[i]) | u64::from(words[i + 1]) << 32;
        match bytes {
            // SAFETY: above.
            1 => unsafe { AtomicU8::from_ptr(at) }.store(words[0] as u8, Ordering::Relaxed),
            // SAFETY: above.
            2 => unsafe { AtomicU16::from_ptr(at.cast()) }.store(words[0] as u16, Ordering::Relaxed),
            // SAFETY: above.
            4 => unsafe { AtomicU32::from_ptr(at.cast()) }.store(words[0], Ordering::Relaxed),
            // SAFETY: above.
            8 => unsafe { AtomicU64::from_ptr(at.cast()) }.store(long(0), Ordering::Relaxed),
            _ => {
                // SAFETY: above.
                unsafe { AtomicU64::from_ptr(at.cast()) }.store(long(0), Ordering::Relaxed);
                // SAFETY: above.
                unsafe { AtomicU64::from_ptr(at.cast::<u64>().add(1)) }.store(long(2), Ordering::Relaxed);
            }
        }
    }

    /// Replaces 4 or 8 bytes by what `update` makes of them, in one step; returns what they were.
    pub fn update(self, bytes: u32, update: impl Fn(u64) -> u64) -> u64 {
        let at = self.0.as_ptr();
        if bytes == 4 {
            // SAFETY: above.
            let cell = unsafe { AtomicU32::from_ptr(at.cast()) };
            let mut old = cell.load(Ordering::SeqCst);
            loop {
                let new = update(u64::from(old)) as u32;
                match cell.compare_exchange_weak(old, new, Ordering::SeqCst, Ordering::SeqCst) {
                    Ok(_) => return u64::from(old),
                    Err(now) => old = now,
                }
            }
        }
        // SAFETY: above.
        let cell = unsafe { AtomicU64::from_ptr(at.cast()) };
        let mut old = cell.load(Ordering::SeqCst);
        loop {
            match cell.compare_exchange_weak(old, update(old), Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return old,
                Err(now) => old = now,
            }
        }
    }
}
