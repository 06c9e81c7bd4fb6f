//! Times that `floe profile --json` measured, beside what the plan says.

use crate::output::usage;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use std::{fs, path::Path};

/// Fields of a step that are the same in a plan and its profile.
const SAME: [&str; 3] = ["family", "algorithm", "configuration"];

/// Puts the times of a profile into the variant of `report` that it is of: `measured_us` of each step, and `profile` with the
/// device and the time of a replay.
///
/// # Errors
/// Returns an error if the file is no profile, or one of another plan.
pub fn add(report: &mut Value, path: &Path) -> Result<()> {
    usage(
        read(path).and_then(|profile| merge(report, &profile)).with_context(|| format!("profile '{}'", path.display())),
    )
}

fn read(path: &Path) -> Result<Value> {
    let text = fs::read(path).context("cannot be read")?;
    serde_json::from_slice(&text).context("is not JSON; `floe profile PLAN --json FILE` writes one")
}

fn merge(report: &mut Value, profile: &Value) -> Result<()> {
    let times = &profile["profile"];
    let Some(steps) = times["steps"].as_array() else {
        bail!("holds no times of steps; `floe profile PLAN --json FILE` on the host or a GPU writes them");
    };
    let target = profile["target"].as_str().unwrap_or_default();
    let variants = report["variants"].as_array_mut().into_iter().flatten();
    let found = variants.into_iter().find(|variant| variant["target"] == target);
    let variant = found.ok_or_else(|| anyhow!("is of target '{target}', which the plan has no variant for"))?;
    let planned = variant["steps"].as_array_mut().map_or(&mut [][..], Vec::as_mut_slice);
    for (number, step) in steps.iter().enumerate() {
        let differs = |planned: &&mut Value| SAME.iter().any(|field| planned[field] != step[field]);
        if planned.get_mut(number).as_ref().is_none_or(differs) {
            bail!("is of another plan: step {number} differs. Profile this one with `floe profile PLAN --json FILE`");
        }
    }
    let network = |step: &&Value| !matches!(step["family"].as_str(), Some("guard" | "signal"));
    if planned.iter().filter(|step| network(&&**step)).count() != steps.len() {
        bail!(
            "is of another plan: it has {} steps. Profile this one with `floe profile PLAN --json FILE`",
            steps.len()
        );
    }
    for (planned, step) in planned.iter_mut().zip(steps) {
        planned["measured_us"] = step["time_us"].clone();
    }
    variant["profile"] = json!({
        "device": profile["device"].as_str().unwrap_or("host"),
        "replay_us": times["replay_us"],
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(family: &str) -> Value {
        json!({"family": family, "algorithm": "direct", "configuration": "8x8", "time_us": 2.5})
    }

    #[test]
    fn times_stand_beside_the_steps_of_their_target_only() {
        let steps = [step("conv"), step("pool"), step("guard")];
        let mut report = json!({"variants": [{"target": "host", "steps": steps}, {"target": "h200", "steps": steps}]});
        let profile = json!({"target": "h200", "device": "H200", "profile": {"replay_us": 6.0, "steps": [step("conv"), step("pool")]}});
        merge(&mut report, &profile).unwrap();
        let variant = &report["variants"][1];
        assert_eq!(variant["profile"], json!({"device": "H200", "replay_us": 6.0}));
        assert_eq!(
            (&variant["steps"][1]["measured_us"], &variant["steps"][2]["measured_us"]),
            (&json!(2.5), &Value::Null)
        );
        assert!(report["variants"][0]["profile"].is_null());
    }

    #[test]
    fn a_profile_of_another_plan_is_refused() {
        let mut report = json!({"variants": [{"target": "host", "steps": [step("conv"), step("pool")]}]});
        let profile =
            |target: &str, steps: &[Value]| json!({"target": target, "profile": {"replay_us": 1.0, "steps": steps}});
        for (profile, word) in [
            (profile("h200", &[step("conv"), step("pool")]), "no variant"),
            (profile("host", &[step("conv")]), "1 steps"),
            (profile("host", &[step("conv"), step("gemm")]), "step 1 differs"),
            (profile("host", &[step("conv"), step("pool"), step("pool")]), "step 2 differs"),
            (json!({"target": "host"}), "no times"),
        ] {
            let error = merge(&mut report, &profile).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
