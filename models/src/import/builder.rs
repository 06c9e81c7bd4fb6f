//! The graph under construction: scopes of names, emission of nodes with inferred shapes, constant folding.

use super::{
    extents::{Computed, Extent},
    function::Functions,
    limits::{Budget, Limits},
    refused::Refused,
};
use crate::{
    DType, Evaluate, Fact, Graph, ImportError, Node, Op, Problem, Quantized, Tensor, TensorId, custom::Operators,
    infer::infer, onnx::Folder, op::Binary,
};
use std::{collections::HashMap, rc::Rc};

/// Operators on constants are folded up to this many elements.
const MOST_FOLDED: usize = 1 << 24;
/// Operators that only repeat floating-point elements are folded up to this many: beyond it they would swell the plan.
const MOST_REPEATED: usize = 1 << 16;

/// A graph under construction.
pub(super) struct Builder<'a> {
    /// What has been built.
    pub graph: Graph,
    /// Version of the default operator set.
    pub opset: i64,
    /// Folder of external data.
    pub folder: Option<&'a Folder>,
    /// Operators that the model defines.
    pub functions: Rc<Functions>,
    /// Versions of the other operator sets, by domain.
    pub other_sets: Rc<HashMap<String, i64>>,
    /// Operators that are described outside of Floe.
    pub operators: Operators,
    /// What is not supported.
    pub refused: Refused,
    /// How many functions are being imported inside each other.
    pub calls: usize,
    /// What may still be taken.
    pub budget: Budget,
    evaluate: &'a dyn Evaluate,
    /// Values by name, innermost scope last.
    scopes: Vec<HashMap<String, TensorId>>,
    /// Sequences of tensors, by the value that stands for each; no node makes or reads such a value.
    pub(super) sequences: HashMap<TensorId, Vec<TensorId>>,
    /// Integers that are computed from extents that depend on data, by the value that holds them; no constants.
    pub(super) integers: HashMap<TensorId, Vec<Extent>>,
    /// Numbers of elements, by how they come about.
    pub(super) computed: HashMap<Computed, TensorId>,
    /// Outputs that a node lists but Floe does not make, with the reason.
    pub(super) missing: HashMap<String, String>,
    /// Name of the model's node that is being imported.
    pub(super) current: String,
    /// Names of nodes, and how often each was wanted.
    names: HashMap<String, usize>,
}

impl<'a> Builder<'a> {
    pub fn new(opset: i64, folder: Option<&'a Folder>, evaluate: &'a dyn Evaluate, limits: Limits) -> Self {
        Self {
            graph: Graph::default(),
            opset,
            folder,
            functions: Rc::default(),
            other_sets: Rc::default(),
            operators: Operators::default(),
            refused: Refused::default(),
            calls: 0,
            budget: Budget::new(limits),
            evaluate,
            scopes: vec![HashMap::new()],
            sequences: HashMap::new(),
            integers: HashMap::new(),
            computed: HashMap::new(),
            missing: HashMap::new(),
            current: String::new(),
            names: HashMap::new(),
        }
    }

    /// Gives a name to a value in the innermost scope.
    pub fn bind(&mut self, name: &str, id: TensorId) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_string(), id);
        }
        let value = &mut self.graph.values[id.0];
        if value.name.is_empty() {
            value.name = short(name).to_string();
        }
    }

    /// Names of the model's inputs that a value is computed from: those of one element, or all where there is none.
    pub fn inputs_behind(&self, id: TensorId) -> Vec<String> {
        let mut behind = vec![false; self.graph.values.len()];
        behind[id.0] = true;
        for node in self.graph.nodes.iter().rev().filter(|node| !node.inputs.is_empty()) {
            if node.outputs.iter().any(|output| behind[output.0]) {
                node.inputs.iter().for_each(|input| behind[input.0] = true);
            }
        }
        let all: Vec<&TensorId> = self.graph.inputs.iter().filter(|input| behind[input.0]).collect();
        let single: Vec<&TensorId> = all.iter().copied().filter(|input| self.fact(**input).elements() == 1).collect();
        let told = if single.is_empty() { all } else { single };
        told.iter().map(|input| self.graph.value(**input).name.clone()).collect()
    }

    /// The value of a name, from the innermost scope that has it.
    pub fn lookup(&self, name: &str) -> Option<TensorId> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).copied()
    }

    /// The value of an output of a graph.
    pub fn output(&self, name: &str) -> Result<TensorId, ImportError> {
        let output = name.to_string();
        self.lookup(name).ok_or_else(|| match self.missing.get(name) {
            Some(reason) => ImportError::OutputUnsupported { output, reason: reason.clone() },
            None => ImportError::OutputMissing { output },
        })
    }

    /// Works inside a new innermost scope.
    pub fn scoped<T>(&mut self, names: HashMap<String, TensorId>, work: impl FnOnce(&mut Self) -> T) -> T {
        let current = self.current.clone();
        self.scopes.push(names);
        let result = work(self);
        self.scopes.pop();
        self.current = current;
        result
    }

    /// Whether the innermost scope has the name.
    pub(super) fn bound_here(&self, name: &str) -> bool {
        self.scopes.last().is_some_and(|scope| scope.contains_key(name))
    }

    pub(super) fn unique(&mut self, name: &str) -> String {
        let mut unique = name.to_string();
        while let Some(number) = self.names.get_mut(&unique) {
            *number += 1;
            unique = format!("{name}_{number}");
        }
        self.names.insert(unique.clone(), 1);
        unique
    }

    /// Type and shape of a value.
    pub fn fact(&self, id: TensorId) -> &Fact {
        self.graph.fact(id)
    }

    /// Extents of a value.
    pub fn shape(&self, id: TensorId) -> &[usize] {
        &self.graph.fact(id).shape
    }

    /// A value that stands for a sequence of tensors.
    pub fn sequence(&mut self, tensors: Vec<TensorId>) -> TensorId {
        let id = self.graph.add_value("", Fact::new(DType::F32, &[0]));
        self.sequences.insert(id, tensors);
        id
    }

    /// The tensors of a value that stands for a sequence.
    pub fn members(&self, id: TensorId) -> Option<&[TensorId]> {
        self.sequences.get(&id).map(Vec::as_slice)
    }

    /// Adds a constant whose extents the model chooses; its elements are made only where it is not too large.
    pub fn generated<T: bytemuck::NoUninit>(
        &mut self,
        dtype: DType,
        shape: &[usize],
        elements: impl FnOnce() -> Vec<T>,
    ) -> Result<TensorId, Problem> {
        self.budget.reserve(&Fact::new(dtype, shape))?;
        Ok(self.constant(Tensor::from_slice(dtype, shape, &elements())))
    }

    /// Consecutive numbers (I64) from `first` on.
    pub fn numbers(&mut self, first: usize, shape: &[usize]) -> Result<TensorId, Problem> {
        self.generated(DType::I64, shape, || {
            let count: usize = shape.iter().product();
            (first as i64..).take(count).collect()
        })
    }

    /// Adds a small constant that the model does not name; [`Self::generated`] is for all others.
    pub fn constant(&mut self, tensor: Tensor) -> TensorId {
        self.graph.add_constant("", tensor)
    }

    /// A scalar of the given type.
    pub fn scalar(&mut self, dtype: DType, value: f64) -> Result<TensorId, Problem> {
        let tensor = scalar(dtype, value).ok_or_else(|| Problem::Invalid(format!("{value} is no {dtype:?}")))?;
        Ok(self.constant(tensor))
    }

    /// Adds a node whose outputs follow from its inputs; gives its only output.
    pub fn emit(&mut self, op: Op, inputs: &[TensorId]) -> Result<TensorId, Problem> {
        self.emit_all(op, inputs, &[]).map(|outputs| outputs[0])
    }

    /// Adds a node with an output that the operator leaves open.
    pub fn emit_as(&mut self, op: Op, inputs: &[TensorId], output: Fact) -> Result<TensorId, Problem> {
        self.emit_all(op, inputs, &[output]).map(|outputs| outputs[0])
    }

    /// Adds a node, or the constants that it evaluates to. `declared` as in [`infer`]. At least one output.
    pub fn emit_all(&mut self, op: Op, inputs: &[TensorId], declared: &[Fact]) -> Result<Vec<TensorId>, Problem> {
        self.budget.count_node()?;
        let mut facts = infer(&op, &inputs.iter().map(|&id| self.fact(id)).collect::<Vec<_>>(), declared)?;
        facts.iter().try_for_each(|fact| self.budget.limits.check(fact))?;
        if let Some(tensors) = self.fold(&op, inputs, &facts) {
            let outputs: Vec<_> = tensors.into_iter().map(|tensor| self.constant(tensor)).collect();
            if let ([input], [output]) = (inputs, outputs.as_slice()) {
                self.graph.values[output.0].quantized = self.moved(&op, *input, *output);
            }
            return Ok(outputs);
        }
        let followed = self.follow(&op, inputs, &facts)?;
        if let Some((_, Some(constant))) = followed {
            return Ok(vec![constant]);
        }
        let (inputs, counted) = self.carry(&op, inputs, &facts)?;
        facts.iter_mut().for_each(|fact| fact.counted = counted);
        // What has no elements is known, and no kernel works on it.
        let empty = facts.iter().all(|fact| fact.elements() == 0);
        let outputs: Vec<_> = facts.into_iter().map(|fact| self.graph.add_value("", fact)).collect();
        if empty {
            for output in &outputs {
                let value = &mut self.graph.values[output.0];
                value.constant = Some(Tensor::new(value.fact.dtype, value.fact.shape.clone(), Vec::new()));
            }
            return Ok(outputs);
        }
        self.integers.extend(followed.map(|(extents, _)| (outputs[0], extents)));
        self.push(op, inputs, outputs.clone());
        Ok(outputs)
    }

    /// Adds a node.
    pub fn push(&mut self, op: Op, inputs: Vec<TensorId>, outputs: Vec<TensorId>) {
        let name = match self.graph.nodes.last() {
            Some(last) if last.sources.last().is_some_and(|source| source.name == self.current) => {
                self.unique(&self.current.clone())
            }
            _ => self.current.clone(),
        };
        let sources = vec![self.current.as_str().into()];
        self.graph.nodes.push(Node { name, op, inputs, outputs, sources });
    }

    fn fold(&self, op: &Op, inputs: &[TensorId], facts: &[Fact]) -> Option<Vec<Tensor>> {
        // What depends on data has a constant only where it has no elements.
        if inputs.iter().any(|&id| self.counted(id).is_some()) {
            return None;
        }
        let constants = inputs.iter().map(|&id| self.graph.constant(id)).collect::<Option<Vec<_>>>()?;
        self.fold_constants(op, &constants, facts)
    }

    fn fold_constants(&self, op: &Op, constants: &[&Tensor], facts: &[Fact]) -> Option<Vec<Tensor>> {
        // Same bytes under another shape need no arithmetic.
        if let (Op::Reshape | Op::Identity, [constant], [fact]) = (op, constants, facts) {
            return Some(vec![constant.reshaped(fact.shape.clone())]);
        }
        let integer = facts.iter().all(|fact| !fact.dtype.is_float());
        let repeats = matches!(op, Op::Expand | Op::Tile { .. });
        let most = if repeats && !integer { MOST_REPEATED } else { MOST_FOLDED };
        if facts.iter().map(Fact::elements).sum::<usize>() > most {
            return None;
        }
        let tensors = self.evaluate.evaluate(op, constants, facts)?;
        let fits = tensors.len() == facts.len()
            && tensors.iter().zip(facts).all(|(tensor, fact)| tensor.dtype == fact.dtype && tensor.shape == fact.shape);
        fits.then_some(tensors)
    }

    /// What a constant was dequantised from that `op` moved from `input` to `output`.
    fn moved(&self, op: &Op, input: TensorId, output: TensorId) -> Option<Quantized> {
        if !matches!(op, Op::Transpose { .. } | Op::Reshape | Op::Identity) {
            return None;
        }
        let Quantized { integers, scale, zero } = self.graph.value(input).quantized.as_ref()?;
        let (from, to) = (self.shape(input), self.shape(output));
        let moved = |tensor: &Tensor, from: &[usize], to: &[usize]| {
            let fact = Fact::new(tensor.dtype, to);
            self.fold_constants(op, &[&tensor.reshaped(from.to_vec())], &[fact])?.pop()
        };
        // Scales and zero points have the constant's extents or 1.
        let parameter = |tensor: &Tensor| {
            if tensor.elements() == 1 {
                return Some(tensor.reshaped(Vec::new()));
            }
            let mut before = vec![1; from.len().checked_sub(tensor.shape.len())?];
            before.extend(&tensor.shape);
            let after = match op {
                Op::Transpose { permutation } => permutation.iter().map(|&d| before[d]).collect(),
                _ => {
                    // Only dimensions of one element may come or go.
                    let wide =
                        |shape: &[usize]| shape.iter().copied().filter(|&extent| extent != 1).collect::<Vec<_>>();
                    let mut kept = from.iter().zip(&before).filter(|&(&extent, _)| extent != 1).map(|(_, &own)| own);
                    let after = to.iter().map(|&extent| if extent == 1 { Some(1) } else { kept.next() });
                    after.collect::<Option<Vec<_>>>().filter(|_| wide(from) == wide(to))?
                }
            };
            moved(tensor, &before, &after)
        };
        let zero = match zero {
            Some(zero) => Some(parameter(zero)?),
            None => None,
        };
        Some(Quantized { integers: moved(integers, from, to)?, scale: parameter(scale)?, zero })
    }

    /// Adds an element-wise operator of one operand.
    pub fn unary(&mut self, op: impl Into<Op>, x: TensorId) -> Result<TensorId, Problem> {
        self.emit(op.into(), &[x])
    }

    /// Adds an element-wise operator of two operands.
    pub fn binary(&mut self, op: Binary, a: TensorId, b: TensorId) -> Result<TensorId, Problem> {
        self.emit(Op::Binary(op), &[a, b])
    }

    /// The same elements under another shape; the value itself where it has that shape.
    pub fn reshape(&mut self, x: TensorId, shape: &[usize]) -> Result<TensorId, Problem> {
        if self.shape(x) == shape {
            return Ok(x);
        }
        let fact = Fact::new(self.fact(x).dtype, shape);
        self.emit_as(Op::Reshape, &[x], fact)
    }

    /// Broadcasts to a shape; the value itself where it has that shape.
    pub fn expand(&mut self, x: TensorId, shape: &[usize]) -> Result<TensorId, Problem> {
        if self.shape(x) == shape {
            return Ok(x);
        }
        let fact = Fact::new(self.fact(x).dtype, shape);
        self.emit_as(Op::Expand, &[x], fact)
    }

    /// Converts the element type; the value itself where it has that type.
    pub fn cast(&mut self, x: TensorId, dtype: DType) -> Result<TensorId, Problem> {
        if self.fact(x).dtype == dtype {
            return Ok(x);
        }
        let fact = Fact::new(dtype, self.shape(x));
        self.emit_as(Op::Cast, &[x], fact)
    }
}

/// As much of a name as is kept: a hostile one would fill the memory in a loop's repetitions.
pub(super) fn short(name: &str) -> &str {
    const MOST_BYTES: usize = 1024;
    &name[..name.floor_char_boundary(MOST_BYTES)]
}

/// A scalar tensor of any type; `None` where the value does not fit an integer type.
pub(crate) fn scalar(dtype: DType, value: f64) -> Option<Tensor> {
    let integer = value as i64;
    let exact = integer as f64 == value;
    let bytes = match dtype {
        DType::F32 => (value as f32).to_le_bytes().to_vec(),
        DType::F64 => value.to_le_bytes().to_vec(),
        DType::F16 => half::f16::from_f64(value).to_le_bytes().to_vec(),
        DType::Bf16 => half::bf16::from_f64(value).to_le_bytes().to_vec(),
        DType::Bool => vec![u8::from(value != 0.0)],
        _ if !exact => return None,
        DType::I64 => integer.to_le_bytes().to_vec(),
        DType::U64 => u64::try_from(integer).ok()?.to_le_bytes().to_vec(),
        DType::I32 => i32::try_from(integer).ok()?.to_le_bytes().to_vec(),
        DType::U32 => u32::try_from(integer).ok()?.to_le_bytes().to_vec(),
        DType::I16 => i16::try_from(integer).ok()?.to_le_bytes().to_vec(),
        DType::U16 => u16::try_from(integer).ok()?.to_le_bytes().to_vec(),
        DType::I8 => i8::try_from(integer).ok()?.to_le_bytes().to_vec(),
        DType::U8 => u8::try_from(integer).ok()?.to_le_bytes().to_vec(),
        // No operator makes a number of a narrow type.
        _ => return None,
    };
    Some(Tensor::new(dtype, vec![], bytes))
}
