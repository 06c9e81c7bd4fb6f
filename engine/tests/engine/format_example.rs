//! The example in `PLAN_FORMAT.md` is what the writer writes.

use crate::support::{binding, cuda_parts, image, operand, step};
use floe_engine::plan::{
    Plan, PlanWriter,
    format::{Action, Direction, KernelEntry, Region, StepNote},
};

/// 16 bytes a line: offset, bytes, ASCII. Lines like the one before are a `*`, as in `hexdump`.
fn dump(bytes: &[u8]) -> String {
    let lines: Vec<&[u8]> = bytes.chunks(16).collect();
    let repeats = |number: usize| number > 0 && lines[number] == lines[number - 1];
    let line = |number: usize| {
        let hex: Vec<String> = lines[number].iter().map(|byte| format!("{byte:02x}")).collect();
        let graphic = |&byte: &u8| if byte.is_ascii_graphic() { char::from(byte) } else { '.' };
        let text: String = lines[number].iter().map(graphic).collect();
        match (repeats(number), number > 0 && repeats(number - 1)) {
            (true, true) => String::new(),
            (true, false) => "*\n".to_owned(),
            (false, _) => format!("{:04x}  {:<47}  {text}\n", number * 16, hex.join(" ")),
        }
    };
    (0..lines.len()).map(line).collect()
}

#[test]
fn the_documented_example_is_the_writers() {
    let mut parts = cuda_parts();
    parts.steps = vec![step(
        Action::Launch { kernel: 0, grid: [1; 3], block: [32, 1, 1], shared: 0 },
        &[
            operand(Region::Binding(0), 0, false),
            operand(Region::Weights, 0, false),
            operand(Region::Binding(1), 0, true),
        ],
        &[],
    )];
    parts.header.arena_bytes = 0;
    parts.header.arena_lower_bound = 0;
    parts.kernels = vec![KernelEntry { image: 0, name: "add" }];
    parts.images = vec![image(b"(cubin)".to_vec())];
    parts.bindings = vec![binding("x", Direction::Input), binding("y", Direction::Output)];
    parts.notes = vec![StepNote {
        sources: "add0",
        reasons: "",
        family: "pointwise",
        algorithm: "generated",
        configuration: "",
        bytes: 48,
        flops: 4,
        expected: 1.5,
        measured: false,
        runner_up: "",
        runner_up_expected: 0.0,
        floor: 0.0,
    }];
    let bytes = PlanWriter::new("tiny", "floec 0.1.0").variant(parts).finish();
    Plan::parse(&bytes).unwrap();
    let dump = dump(&bytes);
    let documented = include_str!("../../PLAN_FORMAT.md");
    assert!(
        documented.contains(&format!("```text\n{dump}```")),
        "PLAN_FORMAT.md shows another example than the writer writes. If a structure changed, raise `VERSION` and put \
         this there:\n{dump}"
    );
}
