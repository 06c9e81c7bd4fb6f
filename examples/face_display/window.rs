//! A window on the desktop, by embedded-graphics' simulator.

use crate::display;
use embedded_graphics::{pixelcolor::Rgb888, prelude::*};
use embedded_graphics_simulator::{OutputSettings, SimulatorDisplay, SimulatorEvent, Window as SimulatorWindow};
use floe_face_display::overlay::{self, Scene};

/// A window; opens with the first scene.
pub struct Window {
    window: SimulatorWindow,
    display: SimulatorDisplay<Rgb888>,
}

impl Window {
    /// A window that is not open yet.
    pub fn new() -> Self {
        let display = SimulatorDisplay::new(Size::zero());
        Self { window: SimulatorWindow::new("Floe", &OutputSettings::default()), display }
    }

    /// Draws and shows a scene. Whether the window is still open.
    pub fn show(&mut self, scene: &Scene<'_>) -> bool {
        let size = display::size(scene);
        if self.display.size() != size {
            self.display = SimulatorDisplay::new(size);
        }
        let Ok(()) = overlay::draw(&mut self.display, scene);
        self.window.update(&self.display);
        !self.window.events().any(|event| matches!(event, SimulatorEvent::Quit))
    }
}
