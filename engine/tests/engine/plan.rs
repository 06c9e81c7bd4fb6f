//! The total check: valid plans pass, and everything else gets a precise error.

use crate::support::{BYTES, binding, cuda_parts, host_parts, image, operand, seal, write};
use floe_engine::plan::{
    OperandProblem, OwnedImage, Plan, PlanError, PlanWriter, RecordProblem, SectionKind, SectionProblem, StepProblem,
    VariantParts,
    format::{Action, BLOB_ALIGNMENT, Direction, ImageKind, Operand, Region, StepNote},
};
use floe_kernels::{Kernel, KernelError};

/// The error of a plan whose only variant was changed.
fn refused(mut parts: VariantParts<'static>, change: impl FnOnce(&mut VariantParts<'static>)) -> PlanError {
    change(&mut parts);
    Plan::parse(&write([parts])).expect_err("the change should be refused")
}

/// A plan whose only variant was changed is still one.
fn accepted(mut parts: VariantParts<'static>, change: impl FnOnce(&mut VariantParts<'static>)) {
    change(&mut parts);
    if let Err(error) = Plan::parse(&write([parts])) {
        panic!("refused: {error}");
    }
}

fn step_problem(parts: VariantParts<'static>, change: impl FnOnce(&mut VariantParts<'static>)) -> (u32, StepProblem) {
    match refused(parts, change) {
        PlanError::Step { variant: 0, step, problem } => (step, problem),
        other => panic!("expected a step's error, got {other:?}"),
    }
}

fn record_problem(
    parts: VariantParts<'static>,
    change: impl FnOnce(&mut VariantParts<'static>),
) -> (SectionKind, u32, RecordProblem) {
    match refused(parts, change) {
        PlanError::Record { section, variant: 0, record, problem } => (section, record, problem),
        other => panic!("expected a record's error, got {other:?}"),
    }
}

#[test]
fn everything_written_is_read_back() {
    let (host, cuda) = (host_parts(), cuda_parts());
    let bytes = write([host.clone(), cuda.clone()]);
    let plan = Plan::parse(&bytes).unwrap();
    assert_eq!((plan.model(), plan.compiler(), plan.file_bytes()), ("tiny", "tests 1.0", bytes.len() as u64));
    plan.verify_blobs().unwrap();
    assert_eq!(plan.variants().len(), 2);
    for (variant, parts) in plan.variants().zip([host, cuda]) {
        let header = variant.header();
        assert_eq!((header.target, header.steps), (parts.header.target, 3));
        assert!(variant.steps().eq(parts.steps));
        assert!(variant.kernels().eq(parts.kernels));
        assert!(variant.images().map(OwnedImage::from).eq(parts.images));
        assert!(variant.bindings().eq(parts.bindings));
        assert!(variant.notes().eq(parts.notes));
        assert_eq!(variant.weights(), parts.weights);
    }
    let memory = plan.variant_for("gpu").unwrap().memory();
    assert_eq!((memory.weights, memory.arena, memory.bindings, memory.total), (256, 256, 768, 1280));
    assert!(plan.variant(2).is_none() && plan.variant_for("toaster").is_none());
}

#[test]
fn the_same_parts_give_the_same_bytes_and_equal_blobs_are_stored_once() {
    let both = write([host_parts(), cuda_parts()]);
    assert_eq!(*both, *write([host_parts(), cuda_parts()]));
    let plan = Plan::parse(&both).unwrap();
    let [host, cuda] = [plan.variant(0).unwrap(), plan.variant(1).unwrap()];
    assert_eq!(host.weights().as_ptr(), cuda.weights().as_ptr());
    for blob in [host.weights(), cuda.images().next().unwrap().bytes()] {
        let offset = blob.as_ptr().addr() - both.as_ptr().addr();
        assert!(offset.is_multiple_of(BLOB_ALIGNMENT as usize));
    }
}

#[test]
fn a_plan_cut_anywhere_is_refused() {
    let bytes = write([host_parts(), cuda_parts()]);
    for length in 0..bytes.len() {
        let error = Plan::parse(&bytes[..length]).expect_err("a truncated plan passed");
        let expected = match length {
            0 => PlanError::NotAPlan,
            1..96 => PlanError::Length { stated: 96, found: length as u64 },
            _ => PlanError::Length { stated: bytes.len() as u64, found: length as u64 },
        };
        assert_eq!(error, expected);
    }
    let mut longer = bytes.to_vec();
    longer.push(0);
    assert!(matches!(Plan::parse(&longer), Err(PlanError::Length { .. })));
}

#[test]
fn every_flipped_bit_is_found() {
    let mut bytes = write([host_parts(), cuda_parts()]);
    let front = u64::from_le_bytes(bytes[24..32].try_into().unwrap()) as usize;
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        match Plan::parse(&bytes) {
            Err(PlanError::Section { problem: SectionProblem::Padding, .. })
            | Err(PlanError::Record { problem: RecordProblem::ImageRange, .. }) => {
                assert!(bit / 8 >= front, "bit {bit} is in no padding of the blobs");
            }
            Err(_) => assert!(bit / 8 < front, "bit {bit} of the blobs is no business of `parse`"),
            Ok(plan) => {
                assert!(bit / 8 >= front, "flipped bit {bit} of the front passed");
                assert_eq!(plan.verify_blobs(), Err(PlanError::BlobDigest));
            }
        }
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    Plan::parse(&bytes).unwrap();
}

#[test]
fn section_table_must_be_canonical() {
    let good = write([host_parts(), cuda_parts()]);
    let entries = 1 + 8 * 2;
    for entry in 0..entries {
        for (field, bytes) in [(0, 4), (4, 4), (8, 8), (16, 8)] {
            for change in [1i64, -1, 256, i64::MAX] {
                let mut bad = good.clone();
                let at = 96 + 24 * entry + field;
                let mut value = [0; 8];
                value[..bytes].copy_from_slice(&bad[at..at + bytes]);
                let changed = i64::from_le_bytes(value).wrapping_add(change).to_le_bytes();
                bad[at..at + bytes].copy_from_slice(&changed[..bytes]);
                seal(&mut bad);
                // Only the plan's version may be any number.
                let version = u32::from_le_bytes(value[..4].try_into().unwrap()).wrapping_add(change as u32);
                let accepted = Plan::parse(&bad).map(|plan| plan.version());
                let is_version = (entry, field) == (0, 4);
                assert_eq!(accepted.ok(), is_version.then_some(version), "entry {entry}, field {field}, {change}");
            }
        }
    }
}

#[test]
fn header_errors_are_precise() {
    let good = write([host_parts()]);
    let change = |at: usize, value: u8| {
        let mut bad = good.clone();
        bad[at] = value;
        seal(&mut bad);
        Plan::parse(&bad).unwrap_err()
    };
    assert_eq!(change(0, b'X'), PlanError::NotAPlan);
    assert_eq!(change(8, 99), PlanError::Version { found: 99 });
    assert_eq!(change(12, 10), PlanError::Header("number of sections"));
    assert_eq!(change(12, 1), PlanError::Header("number of sections"));
    assert_eq!(change(24, 1), PlanError::Header("length of the front"));
    assert_eq!(Plan::parse(b"\x7fELF").unwrap_err(), PlanError::NotAPlan);
}

#[test]
fn sections_must_hold_exactly_their_records() {
    let mut parts = host_parts();
    parts.notes.pop();
    let error = Plan::parse(&write([parts])).unwrap_err();
    let problem = RecordProblem::Count { found: 2, expected: 3 };
    assert_eq!(error, PlanError::Record { section: SectionKind::Notes, variant: 0, record: 2, problem });
    let mut parts = host_parts();
    parts.notes.push(parts.notes[0].clone());
    assert!(matches!(Plan::parse(&write([parts])), Err(PlanError::Record { section: SectionKind::Notes, .. })));
}

#[test]
fn variant_fields_are_checked() {
    let field = |change: fn(&mut VariantParts<'static>)| record_problem(host_parts(), change);
    let wrong = |field| (SectionKind::Variant, 0, RecordProblem::Field(field));
    assert_eq!(field(|p| p.header.target = ""), wrong("target"));
    assert_eq!(field(|p| p.header.zeroed_bytes = 33), wrong("zeroed_bytes"));
    assert_eq!(field(|p| p.images.push(image(vec![1]))), wrong("images"));
    let huge = (SectionKind::Variant, 0, RecordProblem::TooLarge);
    assert_eq!(field(|p| p.header.arena_bytes = 1 << 62), huge);
    assert_eq!(field(|p| p.header.arena_bytes = u64::MAX), huge);
}

#[test]
fn texts_hold_no_control_characters() {
    let problem = |change: fn(&mut VariantParts<'static>)| record_problem(host_parts(), change);
    let variant = |field| (SectionKind::Variant, 0, RecordProblem::Field(field));
    assert_eq!(problem(|p| p.header.target = "a\nb"), variant("target"));
    assert_eq!(problem(|p| p.header.nvrtc = "12.6\r"), variant("nvrtc"));
    assert_eq!(problem(|p| p.header.precision = "\u{9b}f32"), variant("precision"));
    let note = StepNote {
        sources: "conv1",
        reasons: "",
        family: "conv",
        algorithm: "direct",
        configuration: "",
        bytes: 0,
        flops: 0,
        expected: 0.0,
        measured: false,
        runner_up: "",
        runner_up_expected: 0.0,
        floor: 0.0,
    };
    let fields: [fn(&mut StepNote<'static>); 6] = [
        |note| note.sources = "conv1\x07",
        |note| note.reasons = "f32: a\nb",
        |note| note.family = "\x1b[31m",
        |note| note.algorithm = "\0",
        |note| note.configuration = "\t",
        |note| note.runner_up = "\x7f",
    ];
    for change in fields {
        let mut parts = host_parts();
        parts.notes = vec![note.clone(); parts.steps.len()];
        Plan::parse(&write([parts.clone()])).unwrap();
        change(&mut parts.notes[0]);
        match Plan::parse(&write([parts])).unwrap_err() {
            PlanError::Record { section: SectionKind::Notes, record: 0, problem: RecordProblem::Text, .. } => (),
            other => panic!("{other:?}"),
        }
    }
    let file = PlanWriter::new("model\nof lines", "test").variant(host_parts()).finish();
    match Plan::parse(&file).unwrap_err() {
        PlanError::Record { section: SectionKind::Meta, problem: RecordProblem::Text, .. } => (),
        other => panic!("{other:?}"),
    }
}

#[test]
fn bindings_are_checked() {
    let problem = |change: fn(&mut VariantParts<'static>)| record_problem(host_parts(), change);
    let at = |record, problem| (SectionKind::Bindings, record, problem);
    assert_eq!(problem(|p| p.bindings[1].name = ""), at(1, RecordProblem::Name));
    assert_eq!(problem(|p| p.bindings[1].name = "a\0b"), at(1, RecordProblem::Name));
    assert_eq!(problem(|p| p.bindings[1].name = "\x1b[2J"), at(1, RecordProblem::Name));
    assert_eq!(problem(|p| p.bindings[2].name = "total"), at(2, RecordProblem::DuplicateName));
    const LONG: &str = match std::str::from_utf8(&[b'x'; 512]) {
        Ok(text) => text,
        Err(_) => unreachable!(),
    };
    assert_eq!(problem(|p| p.bindings[1].content = LONG), at(1, RecordProblem::Field("content")));
    let mut longest = host_parts();
    longest.bindings[1].content = &LONG[..511];
    Plan::parse(&write([longest])).unwrap();
    let huge = |p: &mut VariantParts<'static>| {
        for extent in &mut p.bindings[0].shape {
            *extent = u32::MAX;
        }
    };
    assert_eq!(problem(huge), at(0, RecordProblem::TooLarge));
    let many = |p: &mut VariantParts<'static>| p.bindings = vec![binding("x", Direction::Input); 257];
    assert_eq!(problem(many), (SectionKind::Variant, 0, RecordProblem::Field("bindings")));
    accepted(host_parts(), |p| {
        let more = (p.bindings.len()..256).map(|number| binding(number.to_string().leak(), Direction::Input));
        p.bindings.extend(more.collect::<Vec<_>>());
    });
    accepted(host_parts(), |p| p.bindings[1].name = "x".repeat(255).leak());
    assert_eq!(problem(|p| p.bindings[1].name = "x".repeat(256).leak()), at(1, RecordProblem::Name));
    // An input that is also an output keeps its name in both.
    let mut parts = host_parts();
    parts.bindings[2].name = "x";
    Plan::parse(&write([parts])).unwrap();
}

#[test]
fn kernels_and_images_are_checked() {
    let problem = |change: fn(&mut VariantParts<'static>)| record_problem(cuda_parts(), change);
    assert_eq!(problem(|p| p.kernels[1].image = 2), (SectionKind::Kernels, 1, RecordProblem::NoSuchImage(2)));
    assert_eq!(problem(|p| p.kernels[0].name = "a\0"), (SectionKind::Kernels, 0, RecordProblem::Name));
    assert_eq!(problem(|p| p.images[1].bytes.clear()), (SectionKind::ImageTable, 1, RecordProblem::ImageRange));
    let unpacked = (SectionKind::ImageTable, 1, RecordProblem::ImageUnpacked);
    assert_eq!(problem(|p| p.images[1].unpacked -= 1), unpacked);
    assert_eq!(problem(|p| p.images[1].unpacked = 71 * 1032), unpacked);
    assert_eq!(problem(|p| p.images[1].unpacked = u64::MAX), unpacked);
    // The writer terminates PTX; a plan that another writer left open is refused.
    let mut parts = cuda_parts();
    parts.header.image_kind = ImageKind::Ptx;
    parts.images = [b"one", b"two"].map(|text| OwnedImage::plain(ImageKind::Ptx, text.to_vec())).to_vec();
    let mut bytes = write([parts]);
    let plan = Plan::parse(&bytes).unwrap();
    let last =
        plan.variant(0).unwrap().images().last().unwrap().bytes().as_ptr_range().end.addr() - bytes.as_ptr().addr() - 1;
    assert_eq!(bytes[last], 0);
    bytes[last] = b'x';
    let problem = RecordProblem::ImageNotTerminated;
    let expected = PlanError::Record { section: SectionKind::ImageTable, variant: 0, record: 1, problem };
    assert_eq!(Plan::parse(&bytes).unwrap_err(), expected);
}

#[test]
fn operands_stay_inside_their_regions() {
    let change = |operand: usize, value: Operand| {
        let (step, problem) = step_problem(cuda_parts(), |p| p.steps[0].operands[operand] = value);
        assert_eq!(step, 0);
        match problem {
            StepProblem::Operand { operand: found, problem } if usize::from(found) == operand => problem,
            other => panic!("expected an operand's error, got {other:?}"),
        }
    };
    let outside = |region| OperandProblem::OutOfRegion { offset: 16, bytes: BYTES, region };
    assert_eq!(change(0, operand(Region::Binding(0), 16, false)), outside(16));
    assert_eq!(change(1, operand(Region::Weights, 16, false)), outside(16));
    let arena = operand(Region::Arena, 0, true);
    let past = OperandProblem::OutOfRegion { offset: u64::MAX - 15, bytes: BYTES, region: 32 };
    assert_eq!(change(2, Operand { offset: u64::MAX - 15, ..arena }), past);
    let long = OperandProblem::OutOfRegion { offset: 0, bytes: 33, region: 32 };
    assert_eq!(change(2, Operand { bytes: 33, ..arena }), long);
    assert_eq!(change(2, Operand { offset: 8, ..arena }), OperandProblem::Misaligned { offset: 8, alignment: 16 });
    assert_eq!(change(1, operand(Region::Weights, 0, true)), OperandProblem::WritesWeights);
    assert_eq!(change(0, operand(Region::Binding(0), 0, true)), OperandProblem::WritesInput);
    assert_eq!(change(0, operand(Region::Binding(3), 0, true)), OperandProblem::NoSuchBinding(3));
}

#[test]
fn no_operand_lies_across_the_end_of_the_counters() {
    let change = |zeroed: u64, offset: u64, bytes: u64| {
        move |p: &mut VariantParts<'static>| {
            p.header.zeroed_bytes = zeroed;
            let operands = p.steps.iter_mut().flat_map(|step| &mut step.operands);
            for operand in operands.filter(|operand| operand.region == Region::Arena) {
                (operand.offset, operand.bytes) = (offset, bytes);
            }
        }
    };
    for (zeroed, offset, bytes) in [(16, 0, 32), (8, 0, 16), (31, 16, 16)] {
        let (_, problem) = step_problem(cuda_parts(), change(zeroed, offset, bytes));
        assert!(matches!(problem, StepProblem::Operand { problem: OperandProblem::AcrossCounters, .. }), "{problem:?}");
    }
    // Before it, behind it, or in another region: bindings and weights have 16 bytes.
    for (zeroed, offset, bytes) in [(16, 0, 16), (16, 16, 16), (8, 16, 16), (0, 0, 32), (32, 0, 32)] {
        accepted(cuda_parts(), change(zeroed, offset, bytes));
    }
}

#[test]
fn steps_are_checked() {
    let after = |list: &'static [u32]| {
        step_problem(cuda_parts(), |p| p.steps[2].after = heapless::Vec::from_slice(list).unwrap())
    };
    assert_eq!(after(&[2]), (2, StepProblem::After(2)));
    assert_eq!(after(&[1, 0]), (2, StepProblem::After(0)));
    assert_eq!(after(&[1, 1]), (2, StepProblem::After(1)));

    assert_eq!(step_problem(cuda_parts(), |p| p.steps[2].overlaps = true), (2, StepProblem::Overlaps));
    accepted(cuda_parts(), |p| (p.header.architecture, p.steps[2].overlaps) = (90, true));

    let launch = |kernel, grid, block, shared| {
        step_problem(cuda_parts(), |p| p.steps[1].action = Action::Launch { kernel, grid, block, shared }).1
    };
    assert_eq!(launch(2, [1; 3], [1; 3], 0), StepProblem::NoSuchKernel(2));
    assert_eq!(launch(0, [1 << 31, 1, 1], [1; 3], 0), StepProblem::Grid);
    assert_eq!(launch(0, [1, 65_536, 1], [1; 3], 0), StepProblem::Grid);
    assert_eq!(launch(0, [1, 0, 1], [1; 3], 0), StepProblem::Grid);
    assert_eq!(launch(0, [1; 3], [1025, 1, 1], 0), StepProblem::Block);
    assert_eq!(launch(0, [1; 3], [33, 32, 1], 0), StepProblem::Block);
    assert_eq!(launch(0, [1; 3], [1, 1, 65], 0), StepProblem::Block);
    assert_eq!(launch(0, [1; 3], [32, 0, 1], 0), StepProblem::Block);
    assert_eq!(launch(0, [1; 3], [1; 3], 227 * 1024 + 1), StepProblem::Shared(227 * 1024 + 1));
    // The limits themselves.
    let largest = [i32::MAX as u32, 65_535, 65_535];
    for (grid, block) in [(largest, [1; 3]), ([1; 3], [1024, 1, 1]), ([1; 3], [1, 1024, 1]), ([1; 3], [16, 1, 64])] {
        let action = Action::Launch { kernel: 1, grid, block, shared: 227 * 1024 };
        accepted(cuda_parts(), |p| p.steps[1].action = action);
    }

    let host_step = host_parts().steps[1].clone();
    assert_eq!(step_problem(cuda_parts(), |p| p.steps[1] = host_step).1, StepProblem::OtherDevice);
    let launch_step = cuda_parts().steps[1].clone();
    assert_eq!(step_problem(host_parts(), |p| p.steps[1] = launch_step).1, StepProblem::OtherDevice);
}

#[test]
fn host_steps_fit_their_kernels() {
    let change = |change: fn(&mut VariantParts<'static>)| step_problem(host_parts(), change);
    let operand_error = |operand, problem| StepProblem::Operand { operand, problem };
    let missing = change(|p| p.steps[0].operands.truncate(3));
    assert_eq!(missing, (0, StepProblem::OperandCount { found: 3, expected: 4 }));
    let short = OperandProblem::TooShort { bytes: 12, needed: 16 };
    assert_eq!(change(|p| p.steps[0].operands[1].bytes = 12), (0, operand_error(1, short)));
    let misaligned = OperandProblem::Misaligned { offset: 2, alignment: 4 };
    assert_eq!(change(|p| p.steps[0].operands[3].offset = 2), (0, operand_error(3, misaligned)));
    let direction = operand_error(3, OperandProblem::Direction);
    assert_eq!(change(|p| p.steps[0].operands[3].written = false), (0, direction));
    let overlap = change(|p| p.steps[1].operands[1] = operand(Region::Arena, 8, true));
    assert_eq!(overlap, (1, StepProblem::Overlap { written: 1, other: 0 }));

    let (_, problem) = change(|p| {
        if let Action::Host(Kernel::Copy(copy)) = &mut p.steps[1].action {
            copy.source.strides[1] = -1;
        }
    });
    assert!(matches!(problem, StepProblem::Kernel(KernelError::Shape(_))), "{problem:?}");
    let (_, problem) = change(|p| {
        if let Action::Host(Kernel::Copy(copy)) = &mut p.steps[1].action {
            copy.source.shape.iter_mut().for_each(|extent| *extent = u32::MAX);
        }
    });
    assert_eq!(problem, StepProblem::TooLarge);
}

#[test]
fn messages_say_where_and_what_to_do() {
    let message = refused(cuda_parts(), |p| p.steps[1].operands[0].offset = 8).to_string();
    assert!(
        message.starts_with("step 1 of variant 0: operand 0 starts at 8, not a multiple of 16; compile"),
        "{message}"
    );
    let message = Plan::parse(&write([host_parts()])[..200]).unwrap_err().to_string();
    assert!(message.contains("truncated") && message.contains("copy the file again"), "{message}");
}
