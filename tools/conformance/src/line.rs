//! What became of a case, for people and as JSON.

use crate::suite::{Inputs, Kind, Outcome, Report};
use serde::{Deserialize, Serialize};
use std::{fmt, path::Path};

/// What became of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// Name of its folder.
    pub case: String,
    /// `passed`, `failed` or `skipped`.
    pub outcome: String,
    /// The error as a fraction of what is allowed, or the reason.
    pub detail: String,
    /// `live`, `baked` or `folded`, where the case compiled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub inputs: Option<String>,
    /// Inputs of the model that are constants of the plan, where the case compiled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub constant: Option<Vec<String>>,
}

impl Line {
    /// The line of a case.
    pub fn new(case: &Path, Report { outcome, inputs }: &Report) -> Self {
        let (outcome, detail) = match outcome {
            Outcome::Passed { worst } => ("passed", format!("{worst:.3}")),
            Outcome::Failed(reason) => ("failed", reason.clone()),
            Outcome::Skipped(reason) => ("skipped", reason.clone()),
        };
        Self {
            case: case.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            outcome: outcome.to_owned(),
            detail,
            inputs: inputs.as_ref().map(|inputs| inputs.kind().name().to_owned()),
            constant: inputs.as_ref().map(|Inputs { constant, .. }| constant.clone()),
        }
    }

    /// Whether the case passed with inputs of this kind.
    pub fn passed_as(&self, kind: Kind) -> bool {
        self.outcome == "passed" && self.inputs.as_deref().unwrap_or(Kind::Folded.name()) == kind.name()
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, outcome, detail, inputs, constant } = self;
        write!(f, "{outcome:7} {case}: {detail}")?;
        let constant = constant.as_deref().unwrap_or_default().join(", ");
        match inputs.as_deref() {
            None | Some("live") => Ok(()),
            Some(kind) if constant.is_empty() => write!(f, " ({kind})"),
            Some(kind) => write!(f, " ({kind}: {constant})"),
        }
    }
}
