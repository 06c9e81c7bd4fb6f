//! Adds nodes behind a graph.

use floe_models::{DType, Fact, Graph, Node, Op, Origin, Source, Tensor, TensorId, infer, op::Binary};

/// A graph that grows at its end.
pub(super) struct Builder<'g> {
    graph: &'g mut Graph,
    name: String,
    first: usize,
}

impl<'g> Builder<'g> {
    /// Nodes are called after `name`.
    pub fn new(graph: &'g mut Graph, name: &str) -> Self {
        let first = graph.nodes.len();
        Self { graph, name: format!("postprocess:{name}"), first }
    }

    /// The graph.
    pub fn finish(self) -> &'g mut Graph {
        self.graph
    }

    pub fn fact(&self, id: TensorId) -> &Fact {
        self.graph.fact(id)
    }

    /// What a value is made by, and of: the operator and its first input.
    pub fn producer(&self, id: TensorId) -> Option<(&Op, TensorId)> {
        let node = self.graph.nodes.iter().find(|node| node.outputs.contains(&id))?;
        Some((&node.op, *node.inputs.first()?))
    }

    pub fn shape(&self, id: TensorId) -> &[usize] {
        &self.graph.fact(id).shape
    }

    pub fn constant(&mut self, tensor: Tensor) -> TensorId {
        self.graph.add_constant(format!("{} constant", self.name), tensor)
    }

    /// An f32 constant.
    pub fn numbers(&mut self, shape: &[usize], values: &[f64]) -> TensorId {
        self.constant(Tensor::f32(shape, &values.iter().map(|&value| value as f32).collect::<Vec<_>>()))
    }

    /// Adds a node whose outputs shape inference knows.
    pub fn emit_all(&mut self, op: Op, inputs: &[TensorId]) -> Result<Vec<TensorId>, String> {
        self.declared(op, inputs, &[])
    }

    /// As [`Builder::emit_all`], the only output.
    pub fn emit(&mut self, op: Op, inputs: &[TensorId]) -> Result<TensorId, String> {
        Ok(self.emit_all(op, inputs)?[0])
    }

    fn declared(&mut self, op: Op, inputs: &[TensorId], declared: &[Fact]) -> Result<Vec<TensorId>, String> {
        let facts: Vec<&Fact> = inputs.iter().map(|&id| self.graph.fact(id)).collect();
        let facts = infer(&op, &facts, declared).map_err(|error| format!("{}: {error}", op.name()))?;
        let number = self.graph.nodes.len() - self.first;
        let name = if number == 0 { self.name.clone() } else { format!("{}/{number}", self.name) };
        let outputs: Vec<TensorId> = facts.into_iter().map(|fact| self.graph.add_value(&name, fact)).collect();
        let sources = vec![Source { name: self.name.clone(), origin: Origin::Postprocess }];
        self.graph.nodes.push(Node { name, op, inputs: inputs.to_vec(), outputs: outputs.clone(), sources });
        Ok(outputs)
    }

    pub fn cast(&mut self, x: TensorId, dtype: DType) -> Result<TensorId, String> {
        if self.fact(x).dtype == dtype {
            return Ok(x);
        }
        let fact = Fact::new(dtype, self.shape(x));
        Ok(self.declared(Op::Cast, &[x], &[fact])?[0])
    }

    /// Joined along an axis; a single one is itself.
    pub fn concat(&mut self, axis: usize, parts: &[TensorId]) -> Result<TensorId, String> {
        if let [part] = parts { Ok(*part) } else { self.emit(Op::Concat { axis }, parts) }
    }

    pub fn binary(&mut self, op: Binary, a: TensorId, b: TensorId) -> Result<TensorId, String> {
        self.emit(Op::Binary(op), &[a, b])
    }

    /// `x · factor + summand`, in f32.
    pub fn affine(&mut self, x: TensorId, factor: f64, summand: f64) -> Result<TensorId, String> {
        let x = self.cast(x, DType::F32)?;
        let [factor, summand] = [factor, summand].map(|number| self.numbers(&[], &[number]));
        let product = self.binary(Binary::Mul, x, factor)?;
        self.binary(Binary::Add, product, summand)
    }
}
