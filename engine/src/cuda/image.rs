//! What a kernel image is before the driver sees it: machine code whose every part lies inside it, or text.
//!
//! The driver takes an image by its address alone: it believes the lengths that a cubin states, and reads what is no ELF file as
//! text up to a NUL, or as another of its own formats.

use crate::plan::format::ImageKind;
use core::fmt;

/// Why an image is not given to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageProblem {
    /// The cubin's header, or its field `.0`, is not that of an ELF file of 64 bits, least byte first, for CUDA.
    Header(&'static str),
    /// The cubin's table of sections or segments reaches outside it.
    Table(Part),
    /// A section or segment of the cubin reaches outside it.
    Outside {
        /// Which of the two.
        part: Part,
        /// Its number.
        number: u32,
    },
    /// The image is to be PTX and is no text that ends with NUL.
    NotText,
    /// The image is packed, and does not hold the bytes that it should.
    Packed,
}

/// What an ELF file has tables of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Sections.
    Section,
    /// Segments, which program headers describe.
    Segment,
}

impl Part {
    /// Bytes of a header.
    const fn header_bytes(self) -> u16 {
        match self {
            Self::Section => 64,
            Self::Segment => 56,
        }
    }
}

impl fmt::Display for ImageProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |part| if part == Part::Section { "section" } else { "segment" };
        match self {
            Self::Header(field) => write!(f, "not a cubin: {field} of its ELF header is wrong"),
            Self::Table(part) => write!(f, "its table of {}s reaches outside it", name(*part)),
            Self::Outside { part, number } => write!(f, "its {} {number} reaches outside it", name(*part)),
            Self::NotText => write!(f, "not PTX: it is no text that ends with NUL"),
            Self::Packed => write!(f, "it does not unpack to the bytes that it should: compile the plan again"),
        }
    }
}

/// Section type of what takes no bytes in the file.
const SHT_NOBITS: u32 = 8;
/// Architecture of CUDA's machine code.
const EM_CUDA: u16 = 190;

/// Checks an image of that kind, as INIT does before the driver sees it. Reads its headers only.
///
/// # Errors
/// What is wrong with it.
pub fn check_image(kind: ImageKind, image: &[u8]) -> Result<(), ImageProblem> {
    match kind {
        ImageKind::Cubin => check_cubin(image),
        // Formats that are no text begin with other bytes than text does.
        ImageKind::Ptx => {
            let is_text = |&byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~');
            let start = image.get(..4).ok_or(ImageProblem::NotText)?;
            let ends = image.last() == Some(&0);
            if ends && start.iter().all(is_text) { Ok(()) } else { Err(ImageProblem::NotText) }
        }
    }
}

fn check_cubin(image: &[u8]) -> Result<(), ImageProblem> {
    let header = |field, right: bool| if right { Ok(()) } else { Err(ImageProblem::Header(field)) };
    header("the length", image.len() >= 64)?;
    header("the magic number", image.starts_with(b"\x7fELF"))?;
    header("the class", image.get(4) == Some(&2))?;
    header("the order of bytes", image.get(5) == Some(&1))?;
    header("the machine", half(image, 18) == Some(EM_CUDA))?;
    header("its own size", half(image, 52) == Some(64))?;
    let sections = Table::read(image, Part::Section, long(image, 40), 58)?;
    let names = half(image, 62).unwrap_or(0);
    // Number 0 is none.
    header("the section of names", names == 0 || u32::from(names) < sections.count)?;
    let segments = Table::read(image, Part::Segment, long(image, 32), 54)?;
    for (table, offset, bytes) in [(&sections, 24, 32), (&segments, 8, 32)] {
        for number in 0..table.count {
            let entry = table.entry(image, number).ok_or(ImageProblem::Table(table.part))?;
            let takes_none = table.part == Part::Section && word(entry, 4) == Some(SHT_NOBITS);
            if !takes_none && !lies_inside(image, long(entry, offset), long(entry, bytes)) {
                return Err(ImageProblem::Outside { part: table.part, number });
            }
        }
    }
    Ok(())
}

/// A table of headers that lies inside the image.
struct Table {
    part: Part,
    start: usize,
    count: u32,
}

impl Table {
    /// `sizes`: where the ELF header has the size of an entry, and behind it their number.
    fn read(image: &[u8], part: Part, start: Option<u64>, sizes: usize) -> Result<Self, ImageProblem> {
        let outside = ImageProblem::Table(part);
        let (size, count) = half(image, sizes).zip(half(image, sizes + 2)).ok_or(outside)?;
        let start = start.ok_or(outside)?;
        if count == 0 {
            // With a table all the same, its first section says how many there are: no cubin has 65,280 of them.
            let absent = start == 0 || part == Part::Segment;
            return if absent { Ok(Self { part, start: 0, count: 0 }) } else { Err(outside) };
        }
        if size != part.header_bytes() {
            return Err(ImageProblem::Header("the size of a table's entries"));
        }
        if !lies_inside(image, Some(start), Some(u64::from(size) * u64::from(count))) {
            return Err(outside);
        }
        Ok(Self { part, start: usize::try_from(start).map_err(|_| outside)?, count: u32::from(count) })
    }

    fn entry<'a>(&self, image: &'a [u8], number: u32) -> Option<&'a [u8]> {
        let size = usize::from(self.part.header_bytes());
        let start = self.start.checked_add((number as usize).checked_mul(size)?)?;
        image.get(start..start.checked_add(size)?)
    }
}

fn lies_inside(image: &[u8], start: Option<u64>, bytes: Option<u64>) -> bool {
    let end = start.zip(bytes).and_then(|(start, bytes)| start.checked_add(bytes));
    end.is_some_and(|end| end <= image.len() as u64)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};

    /// Sections: none, names, code, and shared memory, which takes no bytes and says that it has 1 MiB. One segment.
    fn cubin() -> Vec<u8> {
        let mut image = vec![0; 512];
        let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"\x7fELF\x02\x01\x01\x33\x07");
        put(16, &[2, 0, 190, 0]);
        put(32, &456u64.to_le_bytes());
        put(40, &200u64.to_le_bytes());
        put(52, &[64, 0, 56, 0, 1, 0, 64, 0, 4, 0, 1, 0]);
        for (number, kind, offset, bytes) in [(1, 3, 64u64, 36u64), (2, 1, 100, 100), (3, SHT_NOBITS, 500, 1 << 20)] {
            let at = 200 + 64 * number;
            put(at + 4, &kind.to_le_bytes());
            put(at + 24, &offset.to_le_bytes());
            put(at + 32, &bytes.to_le_bytes());
        }
        put(456 + 8, &100u64.to_le_bytes());
        put(456 + 32, &100u64.to_le_bytes());
        image
    }

    /// What is said of the cubin with other bytes at a place.
    fn changed(at: usize, bytes: &[u8]) -> Result<(), ImageProblem> {
        let mut image = cubin();
        image[at..at + bytes.len()].copy_from_slice(bytes);
        check_image(ImageKind::Cubin, &image)
    }

    #[test]
    fn a_cubin_passes_whole_and_no_prefix_of_it_does() {
        let image = cubin();
        assert_eq!(check_image(ImageKind::Cubin, &image), Ok(()));
        for length in 0..image.len() {
            assert!(check_image(ImageKind::Cubin, &image[..length]).is_err(), "{length} bytes");
        }
        assert_eq!(check_image(ImageKind::Cubin, &[&image[..], &[0; 9]].concat()), Ok(()));
    }

    #[test]
    fn a_header_alone_may_have_no_tables() {
        let mut image = cubin();
        image.truncate(64);
        image[32..48].fill(0);
        image[54..64].fill(0);
        assert_eq!(check_image(ImageKind::Cubin, &image), Ok(()));
        assert_eq!(check_image(ImageKind::Cubin, &image[..63]), Err(ImageProblem::Header("the length")));
    }

    #[test]
    fn problems_name_the_part() {
        let text = std::string::ToString::to_string;
        assert_eq!(text(&ImageProblem::Table(Part::Section)), "its table of sections reaches outside it");
        assert_eq!(text(&ImageProblem::Table(Part::Segment)), "its table of segments reaches outside it");
        let outside = |part| text(&ImageProblem::Outside { part, number: 3 });
        assert_eq!(outside(Part::Section), "its section 3 reaches outside it");
        assert_eq!(outside(Part::Segment), "its segment 3 reaches outside it");
    }

    #[test]
    fn each_field_of_the_header_counts() {
        let of = |field| Err(ImageProblem::Header(field));
        assert_eq!(changed(0, b"\x7eELF"), of("the magic number"));
        assert_eq!(changed(0, b"\x50\xed\x55\xba"), of("the magic number"));
        assert_eq!(changed(0, b".version 8.0\n"), of("the magic number"));
        assert_eq!(changed(4, &[1]), of("the class"));
        assert_eq!(changed(5, &[2]), of("the order of bytes"));
        assert_eq!(changed(18, &[62]), of("the machine"));
        assert_eq!(changed(52, &[63]), of("its own size"));
        assert_eq!(changed(62, &[4]), of("the section of names"));
        for (at, wrong) in [(54, 55), (54, 57), (58, 63), (58, 65), (58, 0)] {
            assert_eq!(changed(at, &[wrong]), of("the size of a table's entries"));
        }
        // Without segments nothing counts of their table; sections without a number would be counted elsewhere.
        assert_eq!(changed(54, &[0, 0, 0, 0]), Ok(()));
        assert_eq!(changed(60, &[0, 0, 0, 0]), Err(ImageProblem::Table(Part::Section)));
    }

    #[test]
    fn every_extent_lies_inside() {
        for part in [Part::Section, Part::Segment] {
            let (offset, count, first) = if part == Part::Section { (40, 60, 200) } else { (32, 56, 456) };
            let outside = Err(ImageProblem::Table(part));
            for wrong in [first + 56 + 1, 513, 1 << 32, 1 << 63, u64::MAX, u64::MAX - 55] {
                assert_eq!(changed(offset, &wrong.to_le_bytes()), outside, "{part:?} {wrong}");
            }
            assert_eq!(changed(count, &[5]), outside);
            assert_eq!(changed(count, &[0xff, 0xff]), outside);
        }
        let entries = [(Part::Section, 1, 264, 24), (Part::Section, 2, 328, 24), (Part::Segment, 0, 456, 8)];
        for (part, number, entry, offset) in entries {
            let outside = Err(ImageProblem::Outside { part, number });
            for (start, bytes, inside) in [
                (0u64, 512u64, true),
                (512, 0, true),
                (511, 1, true),
                (0, 513, false),
                (513, 0, false),
                (511, 2, false),
                (1, u64::MAX, false),
                (u64::MAX, 1, false),
                (1 << 63, 1 << 63, false),
            ] {
                let mut image = cubin();
                image[entry + offset..][..8].copy_from_slice(&start.to_le_bytes());
                image[entry + 32..][..8].copy_from_slice(&bytes.to_le_bytes());
                let expected = if inside { Ok(()) } else { outside };
                assert_eq!(check_image(ImageKind::Cubin, &image), expected, "{part:?} {number} {start} {bytes}");
            }
        }
        // What takes no bytes may say anything, but only as long as it is that.
        assert_eq!(changed(392 + 24, &[0xff; 16]), Ok(()));
        assert_eq!(changed(392 + 4, &[1]), Err(ImageProblem::Outside { part: Part::Section, number: 3 }));
        // A segment's type counts for nothing.
        assert_eq!(changed(456 + 4, &[8]), Ok(()));
    }

    #[test]
    fn ptx_is_text_and_nothing_else() {
        let ptx = |image: &[u8]| check_image(ImageKind::Ptx, image);
        assert_eq!(ptx(b".version 8.0\n\0"), Ok(()));
        assert_eq!(ptx(b"//\n\r\t\0"), Ok(()));
        let mut elf = cubin();
        elf.push(0);
        for image in
            [&elf[..], b"\x50\xed\x55\xba\x01\0", b"\xb1\x43\x62\x46\0", b"\x7fNC\xed\0", b".v\0", b"", b"\0\0\0\0\0"]
        {
            assert_eq!(ptx(image), Err(ImageProblem::NotText));
        }
    }
}
