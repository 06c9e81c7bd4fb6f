//! How far a command is, on a terminal.

use crate::verbosity::shows_progress;
use std::io::{self, Write};

/// A count on a terminal, nothing in a pipe or with `-q`.
pub(super) struct Progress {
    pub(super) total: usize,
    pub(super) shown: bool,
}

impl Progress {
    pub(super) fn new(total: usize) -> Self {
        Self { total, shown: shows_progress() }
    }

    pub(super) fn show(&self, done: usize) {
        // About a hundred times in all: writing must not disturb what is measured.
        if self.shown && done.is_multiple_of(self.total.div_ceil(100)) {
            let _ = write!(io::stderr(), "\r{done}/{}", self.total);
        }
    }

    pub(super) fn show_of(&self, done: usize, total: usize) {
        if self.shown {
            let _ = write!(io::stderr(), "\r{done}/{total} ");
        }
    }

    pub(super) fn clear(&self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
