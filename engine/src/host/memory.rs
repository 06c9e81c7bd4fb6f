//! The memory of a session. Of the whole only a pointer is kept, and references are made to no more than is asked for: a C
//! program has several bindings lent at a time, and whatever refers to one of them must not invalidate the others.

use core::{marker::PhantomData, ptr::NonNull};

/// Bytes that belong to a session for `'m`: a `&'m mut [u8]` that does not claim all of them at every use.
#[derive(Debug)]
pub(super) struct Memory<'m> {
    start: NonNull<u8>,
    bytes: usize,
    lifetime: PhantomData<&'m mut [u8]>,
}

// SAFETY: stands for a `&mut [u8]`, which may go to another thread.
unsafe impl Send for Memory<'_> {}
// SAFETY: as above, and may be shared: whoever has a `&Memory` only reads.
unsafe impl Sync for Memory<'_> {}

impl<'m> Memory<'m> {
    pub fn new(memory: &'m mut [u8]) -> Self {
        let bytes = memory.len();
        Self { start: NonNull::from(memory).cast(), bytes, lifetime: PhantomData }
    }

    /// `bytes` bytes from `start` on; `None` where they reach outside.
    pub fn get(&self, start: usize, bytes: usize) -> Option<&[u8]> {
        let start = self.part(start, bytes)?;
        // SAFETY: inside the slice that `new` was given, which belongs to this object; borrowed as `self` is.
        Some(unsafe { core::slice::from_raw_parts(start.as_ptr(), bytes) })
    }

    /// As [`Self::get`], to be written.
    pub fn get_mut(&mut self, start: usize, bytes: usize) -> Option<&mut [u8]> {
        let start = self.part(start, bytes)?;
        // SAFETY: as in `get`; borrowed mutably as `self` is, so nothing else refers to it.
        Some(unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), bytes) })
    }

    /// All of it.
    pub fn all(&mut self) -> &mut [u8] {
        // SAFETY: the slice that `new` was given; borrowed mutably as `self` is.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }

    fn part(&self, start: usize, bytes: usize) -> Option<NonNull<u8>> {
        start.checked_add(bytes).filter(|&end| end <= self.bytes)?;
        // SAFETY: at most the end of the slice.
        Some(unsafe { self.start.add(start) })
    }
}

#[cfg(test)]
mod tests {
    use super::Memory;

    #[test]
    fn parts_end_where_the_memory_does() {
        let mut bytes = [1, 2, 3, 4];
        let mut memory = Memory::new(&mut bytes);
        assert_eq!(memory.get(1, 2), Some(&[2, 3][..]));
        assert_eq!(memory.get(4, 0), Some(&[][..]));
        assert_eq!((memory.get(2, 3), memory.get(5, 0), memory.get(1, usize::MAX)), (None, None, None));
        memory.get_mut(0, 1).unwrap().fill(9);
        assert_eq!(memory.all(), [9, 2, 3, 4]);
        assert_eq!(bytes, [9, 2, 3, 4]);
    }

    #[test]
    fn one_part_is_used_while_another_is_lent() {
        let mut bytes = [0; 4];
        let mut memory = Memory::new(&mut bytes);
        let first = memory.get_mut(0, 2).unwrap().as_mut_ptr();
        memory.get_mut(2, 2).unwrap().fill(2);
        let last = memory.get(2, 2).unwrap().as_ptr();
        // SAFETY: nothing has referred to the part meanwhile: what Miri sees.
        unsafe { first.write(1) };
        // SAFETY: as above.
        assert_eq!(unsafe { last.read() }, 2);
        assert_eq!(bytes, [1, 0, 2, 2]);
    }

    /// Not for other runs: what it does is what nothing may do.
    #[cfg(miri)]
    #[test]
    #[ignore = "a negative control: Miri must find that a part is used after all of the memory was referred to"]
    fn control_a_lent_part_under_a_reference_to_all() {
        let mut bytes = [0; 4];
        let mut memory = Memory::new(&mut bytes);
        let first = memory.get_mut(0, 2).unwrap().as_mut_ptr();
        memory.all().fill(2);
        // SAFETY: none.
        unsafe { first.write(1) };
    }

    /// As above.
    #[cfg(miri)]
    #[test]
    #[ignore = "a negative control: Miri must find that a byte behind the memory is read"]
    fn control_a_byte_behind_the_memory() {
        let mut bytes = std::boxed::Box::new([0; 4]);
        let mut memory = Memory::new(&mut *bytes);
        memory.bytes += 1;
        let last = memory.get(0, 5).map(|bytes| bytes[4]);
        assert_eq!(last, Some(0));
    }
}
