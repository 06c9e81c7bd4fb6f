//! What the face display does between the plan's replay and the screen: `no_std`, and without an allocator.
//!
//! [`face`] says what a row of the plan's output is, [`overlay`] draws faces on a [`frame`], on any
//! [`DrawTarget`](embedded_graphics::draw_target::DrawTarget), such as a [`surface::Surface`] over a caller's memory.
#![no_std]
#![warn(missing_docs)]

pub mod face;
pub mod frame;
pub mod overlay;
pub mod surface;
