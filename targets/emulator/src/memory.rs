//! Memory of the device: allocations at addresses of their own, and for each byte whether anybody has written it.

use crate::machine::{Memory, Region};
use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    collections::BTreeMap,
    ops::Range,
    ptr::NonNull,
    sync::atomic::{AtomicU16, Ordering},
};

/// Alignment of allocations, that of the driver's own.
const ALIGNMENT: u64 = 256;
/// First address that is given out. Addresses do not depend on where the host keeps the bytes, so a run is reproducible.
const FIRST: u64 = 0x7000_0000_0000;
/// Addresses between two allocations that belong to nobody.
const GAP: u64 = 1 << 20;
/// What fills device memory that nobody has written: NaN in every float type.
pub const POISON: u8 = 0xff;

/// One allocation.
#[derive(Debug)]
pub struct Allocation {
    start: u64,
    bytes: u64,
    host: NonNull<u8>,
    layout: Layout,
    written: Written,
}

// SAFETY: the bytes belong to the allocation alone, and launches access them through atomics.
unsafe impl Send for Allocation {}
// SAFETY: as above; everybody else needs the allocation exclusively, or copies while no launch runs.
unsafe impl Sync for Allocation {}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, freed once.
        unsafe { dealloc(self.host.as_ptr(), self.layout) };
    }
}

impl Allocation {
    /// Its addresses.
    pub fn addresses(&self) -> Range<u64> {
        self.start..self.start + self.bytes
    }

    /// Which of its bytes were written.
    pub fn written(&self) -> &Written {
        &self.written
    }
}

/// For each byte from an address on whether it was written: a bit each, 16 a word.
#[derive(Debug)]
pub struct Written {
    start: u64,
    bits: Vec<AtomicU16>,
}

impl Written {
    /// Nothing written, from `start` (a multiple of 16) on.
    pub fn new(start: u64, bytes: u64) -> Self {
        Self { start, bits: (0..bytes.div_ceil(16)).map(|_| AtomicU16::new(0)).collect() }
    }

    /// The words that hold bits of `bytes` bytes from `address` on, with a mask of those bits.
    fn words(&self, address: u64, bytes: u64) -> impl Iterator<Item = (&AtomicU16, u16)> {
        let offset = address - self.start;
        let (first, last) = (offset / 16, (offset + bytes).div_ceil(16));
        (first..last).filter_map(move |word| {
            let from = offset.saturating_sub(word * 16) as u32;
            let to = (offset + bytes - word * 16).min(16) as u32;
            let mask = ((1u32 << to) - (1u32 << from)) as u16;
            self.bits.get(word as usize).map(|bits| (bits, mask))
        })
    }

    /// Notes that bytes were written.
    #[inline]
    pub fn mark(&self, address: u64, bytes: u64) {
        for (word, mask) in self.words(address, bytes) {
            if mask == u16::MAX {
                word.store(mask, Ordering::Relaxed);
            } else {
                word.fetch_or(mask, Ordering::Relaxed);
            }
        }
    }

    /// Notes that what bytes hold counts no more.
    pub fn clear(&self, address: u64, bytes: u64) {
        for (word, mask) in self.words(address, bytes) {
            word.fetch_and(!mask, Ordering::Relaxed);
        }
    }

    /// Whether all bytes were written.
    #[inline]
    pub fn all(&self, address: u64, bytes: u64) -> bool {
        self.words(address, bytes).all(|(word, mask)| word.load(Ordering::Relaxed) & mask == mask)
    }

    /// Whether one of the bytes was written.
    pub fn any(&self, address: u64, bytes: u64) -> bool {
        self.words(address, bytes).any(|(word, mask)| word.load(Ordering::Relaxed) & mask != 0)
    }
}

/// All allocations, by address.
#[derive(Debug, Default)]
pub struct Allocations {
    by_start: BTreeMap<u64, Allocation>,
    given_out: u64,
    live: u64,
}

// SAFETY: regions are those of live allocations, which are borrowed as long as this is; both their addresses and their
// bytes are aligned to 256.
unsafe impl Memory for Allocations {
    fn region(&self, address: u64) -> Option<Region> {
        let allocation = self.find(address, 1)?;
        Some(Region { start: allocation.start, bytes: allocation.bytes, host: allocation.host })
    }
}

impl Allocations {
    /// Allocates device memory, poisoned; `None` where the host has not so much.
    pub fn allocate(&mut self, bytes: u64) -> Option<u64> {
        let size = usize::try_from(bytes).ok()?.max(1);
        let layout = Layout::from_size_align(size, ALIGNMENT as usize).ok()?;
        // SAFETY: the layout's size is not zero.
        let host = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        // SAFETY: just allocated.
        unsafe { host.write_bytes(POISON, size) };
        let start = FIRST + self.given_out;
        self.given_out += bytes.next_multiple_of(ALIGNMENT) + GAP;
        self.live += bytes;
        let allocation = Allocation { start, bytes, host, layout, written: Written::new(start, bytes) };
        self.by_start.insert(start, allocation);
        Some(start)
    }

    /// Allocates host memory that the device may use: whatever it holds counts as written, since the host writes there
    /// unseen. Returns where the host finds it.
    pub fn allocate_host(&mut self, bytes: u64) -> Option<NonNull<u8>> {
        let start = self.allocate(bytes)?;
        let allocation = self.by_start.get(&start)?;
        allocation.written.mark(start, bytes);
        Some(allocation.host)
    }

    /// Device address of host memory.
    pub fn device_address(&self, host: *mut u8) -> Option<u64> {
        self.by_start.values().find(|allocation| allocation.host.as_ptr() == host).map(|allocation| allocation.start)
    }

    /// Frees an allocation; `false` where there is none that starts there.
    pub fn free(&mut self, start: u64) -> bool {
        let freed = self.by_start.remove(&start);
        self.live -= freed.as_ref().map_or(0, |allocation| allocation.bytes);
        freed.is_some()
    }

    /// Bytes allocated.
    pub fn live(&self) -> u64 {
        self.live
    }

    /// The allocation that holds all of a range.
    pub fn find(&self, address: u64, bytes: u64) -> Option<&Allocation> {
        let (_, allocation) = self.by_start.range(..=address).next_back()?;
        let offset = address - allocation.start;
        (offset < allocation.bytes && bytes <= allocation.bytes - offset).then_some(allocation)
    }

    /// Where the host finds the bytes of a range.
    fn host(&self, address: u64, bytes: u64) -> Option<(&Allocation, *mut u8)> {
        let allocation = self.find(address, bytes)?;
        // SAFETY: inside the allocation.
        Some((allocation, unsafe { allocation.host.as_ptr().add((address - allocation.start) as usize) }))
    }

    /// Writes bytes; `false` where they are not all inside one allocation. Takes them by address, as the driver's calls do.
    ///
    /// # Safety
    /// `from` must be readable over `bytes` bytes.
    pub unsafe fn write(&mut self, address: u64, from: *const u8, bytes: u64) -> bool {
        let Some((allocation, to)) = self.host(address, bytes) else { return bytes == 0 };
        // SAFETY: `to` is inside the allocation, `from` as the caller says; they may be the same memory.
        unsafe { std::ptr::copy(from, to, bytes as usize) };
        allocation.written.mark(address, bytes);
        true
    }

    /// Reads bytes; `false` where they are not all inside one allocation.
    ///
    /// # Safety
    /// `to` must be writable over `bytes` bytes.
    pub unsafe fn read(&mut self, address: u64, to: *mut u8, bytes: u64) -> bool {
        let Some((_, from)) = self.host(address, bytes) else { return bytes == 0 };
        // SAFETY: `from` is inside the allocation, `to` as the caller says; they may be the same memory.
        unsafe { std::ptr::copy(from, to, bytes as usize) };
        true
    }

    /// Fills bytes; `false` where they are not all inside one allocation.
    pub fn fill(&mut self, address: u64, value: u8, bytes: u64) -> bool {
        let Some((allocation, to)) = self.host(address, bytes) else { return bytes == 0 };
        // SAFETY: inside the allocation.
        unsafe { to.write_bytes(value, bytes as usize) };
        allocation.written.mark(address, bytes);
        true
    }

    /// Makes bytes count as never written.
    pub fn poison(&mut self, address: u64, bytes: u64) {
        if self.fill(address, POISON, bytes)
            && let Some(allocation) = self.find(address, bytes)
        {
            allocation.written.clear(address, bytes);
        }
    }

    /// A copy of ranges, with what was written of them.
    pub fn save(&mut self, ranges: impl IntoIterator<Item = Range<u64>>) -> Saved {
        let copy = |range: Range<u64>| {
            let bytes = range.end - range.start;
            let (allocation, _) = self.host(range.start, bytes)?;
            let words: Vec<u16> =
                allocation.written.words(range.start, bytes).map(|(word, _)| word.load(Ordering::Relaxed)).collect();
            let (_, from) = self.host(range.start, bytes)?;
            let mut copy = vec![0; bytes as usize];
            // SAFETY: inside the allocation, and the copy is as long.
            unsafe { std::ptr::copy_nonoverlapping(from, copy.as_mut_ptr(), bytes as usize) };
            Some((range.start, copy, words))
        };
        Saved(ranges.into_iter().filter_map(copy).collect())
    }

    /// Puts a copy back.
    pub fn restore(&mut self, saved: &Saved) {
        for (address, copy, words) in &saved.0 {
            let bytes = copy.len() as u64;
            if let Some((allocation, to)) = self.host(*address, bytes) {
                // SAFETY: inside the allocation, and the copy is as long.
                unsafe { std::ptr::copy_nonoverlapping(copy.as_ptr(), to, copy.len()) };
                for ((word, _), &saved) in allocation.written.words(*address, bytes).zip(words) {
                    word.store(saved, Ordering::Relaxed);
                }
            }
        }
    }
}

/// A copy of ranges of memory.
#[derive(Debug)]
pub struct Saved(Vec<(u64, Vec<u8>, Vec<u16>)>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_written_byte_is_known() {
        let written = Written::new(256, 64);
        written.mark(259, 20);
        assert!(written.all(259, 20) && !written.all(258, 2) && !written.all(278, 2));
        assert!(written.any(250 + 6, 4) && !written.any(256, 3) && !written.any(279, 16));
        written.clear(270, 2);
        assert!(written.all(259, 11) && !written.any(270, 2) && written.all(272, 7));
        written.mark(256, 64);
        assert!(written.all(256, 64));
    }

    #[test]
    fn ranges_are_found_inside_one_allocation_only() {
        let mut memory = Allocations::default();
        let (a, b) = (memory.allocate(100).unwrap(), memory.allocate(32).unwrap());
        assert!(a % 256 == 0 && b > a + 100 && memory.live() == 132);
        assert!(
            memory.find(a + 96, 4).is_some() && memory.find(a + 96, 5).is_none() && memory.find(a - 1, 1).is_none()
        );
        let (bytes, mut back) = ([1u8, 2, 3], [0u8; 3]);
        // SAFETY: the arrays have three bytes.
        unsafe {
            assert!(memory.write(b + 1, bytes.as_ptr(), 3) && memory.read(b + 1, back.as_mut_ptr(), 3));
            assert!(!memory.write(b + 30, bytes.as_ptr(), 3));
        }
        assert_eq!(back, bytes);
        let saved = memory.save(std::iter::once(b..b + 8));
        memory.poison(b, 32);
        assert!(!memory.find(b, 1).unwrap().written().any(b, 32));
        memory.restore(&saved);
        assert!(
            memory.find(b, 1).unwrap().written().all(b + 1, 3) && !memory.find(b, 1).unwrap().written().any(b + 4, 4)
        );
        assert!(memory.free(a) && !memory.free(a) && memory.live() == 32);
    }
}
