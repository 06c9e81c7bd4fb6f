//! Values of a graph, fused or not: each is made once, before it is read.

use super::Illegal;
use floe_models::{Fact, Op, TensorId, Value, infer};

/// Which values of a graph are there, as its nodes are followed in order.
pub struct Made {
    made: Vec<bool>,
    pass: &'static str,
}

impl Made {
    /// What is there before the first node: constants and inputs.
    ///
    /// # Errors
    /// Returns an error if an input is given twice, is a constant or is unknown.
    pub fn before(values: &[Value], inputs: &[TensorId], pass: &'static str) -> Result<Self, Illegal> {
        let mut made: Vec<bool> = values.iter().map(|value| value.constant.is_some()).collect();
        for input in inputs {
            if !make(&mut made, *input) {
                return Err(Illegal::new(pass, "inputs", format!("value {} is given twice or unknown", input.0)));
            }
        }
        Ok(Self { made, pass })
    }

    /// Follows a node, which is called `place` in errors.
    ///
    /// # Errors
    /// Returns an error if it reads what is not there yet, or makes what is there already or unknown.
    pub fn node(
        &mut self,
        inputs: &[TensorId],
        outputs: &[TensorId],
        place: impl Fn() -> String,
    ) -> Result<(), Illegal> {
        if let Some(input) = inputs.iter().find(|input| self.made.get(input.0) != Some(&true)) {
            return Err(Illegal::new(self.pass, place(), format!("value {} is read before it is made", input.0)));
        }
        match outputs.iter().find(|&&output| !make(&mut self.made, output)) {
            Some(output) => {
                Err(Illegal::new(self.pass, place(), format!("value {} is made twice or unknown", output.0)))
            }
            None => Ok(()),
        }
    }

    /// Checks that all outputs are there after the last node.
    ///
    /// # Errors
    /// Returns an error if one is not.
    pub fn outputs(&self, outputs: &[TensorId]) -> Result<(), Illegal> {
        match outputs.iter().find(|output| self.made.get(output.0) != Some(&true)) {
            Some(output) => Err(Illegal::new(self.pass, "outputs", format!("value {} is never made", output.0))),
            None => Ok(()),
        }
    }
}

/// Checks that facts of an operator's outputs are what shape inference says.
///
/// # Errors
/// Returns what it says instead.
pub fn inferred(op: &Op, inputs: &[&Fact], outputs: &[Fact]) -> Result<(), String> {
    match infer(op, inputs, outputs) {
        Ok(facts) if facts == outputs => Ok(()),
        Ok(facts) => Err(format!("makes {facts:?}, recorded as {outputs:?}")),
        Err(reason) => Err(reason.to_string()),
    }
}

/// Whether a value is known and was not there before.
fn make(made: &mut [bool], id: TensorId) -> bool {
    made.get_mut(id.0).is_some_and(|made| !std::mem::replace(made, true))
}
