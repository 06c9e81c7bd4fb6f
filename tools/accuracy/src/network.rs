//! A network on the host, kernel by kernel: what a value is can be seen as soon as it is made, and its memory is free once
//! nobody reads it any more.

use anyhow::{Context, Result, anyhow, bail};
use floe::host_functions::HostFunctions;
use floe_compiler::{
    fused::FusedGraph,
    kernel_graph::{BufferRange, KernelGraph, Storage},
    lower::{Located, Places, aligned, lower_with_places},
    precision,
    store_options::StoreOptions,
    stored::StoredGraph,
};
use floe_engine::host::{ALIGNMENT, Block, Call, Operators};
use floe_kernels::{Family, Kernel, View, copy::Copy, custom::Custom};
use floe_models::{Fact, Tensor, TensorId};
use std::{borrow::Cow, error::Error, fmt};

/// How values are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arithmetic<'a> {
    /// In f32 throughout.
    #[default]
    F32,
    /// As in an f16 variant for a GPU: what the compiler's precision pass stores as f16 is rounded there, weights included,
    /// and sums are f32. What the nodes make that `keep_f32` names stays f32.
    F16 {
        /// Names of nodes.
        keep_f32: &'a [String],
    },
}

/// A network that is ready to run on the host, any number of times and on any number of threads.
#[derive(Debug)]
pub struct Network {
    inputs: Vec<(String, Fact)>,
    outputs: Vec<(String, Fact)>,
    facts: Vec<Fact>,
    kernels: KernelGraph,
    places: Places,
    /// Bytes of constants that lie where no kernel could read them, by buffer.
    constants: Vec<Option<Memory>>,
    /// The last kernel that touches a buffer; `None` where none does.
    last: Vec<Option<usize>>,
    /// The values that are complete before kernel n runs.
    complete: Vec<Vec<TensorId>>,
    /// Why a value is f32 in an f16 variant.
    storage: Vec<precision::Storage>,
    /// What is called for operators from outside of Floe.
    functions: HostFunctions,
}

/// An operator from outside of Floe has no function to run on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingFunction {
    /// Name of the node.
    pub node: String,
    /// The operator, `DOMAIN.NAME`.
    pub operator: String,
}

impl fmt::Display for MissingFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, operator } = self;
        write!(
            f,
            "node '{node}' is the operator {operator}, which is not Floe's: the host needs a function for it (on a command line, \
             --host-library FILE.so)"
        )
    }
}

impl Error for MissingFunction {}

/// Bytes where a reference kernel may cast them.
#[derive(Clone, Debug)]
struct Memory {
    blocks: Vec<Block>,
    length: usize,
}

impl Memory {
    fn zeroed(length: usize) -> Result<Self> {
        let (mut blocks, count) = (Vec::new(), length.div_ceil(ALIGNMENT));
        blocks.try_reserve_exact(count).map_err(|_| anyhow!("there is no memory for {length} bytes"))?;
        blocks.resize(count, Block::ZERO);
        Ok(Self { blocks, length })
    }

    fn get(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.blocks)[..self.length]
    }

    fn get_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.blocks)[..self.length]
    }
}

/// The bytes of a range.
fn bytes_of(range: &BufferRange) -> std::ops::Range<usize> {
    range.offset as usize..(range.offset + range.bytes) as usize
}

impl Network {
    /// Prepares a fused graph.
    ///
    /// # Errors
    /// Returns an error if the host cannot run a node.
    pub fn new(fused: &FusedGraph, arithmetic: Arithmetic<'_>) -> Result<Self> {
        Self::new_with(fused, arithmetic, &HostFunctions::default())
    }

    /// As [`Self::new`], with functions for operators from outside of Floe.
    ///
    /// # Errors
    /// Returns an error if the host cannot run a node; [`MissingFunction`] where it is for want of a function.
    pub fn new_with(fused: &FusedGraph, arithmetic: Arithmetic<'_>, functions: &HostFunctions) -> Result<Self> {
        let options = match arithmetic {
            Arithmetic::F32 => StoreOptions { host: true, ..StoreOptions::default() },
            Arithmetic::F16 { keep_f32 } => {
                StoreOptions { host: true, half: true, keep_f32, ..StoreOptions::default() }
            }
        };
        let stored = StoredGraph::of(fused, options);
        let (kernels, places) = lower_with_places(&stored)?;
        let mut last = vec![None; kernels.buffers.len()];
        for (number, node) in kernels.nodes.iter().enumerate() {
            node.kernel.family().check().with_context(|| format!("node '{}'", node.name))?;
            if let Kernel::Custom(custom) = &node.kernel
                && !functions.has(&custom.name)
            {
                return Err(MissingFunction { node: node.name.clone(), operator: custom.name.to_string() }.into());
            }
            node.inputs.iter().chain(&node.outputs).for_each(|range| last[range.buffer.0] = Some(number));
        }
        let mut complete = vec![Vec::new(); kernels.nodes.len() + 1];
        for (node, &end) in fused.nodes.iter().zip(&places.ends) {
            complete[end].extend(node.outputs.iter().filter(|id| places.values[id.0].is_some()));
        }
        let mut constants = vec![None; kernels.buffers.len()];
        for (number, buffer) in kernels.buffers.iter().enumerate() {
            if let Storage::Constant(bytes) = &buffer.storage
                && let Cow::Owned(_) = aligned(bytes)
            {
                let mut memory = Memory::zeroed(bytes.len())?;
                memory.get_mut().copy_from_slice(bytes);
                constants[number] = Some(memory);
            }
        }
        let named = |ids: &[TensorId]| {
            ids.iter().map(|id| (fused.values[id.0].name.clone(), fused.values[id.0].fact.clone())).collect()
        };
        Ok(Self {
            inputs: named(&fused.inputs),
            outputs: named(&fused.outputs),
            facts: fused.values.iter().map(|value| value.fact.clone()).collect(),
            constants,
            last,
            complete,
            storage: stored.storage,
            functions: functions.clone(),
            kernels,
            places,
        })
    }

    /// Names, types and shapes of the inputs.
    pub fn inputs(&self) -> &[(String, Fact)] {
        &self.inputs
    }

    /// Names, types and shapes of the outputs.
    pub fn outputs(&self) -> &[(String, Fact)] {
        &self.outputs
    }

    /// How every value is stored, and why.
    pub fn storage(&self) -> &[precision::Storage] {
        &self.storage
    }

    /// The values that a kernel makes, in the order in which they are made.
    pub fn computed(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.complete.iter().flatten().copied()
    }

    /// Runs the network and gives its outputs.
    ///
    /// # Errors
    /// Returns an error if an input is missing or does not fit.
    pub fn run(&self, inputs: &[(String, Tensor)]) -> Result<Vec<(String, Tensor)>> {
        self.watch(inputs, &|_| false, &mut |_, _| ())
    }

    /// Runs the network, hands out every computed value that is wanted as soon as it is complete, in the model's type, and
    /// gives the outputs. Holds only what is still read.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn watch(
        &self,
        inputs: &[(String, Tensor)],
        wanted: &dyn Fn(TensorId) -> bool,
        visit: &mut dyn FnMut(TensorId, &Tensor),
    ) -> Result<Vec<(String, Tensor)>> {
        let mut memory: Vec<Option<Memory>> = vec![None; self.kernels.buffers.len()];
        self.write_inputs(inputs, &mut memory)?;
        // Of a size that is often needed again.
        let mut spare: Vec<Memory> = Vec::new();
        for number in 0..=self.kernels.nodes.len() {
            for &id in self.complete[number].iter().filter(|&&id| wanted(id)) {
                if let Some(tensor) = self.tensor(id, &memory)? {
                    visit(id, &tensor);
                }
            }
            if let Some(previous) = number.checked_sub(1) {
                self.free(previous, &mut memory, &mut spare);
            }
            let Some(node) = self.kernels.nodes.get(number) else { break };
            for range in node.inputs.iter().chain(&node.outputs) {
                self.allocate(range.buffer.0, &mut memory, &mut spare)?;
            }
            self.step(number, &mut memory).with_context(|| format!("node '{}'", node.name))?;
        }
        let mut outputs = Vec::with_capacity(self.outputs.len());
        for (position, (name, fact)) in self.outputs.iter().enumerate() {
            let wanted = Storage::Binding(self.inputs.len() + position);
            let buffers = self.kernels.buffers.iter().zip(&memory);
            let found = buffers.filter(|(buffer, _)| buffer.storage == wanted).find_map(|(_, memory)| memory.as_ref());
            let bytes = match found {
                Some(memory) => memory.get()[..fact.bytes() as usize].to_vec(),
                None => vec![0; fact.bytes() as usize],
            };
            outputs.push((name.clone(), Tensor::new(fact.dtype, fact.shape.clone(), bytes)));
        }
        Ok(outputs)
    }

    fn write_inputs(&self, inputs: &[(String, Tensor)], memory: &mut [Option<Memory>]) -> Result<()> {
        for (number, buffer) in self.kernels.buffers.iter().enumerate() {
            let Storage::Binding(binding) = buffer.storage else { continue };
            let Some((name, fact)) = self.inputs.get(binding) else { continue };
            let given = inputs.iter().find(|(given, _)| given == name);
            let (_, tensor) = given.with_context(|| format!("input '{name}' is missing"))?;
            if tensor.dtype != fact.dtype || tensor.shape != fact.shape {
                bail!(
                    "input '{name}' is {} {:?}, the network needs {} {:?}",
                    tensor.dtype.name(),
                    tensor.shape,
                    fact.dtype.name(),
                    fact.shape
                );
            }
            let mut place = Memory::zeroed(buffer.bytes as usize)?;
            place.get_mut()[..tensor.bytes().len()].copy_from_slice(tensor.bytes());
            memory[number] = Some(place);
        }
        Ok(())
    }

    fn allocate(&self, number: usize, memory: &mut [Option<Memory>], spare: &mut Vec<Memory>) -> Result<()> {
        let buffer = &self.kernels.buffers[number];
        if memory[number].is_some() || matches!(buffer.storage, Storage::Constant(_)) {
            return Ok(());
        }
        let length = buffer.bytes as usize;
        let blocks = length.div_ceil(ALIGNMENT);
        memory[number] = Some(match spare.iter().position(|memory| memory.blocks.len() == blocks) {
            Some(place) => {
                let mut memory = spare.swap_remove(place);
                memory.blocks.fill(Block::ZERO);
                Memory { length, ..memory }
            }
            None => Memory::zeroed(length)?,
        });
        Ok(())
    }

    /// Takes back what kernel `number` was the last to touch. Outputs stay.
    fn free(&self, number: usize, memory: &mut [Option<Memory>], spare: &mut Vec<Memory>) {
        const SPARE: usize = 8;
        let node = &self.kernels.nodes[number];
        for range in node.inputs.iter().chain(&node.outputs) {
            let buffer = range.buffer.0;
            let is_output =
                matches!(self.kernels.buffers[buffer].storage, Storage::Binding(n) if n >= self.inputs.len());
            if self.last[buffer] == Some(number)
                && !is_output
                && let Some(free) = memory[buffer].take()
            {
                if spare.len() == SPARE {
                    spare.remove(0);
                }
                spare.push(free);
            }
        }
    }

    fn bytes<'m>(&'m self, range: &BufferRange, memory: &'m [Option<Memory>]) -> Result<&'m [u8]> {
        let number = range.buffer.0;
        let whole: &[u8] = match (&self.kernels.buffers[number].storage, &self.constants[number], &memory[number]) {
            (Storage::Constant(_), Some(copy), _) => copy.get(),
            (Storage::Constant(bytes), None, _) => bytes,
            (_, _, Some(memory)) => memory.get(),
            _ => bail!("a buffer is read before it is made"),
        };
        whole.get(bytes_of(range)).context("an operand ends outside of its buffer")
    }

    fn step(&self, number: usize, memory: &mut [Option<Memory>]) -> Result<()> {
        let node = &self.kernels.nodes[number];
        let mut workspace = Memory::zeroed(usize::try_from(node.kernel.family().host_workspace())?)?;
        let alone = |range: &BufferRange| {
            let others = node.inputs.iter().chain(&node.outputs).filter(|other| other.buffer == range.buffer);
            others.count() == 1
        };
        if node.outputs.iter().all(alone) {
            // Nothing else of the buffers is touched: they can be taken out and written where they lie.
            let mut taken: Vec<Memory> = Vec::with_capacity(node.outputs.len());
            for range in &node.outputs {
                taken.push(memory[range.buffer.0].take().context("an output is a constant")?);
            }
            let sources = node.inputs.iter().map(|range| self.bytes(range, memory)).collect::<Result<Vec<_>>>()?;
            let destinations = taken.iter_mut().zip(&node.outputs);
            let mut destinations: Vec<&mut [u8]> =
                destinations.map(|(memory, range)| &mut memory.get_mut()[bytes_of(range)]).collect();
            self.call(&node.kernel, &sources, &mut destinations, workspace.get_mut())?;
            for (range, taken) in node.outputs.iter().zip(taken) {
                memory[range.buffer.0] = Some(taken);
            }
            return Ok(());
        }
        // Outputs are copied out and in: an input may lie in another part of the same buffer.
        let mut results = Vec::with_capacity(node.outputs.len());
        for output in &node.outputs {
            let mut copy = Memory::zeroed(output.bytes as usize)?;
            copy.get_mut().copy_from_slice(self.bytes(output, memory)?);
            results.push(copy);
        }
        let sources = node.inputs.iter().map(|range| self.bytes(range, memory)).collect::<Result<Vec<_>>>()?;
        let mut destinations: Vec<&mut [u8]> = results.iter_mut().map(Memory::get_mut).collect();
        self.call(&node.kernel, &sources, &mut destinations, workspace.get_mut())?;
        for (output, result) in node.outputs.iter().zip(&results) {
            let place = memory[output.buffer.0].as_mut().context("an output is a constant")?;
            place.get_mut()[bytes_of(output)].copy_from_slice(result.get());
        }
        Ok(())
    }

    /// Runs a kernel: its reference, or the function of an operator from outside.
    fn call(
        &self,
        kernel: &Kernel,
        sources: &[&[u8]],
        destinations: &mut [&mut [u8]],
        workspace: &mut [u8],
    ) -> Result<()> {
        let Kernel::Custom(operator) = kernel else {
            return Ok(kernel.family().run(sources, destinations, workspace)?);
        };
        // The function gets no byte beyond its tensors.
        let bytes = |view: &View| view.bytes().map(|bytes| bytes as usize);
        let mut inputs = Vec::with_capacity(sources.len());
        for (view, source) in operator.inputs.iter().zip(sources) {
            inputs.push(source.get(..bytes(view)?).context("an input is too short")?);
        }
        let mut outputs = Vec::with_capacity(destinations.len());
        for (view, destination) in operator.outputs.iter().zip(destinations) {
            outputs.push(destination.get_mut(..bytes(view)?).context("an output is too short")?);
        }
        let Custom { name, workspace: needed, .. } = operator;
        let workspace = workspace.get_mut(..*needed as usize).context("the workspace is too short")?;
        let mut call = Call { operator, inputs: &inputs, outputs: &mut outputs, workspace };
        self.functions.run(&mut call).map_err(|code| anyhow!("the function of {name} failed with code {code}"))
    }

    /// A value in the model's type and row-major; `None` where no view can express where it lies.
    fn tensor(&self, id: TensorId, memory: &[Option<Memory>]) -> Result<Option<Tensor>> {
        let Some(located) = &self.places.values[id.0] else { return Ok(None) };
        let fact = &self.facts[id.0];
        if fact.elements() == 0 {
            return Ok(Some(Tensor::new(fact.dtype, fact.shape.clone(), Vec::new())));
        }
        let Ok((range, _)) = located.operand(1) else { return Ok(None) };
        if memory[range.buffer.0].is_none()
            && !matches!(self.kernels.buffers[range.buffer.0].storage, Storage::Constant(_))
        {
            return Ok(None);
        }
        unpack(located, fact, self.bytes(&range, memory)?).map(Some)
    }
}

/// Reads a value from where it lies: `bytes` are those of its operand.
///
/// # Errors
/// Returns an error if the bytes are not those.
pub fn unpack(located: &Located, fact: &Fact, bytes: &[u8]) -> Result<Tensor> {
    let (_, source) = located.operand(1)?;
    let plain = Located::plain(located.buffer, fact.dtype, &fact.shape);
    let (_, destination) = plain.operand(1)?;
    let mut result = vec![0; fact.bytes() as usize];
    let copy = Copy { source, destination };
    copy.check()?;
    copy.run(&[&aligned(bytes)], &mut [&mut result], &mut [])?;
    Ok(Tensor::new(fact.dtype, fact.shape.clone(), result))
}
