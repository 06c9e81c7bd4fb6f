//! Runs a network with an operator that neither ONNX nor Floe has, on the host.
//!
//! ```text
//! cargo run --release --example custom_operator
//! ```
//!
//! `operators` describes the operator; `model.py` made the model. The network compares two pictures, the second of which is the first,
//! moved, and the example tells by how much. For a GPU, the description's CUDA becomes part of the plan:
//!
//! ```text
//! floec compile model.onnx --operators operators --target jetson-orin-nano -o flow.floe
//! floec prove model.onnx --operators operators --target jetson-orin-nano
//! ```

use floe_compiler::{
    pipeline::{CompileOptions, compile},
    targets,
};
use floe_custom_operator::{NAME, correlation};
use floe_engine::{
    host::{self, Operator},
    plan::Plan,
};
use floe_models::custom::Operators;
use std::path::Path;

const CHANNELS: usize = 3;
const HEIGHT: usize = 16;
const WIDTH: usize = 24;
const REACH: usize = 2;
const SIDE: usize = 2 * REACH + 1;
/// How far the second picture is moved: down, and to the right.
const MOVED: [usize; 2] = [2, 1];

fn main() -> anyhow::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));

    // On the workstation: the model, and the description of the operator that it needs.
    let mut options = CompileOptions { targets: vec![targets::find("host")?.clone()], ..CompileOptions::default() };
    options.import.operators = Operators::load([folder.join("operators").as_path()])?;
    let compiled = compile(&folder.join("model.onnx"), &options, &|_| ())?;

    // On the device: a session with the operator's function.
    let mut file = vec![host::Block::ZERO; compiled.bytes.len().div_ceil(host::ALIGNMENT)];
    bytemuck::cast_slice_mut(&mut file)[..compiled.bytes.len()].copy_from_slice(&compiled.bytes);
    let plan = Plan::parse(&bytemuck::cast_slice(&file)[..compiled.bytes.len()])?;
    let variant = plan.variant_for("host").ok_or_else(|| anyhow::anyhow!("the plan has no host variant"))?;
    let mut memory = vec![host::Block::ZERO; host::blocks(&variant)];
    let operators = [Operator { name: NAME, function: &correlation }];
    let mut session = host::Session::init_with(variant, bytemuck::cast_slice_mut(&mut memory), &operators)?;

    let left: Vec<f32> = (0..CHANNELS * HEIGHT * WIDTH).map(|i| (i * i * 37 % 101) as f32 / 50.0 - 1.0).collect();
    let mut right = vec![0.0; left.len()];
    for (i, value) in left.iter().enumerate() {
        let (plane, y, x) = (i / (HEIGHT * WIDTH), i / WIDTH % HEIGHT, i % WIDTH);
        let (y, x) = ((y + MOVED[0]) % HEIGHT, (x + MOVED[1]) % WIDTH);
        right[(plane * HEIGHT + y) * WIDTH + x] = *value;
    }
    session.write("left", bytemuck::cast_slice(&left))?;
    session.write("right", bytemuck::cast_slice(&right))?;
    session.replay()?;
    let mut cost = vec![0f32; SIDE * SIDE * HEIGHT * WIDTH];
    session.read("cost", bytemuck::cast_slice_mut(&mut cost))?;

    let sums: Vec<f32> = cost.chunks(HEIGHT * WIDTH).map(|plane| plane.iter().sum()).collect();
    let best = (0..sums.len()).max_by(|&a, &b| sums[a].total_cmp(&sums[b])).unwrap_or(0);
    let (down, right) = (best / SIDE, best % SIDE);
    println!(
        "the picture moved {} pixels down and {} to the right",
        down as i64 - REACH as i64,
        right as i64 - REACH as i64
    );
    anyhow::ensure!([down, right] == MOVED.map(|moved| moved + REACH), "that is not how it was moved");
    Ok(())
}
