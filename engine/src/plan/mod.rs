//! The plan file; `PLAN_FORMAT.md` beside the crate describes every byte.

pub mod format;
