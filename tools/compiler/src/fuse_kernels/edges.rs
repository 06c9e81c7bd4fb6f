//! Who writes and who reads the buffers of a kernel graph.

use crate::kernel_graph::{BufferRange, KernelGraph, Storage};

/// Readers and writers of each buffer.
pub(super) struct Edges {
    readers: Vec<Vec<usize>>,
    writers: Vec<Vec<usize>>,
}

impl Edges {
    /// The edges of a graph.
    pub(super) fn of(graph: &KernelGraph) -> Self {
        let mut edges =
            Self { readers: vec![Vec::new(); graph.buffers.len()], writers: vec![Vec::new(); graph.buffers.len()] };
        for (number, node) in graph.nodes.iter().enumerate() {
            for (ranges, users) in [(&node.inputs, &mut edges.readers), (&node.outputs, &mut edges.writers)] {
                for range in ranges {
                    let users = &mut users[range.buffer.0];
                    if users.last() != Some(&number) {
                        users.push(number);
                    }
                }
            }
        }
        edges
    }

    /// The readers of a result that lies in the arena, in a buffer of its own.
    pub(super) fn readers_within(&self, graph: &KernelGraph, result: BufferRange) -> Option<&[usize]> {
        let alone =
            graph.buffers[result.buffer.0].storage == Storage::Arena && self.writers[result.buffer.0].len() == 1;
        alone.then_some(&self.readers[result.buffer.0])
    }

    /// The readers of such a result that each of them reads whole.
    pub(super) fn readers_of(&self, graph: &KernelGraph, result: BufferRange) -> Option<&[usize]> {
        let readers = self.readers_within(graph, result)?;
        let whole = readers.iter().all(|&reader| {
            let inputs = &graph.nodes[reader].inputs;
            inputs.iter().all(|input| input.buffer != result.buffer || *input == result)
        });
        whole.then_some(readers)
    }

    /// The only reader of such a result, where the result is its first input and no other.
    pub(super) fn successor(&self, graph: &KernelGraph, result: BufferRange) -> Option<usize> {
        let &[reader] = self.readers_of(graph, result)? else { return None };
        let inputs = &graph.nodes[reader].inputs;
        let only_first = inputs[0] == result && inputs[1..].iter().all(|input| input.buffer != result.buffer);
        only_first.then_some(reader)
    }
}
