//! What a record must have, as `sections.toml` says.

use anyhow::{Context, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sections {
    kernels: Vec<String>,
    instructions: Vec<String>,
    suite: Vec<String>,
    streams: Vec<String>,
    guards: Vec<String>,
    soak: Vec<String>,
    heap: Vec<String>,
    networks: Networks,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Networks {
    plans: Vec<String>,
    names: Vec<String>,
}

/// Every section that a record must have: its part and its key there.
///
/// # Errors
/// Returns an error if `sections.toml` cannot be understood.
pub fn required() -> Result<Vec<(&'static str, String)>> {
    let Sections { kernels, instructions, suite, streams, guards, soak, heap, networks } =
        toml::from_str(include_str!("../sections.toml")).context("sections.toml")?;
    let Networks { plans, names } = networks;
    let networks = names.iter().flat_map(|name| plans.iter().map(move |plan| format!("{name}-{plan}"))).collect();
    let parts = [
        ("kernels", kernels),
        ("instructions", instructions),
        ("networks", networks),
        ("suite", suite),
        ("streams", streams),
        ("guards", guards),
        ("soak", soak),
        ("heap", heap),
    ];
    Ok(parts.into_iter().flat_map(|(part, keys)| keys.into_iter().map(move |key| (part, key))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Architecture;
    use floe_conformance::bounds::Bounds;

    #[test]
    fn what_stands_in_for_a_network_is_required() {
        let sections = required().unwrap();
        let bounds = Bounds::embedded().unwrap();
        let network = |key: &str, precision| {
            let name = key.split(' ').next().unwrap().rsplit_once('-').unwrap().0;
            bounds.of(name, precision).instead
        };
        let mut seen = 0;
        for (_, key) in sections.iter().filter(|(part, _)| *part == "networks") {
            let (plan, rest) = key.split_once(' ').unwrap();
            let (_, ending) = plan.rsplit_once('-').unwrap();
            if let Some(instead) = network(key, rest.split(' ').next_back().unwrap()) {
                let key = format!("{instead}-{ending} {rest}");
                assert!(sections.contains(&("networks", key.clone())), "{key}");
                seen += 1;
            }
        }
        assert_eq!(seen, 6);
    }

    #[test]
    fn architectures_exist() {
        for (_, key) in required().unwrap().iter().filter(|(part, _)| *part == "kernels") {
            key.parse::<Architecture>().unwrap();
        }
    }

    /// The networks of the zoo at all of their shapes.
    #[test]
    fn the_whole_zoo_is_required() {
        let zoo: toml::Table = toml::from_str(include_str!("../../../models/zoo.toml")).unwrap();
        let sections = required().unwrap();
        for model in zoo["model"].as_array().unwrap() {
            let name = model["name"].as_str().unwrap();
            let inputs = model["inputs"].as_array().unwrap();
            let second = inputs.iter().all(|input| input.get("second_shape").is_some());
            for suffix in if second { vec!["", "-second"] } else { vec![""] } {
                let key = format!("{name}{suffix}-f16 h200 f16");
                assert!(sections.contains(&("networks", key.clone())), "{key}");
            }
        }
    }
}
