//! The inputs of the graph: declared shapes, given shapes, inputs taken as constants.

use super::{
    ImportOptions, Limits,
    builder::{Builder, scalar},
};
use crate::{
    Fact, ImportError, Problem, Tensor,
    infer::{check_fact, show},
    onnx::{
        proto::{DimensionValue, TensorProto, ValueInfoProto},
        tensor::{data_type, data_type_name},
    },
};
use std::collections::HashSet;

/// A declared extent.
enum Extent {
    Fixed(usize),
    Open(String),
}

/// Adds the inputs that are no initializers.
pub(super) fn add(
    builder: &mut Builder,
    declared: &[ValueInfoProto],
    initializers: &[TensorProto],
    options: &ImportOptions,
) -> Result<(), ImportError> {
    let initialized: HashSet<_> = initializers.iter().map(|initializer| initializer.name.as_str()).collect();
    let inputs: Vec<_> = declared.iter().filter(|input| !initialized.contains(input.name.as_str())).collect();
    let unknown = |name: &str| {
        let list: Vec<_> = inputs.iter().map(|input| format!("'{}' {}", input.name, declared_shape(input))).collect();
        let inputs = if list.is_empty() { "none".into() } else { list.join(", ") };
        ImportError::UnknownInput { input: name.to_string(), inputs }
    };
    for name in options.shapes.iter().map(|(name, _)| name).chain(options.numbers.iter().map(|(name, _)| name)) {
        if !inputs.iter().any(|input| input.name == *name) {
            return Err(unknown(name));
        }
    }
    for (name, tensor) in &options.constants {
        if !declared.iter().any(|input| input.name == *name) {
            return Err(unknown(name));
        }
        let id = builder.constant(tensor.clone());
        builder.bind(name, id);
    }
    let mut names = HashSet::new();
    for input in &inputs {
        let reason = match super::name_problem(&input.name) {
            None if names.insert(input.name.as_str()) => continue,
            None => "another input has the same name",
            Some(problem) => problem,
        };
        return Err(ImportError::Input { input: input.name.clone(), reason: reason.into() });
    }
    for input in inputs.into_iter().filter(|input| !options.constants.iter().any(|(name, _)| *name == input.name)) {
        let given = options.shapes.iter().find(|(name, _)| *name == input.name).map(|(_, shape)| shape.as_slice());
        let fact = fact(input, given, &options.limits)?;
        if let Some(&(_, number)) = options.numbers.iter().find(|(name, _)| *name == input.name) {
            let element = scalar(fact.dtype, number).ok_or_else(|| ImportError::Input {
                input: input.name.clone(),
                reason: format!("{number} is no {:?}", fact.dtype),
            })?;
            let error =
                |problem: Problem| ImportError::Input { input: input.name.clone(), reason: problem.to_string() };
            builder.budget.reserve(&fact).map_err(error)?;
            let bytes = element.bytes().repeat(fact.elements());
            let id = builder.constant(Tensor::new(fact.dtype, fact.shape, bytes));
            builder.bind(&input.name, id);
            continue;
        }
        let id = builder.graph.add_value(input.name.clone(), fact);
        builder.bind(&input.name, id);
        builder.graph.inputs.push(id);
    }
    Ok(())
}

fn fact(input: &ValueInfoProto, given: Option<&[usize]>, limits: &Limits) -> Result<Fact, ImportError> {
    let error = |reason: String| ImportError::Input { input: input.name.clone(), reason };
    let tensor = input.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref());
    let tensor = tensor.ok_or_else(|| error("it is no dense tensor, which is not supported".into()))?;
    let dtype = data_type(tensor.elem_type)
        .ok_or_else(|| error(format!("element type {} is not supported", data_type_name(tensor.elem_type.into()))))?;
    let extents = extents(input);
    let shape = match (given, &extents) {
        (Some(given), None) => given.to_vec(),
        (Some(given), Some(extents)) => {
            let fits = given.len() == extents.len()
                && given.iter().zip(extents).all(|(&given, extent)| match extent {
                    Extent::Fixed(fixed) => given == *fixed,
                    Extent::Open(_) => true,
                });
            if !fits {
                let (given, declared) = (show(given), declared_shape(input));
                return Err(ImportError::ShapeMismatch { input: input.name.clone(), given, declared });
            }
            given.to_vec()
        }
        (None, extents) => {
            let fixed = |extent: &Extent| match extent {
                Extent::Fixed(fixed) => Some(*fixed),
                Extent::Open(_) => None,
            };
            let shape = extents.as_ref().and_then(|extents| extents.iter().map(fixed).collect::<Option<Vec<_>>>());
            shape.ok_or_else(|| ImportError::ShapeMissing {
                input: input.name.clone(),
                declared: declared_shape(input),
                example: example(extents.as_deref().unwrap_or(&[])),
            })?
        }
    };
    let fact = Fact::new(dtype, &shape);
    check_fact(&fact).map_err(|shape| error(shape.to_string()))?;
    limits.check(&fact).map_err(|problem| error(problem.to_string()))?;
    Ok(fact)
}

/// Declared extents; `None` where even the rank is unknown. Exporters write −1 and 0 for unknown extents too.
fn extents(input: &ValueInfoProto) -> Option<Vec<Extent>> {
    let shape = input.r#type.as_ref()?.tensor_type.as_ref()?.shape.as_ref()?;
    let extents = shape.dim.iter().map(|dim| match &dim.value {
        Some(DimensionValue::Value(value)) => match usize::try_from(*value) {
            Ok(extent) if extent > 0 => Extent::Fixed(extent),
            _ => Extent::Open("?".into()),
        },
        Some(DimensionValue::Param(symbol)) if !symbol.is_empty() => Extent::Open(symbol.clone()),
        _ => Extent::Open("?".into()),
    });
    Some(extents.collect())
}

/// A declared shape as messages show it: `[batch, 3, ?, ?]`.
fn declared_shape(input: &ValueInfoProto) -> String {
    let Some(extents) = extents(input) else { return "of unknown rank".into() };
    let extents = extents.into_iter().map(|extent| match extent {
        Extent::Fixed(fixed) => fixed.to_string(),
        Extent::Open(symbol) => symbol,
    });
    format!("[{}]", extents.collect::<Vec<_>>().join(", "))
}

/// A plausible shape for `--shape`: a batch of 1, images of 224².
fn example(extents: &[Extent]) -> String {
    if extents.is_empty() {
        return "1x3x224x224".into();
    }
    let plausible = extents.iter().enumerate().map(|(d, extent)| match extent {
        Extent::Fixed(fixed) => *fixed,
        Extent::Open(_) if d == 0 => 1,
        Extent::Open(_) if d == 1 && extents.len() == 4 => 3,
        Extent::Open(_) => 224,
    });
    show(&plausible.collect::<Vec<_>>())
}
