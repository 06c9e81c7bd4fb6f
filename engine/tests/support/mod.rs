//! Small plans, and a simulated CUDA driver, for the engine's tests.
#![allow(dead_code)] // Each test binary uses its part.

pub mod driver;
pub mod stack;

use floe_engine::cuda::Session;
use floe_engine::plan::{
    OwnedImage, Plan, PlanWriter, VariantParts,
    format::{
        Action, Binding, COUNTER_BYTES, Candidate, CandidateArgument, CandidateLaunch, CandidateOperand, Direction,
        ImageKind, KernelEntry, Operand, REPORT_BYTES, Region, Role, Step, StepNote, VariantHeader,
    },
    lay_out_images,
};
use floe_kernels::{
    DType, Dims, Kernel, View,
    copy::Copy,
    pointwise::{Binary, Class, Instruction, Pointwise, Program},
};

/// Elements of every tensor in the small plans.
pub const ELEMENTS: usize = 4;
/// Their bytes.
pub const BYTES: u64 = 4 * ELEMENTS as u64;
/// The constants of the small plans.
pub const WEIGHTS: [f32; ELEMENTS] = [1.0, 2.0, 3.0, 4.0];

pub fn operand(region: Region, offset: u64, written: bool) -> Operand {
    Operand { region, offset, bytes: BYTES, written }
}

pub fn step(action: Action, operands: &[Operand], after: &[u32]) -> Step {
    Step {
        action,
        operands: heapless::Vec::from_slice(operands).unwrap(),
        after: heapless::Vec::from_slice(after).unwrap(),
        overlaps: false,
    }
}

pub fn binding(name: &str, direction: Direction) -> Binding<'_> {
    let shape = Dims::from_slice(&[1, ELEMENTS as u32]).unwrap();
    Binding { name, direction, dtype: DType::F32, shape, content: "" }
}

fn header(target: &str, architecture: u32, arena_bytes: u64) -> VariantHeader<'_> {
    VariantHeader {
        target,
        architecture,
        precision: "f32",
        arena_bytes,
        arena_lower_bound: arena_bytes,
        ..VariantHeader::default()
    }
}

fn note(family: &str) -> StepNote<'_> {
    StepNote {
        sources: "node",
        reasons: "",
        family,
        algorithm: "host",
        configuration: "",
        bytes: BYTES,
        flops: 0,
        expected: 1.5,
        measured: false,
        runner_up: "",
        runner_up_expected: 0.0,
        floor: 0.0,
    }
}

fn weights() -> Vec<u8> {
    WEIGHTS.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Bindings `x` (input), `total` (state), `y` (output).
fn bindings() -> Vec<Binding<'static>> {
    vec![binding("x", Direction::Input), binding("total", Direction::State), binding("y", Direction::Output)]
}

/// `arena = x·weights + total; y = arena; total = arena` with reference kernels.
pub fn host_parts() -> VariantParts<'static> {
    let view = View::contiguous(DType::F32, &[1, ELEMENTS as u32]).unwrap();
    let instructions = [
        Instruction::Input(0),
        Instruction::Input(1),
        Instruction::Input(2),
        Instruction::Binary(Binary::Mul, 0, 1),
        Instruction::Binary(Binary::Add, 3, 2),
    ];
    let program =
        Program { class: Class::F32, inputs: 3, instructions: heapless::Vec::from_slice(&instructions).unwrap() };
    let inputs = heapless::Vec::from_slice(&[view.clone(), view.clone(), view.clone()]).unwrap();
    let fused = Action::Host(Kernel::Pointwise(Pointwise { output: view.clone(), inputs, program }));
    let copy = Action::Host(Kernel::Copy(Copy { source: view.clone(), destination: view }));
    let (x, total, y) = (Region::Binding(0), Region::Binding(1), Region::Binding(2));
    let arena = operand(Region::Arena, 16, false);
    VariantParts {
        header: header("host", 0, 32),
        steps: vec![
            step(
                fused,
                &[
                    operand(x, 0, false),
                    operand(Region::Weights, 0, false),
                    operand(total, 0, false),
                    Operand { written: true, ..arena },
                ],
                &[],
            ),
            step(copy.clone(), &[arena, operand(y, 0, true)], &[0]),
            step(copy, &[arena, operand(total, 0, true)], &[0, 1]),
        ],
        kernels: vec![],
        images: vec![],
        bindings: bindings(),
        notes: vec![note("pointwise"), note("copy"), note("copy")],
        weights: weights(),
        candidates: vec![],
        candidate_images: vec![],
    }
}

/// The least that a driver is given for a cubin: an ELF header without sections, and some bytes of its own.
pub fn cubin(contents: &[u8]) -> Vec<u8> {
    let mut image = vec![0; 64];
    image[..6].copy_from_slice(b"\x7fELF\x02\x01");
    image[18] = 190;
    image[52] = 64;
    image.extend(contents);
    image
}

/// A cubin as it is.
pub fn image(cubin: Vec<u8>) -> OwnedImage {
    OwnedImage::plain(ImageKind::Cubin, cubin)
}

/// A cubin, deflated.
pub fn packed(cubin: &[u8]) -> OwnedImage {
    OwnedImage { bytes: miniz_oxide::deflate::compress_to_vec(cubin, 9), unpacked: cubin.len() as u64 }
}

/// `arena = x + weights; y = arena + total; total = arena + arena` with three launches of the simulated kernel `add`;
/// the second kernel wants more shared memory than the default.
pub fn cuda_parts() -> VariantParts<'static> {
    let launch = |kernel, shared| Action::Launch { kernel, grid: [2, 1, 1], block: [32, 2, 1], shared };
    let (x, total, y) = (Region::Binding(0), Region::Binding(1), Region::Binding(2));
    let arena = operand(Region::Arena, 16, false);
    VariantParts {
        header: header("gpu", 87, 32),
        steps: vec![
            step(
                launch(0, 0),
                &[operand(x, 0, false), operand(Region::Weights, 0, false), Operand { written: true, ..arena }],
                &[],
            ),
            step(launch(1, 64 << 10), &[arena, operand(total, 0, false), operand(y, 0, true)], &[0]),
            step(launch(1, 0), &[arena, arena, operand(total, 0, true)], &[0, 1]),
        ],
        kernels: vec![KernelEntry { image: 0, name: "add" }, KernelEntry { image: 1, name: "add" }],
        images: vec![image(cubin(b"first image")), image(cubin(b"second"))],
        bindings: bindings(),
        notes: vec![],
        weights: weights(),
        candidates: vec![],
        candidate_images: vec![],
    }
}

/// Bindings of two rows, but for the state.
fn wide_bindings() -> Vec<Binding<'static>> {
    let mut bindings = bindings();
    for number in [0, 2] {
        bindings[number].shape = Dims::from_slice(&[2, ELEMENTS as u32]).unwrap();
    }
    bindings
}

/// [`host_parts`] for two rows, which it copies from `x` to `y`.
pub fn wide_host_parts() -> VariantParts<'static> {
    let view = View::contiguous(DType::F32, &[2, ELEMENTS as u32]).unwrap();
    let copy = Action::Host(Kernel::Copy(Copy { source: view.clone(), destination: view }));
    let both = |binding, written| Operand { bytes: 2 * BYTES, ..operand(Region::Binding(binding), 0, written) };
    let steps = vec![step(copy, &[both(0, false), both(2, true)], &[])];
    VariantParts { steps, bindings: wide_bindings(), notes: vec![note("copy")], ..host_parts() }
}

/// [`cuda_parts`] for two rows, of which the first gives the state and is doubled, so that it differs from the one row there; with
/// a counter in front of its arena.
pub fn wide_cuda_parts() -> VariantParts<'static> {
    let launch = |kernel| Action::Launch { kernel, grid: [2, 1, 1], block: [32, 2, 1], shared: 0 };
    let row = |region, row: u64, written| operand(region, row * BYTES, written);
    let (x, total, y) = (Region::Binding(0), Region::Binding(1), Region::Binding(2));
    let mut parts = cuda_parts();
    (parts.header.arena_bytes, parts.header.arena_lower_bound, parts.header.zeroed_bytes) = (288, 288, 16);
    let arena = |row: u64, written| operand(Region::Arena, 256 + row * BYTES, written);
    parts.steps = vec![
        step(launch(0), &[row(x, 0, false), row(Region::Weights, 0, false), arena(0, true)], &[]),
        step(launch(0), &[row(x, 1, false), row(Region::Weights, 0, false), arena(1, true)], &[]),
        step(launch(1), &[arena(0, false), arena(0, false), row(y, 0, true)], &[0]),
        step(launch(1), &[arena(1, false), row(total, 0, false), row(y, 1, true)], &[1]),
        step(launch(1), &[arena(0, false), arena(0, false), row(total, 0, true)], &[2, 3]),
    ];
    parts.bindings = wide_bindings();
    parts
}

/// A plan of two shapes for the host, and two for a GPU.
pub fn two_shapes() -> Vec<u8> {
    let writer = PlanWriter::new("tiny", "tests 1.0").variant(host_parts()).shape(wide_host_parts());
    writer.variant(cuda_parts()).shape(wide_cuda_parts()).finish()
}

/// [`cuda_parts`] with a guard of `y` and a signal.
pub fn signalling_parts() -> VariantParts<'static> {
    let mut parts = cuda_parts();
    let launch = |kernel| Action::Launch { kernel, grid: [1; 3], block: [32, 1, 1], shared: 0 };
    let counter = |written| Operand { region: Region::Counter, offset: 0, bytes: COUNTER_BYTES, written };
    let report = Operand { region: Region::Report, offset: 0, bytes: REPORT_BYTES, written: true };
    parts.kernels.push(KernelEntry { image: 0, name: "guard" });
    parts.kernels.push(KernelEntry { image: 0, name: "signal" });
    parts.steps.push(step(launch(2), &[counter(false), report, operand(Region::Binding(2), 0, false)], &[]));
    parts.steps.push(step(launch(3), &[counter(true), report], &[]));
    // So that sessions have something to unpack, larger than their bindings.
    parts.images[1] = packed(&cubin(&[0; 4000]));
    parts
}

/// A plan with one step, which runs a kernel over operands that lie one behind another in the arena.
pub fn kernel_parts(kernel: Kernel) -> VariantParts<'static> {
    let family = kernel.family();
    let (inputs, outputs) = (kernel.inputs(), kernel.outputs());
    let bytes = (0..inputs).map(|i| family.input_bytes(i).unwrap().unwrap());
    let bytes = bytes.chain((0..outputs).map(|i| family.output(i).unwrap().bytes().unwrap()));
    let workspace = Some(family.host_workspace()).filter(|&bytes| bytes > 0);
    let mut end = 0;
    let mut operands = heapless::Vec::new();
    for (number, bytes) in bytes.chain(workspace).enumerate() {
        operands.push(Operand { region: Region::Arena, offset: end, bytes, written: number >= inputs }).unwrap();
        end += bytes.next_multiple_of(64);
    }
    VariantParts {
        header: header("host", 0, end),
        steps: vec![Step { action: Action::Host(kernel), operands, after: heapless::Vec::new(), overlaps: false }],
        kernels: vec![],
        images: vec![],
        bindings: vec![],
        notes: vec![],
        weights: vec![],
        candidates: vec![],
        candidate_images: vec![],
    }
}

/// A file with the given variants.
pub fn write(variants: impl IntoIterator<Item = VariantParts<'static>>) -> Aligned {
    let writer = PlanWriter::new("tiny", "tests 1.0");
    Aligned::new(&variants.into_iter().fold(writer, PlanWriter::variant).finish())
}

/// A file's bytes, aligned as a mapped file's are.
#[derive(Clone)]
pub struct Aligned {
    blocks: Vec<floe_engine::host::Block>,
    length: usize,
}

impl Aligned {
    pub fn new(bytes: &[u8]) -> Self {
        let mut blocks = vec![floe_engine::host::Block::ZERO; bytes.len().div_ceil(64)];
        bytemuck::cast_slice_mut(&mut blocks)[..bytes.len()].copy_from_slice(bytes);
        Self { blocks, length: bytes.len() }
    }
}

impl std::ops::Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.blocks)[..self.length]
    }
}

impl std::ops::DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.blocks)[..self.length]
    }
}

/// A checked plan written anew from what the engine reads in it: the same bytes, since there is one way to write them.
pub fn rewrite(plan: &Plan<'_>, bytes: &[u8]) -> Vec<u8> {
    let writer = PlanWriter::new(plan.model(), plan.compiler()).version(plan.version());
    (0..plan.variants().len()).fold(writer, |writer, index| writer.variant(parts(plan, bytes, index))).finish()
}

/// What a variant of a checked plan was written from.
pub fn parts<'a>(plan: &Plan<'a>, bytes: &[u8], index: usize) -> VariantParts<'a> {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let entry = 96 + 24 * (10 * index + 10);
    let variant = plan.variant(index).unwrap();
    VariantParts {
        header: variant.header().clone(),
        steps: variant.steps().collect(),
        kernels: variant.kernels().collect(),
        images: variant.images().map(OwnedImage::from).collect(),
        bindings: variant.bindings().collect(),
        notes: variant.notes().collect(),
        weights: variant.weights().to_vec(),
        candidates: variant.candidates().collect(),
        // The engine lends parts of this blob only.
        candidate_images: bytes[number(entry + 8)..][..number(entry + 16)].to_vec(),
    }
}

/// Puts the right digest into a front that was changed, so that the checks behind the digest are reached.
pub fn seal(bytes: &mut [u8]) {
    use sha2::{Digest, Sha256};
    let Some(field) = bytes.get(24..32) else { return };
    let front = u64::from_le_bytes(field.try_into().unwrap()).min(bytes.len() as u64) as usize;
    if front < 96 {
        return;
    }
    bytes[32..64].fill(0);
    let digest = Sha256::digest(&bytes[..front]);
    bytes[32..64].copy_from_slice(&digest);
}

/// Floats as bindings hold them.
pub fn floats(values: [f32; ELEMENTS]) -> [u8; BYTES as usize] {
    bytemuck::cast(values)
}

/// Writes `x` everywhere into input "x", replays, and reads output "y".
pub fn round_trip(session: &mut Session<'_, '_>, x: f32) -> [u8; BYTES as usize] {
    let mut y = floats([0.0; ELEMENTS]);
    session.write("x", &floats([x; ELEMENTS])).unwrap();
    session.replay().unwrap();
    session.read("y", &mut y).unwrap();
    y
}

/// [`cuda_parts`] with two candidates for one problem, the second of two launches, and one for another problem; all share
/// an image.
pub fn candidates_parts() -> VariantParts<'static> {
    let operands = [
        (Role::Input, DType::F32, BYTES),
        (Role::Constant, DType::F32, BYTES),
        (Role::Output, DType::F32, BYTES),
        (Role::Workspace, DType::U8, 2 * BYTES),
        (Role::Counters, DType::U8, 16),
    ];
    let launch = |image, arguments: [(u8, u64); 3], shared| CandidateLaunch {
        image,
        name: "add",
        grid: [3, 1, 1],
        block: [64, 1, 1],
        shared,
        overlaps: false,
        arguments: arguments.into_iter().map(|(operand, offset)| CandidateArgument { operand, offset }).collect(),
    };
    let (table, candidate_images) = lay_out_images(&[image(cubin(b"shared image")), image(cubin(b"own"))]);
    let candidate = |problem, key, launches: &[CandidateLaunch<'static>]| Candidate {
        problem,
        description: "add 1x4:f32",
        key,
        algorithm: "direct",
        configuration: "wide",
        expected: 2.5,
        operands: operands.iter().map(|&(role, dtype, bytes)| CandidateOperand { role, dtype, bytes }).collect(),
        launches: launches.iter().cloned().collect(),
    };
    VariantParts {
        candidates: vec![
            candidate(0, "one", &[launch(table[0], [(0, 0), (1, 0), (2, 0)], 0)]),
            candidate(
                0,
                "two",
                &[
                    launch(table[0], [(0, 0), (1, 0), (3, 16)], 100 << 10),
                    launch(table[1], [(3, 16), (4, 0), (2, 0)], 0),
                ],
            ),
            candidate(1, "three", &[launch(table[0], [(0, 0), (0, 0), (2, 0)], 0)]),
        ],
        candidate_images,
        ..cuda_parts()
    }
}
