//! What steps and kernels may do with buffers.

use crate::kernel_graph::{BufferRange, KernelGraph, Storage};
use floe_engine::plan::format::Direction;

/// Which bytes hold something, as far as kernels are followed in order.
pub struct Memory<'a> {
    graph: &'a KernelGraph,
    /// For every buffer the first one that is the same memory: several may be one binding.
    first: Vec<usize>,
    /// Of every buffer the first and last byte that was written, or all of it where it holds something from the start.
    written: Vec<Option<(u64, u64)>>,
}

impl<'a> Memory<'a> {
    /// What holds something before the first kernel: constants, counters, and all bindings but outputs.
    pub fn new(graph: &'a KernelGraph) -> Self {
        let same = |storage: &Storage| match storage {
            Storage::Binding(_) => graph.buffers.iter().position(|other| other.storage == *storage),
            _ => None,
        };
        let buffers = graph.buffers.iter().enumerate();
        let first = buffers.map(|(number, buffer)| same(&buffer.storage).unwrap_or(number)).collect();
        let whole = |bytes| Some((0, bytes));
        let written = graph.buffers.iter().map(|buffer| match buffer.storage {
            Storage::Arena | Storage::Report => None,
            Storage::Counters | Storage::ReplayCounter | Storage::Constant(_) => whole(buffer.bytes),
            Storage::Binding(number) => match graph.bindings.get(number).map(|binding| binding.direction) {
                Some(Direction::Output) | None => None,
                Some(_) => whole(buffer.bytes),
            },
        });
        Self { graph, first, written: written.collect() }
    }

    /// Notes that a range is read.
    ///
    /// # Errors
    /// Returns what is wrong: it is no range of a buffer, or nothing was ever written to any of it.
    pub fn read(&self, range: BufferRange) -> Result<(), String> {
        let name = self.inside(range)?;
        match self.written[self.first[range.buffer.0]] {
            _ if range.bytes == 0 => Ok(()),
            Some((from, to)) if from < range.offset + range.bytes && range.offset < to => Ok(()),
            _ => Err(format!("reads '{name}' from {}, which nothing has written", range.offset)),
        }
    }

    /// Notes that a range is written.
    ///
    /// # Errors
    /// Returns what is wrong: it is no range of a buffer, or of one that is never written.
    pub fn write(&mut self, range: BufferRange) -> Result<(), String> {
        let name = self.inside(range)?;
        let direction = |number: usize| self.graph.bindings.get(number).map(|binding| binding.direction);
        let constant = match self.graph.buffers[range.buffer.0].storage {
            Storage::Constant(_) => true,
            Storage::Binding(number) => direction(number) == Some(Direction::Input),
            Storage::Arena | Storage::Counters | Storage::ReplayCounter | Storage::Report => false,
        };
        if constant {
            return Err(format!("writes '{name}', which is an input or a constant"));
        }
        let end = range.offset + range.bytes;
        let written = &mut self.written[self.first[range.buffer.0]];
        *written = Some(written.map_or((range.offset, end), |(from, to)| (from.min(range.offset), to.max(end))));
        Ok(())
    }

    /// Checks that every output that has elements was written.
    ///
    /// # Errors
    /// Returns the name of one that was not.
    pub fn outputs(&self) -> Result<(), String> {
        for (buffer, &first) in self.graph.buffers.iter().zip(&self.first) {
            let Storage::Binding(number) = buffer.storage else { continue };
            let has_elements = self.graph.bindings.get(number).is_some_and(|binding| binding.bytes() > 0);
            if has_elements && self.written[first].is_none() {
                return Err(format!("output '{}' is never written", buffer.name));
            }
        }
        Ok(())
    }

    /// The name of a range's buffer, in which it must lie.
    fn inside(&self, range: BufferRange) -> Result<&'a str, String> {
        let number = range.buffer.0;
        let buffer = self.graph.buffers.get(number).ok_or_else(|| format!("there is no buffer {number}"))?;
        let end = range.offset.checked_add(range.bytes);
        match end.is_some_and(|end| end <= buffer.bytes) {
            true => Ok(&buffer.name),
            false => Err(format!("{range:?} is beyond the {} bytes of '{}'", buffer.bytes, buffer.name)),
        }
    }
}
