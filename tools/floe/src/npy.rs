//! NumPy's `.npy` files, for the element types of plans. Little-endian, row-major.
//!
//! Format: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>, versions 1 to 3.

use floe_kernels::DType;
use std::io::{self, Write};

/// First bytes of every file.
const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// An array as a file holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array<'a> {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Vec<u64>,
    /// Elements, row-major, little-endian.
    pub bytes: &'a [u8],
}

/// Why a file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NpyError {
    /// Not the format at all.
    #[error("not a .npy file (save it with numpy.save)")]
    Magic,
    /// A version from the future.
    #[error("version {0} of the .npy format is not known here")]
    Version(u8),
    /// The header is cut or does not say what it must.
    #[error("its header is broken: {0}")]
    Header(&'static str),
    /// An element type that no plan has.
    #[error("element type '{0}' is not supported{hint}", hint = if .0.starts_with('>') { "; convert to little-endian" } else { "" })]
    Type(String),
    /// Column-major.
    #[error("it is in Fortran order; save numpy.ascontiguousarray(x)")]
    Fortran,
    /// Fewer or more bytes than the shape says.
    #[error("its shape needs {expected} bytes of data, but it has {found}")]
    Length {
        /// Bytes by shape and type.
        expected: u64,
        /// Bytes after the header.
        found: u64,
    },
}

/// NumPy's name of an element type. bf16, which NumPy lacks, is two opaque bytes, and a float of 8 bits or an integer of 4 is
/// one, as `ml_dtypes` writes them.
fn descriptor(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "<f4",
        DType::F16 => "<f2",
        DType::Bf16 => "<V2",
        DType::F64 => "<f8",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::U8 => "|u1",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        DType::Bool => "|b1",
        DType::F8E4M3 | DType::F8E4M3Fnuz | DType::F8E5M2 | DType::F8E5M2Fnuz | DType::I4 | DType::U4 => "|V1",
    }
}

/// The element type of that name; bytes have no order, so `<`, `|` and `=` are the same for them. One of the narrow types stands
/// for all of them, which have one name.
fn dtype(name: &str) -> Result<DType, NpyError> {
    use DType::{Bf16, Bool, F8E4M3, F8E5M2, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    let unsupported = || NpyError::Type(name.to_owned());
    let kind = name.strip_prefix(['<', '|']).ok_or_else(unsupported)?;
    if kind == "f1" {
        return Ok(F8E5M2); // `ml_dtypes` writes this one so, though NumPy does not read it.
    }
    [F32, F16, Bf16, F64, I8, I16, I32, I64, U8, U16, U32, U64, Bool, F8E4M3]
        .into_iter()
        .find(|&dtype| descriptor(dtype).get(1..) == Some(kind))
        .ok_or_else(unsupported)
}

impl<'a> Array<'a> {
    /// Whether its elements may be of a type: of their own, or bytes for a narrow type, which NumPy has no name for.
    pub fn holds(&self, dtype: DType) -> bool {
        self.dtype == dtype
            || dtype.is_narrow() && (self.dtype.is_narrow() || matches!(self.dtype, DType::U8 | DType::I8))
    }

    /// Reads a whole file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(file: &'a [u8]) -> Result<Self, NpyError> {
        let cut = || NpyError::Header("it ends early");
        let rest = file.strip_prefix(MAGIC).ok_or(NpyError::Magic)?;
        let (&[major, _], rest) = rest.split_first_chunk().ok_or_else(cut)?;
        let (length, rest) = match major {
            1 => rest.split_first_chunk().map(|(&length, rest)| (u32::from(u16::from_le_bytes(length)), rest)),
            2 | 3 => rest.split_first_chunk().map(|(&length, rest)| (u32::from_le_bytes(length), rest)),
            _ => return Err(NpyError::Version(major)),
        }
        .ok_or_else(cut)?;
        let (header, bytes) = rest.split_at_checked(length as usize).ok_or_else(cut)?;
        let header = std::str::from_utf8(header).map_err(|_| NpyError::Header("it is no text"))?;

        let name = value(header, "descr")?.strip_prefix('\'').and_then(|rest| rest.split('\'').next());
        let dtype = dtype(name.ok_or(NpyError::Header("'descr' is no simple type"))?)?;
        match value(header, "fortran_order")? {
            order if order.starts_with("False") => {}
            order if order.starts_with("True") => return Err(NpyError::Fortran),
            _ => return Err(NpyError::Header("'fortran_order'")),
        }
        let shape = value(header, "shape")?.strip_prefix('(').and_then(|rest| rest.split(')').next());
        let shape = shape
            .ok_or(NpyError::Header("'shape' is no tuple"))?
            .split(',')
            .map(str::trim)
            .filter(|extent| !extent.is_empty())
            .map(|extent| extent.parse().map_err(|_| NpyError::Header("'shape' has an extent that is no number")))
            .collect::<Result<Vec<u64>, _>>()?;
        let expected = shape.iter().try_fold(dtype.size() as u64, |bytes, &extent| bytes.checked_mul(extent));
        let expected = expected.ok_or(NpyError::Header("'shape' is too large"))?;
        if expected != bytes.len() as u64 {
            return Err(NpyError::Length { expected, found: bytes.len() as u64 });
        }
        Ok(Self { dtype, shape, bytes })
    }

    /// Writes the array as version 1.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, mut writer: impl Write) -> io::Result<()> {
        let extents: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        let comma = if extents.len() == 1 { "," } else { "" };
        let mut header = format!(
            "{{'descr': '{}', 'fortran_order': False, 'shape': ({}{comma}), }}",
            descriptor(self.dtype),
            extents.join(", ")
        );
        // Spaces and a newline bring the data to a multiple of 64 bytes.
        let before = MAGIC.len() + 4;
        let total = (before + header.len() + 1).next_multiple_of(64);
        header.extend(std::iter::repeat_n(' ', total - before - header.len() - 1));
        header.push('\n');
        let length = u16::try_from(header.len()).map_err(io::Error::other)?;
        writer.write_all(MAGIC)?;
        writer.write_all(&[1, 0])?;
        writer.write_all(&length.to_le_bytes())?;
        writer.write_all(header.as_bytes())?;
        writer.write_all(self.bytes)
    }
}

/// What follows `'key':` in a header.
fn value<'h>(header: &'h str, key: &'static str) -> Result<&'h str, NpyError> {
    let found = header.find(&format!("'{key}'")).map(|start| &header[start + key.len() + 2..]);
    found.and_then(|rest| Some(rest.trim_start().strip_prefix(':')?.trim_start())).ok_or(NpyError::Header(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (dtype, shape) in
            [(DType::F32, vec![2, 3]), (DType::F16, vec![]), (DType::Bool, vec![5]), (DType::I64, vec![0, 4])]
        {
            let bytes: Vec<u8> = (0..shape.iter().product::<u64>() as usize * dtype.size()).map(|i| i as u8).collect();
            let array = Array { dtype, shape, bytes: &bytes };
            let mut file = Vec::new();
            array.write(&mut file).unwrap();
            assert_eq!((file.len() - bytes.len()) % 64, 0);
            assert_eq!(Array::parse(&file).unwrap(), array);
        }
    }

    #[test]
    fn bytes_hold_what_numpy_has_no_name_for() {
        let file = |descr: &str| {
            let mut file =
                format!("\x01\x00v\x00{{'descr': '{descr}', 'fortran_order': False, 'shape': (2,), }}").into_bytes();
            file.splice(..0, *b"\x93NUMPY");
            file.resize(127, b' ');
            file.extend_from_slice(b"\n\x38\xc0");
            file
        };
        // numpy.save of arrays of float8_e4m3fn and int4, of float8_e5m2, and of plain bytes.
        for descr in ["<V1", "|V1", "<f1", "|u1", "|i1"] {
            let file = file(descr);
            let array = Array::parse(&file).unwrap();
            assert!(array.holds(DType::F8E4M3) && array.holds(DType::I4), "{descr}");
            assert_eq!((array.holds(DType::U8), array.holds(DType::F16)), (descr == "|u1", false), "{descr}");
        }
        let mut written = Vec::new();
        Array { dtype: DType::F8E5M2, shape: vec![1], bytes: &[0x3c] }.write(&mut written).unwrap();
        assert!(Array::parse(&written).unwrap().holds(DType::F8E5M2));
    }

    #[test]
    fn a_file_of_numpy_is_read() {
        // numpy.save of numpy.array([[1, -2]], 'int16').
        let mut file = b"\x93NUMPY\x01\x00v\x00{'descr': '<i2', 'fortran_order': False, 'shape': (1, 2), }".to_vec();
        file.resize(127, b' ');
        file.extend_from_slice(b"\n\x01\x00\xfe\xff");
        let array = Array::parse(&file).unwrap();
        assert_eq!((array.dtype, array.shape.as_slice(), array.bytes), (DType::I16, &[1, 2][..], &file[128..]));
    }

    #[test]
    fn every_cut_and_every_strange_header_is_an_error() {
        let mut file = Vec::new();
        Array { dtype: DType::F32, shape: vec![2], bytes: &[0; 8] }.write(&mut file).unwrap();
        for length in 0..file.len() {
            assert!(Array::parse(&file[..length]).is_err(), "{length}");
        }
        let with = |from: &str, to: &str| {
            let text = String::from_utf8_lossy(&file[10..]).replace(from, to);
            let mut changed = b"\x93NUMPY\x02\x00".to_vec();
            changed.extend_from_slice(&((text.len() - 8) as u32).to_le_bytes());
            changed.extend_from_slice(text.as_bytes());
            Array::parse(&changed).unwrap_err()
        };
        assert_eq!(with("<f4", ">f4").to_string(), "element type '>f4' is not supported; convert to little-endian");
        assert_eq!(with("False", "True"), NpyError::Fortran);
        assert_eq!(with("(2,)", "(3,)"), NpyError::Length { expected: 12, found: 8 });
        assert!(matches!(with("(2,)", "(-2,)"), NpyError::Header(_)));
        assert!(matches!(with("(2,)", "(4611686018427387904,)"), NpyError::Header(_)));
        assert!(matches!(with("<f4", "<c8"), NpyError::Type(_)));
        assert!(matches!(with("'shape'", "'shame'"), NpyError::Header("shape")));
    }
}
