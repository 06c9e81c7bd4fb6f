//! The plan file; `PLAN_FORMAT.md` beside the crate describes every byte.
//!
//! [`Plan::parse`] checks everything, so that whoever holds a [`Plan`] may rely on it: every record decodes, every operand
//! lies inside its region, every number names something that exists. What it cannot check is whether two steps that may
//! run at the same time touch the same bytes: that is the compiler's promise.

mod check;
#[cfg(feature = "measure")]
mod check_candidate;
#[cfg(feature = "host")]
mod check_host_step;
mod check_shapes;
mod check_step;
pub mod content;
mod error;
mod file;
pub mod format;
mod image;
mod inflate;
mod reader;
mod section;
#[cfg(feature = "signature")]
mod signature;
mod suitability;
#[cfg(feature = "writer")]
mod writer;

pub use check_step::check_launch;
pub use error::{OperandProblem, PlanError, RecordProblem, SectionProblem, ShapesProblem, StepProblem};
pub use file::SectionKind;
pub use image::StoredImage;
pub use reader::{Memory, Plan, Records, Variant};
#[cfg(feature = "signature")]
pub use signature::{InvalidKey, PublicKey};
pub use suitability::Suitability;
#[cfg(feature = "writer")]
pub use writer::{OwnedImage, PlanWriter, VariantParts, lay_out_images};
