//! Small plans through the engine on the emulated GPU: sound ones run as on a GPU with nothing found, and each defect that is
//! put into one is found.

use floe_emulator::{
    driver::{API, Emulator, Mode, Options, describe},
    machine::Limits,
    watch::findings::{Defect, Finding},
};
use floe_engine::{
    cuda::{DriverApi, InitOptions, Session, Wait},
    host::Block,
    plan::{
        OwnedImage, Plan, PlanWriter, VariantParts,
        format::{
            Action, Binding, COUNTER_BYTES, Direction, ImageKind, KernelEntry, Operand, REPORT_BYTES, Region, Step,
            VariantHeader,
        },
    },
};
use floe_kernels::{DType, Dims};

/// Elements of every tensor, f32.
const ELEMENTS: u32 = 64;
const BYTES: u64 = 4 * ELEMENTS as u64;

/// `add`: y = a + b. `pairs`: y[i] = a[i] + a[i + 1]. `signal`: as the product's. `forever`: never ends. `ahead`: prefetches from `a` to `b`,
/// and the line at `b`.
const PTX: &str = "
.version 8.0
.target sm_87
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 y) {
    .reg .b32 %r<5>; .reg .f32 %f<4>; .reg .b64 %rd<12>;
    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [y];
    cvta.to.global.u64 %rd4, %rd1; cvta.to.global.u64 %rd5, %rd2; cvta.to.global.u64 %rd6, %rd3;
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.s32 %r4, %r2, %r3, %r1;
    mul.wide.u32 %rd7, %r4, 4;
    add.s64 %rd8, %rd4, %rd7; add.s64 %rd9, %rd5, %rd7; add.s64 %rd10, %rd6, %rd7;
    ld.global.f32 %f1, [%rd8]; ld.global.f32 %f2, [%rd9];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%rd10], %f3;
    ret;
}
.visible .entry pairs(.param .u64 a, .param .u64 y) {
    .reg .b32 %r<5>; .reg .f32 %f<4>; .reg .b64 %rd<10>;
    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [y];
    cvta.to.global.u64 %rd3, %rd1; cvta.to.global.u64 %rd4, %rd2;
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.s32 %r4, %r2, %r3, %r1;
    mul.wide.u32 %rd5, %r4, 4;
    add.s64 %rd6, %rd3, %rd5; add.s64 %rd7, %rd4, %rd5;
    ld.global.f32 %f1, [%rd6]; ld.global.f32 %f2, [%rd6+4];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%rd7], %f3;
    ret;
}
.visible .entry signal(.param .u64 counter, .param .u64 report) {
    .reg .b32 %r<3>; .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [counter]; ld.param.u64 %rd2, [report];
    cvta.to.global.u64 %rd3, %rd1;
    ld.global.u32 %r1, [%rd3];
    add.s32 %r2, %r1, 1;
    st.global.u32 [%rd3], %r2;
    st.release.sys.global.u32 [%rd2], %r2;
    ret;
}
.visible .entry forever(.param .u64 a, .param .u64 b, .param .u64 y) {
again:
    bra.uni again;
}
.visible .entry ahead(.param .u64 a, .param .u64 b) {
    .reg .b32 %r<2>; .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b];
    sub.s64 %rd3, %rd2, %rd1; cvt.u32.u64 %r1, %rd3;
    cp.async.bulk.prefetch.L2.global [%rd1], %r1;
    prefetch.global.L2 [%rd2];
    ret;
}
";

const KERNELS: [&str; 5] = ["add", "pairs", "signal", "forever", "ahead"];

fn at(region: Region, offset: u64, bytes: u64, written: bool) -> Operand {
    Operand { region, offset, bytes, written }
}

fn read(region: Region) -> Operand {
    at(region, 0, BYTES, false)
}

fn write(region: Region) -> Operand {
    at(region, 0, BYTES, true)
}

const X: Region = Region::Binding(0);
const TOTAL: Region = Region::Binding(1);
const Y: Region = Region::Binding(2);

fn step(kernel: &str, operands: &[Operand], after: &[u32]) -> Step {
    let kernel = KERNELS.iter().position(|name| *name == kernel).unwrap() as u32;
    let (grid, block) = if kernel == 2 { ([1; 3], [1; 3]) } else { ([2, 1, 1], [ELEMENTS / 2, 1, 1]) };
    Step {
        action: Action::Launch { kernel, grid, block, shared: 0 },
        operands: heapless::Vec::from_slice(operands).unwrap(),
        after: heapless::Vec::from_slice(after).unwrap(),
        overlaps: false,
    }
}

/// A file with a plan of these steps; inputs `x`, state `total`, output `y`, arena and weights of two tensors each.
fn plan(steps: Vec<Step>, image_kind: ImageKind) -> Vec<Block> {
    let binding = |name, direction| Binding {
        name,
        direction,
        dtype: DType::F32,
        content: "",
        shape: Dims::from_slice(&[ELEMENTS]).unwrap(),
    };
    let header = VariantHeader {
        target: "gpu",
        architecture: 87,
        image_kind,
        precision: "f32",
        arena_bytes: 2 * BYTES,
        arena_lower_bound: 2 * BYTES,
        ..VariantHeader::default()
    };
    let mut cubin = [0; 64];
    cubin[..6].copy_from_slice(b"\x7fELF\x02\x01");
    (cubin[18], cubin[52]) = (190, 64);
    let image = if image_kind == ImageKind::Ptx { PTX.as_bytes() } else { &cubin };
    let parts = VariantParts {
        header,
        steps,
        kernels: KERNELS.iter().map(|name| KernelEntry { image: 0, name }).collect(),
        images: vec![OwnedImage::plain(image_kind, image.to_vec())],
        bindings: vec![
            binding("x", Direction::Input),
            binding("total", Direction::State),
            binding("y", Direction::Output),
        ],
        notes: vec![],
        weights: (0..2 * ELEMENTS).flat_map(|i| (i as f32).to_le_bytes()).collect(),
        candidates: vec![],
        candidate_images: vec![],
    };
    let bytes = PlanWriter::new("small", "tests").variant(parts).finish();
    let mut blocks = vec![Block::ZERO; bytes.len().div_ceil(64)];
    bytemuck::cast_slice_mut(&mut blocks)[..bytes.len()].copy_from_slice(&bytes);
    blocks.push(Block::ZERO);
    blocks
}

fn parse(file: &[Block]) -> Plan<'_> {
    let bytes: &[u8] = bytemuck::cast_slice(file);
    let length = (0..=128).map(|less| bytes.len() - less).find(|&length| Plan::parse(&bytes[..length]).is_ok());
    Plan::parse(&bytes[..length.expect("a sound plan")]).unwrap()
}

/// Runs a plan twice with `x` of ones; output of the second replay and findings.
fn run(file: &[Block], options: InitOptions) -> (Result<Vec<f32>, String>, Vec<Finding>) {
    let plan = parse(file);
    let limits = Limits { instructions: 10_000_000, ..Limits::default() };
    let emulator = Emulator::new(Options { limits, ..Options::default() });
    let variant = plan.variants().next().unwrap();
    emulator.describe(describe::of_plan(&variant));
    static TABLE: DriverApi = API;
    let replayed = (|| {
        // SAFETY: the emulator keeps the driver's contract and outlives the session on this thread.
        let session = unsafe { Session::init(variant, &TABLE, options) };
        let mut session = session.map_err(|error| error.to_string())?;
        let mut output = vec![0u8; BYTES as usize];
        let ones: Vec<u8> = (0..ELEMENTS).flat_map(|_| 1f32.to_le_bytes()).collect();
        session.write("x", &ones).map_err(|error| error.to_string())?;
        for _ in 0..2 {
            session.replay().map_err(|error| error.to_string())?;
            session.read("y", &mut output).map_err(|error| error.to_string())?;
        }
        Ok(output.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
    })();
    (replayed, emulator.findings())
}

fn found(steps: Vec<Step>) -> Vec<Finding> {
    let file = plan(steps, ImageKind::Ptx);
    let (_, findings) = run(&file, InitOptions::default());
    let (_, again) = run(&file, InitOptions::default());
    assert_eq!(findings, again, "findings are reproducible");
    findings
}

fn defects(steps: Vec<Step>) -> Vec<Defect> {
    found(steps).into_iter().map(|finding| finding.defect).collect()
}

/// arena = x + weights; y = arena + total; total = total + x.
fn sound() -> Vec<Step> {
    vec![
        step("add", &[read(X), read(Region::Weights), write(Region::Arena)], &[]),
        step("add", &[read(Region::Arena), read(TOTAL), write(Y)], &[0]),
        step("add", &[read(TOTAL), read(X), write(TOTAL)], &[1]),
    ]
}

#[test]
fn a_sound_plan_runs_in_every_way_and_nothing_is_found() {
    let mut steps = sound();
    steps.push(step(
        "signal",
        &[at(Region::Counter, 0, COUNTER_BYTES, true), at(Region::Report, 0, REPORT_BYTES, true)],
        &[],
    ));
    let file = plan(steps, ImageKind::Ptx);
    for wait in Wait::ALL {
        for mapped in [false, true] {
            let (output, findings) = run(&file, InitOptions { wait, mapped, ..InitOptions::default() });
            // INIT's replay saw zeros and left the state zero; the first replay left ones in it.
            let expected: Vec<f32> = (0..ELEMENTS).map(|i| i as f32 + 2.0).collect();
            assert_eq!(output.unwrap(), expected, "{wait:?} {mapped}");
            assert_eq!(findings, [], "{wait:?} {mapped}");
        }
    }
}

#[test]
fn unordered_steps_are_found_where_they_touch_the_same_bytes() {
    let mut steps = sound();
    steps[1].after.clear();
    assert_eq!(defects(steps), [Defect::RaceOfSteps]);
    // Halves of one operand are no race, though the declared ranges meet.
    let half = |number: u32| {
        let mut step = step("add", &[read(X), read(Region::Weights), write(Region::Arena)], &[]);
        let Action::Launch { grid, .. } = &mut step.action else { unreachable!() };
        *grid = [1; 3];
        for operand in &mut step.operands {
            (operand.offset, operand.bytes) = (u64::from(number) * BYTES / 2, BYTES - u64::from(number) * BYTES / 2);
        }
        step
    };
    let last = step("add", &[read(Region::Arena), read(TOTAL), write(Y)], &[0, 1]);
    assert_eq!(defects(vec![half(0), half(1), last]), []);
}

#[test]
fn a_halo_that_nobody_wrote_is_found() {
    let wide = at(Region::Arena, 0, BYTES + 16, false);
    let last = step("pairs", &[wide, write(Y)], &[0]);
    let findings = found(vec![sound().remove(0), last]);
    assert_eq!(findings.len(), 1, "{findings:?}");
    let finding = &findings[0];
    assert_eq!((finding.defect, finding.step, finding.kernel.as_str()), (Defect::Unwritten, 1, "pairs"));
    // The last thread of the second block, at the second load, in INIT's replay and two more.
    assert_eq!((finding.block, finding.thread, finding.count), ([1, 0, 0], [31, 0, 0], 3));
    let place = finding.place.as_ref().unwrap();
    assert_eq!(place.instruction, "ld.global.f32");
    assert!(PTX.lines().nth(place.ptx_line as usize - 1).unwrap().contains("%rd6+4"), "{place}");
    assert!(finding.operand.contains("bytes 256..260 of the arena, which has 272"), "{}", finding.operand);
}

#[test]
fn an_access_past_its_operand_is_found_inside_the_allocation_too() {
    let last = step("pairs", &[read(Region::Arena), write(Y)], &[0]);
    assert_eq!(defects(vec![sound().remove(0), last]), [Defect::OutsideOperand]);
}

#[test]
fn prefetches_are_no_reads_and_stay_inside_their_operands() {
    let with = |offset: u64, bytes: u64, next: u64| {
        let [fetched, next] = [at(Region::Weights, offset, bytes, false), at(Region::Weights, next, 16, false)];
        [sound(), vec![step("ahead", &[fetched, next], &[])]].concat()
    };
    assert_eq!(defects(with(16, 240, 256)), []);
    // Nobody has written the arena's second half.
    let unwritten = [BYTES, BYTES + 16].map(|offset| at(Region::Arena, offset, 16, false));
    assert_eq!(defects([sound(), vec![step("ahead", &unwritten, &[])]].concat()), []);
    let findings = found(with(16, 224, 256));
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!((findings[0].defect, findings[0].step), (Defect::OutsideOperand, 3));
    let place = findings[0].place.as_ref().unwrap();
    assert!(place.instruction.starts_with("cp.async.bulk.prefetch"), "{place}");
    assert!(findings[0].operand.contains("bytes 0..240 of the weights from byte 16, which has 224"), "{findings:?}");
}

#[test]
fn swapped_operands_are_found() {
    let mut steps = sound();
    steps[0].operands.swap(0, 2);
    let defects = defects(steps);
    assert_eq!(defects[0], Defect::Unwritten);
    assert!(defects.contains(&Defect::StoreToInput), "{defects:?}");
}

#[test]
fn an_endless_kernel_ends_with_an_error_and_a_finding() {
    let file = plan(vec![step("forever", &[read(X), read(X), write(Y)], &[])], ImageKind::Ptx);
    let (output, findings) = run(&file, InitOptions::default());
    assert!(output.unwrap_err().contains("CUDA_ERROR_LAUNCH_TIMEOUT"));
    assert_eq!(findings.iter().map(|finding| finding.defect).collect::<Vec<_>>(), [Defect::Fault]);
}

#[test]
fn machine_code_is_refused_with_what_to_do() {
    let file = plan(sound(), ImageKind::Cubin);
    let plan = parse(&file);
    let emulator = Emulator::new(Options { mode: Mode::Run, ..Options::default() });
    static TABLE: DriverApi = API;
    // SAFETY: as in `run`.
    let session = unsafe { Session::init(plan.variants().next().unwrap(), &TABLE, InitOptions::default()) };
    assert!(session.unwrap_err().to_string().contains("CUDA_ERROR_INVALID_IMAGE"));
    assert!(emulator.message().contains("--ptx"));
}
