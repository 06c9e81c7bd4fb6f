//! Methods on trial: how far from f32 the outputs are with each, and which are kept.

use super::{Effort, outcome::Stage, work::Work};
use crate::{
    Error,
    evaluate::{Distance, Reference},
};

/// What was tried so far.
pub(super) struct Trials {
    /// The outputs in f32.
    pub(super) reference: Reference,
    /// The methods in their order.
    pub(super) stages: Vec<Stage>,
    /// Distance from f32 with those that were kept.
    pub(super) distance: Distance,
    /// Whether the budget holds, where there is one.
    pub(super) within_budget: Option<bool>,
}

impl Trials {
    pub(super) fn new(reference: Reference) -> Self {
        Self { reference, stages: Vec::new(), distance: Distance::default(), within_budget: None }
    }

    /// Measures what everything else is compared with.
    pub(super) fn first(&mut self, work: &mut Work<'_>, name: &str) -> Result<(), Error> {
        let stage = Stage { kept: true, ..self.measure(work, name)? };
        self.distance = stage.best();
        self.stages.push(stage);
        Ok(())
    }

    /// Measures what is there, and says whether it is kept: where the outputs are nearer.
    pub(super) fn nearer(&mut self, work: &mut Work<'_>, name: &str) -> Result<bool, Error> {
        let mut stage = self.measure(work, name)?;
        stage.kept = stage.best().scores < self.distance.scores;
        Ok(self.note(stage))
    }

    /// Tries a method and keeps it if the outputs are no further off; says whether they are not.
    pub(super) fn attempt<'a>(
        &mut self,
        work: &mut Work<'a>,
        name: &str,
        method: impl FnOnce(&mut Work<'a>) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        work.phase(name);
        let state = &work.state;
        let before = (state.choices.clone(), state.rounded.clone(), state.corrected.clone());
        method(work)?;
        let mut stage = self.measure(work, name)?;
        stage.kept = stage.best().scores <= self.distance.scores;
        if !stage.kept {
            let state = &mut work.state;
            (state.choices, state.rounded, state.corrected) = before;
        }
        Ok(self.note(stage))
    }

    fn note(&mut self, stage: Stage) -> bool {
        let kept = stage.kept;
        if kept {
            self.distance = stage.best();
        }
        self.stages.push(stage);
        kept
    }

    /// The distance of the model as it would be written, with and without corrected biases; those are taken that are better.
    pub(super) fn measure(&self, work: &mut Work<'_>, name: &str) -> Result<Stage, Error> {
        work.phase("measure");
        work.state.corrected.clear();
        let import = &work.options.import;
        let distance = self.reference.distance(&work.write()?, import)?;
        let mut corrected = None;
        if work.options.effort > Effort::Least {
            work.correct_biases();
            let other = self.reference.distance(&work.write()?, import)?;
            if other.scores >= distance.scores {
                work.state.corrected.clear();
            }
            corrected = Some(other);
        }
        Ok(Stage { name: name.into(), distance, corrected, kept: false })
    }
}
