//! The form of a float model that quantising works on.

use crate::{
    Error, Model, fold, normalise,
    run::{self, Import},
    upgrade,
};

/// Brings a float model into the form that quantising works on, of this opset at least. Gives the nodes that were folded.
///
/// # Errors
/// Where the model is refused.
pub fn run(model: &mut Model, import: &Import, opset: i64) -> Result<Vec<String>, Error> {
    normalise::run(model)?;
    if model.opset() < opset {
        let facts = run::facts(model, import)?;
        let ranks = facts.iter().map(|(name, fact)| (name.clone(), fact.shape.len())).collect();
        upgrade::run(model, &ranks, opset)?;
    }
    fold::run(model)
}
