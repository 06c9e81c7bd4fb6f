//! Lowering: fused nodes become kernels over strided views of buffers.
//!
//! Movement costs nothing where strides can express it: transpositions, slices, splits, broadcasts and most reshapes
//! become other views of the same buffer, and the inputs of a concatenation are written straight into their slice of
//! its output. A copy appears only where a kernel needs another form than the one a value has.

mod custom;
mod detect;
mod frame;
mod indexed;
mod located;
mod movement;
mod operators;
mod quantized;
mod recurrent;
mod results;
mod transposed;

pub use located::Located;

use results::Results;

use crate::{
    fused::{FusedGraph, FusedNode, FusedOp},
    kernel_graph::{BufferId, BufferRange, KernelGraph, KernelNode, OwnedBinding, Storage},
    layout::{self, Form, Layout, Slice, Written},
    precision::Reason,
    stored::StoredGraph,
};
use floe_engine::plan::format::Direction;
use floe_kernels::{DType, Dims, Family, Kernel, KernelError, View, copy::Copy};
use floe_models::{Op, Tensor, TensorId};
use std::{borrow::Cow, collections::HashMap};

/// Why a fused node could not be lowered.
#[derive(Debug, thiserror::Error)]
#[error("node '{node}' ({op}): {reason}")]
pub struct LowerError {
    /// Name of the node.
    pub node: String,
    /// Its operator.
    pub op: String,
    /// What is wrong.
    pub reason: String,
}

/// Copies (and converts) constant bytes into another form with the reference kernel.
///
/// # Errors
/// Where the copy kernel refuses the views.
pub fn repack(source: &[u8], from: &View, to: &View) -> Result<Vec<u8>, KernelError> {
    let mut result = vec![0; to.bytes()? as usize];
    let copy = Copy { source: from.clone(), destination: to.clone() };
    copy.check()?;
    copy.run(&[&aligned(source)], &mut [&mut result], &mut [])?;
    Ok(result)
}

/// Bytes where a reference kernel may cast them to elements: a copy where they lie anywhere in a model's file. (What the allocator
/// gives is aligned.)
pub fn aligned(bytes: &[u8]) -> Cow<'_, [u8]> {
    if bytes.as_ptr().addr().is_multiple_of(16) { Cow::Borrowed(bytes) } else { Cow::Owned(bytes.to_vec()) }
}

/// Lowers a stored graph.
///
/// # Errors
/// Where a node needs something that no kernel family can express, with node, operator and reason.
pub fn lower(stored: &StoredGraph<'_>) -> Result<KernelGraph, LowerError> {
    Ok(lower_with_places(stored)?.0)
}

/// Where lowering put the values of a graph.
#[derive(Clone, Debug)]
pub struct Places {
    /// The place of every value; `None` for constants and for what no node makes.
    pub values: Vec<Option<Located>>,
    /// For every node how many kernels there are up to its last: behind them, what it makes lies where it belongs.
    pub ends: Vec<usize>,
}

/// As [`lower`], and tells where each value lies.
///
/// # Errors
/// As there.
pub fn lower_with_places(stored: &StoredGraph<'_>) -> Result<(KernelGraph, Places), LowerError> {
    let mut lowering = Lowering::new(stored)?;
    let mut ends = Vec::with_capacity(stored.graph.nodes.len());
    for (number, node) in stored.graph.nodes.iter().enumerate() {
        lowering.current = number;
        lowering.node(node).map_err(|reason| LowerError {
            node: node.name.clone(),
            op: op_name(&node.op).to_owned(),
            reason,
        })?;
        ends.push(lowering.result.nodes.len());
    }
    lowering.outputs().map_err(|reason| LowerError { node: "outputs".into(), op: "Copy".into(), reason })?;
    Ok((lowering.result, Places { values: lowering.located, ends }))
}

fn op_name(op: &FusedOp) -> &'static str {
    match op {
        FusedOp::Operator(op) | FusedOp::Anchored { op, .. } => op.name(),
        FusedOp::Pointwise(_) => "pointwise",
    }
}

struct Lowering<'a> {
    graph: &'a FusedGraph,
    stored: &'a StoredGraph<'a>,
    located: Vec<Option<Located>>,
    /// Forms that a value was copied into before.
    forms: HashMap<(TensorId, Form, DType), Located>,
    output_buffers: Vec<BufferId>,
    results: Results,
    result: KernelGraph,
    /// Number of the fused node being lowered.
    current: usize,
}

impl<'a> Lowering<'a> {
    fn new(stored: &'a StoredGraph<'a>) -> Result<Self, LowerError> {
        let graph = stored.graph;
        let mut lowering = Self {
            graph,
            stored,
            located: vec![None; graph.values.len()],
            forms: HashMap::new(),
            output_buffers: Vec::new(),
            results: results::of(stored),
            result: KernelGraph::default(),
            current: 0,
        };
        for &input in &graph.inputs {
            let name = &graph.values[input.0].name;
            let state = stored.options.states.iter().any(|(_, state)| state == name);
            let buffer = lowering.bind(input, if state { Direction::State } else { Direction::Input })?;
            let fact = &graph.values[input.0].fact;
            lowering.located[input.0] = Some(Located::plain(buffer, fact.dtype, &fact.shape));
        }
        for &output in &graph.outputs {
            let buffer = match lowering.state(output) {
                Some(located) => located.buffer,
                None => lowering.bind(output, Direction::Output)?,
            };
            lowering.output_buffers.push(buffer);
        }
        Ok(lowering)
    }

    fn bind(&mut self, id: TensorId, direction: Direction) -> Result<BufferId, LowerError> {
        let value = &self.graph.values[id.0];
        let refuse = || LowerError {
            node: value.name.clone(),
            op: "binding".into(),
            reason: format!("shape {:?} is beyond what a plan can describe", value.fact.shape),
        };
        let mut shape = Dims::new();
        for &extent in &value.fact.shape {
            shape.push(u32::try_from(extent).map_err(|_| refuse())?).map_err(|_| refuse())?;
        }
        let contents =
            if direction == Direction::Output { &self.graph.contents.outputs } else { &self.graph.contents.inputs };
        let content = contents.get(&value.name).cloned().unwrap_or_default();
        let binding = OwnedBinding { name: value.name.clone(), direction, dtype: value.fact.dtype, shape, content };
        let bytes = binding.bytes();
        self.result.bindings.push(binding);
        let number = self.result.bindings.len() - 1;
        Ok(self.result.add_buffer(&value.name, bytes, Storage::Binding(number)))
    }

    /// Where the state lies whose next value is this output.
    fn state(&self, output: TensorId) -> Option<Located> {
        let name = &self.graph.values[output.0].name;
        let (_, state) = self.stored.options.states.iter().find(|(output, _)| output == name)?;
        let input = self.graph.inputs.iter().find(|input| self.graph.values[input.0].name == *state)?;
        self.located[input.0].clone()
    }

    /// Element type of a computed value in memory.
    fn dtype(&self, id: TensorId) -> DType {
        self.stored.storage[id.0].dtype
    }

    fn present_dtype(&self, id: TensorId) -> DType {
        self.located[id.0].as_ref().map_or(self.dtype(id), |located| located.dtype)
    }

    fn layout(&self, id: TensorId) -> &'a Layout {
        &self.stored.layouts.values[id.0].0
    }

    /// Element type that a kernel with one tensor input and one output works in: the output's, unless the two have
    /// different types in the model (indices of maxima, say).
    fn working_dtype(&self, node: &FusedNode) -> DType {
        let (input, output) = (node.inputs[0], node.outputs[0]);
        let same = self.graph.values[input.0].fact.dtype == self.graph.values[output.0].fact.dtype;
        self.dtype(if same { output } else { input })
    }

    fn shape(&self, id: TensorId) -> &'a [usize] {
        &self.graph.values[id.0].fact.shape
    }

    /// Where a value is to be written; allocates it on the first call.
    fn allocate(&mut self, id: TensorId) -> Located {
        if let Some(located) = &self.located[id.0] {
            return located.clone();
        }
        let dtype = if self.results.widened[id.0] { DType::F32 } else { self.dtype(id) };
        let shape = self.shape(id);
        let located = if let Some(Slice { whole, axis, start }) = self.stored.layouts.slices[id.0] {
            let whole = self.allocate(whole);
            let mut starts = vec![0; shape.len()];
            starts[axis] = start;
            let mut part = whole.sliced(&starts, &vec![1; shape.len()], shape);
            if *self.layout(id) == Layout::ChannelsLast {
                part.padded_channels = shape[1].next_multiple_of(dtype.channel_multiple() as usize);
            }
            part
        } else if let Some(output) = self.direct_output(id, dtype) {
            Located::plain(output, dtype, shape)
        } else if let Some(place) = self.behind_views(id) {
            place
        } else {
            let place = match self.layout(id) {
                Layout::Plain => Located::plain(BufferId(0), dtype, shape),
                Layout::ChannelsLast => Located::channels_last(BufferId(0), dtype, shape),
                Layout::Permuted(permutation) => {
                    let permuted: Vec<usize> = permutation.iter().map(|&d| shape[d]).collect();
                    Located::plain(BufferId(0), dtype, &permuted).permuted(&layout::inverse(permutation))
                }
            };
            let buffer = self.result.add_buffer(&self.graph.values[id.0].name, place.span_bytes(), Storage::Arena);
            Located { buffer, ..place }
        };
        self.located[id.0] = Some(located.clone());
        located
    }

    /// The place in a slice of a concatenation that a value is seen at through views, where it lies there as it is laid out.
    fn behind_views(&mut self, id: TensorId) -> Option<Located> {
        self.stored.layouts.viewed[id.0]?;
        let place = self.seen_through_views(id)?;
        match self.layout(id) {
            Layout::Plain => place.is_contiguous().then_some(place),
            Layout::ChannelsLast => Some(place.with_whole_channels()).filter(Located::is_channels_last),
            Layout::Permuted(permutation) => place.permuted(permutation).is_contiguous().then_some(place),
        }
    }

    fn seen_through_views(&mut self, id: TensorId) -> Option<Located> {
        let Some(number) = self.stored.layouts.viewed[id.0] else { return Some(self.allocate(id)) };
        let node = &self.graph.nodes[number];
        let view = self.seen_through_views(node.outputs[0])?;
        match &node.op {
            FusedOp::Operator(Op::Transpose { permutation }) => Some(view.permuted(&layout::inverse(permutation))),
            _ => view.reshaped(self.shape(id)),
        }
    }

    /// The output binding that a value can be computed in, where type and layout agree.
    fn direct_output(&self, id: TensorId, dtype: DType) -> Option<BufferId> {
        // None of a state, which is still read by later steps when its next value is computed.
        let position = self.results.bound[id.0]?;
        let same = *self.layout(id) == Layout::Plain && dtype == self.graph.values[id.0].fact.dtype;
        same.then(|| self.output_buffers[position])
    }

    /// A constant in the wanted type and form.
    fn constant(&mut self, id: TensorId, tensor: &Tensor, form: Form, dtype: DType) -> Result<Located, String> {
        let from = Located::plain(BufferId(0), tensor.dtype, &tensor.shape);
        let to = match form {
            Form::ChannelsLast => Located::channels_last(BufferId(0), dtype, &tensor.shape),
            Form::SumsInnermost => Located::sums_innermost(BufferId(0), dtype, &tensor.shape),
            _ => Located::plain(BufferId(0), dtype, &tensor.shape),
        };
        let bytes = if from == to {
            tensor.shared()
        } else {
            let (_, from) = from.operand(1).map_err(|e| e.to_string())?;
            let (_, to) = to.operand(1).map_err(|e| e.to_string())?;
            repack(tensor.bytes(), &from, &to).map_err(|e| e.to_string())?.into()
        };
        let buffer =
            self.result.add_buffer(&self.graph.values[id.0].name, bytes.len() as u64, Storage::Constant(bytes));
        Ok(Located { buffer, ..to })
    }

    /// A value in the wanted form and type, copied there if need be.
    fn request(&mut self, id: TensorId, form: Form, dtype: DType) -> Result<Located, String> {
        if let Some(located) = self.forms.get(&(id, form, dtype)) {
            return Ok(located.clone());
        }
        let located = if let Some(tensor) = self.graph.values[id.0].constant.as_ref() {
            self.constant(id, tensor, form, dtype)?
        } else {
            let mut located = self.located[id.0].clone().ok_or("a value is read before it is made")?;
            if form == Form::ChannelsLast {
                located = located.with_whole_channels();
            }
            let fits = match form {
                Form::Any | Form::AsStored => true,
                Form::Plain => located.is_plain(),
                // Weights that are made when the plan runs are not turned.
                Form::Contiguous | Form::SumsInnermost => located.is_contiguous(),
                Form::ChannelsLast => located.is_channels_last(),
                Form::Windows => return Err("windows are made of a whole convolution".into()),
            };
            if fits && located.dtype == dtype {
                return Ok(located);
            }
            let to = match form {
                Form::ChannelsLast => Located::channels_last(BufferId(0), dtype, &located.shape),
                Form::Any if *self.layout(id) == Layout::ChannelsLast => {
                    Located::channels_last(BufferId(0), dtype, &located.shape)
                }
                _ => Located::plain(BufferId(0), dtype, &located.shape),
            };
            let name = self.graph.values[id.0].name.clone();
            let buffer = self.result.add_buffer(&name, to.span_bytes(), Storage::Arena);
            let to = Located { buffer, ..to };
            self.copy_value(id, &located, &to, Reason::Operand)?;
            if !fits {
                self.explain_copy(form);
            }
            to
        };
        self.forms.insert((id, form, dtype), located.clone());
        Ok(located)
    }

    /// An input of the node being lowered, in the form in which the node reads it.
    fn read(&mut self, node: &FusedNode, number: usize, dtype: DType) -> Result<Located, String> {
        match self.stored.layouts.reads[self.current][number] {
            Form::AsStored => self.any(node.inputs[number]),
            form => self.request(node.inputs[number], form, dtype),
        }
    }

    /// The same in the type that it has.
    fn read_as_stored(&mut self, node: &FusedNode, number: usize) -> Result<Located, String> {
        self.read(node, number, self.present_dtype(node.inputs[number]))
    }

    /// A value in any form, in the type that it has (constants: in the type they would be computed in).
    fn any(&mut self, id: TensorId) -> Result<Located, String> {
        self.request(id, Form::Any, self.present_dtype(id))
    }

    /// Says of the copy that was just made why it is in another form than the value.
    fn explain_copy(&mut self, form: Form) {
        let reason = match self.graph.nodes.get(self.current) {
            Some(node) => layout::Reason::Read { operator: op_name(&node.op) },
            None => layout::Reason::Binding,
        };
        if let Some(copy) = self.result.nodes.last_mut().filter(|_| !self.stored.options.host) {
            copy.layout = Some(Written { layout: form.words(), reason });
        }
    }

    /// Copies a value as it is, which is f32 for its own reasons, because it came so, or for that of the copy.
    fn copy_value(&mut self, id: TensorId, from: &Located, to: &Located, reason: Reason) -> Result<(), String> {
        let before = self.result.nodes.len();
        self.copy(from, to)?;
        if let Some(copy) =
            self.result.nodes.get_mut(before).filter(|_| self.stored.options.half && to.dtype == DType::F32)
        {
            let origin = self.stored.graph.viewed(id, self.current);
            copy.reasons.clone_from(&self.stored.storage[origin.0].reasons);
            if copy.reasons.is_empty() {
                copy.reasons.push(if from.dtype == DType::F32 { Reason::Binding } else { reason });
            }
        }
        Ok(())
    }

    fn copy(&mut self, from: &Located, to: &Located) -> Result<(), String> {
        let (input, source) = self.operand(from)?;
        let (output, destination) = self.operand(to)?;
        self.push(Kernel::Copy(Copy { source, destination }), vec![input], vec![output]);
        Ok(())
    }

    fn operand(&self, located: &Located) -> Result<(BufferRange, View), String> {
        located.operand(if self.stored.options.host { 1 } else { 16 }).map_err(|e| e.to_string())
    }

    fn push(&mut self, kernel: Kernel, inputs: Vec<BufferRange>, outputs: Vec<BufferRange>) {
        if outputs.iter().all(|output| output.bytes == 0) {
            return;
        }
        let (name, sources) = match self.graph.nodes.get(self.current) {
            Some(node) => (node.name.clone(), node.sources.iter().map(|source| source.name.clone()).collect()),
            None => ("outputs".to_owned(), Vec::new()),
        };
        let (reasons, layout) = match self.graph.nodes.get(self.current) {
            Some(node) => (self.reasons(&kernel, &node.outputs), self.written(node)),
            None => (Vec::new(), None),
        };
        self.result.nodes.push(KernelNode { name, sources, reasons, layout, kernel, code: None, inputs, outputs });
    }

    /// Why a kernel stores f32 in an f16 variant that makes one of these values; nothing where it does not.
    fn reasons(&self, kernel: &Kernel, ids: &[TensorId]) -> Vec<Reason> {
        let mut outputs = (0..).map_while(|number| kernel.family().output(number));
        if !self.stored.options.half || !outputs.any(|view| view.dtype == DType::F32) {
            return Vec::new();
        }
        let mut reasons = Vec::new();
        let bound = ids.iter().filter(|id| self.results.widened[id.0]).map(|_| &Reason::Binding);
        for reason in ids.iter().flat_map(|id| &self.stored.storage[id.0].reasons).chain(bound) {
            if !reasons.contains(reason) {
                reasons.push(*reason);
            }
        }
        reasons
    }

    /// How a node writes its first output, where that does not go without saying.
    fn written(&self, node: &FusedNode) -> Option<Written> {
        let (layout, reason) = &self.stored.layouts.values[node.outputs[0].0];
        let said = reason.is_reported() && !self.stored.options.host;
        said.then(|| Written { layout: layout.words(), reason: *reason })
    }

    /// As [`Self::push`], for a kernel that prepares the node's own: it has a name of its own, `NODE/part`.
    fn push_part(
        &mut self,
        part: &str,
        kernel: Kernel,
        inputs: Vec<BufferRange>,
        outputs: Vec<BufferRange>,
        reason: Reason,
    ) {
        let reasons = if self.stored.options.half { vec![reason] } else { Vec::new() };
        let name = format!("{}/{part}", self.graph.nodes[self.current].name);
        self.result.nodes.push(KernelNode {
            name,
            sources: Vec::new(),
            reasons,
            layout: None,
            kernel,
            code: None,
            inputs,
            outputs,
        });
    }

    fn node(&mut self, node: &'a FusedNode) -> Result<(), String> {
        match &node.op {
            FusedOp::Pointwise(program) => self.pointwise(node, program),
            FusedOp::Anchored { op, operands, program } => {
                match crate::passes::fuse::is_quantized(op) && !self.graph.multiplies_activations(node) {
                    true => self.quantized(node, op, *operands, program.as_ref()),
                    false => self.anchored(node, op, *operands, program.as_ref()),
                }
            }
            FusedOp::Operator(op) => self.operator(node, op),
        }
    }

    /// Fills the output bindings that were not computed in place.
    fn outputs(&mut self) -> Result<(), String> {
        self.current = self.graph.nodes.len();
        let mut states = Vec::new();
        for (position, &output) in self.graph.outputs.iter().enumerate() {
            let dtype = self.graph.values[output.0].fact.dtype;
            let to = Located::plain(self.output_buffers[position], dtype, self.shape(output));
            let mut from = self.any(output)?;
            if self.state(output).is_some() {
                // What is a state itself must be read before any state changes.
                if from != to && matches!(self.result.buffers[from.buffer.0].storage, Storage::Binding(_)) {
                    let place = Located::plain(BufferId(0), from.dtype, &from.shape);
                    let buffer = self.result.add_buffer("next state", place.span_bytes(), Storage::Arena);
                    let held = Located { buffer, ..place };
                    self.copy_value(output, &from, &held, Reason::State)?;
                    from = held;
                }
                states.push((output, from, to));
            } else if from != to {
                self.copy_value(output, &from, &to, Reason::Binding)?;
            }
        }
        for (output, from, to) in states.iter().filter(|(_, from, to)| from != to) {
            self.copy_value(*output, from, to, Reason::State)?;
        }
        Ok(())
    }
}
