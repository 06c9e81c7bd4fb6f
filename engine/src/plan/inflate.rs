//! Unpacks the DEFLATE format (RFC 1951) without memory of its own but some tables on the stack.

/// Deflated bytes unpack to less than so many times one more than their number: two bits may stand for 258 bytes.
pub(super) const MOST_EXPANSION: u64 = 1032;

/// Longest code of a symbol, in bits.
const LONGEST: usize = 15;
/// Codes of at most so many bits are found by one look into a table.
const FAST: u32 = 9;
/// Literals and lengths that have codes, and distances.
const SYMBOLS: usize = 288;
/// The symbol that ends a block. Lengths come behind it.
const END: u16 = 256;
/// Least length and distance of each symbol, and the bits that follow it and add to them (RFC 1951, 3.2.5).
const LENGTHS: [u16; 29] =
    [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258];
const LENGTH_BITS: [u8; 29] = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const DISTANCES: [u16; 30] = [
    1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145,
    8193, 12289, 16385, 24577,
];
const DISTANCE_BITS: [u8; 30] =
    [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13];
/// The order in which the lengths of the codes for code lengths are stored (3.2.7).
const ORDER: [u8; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Unpacks `packed`, which must fill all of `to`; `None` if it is malformed, or holds another number of bytes. `to` holds
/// anything then.
pub(super) fn unpack(packed: &[u8], to: &mut [u8]) -> Option<()> {
    let mut from = Bits { rest: packed, bits: 0, count: 0 };
    let mut codes = [Code::EMPTY; 2];
    let mut at = 0;
    loop {
        let last = from.take(1)? == 1;
        at = match from.take(2)? {
            0 => store(&mut from, to, at)?,
            kind @ 1..=2 => {
                set_codes(&mut codes, if kind == 1 { None } else { Some(&mut from) })?;
                decode(&mut from, &codes, to, at)?
            }
            _ => return None,
        };
        if last {
            return (at == to.len() && from.count < 8 && from.rest.is_empty()).then_some(());
        }
    }
}

/// Bits of a sequence of bytes, the least significant of each first.
struct Bits<'a> {
    rest: &'a [u8],
    /// What has been taken from `rest` and not been used, from bit 0 on; zeros above.
    bits: u64,
    count: u32,
}

impl Bits<'_> {
    /// The next 16 bits or more, with zeros behind the end.
    fn peek(&mut self) -> u64 {
        while self.count < 48
            && let Some((&byte, rest)) = self.rest.split_first()
        {
            self.bits |= u64::from(byte) << self.count;
            self.count += 8;
            self.rest = rest;
        }
        self.bits
    }

    /// Goes on by at most 16 bits.
    fn skip(&mut self, count: u32) -> Option<()> {
        self.count = self.count.checked_sub(count)?;
        self.bits >>= count;
        Some(())
    }

    /// The next `count` bits, at most 16, as a number.
    #[inline(never)]
    fn take(&mut self, count: u32) -> Option<usize> {
        let value = self.peek() & ((1 << count) - 1);
        self.skip(count)?;
        Some(value as usize)
    }

    /// Goes on to the next byte, and takes that many.
    fn take_bytes(&mut self, to: &mut [u8]) -> Option<()> {
        self.skip(self.count % 8)?;
        // What was taken ahead comes first.
        let (ahead, behind) = to.split_at_mut_checked(to.len().min(self.count as usize / 8))?;
        for to in ahead {
            *to = self.bits as u8;
            self.skip(8)?;
        }
        let (bytes, rest) = self.rest.split_at_checked(behind.len())?;
        copy(behind, bytes);
        self.rest = rest;
        Some(())
    }
}

/// A Huffman code (3.2.2), of which shorter codes are the smaller numbers.
struct Code {
    /// For the next [`FAST`] bits: symbol · 16 + bits of its code; 0 where the code is longer, or there is none.
    fast: [u16; 1 << FAST],
    /// Number of codes of each length.
    counts: [u16; LONGEST + 1],
    /// Symbols in the order of their codes.
    symbols: [u16; SYMBOLS],
}

impl Code {
    /// No codes.
    const EMPTY: Self = Self { fast: [0; 1 << FAST], counts: [0; LONGEST + 1], symbols: [0; SYMBOLS] };

    /// Makes it the code in which symbol `i` has `lengths[i]` bits, or does not occur if that is 0; `None` if there are too many codes.
    #[inline(never)]
    fn set(&mut self, lengths: &[u8]) -> Option<()> {
        *self = Self::EMPTY;
        for &length in lengths {
            *self.counts.get_mut(usize::from(length))? += 1;
        }
        self.counts[0] = 0;
        // The first code of each length, and the place of its symbol.
        let (mut first, mut places) = ([0u32; LONGEST + 1], [0u16; LONGEST + 1]);
        let (mut next, mut place) = (0, 0);
        for ((&count, first), (at, length)) in self.counts.iter().zip(&mut first).zip(places.iter_mut().zip(0u32..)) {
            next <<= 1;
            (*first, *at) = (next, place);
            next += u32::from(count);
            if next > 1 << length {
                return None;
            }
            place += count;
        }
        for (symbol, &length) in (0u16..).zip(lengths).filter(|(_, length)| **length != 0) {
            let (next, place) = (first.get_mut(usize::from(length))?, places.get_mut(usize::from(length))?);
            *self.symbols.get_mut(usize::from(*place))? = symbol;
            let bits = u32::from(length);
            if bits <= FAST {
                // Codes are stored from their most significant bit on.
                let reversed = next.reverse_bits() >> (u32::BITS - bits);
                let entries = self.fast.get_mut(reversed as usize..)?;
                entries.iter_mut().step_by(1 << bits).for_each(|entry| *entry = symbol << 4 | bits as u16);
            }
            *next += 1;
            *place += 1;
        }
        Some(())
    }

    fn symbol(&self, from: &mut Bits<'_>) -> Option<u16> {
        let bits = from.peek();
        let entry = *self.fast.get(bits as usize % (1 << FAST))?;
        if entry != 0 {
            from.skip(u32::from(entry) % 16)?;
            return Some(entry >> 4);
        }
        // Codes of one length are successive numbers: this is one of them if it is less than `count` behind the first.
        let (mut behind_first, mut place) = (0u32, 0u32);
        for (length, &count) in (0u32..).zip(&self.counts).skip(1) {
            behind_first = behind_first << 1 | (bits >> (length - 1)) as u32 & 1;
            let count = u32::from(count);
            if behind_first < count {
                from.skip(length)?;
                return self.symbols.get((place + behind_first) as usize).copied();
            }
            behind_first -= count;
            place += count;
        }
        None
    }
}

/// Sets the codes of literals and of distances: those at the start of a block (3.2.7), or those of blocks that bring none (3.2.6).
#[inline(never)]
fn set_codes([literals, distances]: &mut [Code; 2], from: Option<&mut Bits<'_>>) -> Option<()> {
    let mut lengths = [8; SYMBOLS + DISTANCES.len()];
    let (count, lengths) = match from {
        None => {
            lengths.get_mut(144..256)?.fill(9);
            lengths.get_mut(256..280)?.fill(7);
            lengths.get_mut(SYMBOLS..)?.fill(5);
            (SYMBOLS, &lengths[..])
        }
        Some(from) => {
            let (count, others) = (from.take(5)? + 257, from.take(5)? + 1);
            let codes = from.take(4)? + 4;
            let mut short = [0; ORDER.len()];
            for &place in ORDER.get(..codes)? {
                *short.get_mut(usize::from(place))? = from.take(3)? as u8;
            }
            // The code of lengths stands where that of literals will.
            literals.set(&short)?;
            let lengths = lengths.get_mut(..count.checked_add(others)?)?;
            let (mut at, mut before) = (0, 0);
            while at < lengths.len() {
                let (length, times) = match literals.symbol(from)? {
                    16 if at > 0 => (before, 3 + from.take(2)?),
                    17 => (0, 3 + from.take(3)?),
                    18 => (0, 11 + from.take(7)?),
                    length @ 0..16 => (length as u8, 1),
                    _ => return None,
                };
                lengths.get_mut(at..)?.get_mut(..times)?.fill(length);
                (at, before) = (at + times, length);
            }
            // Without a code for its end, no block ends; and two symbols of fixed codes have no meaning.
            if count > SYMBOLS - 2 || *lengths.get(usize::from(END))? == 0 {
                return None;
            }
            (count, &*lengths)
        }
    };
    let (first, second) = lengths.split_at_checked(count)?;
    literals.set(first)?;
    distances.set(second)
}

/// Takes a block of bytes as they are. Returns where the next block's go.
fn store(from: &mut Bits<'_>, to: &mut [u8], at: usize) -> Option<usize> {
    let mut lengths = [0; 4];
    from.take_bytes(&mut lengths)?;
    let length = u16::from_le_bytes([lengths[0], lengths[1]]);
    if length != !u16::from_le_bytes([lengths[2], lengths[3]]) {
        return None;
    }
    let length = usize::from(length);
    from.take_bytes(to.get_mut(at..)?.get_mut(..length)?)?;
    at.checked_add(length)
}

/// Decodes a block. Returns where the next block's bytes go.
fn decode(from: &mut Bits<'_>, [literals, distances]: &[Code; 2], to: &mut [u8], mut at: usize) -> Option<usize> {
    loop {
        let symbol = literals.symbol(from)?;
        if let Ok(literal) = u8::try_from(symbol) {
            *to.get_mut(at)? = literal;
            at += 1;
        } else if symbol == END {
            return Some(at);
        } else {
            let length = extended(usize::from(symbol - END - 1), &LENGTHS, &LENGTH_BITS, from)?;
            let distance = extended(usize::from(distances.symbol(from)?), &DISTANCES, &DISTANCE_BITS, from)?;
            repeat(to, at, distance, length)?;
            at += length;
        }
    }
}

/// A length or a distance: the least of its symbol, and what the bits behind it add.
fn extended(symbol: usize, least: &[u16], bits: &[u8], from: &mut Bits<'_>) -> Option<usize> {
    let (&least, &bits) = least.get(symbol).zip(bits.get(symbol))?;
    Some(usize::from(least) + from.take(bits.into())?)
}

/// Writes `length` bytes at `at`, each as the byte `distance` before it. Where they overlap, what is there is a whole number of
/// periods, and each round doubles it.
fn repeat(to: &mut [u8], at: usize, distance: usize, length: usize) -> Option<()> {
    let all = to.get_mut(at.checked_sub(distance)?..)?.get_mut(..distance.checked_add(length)?)?;
    let mut filled = distance;
    while filled < all.len() {
        let (periods, rest) = all.split_at_mut_checked(filled)?;
        copy(rest, periods);
        filled = filled.checked_mul(2)?;
    }
    Some(())
}

/// Copies as much as both hold.
#[inline(never)]
fn copy(to: &mut [u8], from: &[u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

#[cfg(test)]
mod tests {
    use super::*;
    use miniz_oxide::{deflate::compress_to_vec, inflate::decompress_to_vec};
    use proptest::prelude::*;
    use std::{format, vec, vec::Vec};

    /// Bytes with runs, with repeats near and far, and with none of these.
    fn contents() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            (any::<u8>(), 1usize..700).prop_map(|(byte, count)| vec![byte; count]),
            (prop::collection::vec(any::<u8>(), 1..40), 1usize..30).prop_map(|(bytes, count)| bytes.repeat(count)),
            prop::collection::vec(0u8..20, 0..3000),
            prop::collection::vec(any::<u8>(), 0..600),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    /// What the deflated bytes unpack to in memory of `bytes`.
    fn unpacked(packed: &[u8], bytes: usize) -> Option<Vec<u8>> {
        let mut to = vec![0xa5; bytes];
        unpack(packed, &mut to).map(|()| to)
    }

    // Not under Miri: there is no unsafe code here, and proptest asks for the working directory.
    proptest! {
        #[test]
        #[cfg_attr(miri, ignore)]
        fn what_another_program_packs_is_unpacked(contents in contents(), level in 0u8..=10) {
            let packed = compress_to_vec(&contents, level);
            prop_assert_eq!(unpacked(&packed, contents.len()), Some(contents.clone()));
            prop_assert_eq!(unpacked(&packed, contents.len() + 1), None);
            prop_assert!(contents.is_empty() || unpacked(&packed, contents.len() - 1).is_none());
            prop_assert_eq!(unpacked(&[&packed[..], b"x"].concat(), contents.len()), None);
        }

        #[test]
        #[cfg_attr(miri, ignore)]
        fn damaged_bytes_are_refused_or_mean_what_another_program_says(
            contents in contents(), level in 0u8..=10, at: prop::sample::Index, byte: u8, cut in 0usize..40,
        ) {
            let mut packed = compress_to_vec(&contents, level);
            packed.truncate(packed.len().saturating_sub(cut).max(1));
            let at = at.index(packed.len());
            packed[at] = byte;
            if let Some(found) = unpacked(&packed, contents.len()) {
                prop_assert_eq!(Some(found), decompress_to_vec(&packed).ok());
            }
        }

        #[test]
        #[cfg_attr(miri, ignore)]
        fn any_bytes_are_refused_or_mean_what_another_program_says(packed: Vec<u8>, bytes in 0usize..64) {
            if let Some(found) = unpacked(&packed, bytes) {
                prop_assert_eq!(Some(found), decompress_to_vec(&packed).ok());
            }
        }
    }

    #[test]
    fn the_longest_run_is_within_the_bound() {
        let contents = vec![0; 1 << 20];
        let packed = compress_to_vec(&contents, 10);
        assert_eq!(unpacked(&packed, contents.len()), Some(contents.clone()));
        let bound = MOST_EXPANSION * (packed.len() as u64 + 1);
        assert!(contents.len() as u64 * 10 / 9 > bound && (contents.len() as u64) < bound, "{}", packed.len());
    }

    #[test]
    fn blocks_by_hand() {
        // The last block, of fixed codes: bits 1 and 01, then codes from their first bit on.
        let bits = |text: &str| {
            let mut bytes = vec![0; text.len().div_ceil(8)];
            text.bytes().enumerate().for_each(|(place, bit)| bytes[place / 8] |= (bit - b'0') << (place % 8));
            bytes
        };
        let fixed = |codes: &str| unpacked(&bits(&format!("110{codes}")), 4);
        // 'a' is 00110000 + 0x61, a length of 3 is 0000001, a distance of 1 is 00000, the end is 0000000.
        assert_eq!(fixed("100100010000001000000000000").unwrap(), b"aaaa");
        for (codes, why) in [
            ("100100010000001000010000000", "a distance before the beginning"),
            ("100100010000001111100000000", "a distance that has no symbol"),
            ("10010001100100011001000110010001", "no end"),
            ("1001000111000110000000", "a length that has no symbol"),
        ] {
            assert_eq!(fixed(codes), None, "{why}");
        }
        assert_eq!(unpacked(b"\x01\x04\x00\xfb\xffabcd", 4).unwrap(), b"abcd");
        assert_eq!(unpacked(b"\x01\x04\x00\xfa\xffabcd", 4), None, "two lengths that differ");
        assert_eq!(unpacked(b"\x01\x04\x00\xfb\xffabc", 4), None, "fewer bytes than it says");
        assert_eq!(unpacked(b"\x07", 0), None, "a block of no kind");
        assert_eq!(unpacked(b"", 0), None, "no block");
    }
}
