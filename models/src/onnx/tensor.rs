//! `TensorProto` to [`Tensor`], with elements inside the file or in an external one.

use super::{Folder, proto::TensorProto};
use crate::{DType, Fact, ImportError, Tensor, infer::check_fact};
use bytes::Bytes;
use floe_kernels::narrow;

/// `TensorProto.DataType` to an element type; `None` where Floe has no such type.
pub fn data_type(number: i32) -> Option<DType> {
    Some(match number {
        1 => DType::F32,
        2 => DType::U8,
        3 => DType::I8,
        4 => DType::U16,
        5 => DType::I16,
        6 => DType::I32,
        7 => DType::I64,
        9 => DType::Bool,
        10 => DType::F16,
        11 => DType::F64,
        12 => DType::U32,
        13 => DType::U64,
        16 => DType::Bf16,
        17 => DType::F8E4M3,
        18 => DType::F8E4M3Fnuz,
        19 => DType::F8E5M2,
        20 => DType::F8E5M2Fnuz,
        21 => DType::U4,
        22 => DType::I4,
        _ => return None,
    })
}

/// Name of a `TensorProto.DataType`, for messages.
pub fn data_type_name(number: i64) -> String {
    const NAMES: [&str; 27] = [
        "UNDEFINED",
        "FLOAT",
        "UINT8",
        "INT8",
        "UINT16",
        "INT16",
        "INT32",
        "INT64",
        "STRING",
        "BOOL",
        "FLOAT16",
        "DOUBLE",
        "UINT32",
        "UINT64",
        "COMPLEX64",
        "COMPLEX128",
        "BFLOAT16",
        "FLOAT8E4M3FN",
        "FLOAT8E4M3FNUZ",
        "FLOAT8E5M2",
        "FLOAT8E5M2FNUZ",
        "UINT4",
        "INT4",
        "FLOAT4E2M1",
        "FLOAT8E8M0",
        "UINT2",
        "INT2",
    ];
    let name = usize::try_from(number).ok().and_then(|number| NAMES.get(number));
    name.map_or_else(|| format!("type {number}"), |name| (*name).to_string())
}

/// Reads a tensor. `folder` is where external data is looked for; without one, external data is an error.
///
/// # Errors
/// [`ImportError::UnsupportedTensor`] and [`ImportError::Tensor`] name the tensor and what is wrong with it.
pub fn read(proto: &TensorProto, folder: Option<&Folder>) -> Result<Tensor, ImportError> {
    let fact = fact(proto)?;
    let bytes = stored(proto, &fact, folder)?;
    // Integers of 4 bits lie in pairs; everything else has whole bytes.
    if is_in_pairs(fact.dtype) {
        let bytes = unpacked(&bytes, fact.dtype == DType::I4, fact.elements());
        return Ok(Tensor::new(fact.dtype, fact.shape, bytes));
    }
    Ok(Tensor::of_shared(fact.dtype, fact.shape, bytes))
}

/// The same tensor with its external data inside; `folder` is where that is looked for.
///
/// # Errors
/// As [`read`].
pub fn inlined(proto: &TensorProto, folder: Option<&Folder>) -> Result<TensorProto, ImportError> {
    let raw_data = stored(proto, &fact(proto)?, folder)?;
    Ok(TensorProto { raw_data, external_data: Vec::new(), data_location: 0, ..proto.clone() })
}

/// Type and shape of a tensor, before its elements are read.
///
/// # Errors
/// As [`read`].
pub fn fact(proto: &TensorProto) -> Result<Fact, ImportError> {
    let name = || proto.name.clone();
    let Some(dtype) = data_type(proto.data_type) else {
        let kind = format!("element type {}", data_type_name(proto.data_type.into()));
        return Err(ImportError::UnsupportedTensor { name: name(), kind });
    };
    let refuse = |reason: String| ImportError::Tensor { name: name(), reason };
    let extent = |&dim: &i64| usize::try_from(dim).map_err(|_| refuse(format!("extent {dim} is negative")));
    let fact = Fact::new(dtype, &proto.dims.iter().map(extent).collect::<Result<Vec<_>, _>>()?);
    check_fact(&fact).map_err(|error| refuse(error.to_string()))?;
    Ok(fact)
}

fn is_in_pairs(dtype: DType) -> bool {
    matches!(dtype, DType::I4 | DType::U4)
}

/// The elements as a file holds them.
fn stored(proto: &TensorProto, fact: &Fact, folder: Option<&Folder>) -> Result<Bytes, ImportError> {
    let dtype = fact.dtype;
    let refuse = |reason: String| ImportError::Tensor { name: proto.name.clone(), reason };
    let expected = if is_in_pairs(dtype) { fact.elements().div_ceil(2) } else { fact.elements() * dtype.size() };
    let bytes = if proto.data_location == 1 {
        external(proto, folder, expected).map_err(refuse)?
    } else if !proto.raw_data.is_empty() {
        proto.raw_data.clone()
    } else {
        typed(proto, dtype).into()
    };
    if bytes.len() != expected {
        let (shape, found) = (&fact.shape, bytes.len());
        return Err(refuse(format!("shape {shape:?} of {dtype:?} needs {expected} bytes, but there are {found}")));
    }
    Ok(bytes)
}

/// Integers of 4 bits, each in a byte of its own; the first of a pair lies in the lower half.
fn unpacked(pairs: &[u8], signed: bool, count: usize) -> Vec<u8> {
    let element = |bits: u8| if signed { narrow::I4::wrapping(bits).0 } else { narrow::U4::wrapping(bits).0 };
    pairs.iter().flat_map(|&pair| [element(pair), element(pair >> 4)]).take(count).collect()
}

/// Elements from the typed field that ONNX prescribes for the type.
fn typed(proto: &TensorProto, dtype: DType) -> Vec<u8> {
    match dtype {
        DType::F32 => bytemuck::cast_slice(&proto.float_data).to_vec(),
        DType::F64 => bytemuck::cast_slice(&proto.double_data).to_vec(),
        DType::I64 => bytemuck::cast_slice(&proto.int64_data).to_vec(),
        DType::U64 => bytemuck::cast_slice(&proto.uint64_data).to_vec(),
        DType::I32 => bytemuck::cast_slice(&proto.int32_data).to_vec(),
        DType::U32 => proto.uint64_data.iter().flat_map(|&v| (v as u32).to_le_bytes()).collect(),
        DType::I16 | DType::U16 | DType::F16 | DType::Bf16 => {
            proto.int32_data.iter().flat_map(|&v| (v as u16).to_le_bytes()).collect()
        }
        DType::I8 | DType::U8 | DType::I4 | DType::U4 => proto.int32_data.iter().map(|&v| v as u8).collect(),
        DType::F8E4M3 | DType::F8E4M3Fnuz | DType::F8E5M2 | DType::F8E5M2Fnuz => {
            proto.int32_data.iter().map(|&v| v as u8).collect()
        }
        DType::Bool => proto.int32_data.iter().map(|&v| u8::from(v != 0)).collect(),
    }
}

/// Elements from another file, which must lie inside the model's folder.
fn external(proto: &TensorProto, folder: Option<&Folder>, expected: usize) -> Result<Bytes, String> {
    let entry = |key: &str| proto.external_data.iter().find(|entry| entry.key == key).map(|entry| entry.value.as_str());
    let location = entry("location").ok_or("its external data has no location")?;
    let folder =
        folder.ok_or_else(|| format!("its data is in '{location}', but the model was not read from a file"))?;
    let number = |key: &str| {
        entry(key)
            .map(|text| text.parse::<u64>().map_err(|_| format!("external data {key} '{text}' is no number")))
            .transpose()
    };
    let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?);
    if let Some(length) = length.filter(|&length| length != expected as u64) {
        return Err(format!("it needs {expected} bytes, but its external data says {length}"));
    }
    folder.read(location, offset, expected)
}

#[cfg(test)]
mod tests {
    use super::{super::proto::StringStringEntryProto, *};

    fn proto(data_type: i32, dims: &[i64]) -> TensorProto {
        TensorProto { name: "t".into(), data_type, dims: dims.to_vec(), ..Default::default() }
    }

    #[test]
    fn typed_fields() {
        let half = TensorProto { int32_data: vec![0x3c00], ..proto(10, &[1]) };
        assert_eq!(read(&half, None).unwrap().to_f64(), [1.0]);
        let byte = TensorProto { int32_data: vec![-3, 4], ..proto(3, &[2]) };
        assert_eq!(read(&byte, None).unwrap().to_i64().unwrap(), [-3, 4]);
        let wide = TensorProto { uint64_data: vec![7], ..proto(12, &[]) };
        assert_eq!(read(&wide, None).unwrap().to_i64().unwrap(), [7]);
    }

    #[test]
    fn pairs_of_4_bits_are_taken_apart() {
        let typed = TensorProto { int32_data: vec![0x9f, 0x07], ..proto(22, &[3]) };
        let tensor = read(&typed, None).unwrap();
        assert_eq!((tensor.to_i64().unwrap(), tensor.bytes()), (vec![-1, -7, 7], &[0xff, 0xf9, 7][..]));
        let raw = TensorProto { raw_data: vec![0x9f, 0x07].into(), ..proto(21, &[3]) };
        assert_eq!(read(&raw, None).unwrap().to_i64().unwrap(), [15, 9, 7]);
        let short = TensorProto { raw_data: vec![0x9f].into(), ..proto(21, &[3]) };
        assert!(read(&short, None).unwrap_err().to_string().contains("2 bytes, but there are 1"));
    }

    #[test]
    fn floats_of_8_bits_are_bytes() {
        let typed = TensorProto { int32_data: vec![0x7e, 0xb8], ..proto(17, &[2]) };
        assert_eq!(read(&typed, None).unwrap().to_f64(), [448.0, -1.0]);
        let raw = TensorProto { raw_data: vec![0x7c].into(), ..proto(19, &[]) };
        assert_eq!(read(&raw, None).unwrap().to_f64(), [f64::INFINITY]);
    }

    #[test]
    fn wrong_tensors_are_errors() {
        for (tensor, part) in [
            (proto(1, &[2]), "8 bytes, but there are 0"),
            (proto(8, &[1]), "STRING"),
            (proto(24, &[1]), "FLOAT8E8M0"),
            (proto(26, &[1]), "INT2"),
            (proto(1, &[-1]), "negative"),
            (proto(1, &[i64::MAX, i64::MAX]), "large"),
            (TensorProto { data_location: 1, ..proto(1, &[1]) }, "no location"),
        ] {
            let error = read(&tensor, None).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("'t'"), "{error}");
        }
    }

    #[test]
    fn external_data() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("w.bin"), [0, 0, 0, 0, 0, 0, 128, 63]).unwrap();
        let entry = |key: &str, value: &str| StringStringEntryProto { key: key.into(), value: value.into() };
        let tensor = |location: &str, offset: &str| TensorProto {
            data_location: 1,
            external_data: vec![entry("location", location), entry("offset", offset), entry("length", "4")],
            ..proto(1, &[1])
        };
        assert_eq!(read(&tensor("w.bin", "4"), Some(&Folder::new(folder.path()))).unwrap().to_f64(), [1.0]);
        for (location, offset, part) in [
            ("w.bin", "6", "2 there"),
            ("../w.bin", "4", "outside"),
            ("/etc/passwd", "0", "outside"),
            ("no.bin", "0", "no.bin"),
        ] {
            let error = read(&tensor(location, offset), Some(&Folder::new(folder.path()))).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
