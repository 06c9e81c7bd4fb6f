//! Selection by measurement, as far as it goes without a GPU: candidates plans, and tables that overrule the cost model.

use crate::{Folder, models, nvrtc_is_there, run};
use floe_engine::plan::Plan;
use serde_json::Value;

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("conv.onnx", models::convolution());
    folder
}

/// Key, algorithm and configuration of the candidates of the only convolution, in the cost model's order.
fn candidates(folder: &Folder, plan: &str) -> Vec<(String, String, String)> {
    let bytes = folder.read(plan);
    let plan = Plan::parse(&bytes).unwrap();
    let variant = plan.variants().next().unwrap();
    let of_conv = variant.candidates().filter(|candidate| candidate.description.starts_with("conv "));
    of_conv.map(|c| (c.key.to_owned(), c.algorithm.to_owned(), c.configuration.to_owned())).collect()
}

/// The step of the convolution as `floec inspect` tells it.
fn step(folder: &Folder, plan: &str) -> Value {
    let plan: Value = serde_json::from_str(&folder.run(&format!("inspect {plan} --json")).succeeded()).unwrap();
    let steps = plan["variants"][0]["steps"].as_array().unwrap().clone();
    steps.into_iter().find(|step| step["family"] == "conv").unwrap()
}

#[test]
fn a_candidates_plan_holds_competitors_beside_the_best_plan() {
    if !nvrtc_is_there() {
        return;
    }
    let folder = folder();
    folder.run("compile conv.onnx --target h200 -o plan.floe").succeeded();
    let said = folder.run("compile conv.onnx --target h200 --candidates -o candidates.floe").succeeded();
    assert!(said.contains("different kernels; `floe measure` times them"), "{said}");
    let mut again = folder.command("compile conv.onnx --target h200 --candidates=16 -o again.floe --json");
    let report: Value = serde_json::from_str(&run(again.env("RAYON_NUM_THREADS", "1")).succeeded()).unwrap();
    assert!(folder.read("candidates.floe") == folder.read("again.floe"), "the same bytes");
    assert!(folder.run("check candidates.floe").succeeded().contains("sound, not signed, for h200"));

    let all = candidates(&folder, "candidates.floe");
    assert!(all.len() > 2, "{all:?}");
    assert!(report["variants"][0]["candidates"].as_u64().unwrap() >= all.len() as u64);
    let (plain, measured) = (folder.read("plan.floe"), folder.read("candidates.floe"));
    let (plain, measured) = (Plan::parse(&plain).unwrap(), Plan::parse(&measured).unwrap());
    let (plain, measured) = (plain.variant(0).unwrap(), measured.variant(0).unwrap());
    assert!(plain.candidates().next().is_none());
    assert_eq!(plain.steps().collect::<Vec<_>>(), measured.steps().collect::<Vec<_>>());
    assert!(plain.images().eq(measured.images()));
    // The cost model's favourite is what the plan replays.
    assert_eq!(step(&folder, "plan.floe")["configuration"], all[0].2);
}

#[test]
fn measured_times_overrule_the_cost_model() {
    if !nvrtc_is_there() {
        return;
    }
    let folder = folder();
    folder.run("compile conv.onnx --target h200 --candidates -o candidates.floe").succeeded();
    let all = candidates(&folder, "candidates.floe");
    let table = |gpu: &str, entries: &[(usize, f64)]| {
        let mut text = format!("floe-timings 1\ngpu {gpu}\nmultiprocessors 132\nclock 1980\nproblem conv\n");
        for &(number, time) in entries {
            let (key, algorithm, configuration) = &all[number];
            text += &format!("{key} {time:.3} 0.010 {algorithm} {configuration}\n");
        }
        text
    };
    folder.write("h200.timings", table("NVIDIA H200", &[(0, 9.0), (1, 7.0), (2, 5.0)]));
    let compile = "compile conv.onnx --target h200 -o plan.floe --timings";
    let said = folder.run(&format!("{compile} h200.timings")).succeeded();
    assert!(said.contains("kernels measured"), "{said}");
    let step = |plan| step(&folder, plan);
    assert_eq!(step("plan.floe")["configuration"], all[2].2);
    assert_eq!((&step("plan.floe")["measured"], &step("plan.floe")["expected_us"]), (&true.into(), &5.0.into()));
    assert_eq!(step("plan.floe")["runner_up"], format!("{} {}", all[1].1, all[1].2));
    assert_eq!(step("plan.floe")["runner_up_expected_us"], 7.0);
    assert!(folder.run("inspect plan.floe").succeeded().contains("measured"));
    let first = folder.read("plan.floe");
    folder.run(&format!("{compile} h200.timings")).succeeded();
    assert!(first == folder.read("plan.floe"), "the same bytes");

    // A later table overrules an earlier one.
    folder.write("newer.timings", table("NVIDIA H200", &[(1, 4.0)]));
    folder.run(&format!("{compile} h200.timings --timings newer.timings")).succeeded();
    assert_eq!(
        (&step("plan.floe")["configuration"], &step("plan.floe")["expected_us"]),
        (&all[1].2.as_str().into(), &4.0.into())
    );

    // Times of another GPU, or of 16 multiprocessors of this one, say nothing, and the report tells it.
    folder.write("other.timings", table("NVIDIA H100", &[(2, 1.0)]));
    let said = folder.run(&format!("{compile} other.timings --json")).succeeded();
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(report["variants"][0]["timings"]["measured"], 0);
    assert_eq!(
        (&step("plan.floe")["configuration"], &step("plan.floe")["measured"]),
        (&all[0].2.as_str().into(), &false.into())
    );
    folder.run("compile conv.onnx --target h200-16 -o slice.floe --timings h200.timings").succeeded();
    assert_eq!(step("slice.floe")["measured"], false);
}

#[test]
fn bad_tables_and_needless_candidates_are_refused() {
    let folder = folder();
    folder.write("bad.timings", "floe-timings 1\ngpu x\nmultiprocessors many\n");
    let compile = "compile conv.onnx --target host -o plan.floe";
    folder.misused(
        &format!("{compile} --timings bad.timings"),
        &["'bad.timings' is not a timing table", "line 3", "many"],
    );
    folder.misused(&format!("{compile} --timings conv.onnx"), &["conv.onnx"]);
    folder.misused(&format!("{compile} --timings none"), &["cannot read 'none'"]);
    folder.misused(&format!("{compile} --candidates"), &["--candidates needs a GPU among the targets"]);
}
