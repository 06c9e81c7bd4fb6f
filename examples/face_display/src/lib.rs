//! What the face display does between the plan's replay and the screen: `no_std`, and without an allocator.
//!
//! [`frame`] scales a picture for the network, [`detect`] makes faces of what it says, [`overlay`] draws them on any
//! [`DrawTarget`](embedded_graphics::draw_target::DrawTarget), such as a [`surface::Surface`] over a caller's memory.
#![no_std]
#![warn(missing_docs)]

pub mod detect;
pub mod frame;
pub mod overlay;
pub mod surface;
