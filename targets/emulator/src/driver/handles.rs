//! What the driver's handles stand for.

use super::graph::{Exec, Graph};
use crate::{machine::Program, ptx};
use std::{collections::BTreeMap, ffi::c_void, sync::Arc};

/// A loaded image.
#[derive(Debug)]
pub struct Module {
    /// Its kernels.
    pub ptx: ptx::Module,
    /// Tells its text from that of other modules.
    pub digest: u64,
}

/// A kernel of a module.
#[derive(Clone, Debug)]
pub struct Function {
    /// What it does.
    pub program: Arc<Program>,
    /// Its number among all kernels of the report.
    pub kernel: usize,
    /// Most dynamic shared memory that a launch may ask for.
    pub dynamic_shared: u32,
}

/// Something that the driver made.
#[derive(Debug)]
pub enum Object {
    /// A stream. Work is done as it is enqueued, so it has no state.
    Stream,
    /// An event, with the instructions that had been executed when it was recorded.
    Event(Option<u64>),
    /// A loaded image.
    Module(Module),
    /// A kernel.
    Function(Function),
    /// A graph.
    Graph(Graph),
    /// A graph ready for launch.
    Exec(Exec),
}

/// All objects by handle.
#[derive(Debug, Default)]
pub struct Handles {
    objects: BTreeMap<usize, Object>,
    made: usize,
}

impl Handles {
    /// Keeps an object and returns its handle.
    pub fn add(&mut self, object: Object) -> *mut c_void {
        self.made += 1;
        let handle = self.made << 4;
        self.objects.insert(handle, object);
        handle as *mut c_void
    }

    /// The object of a handle.
    pub fn get(&self, handle: *mut c_void) -> Option<&Object> {
        self.objects.get(&(handle as usize))
    }

    /// The object of a handle.
    pub fn get_mut(&mut self, handle: *mut c_void) -> Option<&mut Object> {
        self.objects.get_mut(&(handle as usize))
    }

    /// Forgets an object and returns it.
    pub fn remove(&mut self, handle: *mut c_void) -> Option<Object> {
        self.objects.remove(&(handle as usize))
    }

    /// Takes an object out, to be put back under the same handle.
    pub fn take(&mut self, handle: *mut c_void) -> Option<Object> {
        self.remove(handle)
    }

    /// Puts an object back.
    pub fn put(&mut self, handle: *mut c_void, object: Object) {
        self.objects.insert(handle as usize, object);
    }
}
