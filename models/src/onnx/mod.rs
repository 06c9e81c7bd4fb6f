//! Reading of ONNX files: protobuf messages and tensors.

mod folder;
pub mod proto;
pub mod tensor;

use crate::ImportError;
use bytes::Bytes;
pub use folder::Folder;
use prost::Message;
use proto::ModelProto;
pub use tensor::data_type_name;

/// Decodes a model and tells apart: not ONNX at all, cut off, and damaged inside.
///
/// # Errors
/// [`ImportError::NotOnnx`], [`ImportError::Truncated`], [`ImportError::Malformed`].
pub fn decode(bytes: &[u8]) -> Result<ModelProto, ImportError> {
    decode_shared(Bytes::copy_from_slice(bytes))
}

/// As [`decode`]; raw tensors are parts of `bytes`, which they keep in memory.
///
/// # Errors
/// As there.
pub fn decode_shared(bytes: Bytes) -> Result<ModelProto, ImportError> {
    scan(&bytes)?;
    let model = ModelProto::decode(bytes).map_err(|error| ImportError::Malformed { reason: error.to_string() })?;
    if model.graph.is_none() {
        return Err(ImportError::NotOnnx { reason: "it holds no graph".into() });
    }
    if model.opset_import.is_empty() {
        return Err(ImportError::NotOnnx { reason: "it names no operator set (the end may be missing)".into() });
    }
    Ok(model)
}

/// Walks over the outermost fields. Protobuf has no magic number; but every field of `ModelProto` has a known wire
/// type, so a foreign file fails at once, and a file that is cut off fails in the middle of a known field.
fn scan(bytes: &[u8]) -> Result<(), ImportError> {
    let foreign = |reason: &str| Err(ImportError::NotOnnx { reason: reason.into() });
    if bytes.is_empty() {
        return foreign("it is empty");
    }
    let mut rest = bytes;
    while !rest.is_empty() {
        let offset = bytes.len() - rest.len();
        let truncated = || ImportError::Truncated { offset, length: bytes.len() };
        let Some(tag) = varint(&mut rest)? else { return Err(truncated()) };
        let (field, wire) = (tag >> 3, tag & 7);
        let expected = match field {
            1 | 5 => 0,
            2 | 3 | 4 | 6 | 7 | 8 | 14 | 20 | 25 | 26 => 2,
            // A field from a later version of the format, as long as it can be skipped.
            27..=1000 if matches!(wire, 0 | 1 | 2 | 5) => wire,
            _ => return foreign("it is no protobuf message of an ONNX model"),
        };
        if wire != expected {
            return foreign("it is no protobuf message of an ONNX model");
        }
        let skip = match wire {
            0 => match varint(&mut rest)? {
                Some(_) => 0,
                None => return Err(truncated()),
            },
            1 => 8,
            5 => 4,
            _ => match varint(&mut rest)? {
                Some(length) => length,
                None => return Err(truncated()),
            },
        };
        let skip = usize::try_from(skip).ok().filter(|&skip| skip <= rest.len()).ok_or_else(truncated)?;
        rest = &rest[skip..];
    }
    Ok(())
}

/// A base-128 number; `None` where the bytes end inside it.
fn varint(rest: &mut &[u8]) -> Result<Option<u64>, ImportError> {
    let mut value = 0_u64;
    for (index, &byte) in rest.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * index).min(63);
        if byte < 0x80 {
            *rest = &rest[index + 1..];
            return Ok(Some(value));
        }
    }
    if rest.len() >= 10 {
        return Err(ImportError::NotOnnx { reason: "it is no protobuf message".into() });
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::{GraphProto, OperatorSetIdProto};

    fn model() -> Vec<u8> {
        ModelProto {
            ir_version: 8,
            producer_name: "test".into(),
            graph: Some(GraphProto { name: "g".into(), ..Default::default() }),
            opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 13 }],
            functions: vec![],
        }
        .encode_to_vec()
    }

    #[test]
    fn raw_tensors_are_not_copied() {
        let raw = proto::TensorProto { raw_data: vec![7; 1000].into(), ..Default::default() };
        let graph = GraphProto { name: "g".into(), initializer: vec![raw], ..Default::default() };
        let model = ModelProto { graph: Some(graph), ..ModelProto::decode(&model()[..]).unwrap() };
        let bytes = Bytes::from(model.encode_to_vec());
        let model = decode_shared(bytes.clone()).unwrap();
        let raw = &model.graph.unwrap().initializer[0].raw_data;
        assert!(raw.len() == 1000 && bytes.as_ptr_range().contains(&raw.as_ptr()));
    }

    #[test]
    fn every_truncation_is_an_error() {
        let bytes = model();
        assert!(decode(&bytes).is_ok());
        for length in 0..bytes.len() {
            let error = decode(&bytes[..length]).unwrap_err();
            assert!(
                matches!(error, ImportError::Truncated { .. } | ImportError::NotOnnx { .. }),
                "{length} bytes: {error}"
            );
        }
        assert!(matches!(decode(&bytes[..4]), Err(ImportError::Truncated { .. })));
    }

    #[test]
    fn foreign_files_are_named_as_such() {
        for bytes in
            [&b""[..], b"hello world", b"\x89PNG\r\n\x1a\n", b"version https://git-lfs.github.com/spec/v1", &[0xff; 64]]
        {
            assert!(matches!(decode(bytes), Err(ImportError::NotOnnx { .. })), "{bytes:?}");
        }
    }

    #[test]
    fn deep_nesting_is_an_error_and_no_stack_overflow() {
        // Field 7 (graph) ⊃ field 1 (node) ⊃ field 5 (attribute) ⊃ field 6 (graph) ⊃ …, 3000 levels.
        let mut bytes = Vec::new();
        for level in 0..3000 {
            let tag: u8 = [0x32, 0x2a, 0x0a][level % 3];
            let mut outer = vec![tag];
            prost::encoding::encode_varint(bytes.len() as u64, &mut outer);
            outer.append(&mut bytes);
            bytes = outer;
        }
        let mut model = vec![0x08, 8, 0x3a];
        prost::encoding::encode_varint(bytes.len() as u64, &mut model);
        model.append(&mut bytes);
        assert!(matches!(decode(&model), Err(ImportError::Malformed { .. })));
    }
}
