//! The messages of `onnx.proto` that matter to inference, field numbers as in the ONNX specification.
//!
//! Written by hand for `prost`, so that building Floe needs no protobuf compiler. Unknown fields are skipped.

use bytes::Bytes;
use prost::Message;

/// `ModelProto`: the whole file.
#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
    /// Version of the file format.
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    /// Name of the tool that wrote the file.
    #[prost(string, tag = "2")]
    pub producer_name: String,
    /// The network.
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    /// Operator sets in use.
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// Operators defined by the model itself.
    #[prost(message, repeated, tag = "25")]
    pub functions: Vec<FunctionProto>,
}

/// `OperatorSetIdProto`: a domain and its version.
#[derive(Clone, PartialEq, Message)]
pub struct OperatorSetIdProto {
    /// Empty for `ai.onnx`.
    #[prost(string, tag = "1")]
    pub domain: String,
    /// Version.
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// `FunctionProto`: an operator defined by other operators.
#[derive(Clone, PartialEq, Message)]
pub struct FunctionProto {
    /// Operator type.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Names of the inputs inside.
    #[prost(string, repeated, tag = "4")]
    pub input: Vec<String>,
    /// Names of the outputs inside.
    #[prost(string, repeated, tag = "5")]
    pub output: Vec<String>,
    /// Attributes without a default.
    #[prost(string, repeated, tag = "6")]
    pub attribute: Vec<String>,
    /// Nodes.
    #[prost(message, repeated, tag = "7")]
    pub node: Vec<NodeProto>,
    /// Operator sets that the nodes use.
    #[prost(message, repeated, tag = "9")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// Domain.
    #[prost(string, tag = "10")]
    pub domain: String,
    /// Attributes with a default.
    #[prost(message, repeated, tag = "11")]
    pub attribute_proto: Vec<AttributeProto>,
    /// Tells functions of the same name apart.
    #[prost(string, tag = "13")]
    pub overload: String,
}

/// `GraphProto`: nodes over named values.
#[derive(Clone, PartialEq, Message)]
pub struct GraphProto {
    /// Nodes in topological order.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    /// Name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Constants.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    /// Inputs; before IR version 4 the initializers too.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    /// Outputs.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
    /// Sparse constants.
    #[prost(message, repeated, tag = "15")]
    pub sparse_initializer: Vec<SparseTensorProto>,
}

/// `NodeProto`: one operator.
#[derive(Clone, PartialEq, Message)]
pub struct NodeProto {
    /// Names of the inputs; empty where an optional one is absent.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// Names of the outputs; empty where one is not wanted.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// Name, may be empty.
    #[prost(string, tag = "3")]
    pub name: String,
    /// Operator type.
    #[prost(string, tag = "4")]
    pub op_type: String,
    /// Attributes.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    /// Domain of the operator; empty for `ai.onnx`.
    #[prost(string, tag = "7")]
    pub domain: String,
    /// Tells functions of the same name apart.
    #[prost(string, tag = "8")]
    pub overload: String,
}

/// `AttributeProto`: a named attribute of one of many types.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeProto {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// A number.
    #[prost(float, tag = "2")]
    pub f: f32,
    /// An integer.
    #[prost(int64, tag = "3")]
    pub i: i64,
    /// A string.
    #[prost(bytes = "vec", tag = "4")]
    pub s: Vec<u8>,
    /// A tensor.
    #[prost(message, optional, tag = "5")]
    pub t: Option<TensorProto>,
    /// A graph.
    #[prost(message, optional, tag = "6")]
    pub g: Option<GraphProto>,
    /// Numbers.
    #[prost(float, repeated, tag = "7")]
    pub floats: Vec<f32>,
    /// Integers.
    #[prost(int64, repeated, tag = "8")]
    pub ints: Vec<i64>,
    /// Strings.
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub strings: Vec<Vec<u8>>,
    /// Which of the fields holds the value: an [`AttributeType`].
    #[prost(enumeration = "AttributeType", tag = "20")]
    pub r#type: i32,
    /// Inside a function: the attribute of the calling node that gives the value.
    #[prost(string, tag = "21")]
    pub ref_attr_name: String,
    /// A sparse tensor.
    #[prost(message, optional, tag = "22")]
    pub sparse_tensor: Option<SparseTensorProto>,
}

/// `AttributeProto.AttributeType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum AttributeType {
    Undefined = 0,
    Float = 1,
    Int = 2,
    String = 3,
    Tensor = 4,
    Graph = 5,
    Floats = 6,
    Ints = 7,
    Strings = 8,
    Tensors = 9,
    Graphs = 10,
    SparseTensor = 11,
    SparseTensors = 12,
    TypeProto = 13,
    TypeProtos = 14,
}

/// `TensorProto`: a constant tensor.
#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    /// Extents.
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    /// `TensorProto.DataType`.
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    /// Elements of FLOAT.
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    /// Elements of INT32 and all narrower types; bits of FLOAT16 and BFLOAT16.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    /// Elements of STRING.
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub string_data: Vec<Vec<u8>>,
    /// Elements of INT64.
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    /// Name.
    #[prost(string, tag = "8")]
    pub name: String,
    /// Little-endian elements of any type.
    #[prost(bytes = "bytes", tag = "9")]
    pub raw_data: Bytes,
    /// Elements of DOUBLE.
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    /// Elements of UINT32 and UINT64.
    #[prost(uint64, repeated, tag = "11")]
    pub uint64_data: Vec<u64>,
    /// Keys `location`, `offset`, `length`, `checksum`.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    /// 1 where the elements are in another file.
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}

/// `SparseTensorProto`, recognised in order to be refused.
#[derive(Clone, PartialEq, Message)]
pub struct SparseTensorProto {
    /// The elements that are not zero; carries the name.
    #[prost(message, optional, tag = "1")]
    pub values: Option<TensorProto>,
}

/// `StringStringEntryProto`: a key and a value.
#[derive(Clone, PartialEq, Message)]
pub struct StringStringEntryProto {
    /// Key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// `ValueInfoProto`: name and type of an input or output.
#[derive(Clone, PartialEq, Message)]
pub struct ValueInfoProto {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Type.
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
}

/// `TypeProto`; only tensors are read, the other kinds leave `tensor_type` empty.
#[derive(Clone, PartialEq, Message)]
pub struct TypeProto {
    /// A dense tensor.
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorTypeProto>,
}

/// `TypeProto.Tensor`.
#[derive(Clone, PartialEq, Message)]
pub struct TensorTypeProto {
    /// `TensorProto.DataType`.
    #[prost(int32, tag = "1")]
    pub elem_type: i32,
    /// Extents; absent where even the rank is unknown.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
}

/// `TensorShapeProto`.
#[derive(Clone, PartialEq, Message)]
pub struct TensorShapeProto {
    /// Dimensions.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<DimensionProto>,
}

/// `TensorShapeProto.Dimension`.
#[derive(Clone, PartialEq, Message)]
pub struct DimensionProto {
    /// A number or a symbol; absent where unknown.
    #[prost(oneof = "DimensionValue", tags = "1, 2")]
    pub value: Option<DimensionValue>,
}

/// The value of a dimension.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum DimensionValue {
    /// A number.
    #[prost(int64, tag = "1")]
    Value(i64),
    /// A symbol.
    #[prost(string, tag = "2")]
    Param(String),
}
