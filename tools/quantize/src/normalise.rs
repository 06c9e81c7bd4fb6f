//! Brings a model into the form that quantising works on: constants are initializers that nothing overrides, each product
//! has weights of its own, and nodes have names.

use crate::{
    Error, Model,
    model::{Index, tensor_proto},
    nodes,
};
use floe_models::{
    DType, Tensor,
    onnx::proto::{AttributeType, NodeProto, TensorProto},
};
use std::collections::{HashMap, HashSet};

/// Least version of the file format for opset 13 and for initializers that are no inputs.
const IR_VERSION: i64 = 8;

/// Does all of it.
///
/// # Errors
/// Where a constant cannot be read.
pub fn run(model: &mut Model) -> Result<(), Error> {
    if model.graph().node.iter().any(|node| nodes::is(node, "QuantizeLinear")) {
        return Err(Error::Refused(
            "the model is quantised already (it has QuantizeLinear nodes); give the float model".into(),
        ));
    }
    model.proto.ir_version = model.proto.ir_version.max(IR_VERSION);
    name_nodes(model);
    constants(model);
    let index = model.index();
    // An initializer that is an input too could be overridden; nothing that is folded into it would then hold.
    model.graph_mut().input.retain(|input| !index.initializers.contains_key(&input.name));
    identities(model);
    moved_constants(model)?;
    own_weights(model);
    remove_unused(model);
    Ok(())
}

/// Names for nodes that have none, which reports and `--keep` speak of.
fn name_nodes(model: &mut Model) {
    let mut taken: HashSet<String> = model.graph().node.iter().map(|node| node.name.clone()).collect();
    for node in &mut model.graph_mut().node {
        if node.name.is_empty() {
            let name = unused(&mut taken, nodes::name(node));
            node.name = name;
        }
    }
}

/// A name like this one that is not taken yet; it is afterwards.
pub fn unused(taken: &mut HashSet<String>, like: &str) -> String {
    let mut name = like.to_owned();
    let mut number = 1;
    while !taken.insert(name.clone()) {
        name = format!("{like}_{number}");
        number += 1;
    }
    name
}

/// Names of all values of the graph and of its subgraphs' readers.
pub fn names(model: &Model) -> HashSet<String> {
    let graph = model.graph();
    let index = model.index();
    let values = graph.node.iter().flat_map(|node| node.output.iter().chain(&node.input));
    let others = graph.initializer.iter().map(|initializer| &initializer.name);
    let inputs = graph.input.iter().map(|input| &input.name);
    values.chain(others).chain(inputs).chain(&index.captured).cloned().collect()
}

/// `Constant` nodes become initializers.
fn constants(model: &mut Model) {
    let graph = model.graph_mut();
    let mut made = Vec::new();
    graph.node.retain(|node| {
        let found = nodes::is(node, "Constant").then(|| value(node)).flatten();
        let kept = found.is_none();
        made.extend(found);
        kept
    });
    graph.initializer.extend(made);
}

fn value(node: &NodeProto) -> Option<TensorProto> {
    let [attribute] = node.attribute.as_slice() else { return None };
    let output = node.output.first()?;
    let tensor = match AttributeType::try_from(attribute.r#type).ok()? {
        AttributeType::Tensor => TensorProto { name: output.clone(), ..attribute.t.clone()? },
        AttributeType::Float => tensor_proto(output, &Tensor::f32(&[], &[attribute.f])),
        AttributeType::Int => tensor_proto(output, &Tensor::i64(&[], &[attribute.i])),
        AttributeType::Floats => tensor_proto(output, &Tensor::f32(&[attribute.floats.len()], &attribute.floats)),
        AttributeType::Ints => tensor_proto(output, &Tensor::i64(&[attribute.ints.len()], &attribute.ints)),
        _ => return None,
    };
    Some(tensor)
}

/// Readers of an `Identity` or of a `Dropout` at rest read what it copies, where that changes no name that is seen.
fn identities(model: &mut Model) {
    let index = model.index();
    let mut renamed: HashMap<String, String> = HashMap::new();
    model.graph_mut().node.retain(|node| {
        let copies = nodes::is(node, "Identity")
            || (nodes::is(node, "Dropout")
                && node.input.len() == 1
                && node.output.iter().skip(1).all(String::is_empty));
        let seen = node.output.iter().any(|name| index.outputs.contains(name) || index.captured.contains(name));
        let (true, false, Some(input), Some(output)) = (copies, seen, node.input.first(), node.output.first()) else {
            return true;
        };
        let source = renamed.get(input).unwrap_or(input).clone();
        renamed.insert(output.clone(), source);
        false
    });
    for input in model.graph_mut().node.iter_mut().flat_map(|node| &mut node.input) {
        if let Some(source) = renamed.get(input) {
            input.clone_from(source);
        }
    }
}

/// Constants that are only reshaped or turned become constants themselves.
fn moved_constants(model: &mut Model) -> Result<(), Error> {
    loop {
        let index = model.index();
        let mut folded = Vec::new();
        for (number, node) in model.graph().node.iter().enumerate() {
            let Some(input) = node.input.first().filter(|name| index.initializers.contains_key(*name)) else {
                continue;
            };
            let moves = ["Unsqueeze", "Squeeze", "Reshape", "Transpose", "Flatten"];
            if !moves.iter().any(|operator| nodes::is(node, operator)) || index.outputs.contains(&node.output[0]) {
                continue;
            }
            let Some(tensor) = model.constant(&index, input)? else { continue };
            let second = node.input.get(1).map(|name| model.constant(&index, name)).transpose()?;
            // A second input that is no constant: not now.
            let second = match second {
                Some(None) => continue,
                Some(Some(second)) => second.to_i64(),
                None => None,
            };
            if let Some(moved) = moved(node, &tensor, second.as_deref()) {
                folded.push((number, tensor_proto(&node.output[0], &moved)));
            }
        }
        if folded.is_empty() {
            return Ok(());
        }
        let mut gone = folded.iter().map(|(number, _)| *number).collect::<HashSet<_>>();
        let mut number = 0;
        let graph = model.graph_mut();
        graph.node.retain(|_| {
            number += 1;
            !gone.remove(&(number - 1))
        });
        graph.initializer.extend(folded.into_iter().map(|(_, tensor)| tensor));
    }
}

fn moved(node: &NodeProto, tensor: &Tensor, second: Option<&[i64]>) -> Option<Tensor> {
    let rank = tensor.shape.len();
    let at = |axis: i64, rank: usize| usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }).ok();
    let reshaped =
        |shape: Vec<usize>| (shape.iter().product::<usize>() == tensor.elements()).then(|| tensor.reshaped(shape));
    match node.op_type.as_str() {
        "Unsqueeze" => {
            let axes = second.or_else(|| nodes::ints(node, "axes"))?;
            let whole = rank + axes.len();
            let axes = axes.iter().map(|&axis| at(axis, whole)).collect::<Option<HashSet<_>>>()?;
            let mut extents = tensor.shape.iter();
            let shape = (0..whole).map(|d| if axes.contains(&d) { Some(1) } else { extents.next().copied() });
            reshaped(shape.collect::<Option<_>>()?)
        }
        "Squeeze" => {
            let axes = second.or_else(|| nodes::ints(node, "axes"))?;
            let axes = axes.iter().map(|&axis| at(axis, rank)).collect::<Option<HashSet<_>>>()?;
            reshaped((0..rank).filter(|d| !axes.contains(d)).map(|d| tensor.shape[d]).collect())
        }
        "Reshape" => {
            let wanted = second?;
            let keep = |(d, &extent): (usize, &i64)| match extent {
                0 if nodes::int(node, "allowzero", 0) == 0 => tensor.shape.get(d).copied(),
                -1 => Some(0),
                extent => usize::try_from(extent).ok(),
            };
            let mut shape = wanted.iter().enumerate().map(keep).collect::<Option<Vec<_>>>()?;
            if let Some(open) = wanted.iter().position(|&extent| extent == -1) {
                shape[open] = 1;
                shape[open] = tensor.elements().checked_div(shape.iter().product())?;
            }
            reshaped(shape)
        }
        "Flatten" => {
            let axis = at(nodes::int(node, "axis", 1), rank).filter(|&axis| axis <= rank)?;
            reshaped(vec![tensor.shape[..axis].iter().product(), tensor.shape[axis..].iter().product()])
        }
        "Transpose" => {
            let permutation = match nodes::ints(node, "perm") {
                Some(given) => given.iter().map(|&axis| at(axis, rank)).collect::<Option<Vec<_>>>()?,
                None => (0..rank).rev().collect(),
            };
            if permutation.len() != rank || permutation.iter().any(|&axis| axis >= rank) {
                return None;
            }
            Some(turned(tensor, &permutation))
        }
        _ => None,
    }
}

/// A tensor with its dimensions in another order.
pub fn turned(tensor: &Tensor, permutation: &[usize]) -> Tensor {
    let shape: Vec<usize> = permutation.iter().map(|&axis| tensor.shape[axis]).collect();
    let mut strides = vec![1; tensor.shape.len()];
    for d in (0..strides.len().saturating_sub(1)).rev() {
        strides[d] = strides[d + 1] * tensor.shape[d + 1];
    }
    let size = tensor.dtype.size();
    let mut bytes = Vec::with_capacity(tensor.bytes().len());
    let mut index = vec![0; shape.len()];
    for _ in 0..tensor.elements() {
        let from: usize = index.iter().zip(permutation).map(|(i, &axis)| i * strides[axis]).sum();
        bytes.extend_from_slice(&tensor.bytes()[from * size..][..size]);
        for d in (0..shape.len()).rev() {
            index[d] += 1;
            if index[d] < shape[d] {
                break;
            }
            index[d] = 0;
        }
    }
    Tensor::new(tensor.dtype, shape, bytes)
}

/// Weights that several nodes read become one constant for each product that reads them.
fn own_weights(model: &mut Model) {
    let index = model.index();
    let mut taken = names(model);
    let mut copies = Vec::new();
    for number in 0..model.graph().node.len() {
        let node = &model.graph().node[number];
        if !["Conv", "Gemm", "MatMul", "BatchNormalization"].iter().any(|operator| nodes::is(node, operator)) {
            continue;
        }
        for position in 1..node.input.len() {
            let name = model.graph().node[number].input[position].clone();
            let shared =
                index.readers(&name).len() > 1 || index.captured.contains(&name) || index.outputs.contains(&name);
            let Some(&constant) = index.initializers.get(&name).filter(|_| shared) else { continue };
            let copy = unused(&mut taken, &format!("{name}/{}", nodes::name(&model.graph().node[number])));
            copies.push(TensorProto { name: copy.clone(), ..model.graph().initializer[constant].clone() });
            model.graph_mut().node[number].input[position] = copy;
        }
    }
    model.graph_mut().initializer.extend(copies);
}

/// Drops constants that nothing reads any more.
pub fn remove_unused(model: &mut Model) {
    let Index { readers, outputs, captured, .. } = model.index();
    model.graph_mut().initializer.retain(|initializer| {
        let name = &initializer.name;
        readers.contains_key(name) || outputs.contains(name) || captured.contains(name)
    });
}

/// Elements of a float constant, whatever its width.
pub fn floats(tensor: &Tensor) -> Option<Vec<f32>> {
    tensor.dtype.is_float().then(|| match tensor.dtype {
        DType::F32 => tensor.to_vec::<f32>().unwrap_or_default(),
        _ => tensor.to_f64().into_iter().map(|value| value as f32).collect(),
    })
}
