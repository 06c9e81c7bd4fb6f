//! `floec check` and `floec inspect` on damaged plans.

use crate::{Folder, models, nvrtc_is_there};
use floe_engine::plan::{Plan, PlanError, SectionProblem};
use std::ops::Range;

/// Bytes of the header and of an entry of the section table, by `engine/PLAN_FORMAT.md`.
const HEADER: usize = 96;
const ENTRY: usize = 24;

fn number(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
}

/// Bytes before the first blob: header, section table, structured sections.
fn front(plan: &[u8]) -> usize {
    number(plan, 24)
}

/// Where each section lies, in the order of the table.
fn sections(plan: &[u8]) -> Vec<Range<usize>> {
    let count = u32::from_le_bytes(plan[12..16].try_into().unwrap()) as usize;
    let entries = (0..count).map(|entry| HEADER + entry * ENTRY);
    entries.map(|at| number(plan, at + 8)..number(plan, at + 8) + number(plan, at + 16)).collect()
}

/// A folder with `plan.floe` for these targets, and its bytes.
fn plan_for(targets: &str) -> (Folder, Vec<u8>) {
    let folder = Folder::new();
    folder.write("conv.onnx", models::convolution());
    folder.run(&format!("compile conv.onnx {targets} -o plan.floe")).succeeded();
    let plan = folder.read("plan.floe");
    (folder, plan)
}

/// The plan with one bit turned over.
fn flipped(plan: &[u8], byte: usize, bit: usize) -> Vec<u8> {
    let mut damaged = plan.to_vec();
    damaged[byte] ^= 1 << bit;
    damaged
}

/// Refuses every flip in the front through the check, and every flip in the blobs through their digest.
fn every_flip_is_noticed(plan: &[u8]) {
    Plan::parse(plan).unwrap().verify_blobs().unwrap();
    let mut damaged = plan.to_vec();
    for byte in 0..plan.len() {
        for bit in 0..8 {
            damaged[byte] ^= 1 << bit;
            let noticed = match Plan::parse(&damaged) {
                Ok(parsed) => byte >= front(plan) && parsed.verify_blobs().is_err(),
                // Padding between blobs is refused at once, too.
                Err(PlanError::Section { problem: SectionProblem::Padding, .. }) => true,
                Err(_) => byte < front(plan),
            };
            assert!(noticed, "bit {bit} of byte {byte} of {}, front {}", plan.len(), front(plan));
            damaged[byte] ^= 1 << bit;
        }
    }
}

#[test]
fn every_flipped_bit_of_a_host_plan_is_noticed() {
    every_flip_is_noticed(&plan_for("--target host").1);
}

#[test]
fn every_flipped_bit_in_the_front_of_a_gpu_plan_is_refused() {
    if !nvrtc_is_there() {
        return;
    }
    let (_, plan) = plan_for("--target a100 --target host");
    for byte in 0..front(&plan) {
        for bit in 0..8 {
            assert!(Plan::parse(&flipped(&plan, byte, bit)).is_err(), "bit {bit} of byte {byte}");
        }
    }
    // Kernel images are the file's last blob.
    let image = Plan::parse(&plan).unwrap();
    assert!(image.variants().next().unwrap().images_bytes() > 0);
    let images = sections(&plan)[8].clone();
    for byte in [images.start, images.start + images.len() / 2, images.end - 1] {
        let damaged = flipped(&plan, byte, 3);
        assert!(Plan::parse(&damaged).unwrap().verify_blobs().is_err(), "byte {byte}");
    }
}

#[test]
fn check_and_inspect_refuse_flipped_bits() {
    let (folder, plan) = plan_for("--target host");
    let all = sections(&plan);
    // Magic, version, number of sections, length, front, both digests; then the table and the structured sections.
    let fields = [(0, "FLOEPLAN"), (8, "version"), (12, "header"), (16, "says"), (24, "header")];
    let damaged = [(40, "damaged"), (70, "damaged"), (HEADER + 3, "damaged"), (HEADER + ENTRY + 9, "damaged")];
    let inside = all.iter().filter(|section| !section.is_empty()).map(|section| {
        (section.start + section.len() / 2, "damaged") // Structured sections and weights alike.
    });
    for (byte, word) in fields.into_iter().chain(damaged).chain(inside) {
        folder.write("bad.floe", flipped(&plan, byte, 2));
        folder.refuses("check bad.floe", &["'bad.floe'", word]);
        if byte < front(&plan) {
            folder.misused("inspect bad.floe", &["'bad.floe' is not a sound plan", word]);
            folder.misused("inspect bad.floe --json --html bad.html", &["'bad.floe' is not a sound plan", word]);
        }
    }
}

#[test]
fn a_plan_cut_anywhere_is_refused() {
    let (folder, plan) = plan_for("--target host");
    for length in 0..plan.len() {
        assert!(Plan::parse(&plan[..length]).is_err(), "{length} bytes");
    }
    let mut cuts = vec![0, 1, 7, 8, 16, HEADER - 1, HEADER, HEADER + ENTRY, front(&plan), plan.len() - 1];
    cuts.extend(sections(&plan).iter().flat_map(|section| [section.start, section.end]));
    cuts.retain(|&cut| cut < plan.len());
    cuts.sort_unstable();
    cuts.dedup();
    assert!(cuts.len() > 12, "the sections have borders: {cuts:?}");
    for cut in cuts {
        folder.write("cut.floe", &plan[..cut]);
        let word = if cut == 0 { "not a plan" } else { "truncated" };
        folder.refuses("check cut.floe", &["'cut.floe' is not a sound plan", word]);
    }
    folder.write("long.floe", [plan.as_slice(), &[0]].concat());
    folder.refuses("check long.floe", &["'long.floe' is not a sound plan", "followed by other bytes"]);
}

#[test]
fn files_that_are_no_plans() {
    let folder = Folder::new();
    folder.write("conv.onnx", models::convolution());
    folder.write("text.txt", "neither a plan nor a model");
    folder.refuses("check conv.onnx", &["'conv.onnx' is not a sound plan", "FLOEPLAN"]);
    folder.refuses("check text.txt", &["'text.txt' is not a sound plan", "FLOEPLAN"]);
    folder.misused("inspect text.txt", &["'text.txt' is not a sound plan", "FLOEPLAN", "no ONNX model"]);
    folder.misused("prove text.txt --target host", &["cannot compile 'text.txt'", "not an ONNX"]);
    for command in ["check", "inspect"] {
        folder.misused(&format!("{command} nowhere.floe"), &["cannot read 'nowhere.floe'", "No such file"]);
        folder.misused(&format!("{command} tmp"), &["cannot read 'tmp': it is a folder"]);
    }
}

/// What a stranger named must not command the terminal on which it is shown.
#[test]
#[cfg(unix)]
fn control_characters_in_names_of_files_reach_no_terminal() {
    let folder = Folder::new();
    folder.write("conv.onnx", models::convolution());
    let said = folder.run("compile conv.onnx --target host -o red\u{1b}[31m.floe").succeeded();
    let checked = folder.run("check red\u{1b}[31m.floe").succeeded();
    for text in [said, checked] {
        assert!(text.starts_with("red") && text.contains("[31m.floe: "), "{text:?}");
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    }
}
