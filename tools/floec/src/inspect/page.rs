//! The HTML page of `floec inspect --html`: one file that fetches nothing. The data stands in it as JSON; the scripts beside
//! this file draw it.

use super::{graph, plan};
use floe_compiler::schedule::Schedule;
use floe_kernels::codegen::Target;
use serde_json::{Value, json};

const TEMPLATE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPTS: [&str; 9] = [
    include_str!("page/elements.js"),
    include_str!("page/state.js"),
    include_str!("page/strip.js"),
    include_str!("page/head.js"),
    include_str!("page/timeline.js"),
    include_str!("page/arena.js"),
    include_str!("page/roofline.js"),
    include_str!("page/steps.js"),
    include_str!("page/graph.js"),
];
/// Builds what the other scripts describe.
const MAIN: &str = include_str!("page/main.js");

/// The page of a report of [`plan::report`].
pub fn plan(report: &Value) -> String {
    let mut data = report.clone();
    data["kind"] = json!("plan");
    for variant in data["variants"].as_array_mut().into_iter().flatten() {
        variant["graph"] = graph::plan(variant);
    }
    render(&data)
}

/// The page of a model: its report, its graph, and the steps that it takes on each target.
pub fn model(report: &Value, graph: &Value, schedules: &[(&Target, Schedule)]) -> String {
    let mut data = report.clone();
    data["kind"] = json!("model");
    data["graph"] = graph.clone();
    data["variants"] = schedules.iter().map(|(target, schedule)| scheduled(target, schedule)).collect();
    render(&data)
}

/// What is known of a variant before it is compiled.
fn scheduled(target: &Target, schedule: &Schedule) -> Value {
    let steps = schedule.steps.iter().enumerate().map(|(number, step)| {
        let note = &step.note;
        let (runner_up, time) = note.runner_up.clone().unwrap_or_default();
        json!({
            "step": number,
            "sources": note.sources,
            "reasons": note.reasons.iter().map(|reason| format!("f32: {reason}")).collect::<Vec<_>>(),
            "family": note.family,
            "algorithm": note.algorithm,
            "configuration": note.configuration,
            "bytes": note.bytes,
            "flops": note.flops,
            "expected_us": note.expected,
            "measured": note.measured,
            "floor_us": note.floor,
            "runner_up": runner_up,
            "runner_up_expected_us": time,
        })
    });
    json!({
        "target": target.name,
        "architecture": target.architecture,
        "precision": if target.is_host() { "f32" } else { "f16" },
        "ceilings": (!target.is_host()).then(|| plan::ceilings(target)),
        "steps": steps.collect::<Vec<_>>(),
    })
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn render(data: &Value) -> String {
    // Inside of a script element only `<` can end it or begin a comment.
    let json = data.to_string().replace('<', "\\u003c");
    let parts = [
        ("<!-- title -->", escape(data["model"].as_str().unwrap_or_default())),
        ("/* style */", STYLE.to_owned()),
        ("/* data */", json),
        ("/* scripts */", SCRIPTS.concat() + MAIN),
    ];
    // Split at the marks first, so that no name can pretend to be one.
    let (mut page, mut rest) = (String::new(), TEMPLATE);
    for (mark, part) in parts {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        page += before;
        page += &part;
        rest = after;
    }
    page + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_a_model_cannot_inject_markup() {
        let name = "</script><img src=x onerror=alert(1)>/* scripts */<!--";
        let report = json!({"model": name, "variants": [{"steps": [{"sources": [name], "reasons": [name]}]}]});
        let page = plan(&report);
        assert!(!page.contains("<img") && page.contains("&lt;/script&gt;&lt;img"));
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(page.trim_end().ends_with("</html>"));
        // The data can be read back.
        let data = page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
        assert_eq!(serde_json::from_str::<Value>(data).unwrap()["variants"][0]["steps"][0]["sources"][0], name);
    }

    #[test]
    fn every_part_is_in_the_page_once_and_nothing_is_fetched() {
        let page = plan(&json!({"model": "m", "variants": []}));
        for part in SCRIPTS.iter().chain([&STYLE, &MAIN]) {
            assert_eq!(page.matches(part.trim()).count(), 1);
            assert!(!part.contains("innerHTML"), "names would become markup");
        }
        assert!(page.contains("default-src 'none'"));
        for fetching in ["://", "@import", "url(", "fetch(", "XMLHttpRequest"] {
            assert!(!page.contains(fetching), "{fetching}");
        }
    }
}
