//! What the tests of all groups share, and tests of the machine as a whole.

use super::*;
use crate::ptx::Module;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Device memory of one allocation.
pub(super) struct Heap(pub Vec<AtomicU64>);

impl Heap {
    pub fn new(words: &[u64]) -> Self {
        Self(words.iter().map(|word| AtomicU64::new(*word)).collect())
    }

    pub fn address(&self) -> u64 {
        self.0.as_ptr() as u64
    }

    pub fn words(&self) -> Vec<u64> {
        self.0.iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }
}

// SAFETY: the words are atomics and live as long as the heap.
unsafe impl Memory for Heap {
    fn region(&self, address: u64) -> Option<Region> {
        let (start, bytes) = (self.address(), 8 * self.0.len() as u64);
        let host = NonNull::new(self.0.as_ptr().cast_mut().cast::<u8>())?;
        (address.wrapping_sub(start) < bytes).then_some(Region { start, bytes, host })
    }
}

/// A kernel `k` with parameters `in` and `out` whose body is given.
pub(super) fn module(declarations: &str, body: &str) -> Module {
    let text = format!(
        ".version 8.5\n.target sm_89\n.address_size 64\n{declarations}\n.visible .entry k(.param .u64 in, .param .u64 out) {{\n\
         .reg .pred %p<32>; .reg .b16 %h<32>; .reg .b32 %r<64>; .reg .b64 %d<64>;\n{body}\nret;\n}}\n"
    );
    Module::parse(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"))
}

pub(super) fn program(body: &str) -> Program {
    Program::decode(&module("", body), "k").unwrap_or_else(|error| panic!("{error}"))
}

/// Launches over memory that `in` and `out` both point to.
pub(super) fn start(program: &Program, heap: &Heap, grid: u32, block: u32, shared: u32) -> Result<Counts, Fault> {
    let address = heap.address().to_le_bytes();
    let parameters = [address, address].concat();
    let description =
        Launch { grid: [grid, 1, 1], block: [block, 1, 1], dynamic_shared: shared, parameters: &parameters };
    let limits = Limits { instructions: 1 << 22, ..Limits::default() };
    launch(program, &description, heap, &Unwatched, &limits)
}

/// Runs `body` in as many threads as there are operands. It finds its three in `%d4` to `%d6`, the lower parts in `%r4`
/// and `%h4` and on, and leaves its result in `%d3` or,
/// where it does not name that, in `%r3`.
pub(super) fn evaluate(body: &str, operands: &[[u64; 3]]) -> Vec<u64> {
    let finish = if body.contains("%d3") { "" } else { "cvt.u64.u32 %d3, %r3;" };
    let program = program(&format!(
        "mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.s32 %r0, %r1, 32, %r0; ld.param.u64 %d0, [in];\n\
         mul.wide.u32 %d2, %r0, 32; add.s64 %d0, %d0, %d2;\n\
         ld.global.u64 %d4, [%d0]; ld.global.u64 %d5, [%d0+8]; ld.global.u64 %d6, [%d0+16];\n\
         cvt.u32.u64 %r4, %d4; cvt.u32.u64 %r5, %d5; cvt.u32.u64 %r6, %d6;\n\
         cvt.u16.u64 %h4, %d4; cvt.u16.u64 %h5, %d5; cvt.u16.u64 %h6, %d6;\n{body}\n{finish}\nst.global.u64 [%d0+24], %d3;"
    ));
    let count = operands.len().next_multiple_of(32);
    let words: Vec<u64> = (0..count)
        .flat_map(|i| {
            let [a, b, c] = operands[i % operands.len()];
            [a, b, c, 0]
        })
        .collect();
    let heap = Heap::new(&words);
    start(&program, &heap, count as u32 / 32, 32, 0).unwrap_or_else(|fault| panic!("{fault}"));
    heap.words().chunks(4).map(|four| four[3]).take(operands.len()).collect()
}

/// Every pair of values, and each with a third.
pub(super) fn triples(values: &[u64]) -> Vec<[u64; 3]> {
    let mut all = Vec::new();
    for (i, a) in values.iter().enumerate() {
        for (j, b) in values.iter().enumerate() {
            all.push([*a, *b, values[(i + 3 * j + 1) % values.len()]]);
        }
    }
    all
}

/// Compares an instruction with its definition, over all pairs of values.
pub(super) fn holds(body: &str, values: &[u64], definition: impl Fn(u64, u64, u64) -> u64) {
    let operands = triples(values);
    for ([a, b, c], result) in operands.iter().zip(evaluate(body, &operands)) {
        assert_eq!(result, definition(*a, *b, *c), "{body} of {a:#x} {b:#x} {c:#x}: {result:#x}");
    }
}

pub(super) const EDGES: [u64; 14] = [
    0,
    1,
    2,
    7,
    31,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1234_5678_9abc_def0,
    i64::MAX as u64,
    u64::MAX,
];

/// Floats of every kind, as f32.
pub(super) const FLOATS: [f32; 16] = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    0.1,
    3.0e-39,
    -1.0e-45,
    65504.0,
    65520.0,
    1e-7,
    16_777_217.0,
    f32::MAX,
    f32::MIN_POSITIVE,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
];

pub(super) fn float_edges() -> Vec<u64> {
    FLOATS.iter().map(|value| u64::from(value.to_bits())).collect()
}

#[test]
fn lanes_that_loop_differently_come_together() {
    // Each thread adds its lane's number of ones; then all exchange sums.
    let program = program(
        "mov.u32 %r0, %tid.x; mov.u32 %r1, 0; mov.u32 %r2, %r0;\n\
         LOOP: setp.eq.s32 %p0, %r2, 0; @%p0 bra DONE; add.s32 %r1, %r1, 1; sub.s32 %r2, %r2, 1; bra LOOP;\n\
         DONE: shfl.sync.bfly.b32 %r3, %r1, 31, 31, -1;\n\
         ld.param.u64 %d0, [out]; mul.wide.u32 %d1, %r0, 8; add.s64 %d0, %d0, %d1; cvt.u64.u32 %d2, %r3;\n\
         st.global.u64 [%d0], %d2;",
    );
    let heap = Heap::new(&[0; 32]);
    let counts = start(&program, &heap, 1, 32, 0).unwrap();
    assert_eq!(heap.words(), (0..32).rev().collect::<Vec<u64>>());
    let shuffle = (0..program.len() as u32).find(|i| program.text(*i).starts_with("shfl")).unwrap();
    assert_eq!(counts.executed[shuffle as usize], 1, "the warp shuffles as one");
    let branch = (0..program.len() as u32).find(|i| program.is_branch(*i)).unwrap();
    assert_eq!(counts.taken[branch as usize], Taken { jumped: true, fell_through: true });
}

#[test]
fn a_lane_may_wait_for_another_of_its_warp() {
    // Lane 0 polls what lane 31 writes only behind it in the text.
    let body = "mov.u32 %r0, %tid.x; ld.param.u64 %d0, [out]; setp.ne.s32 %p0, %r0, 0; @%p0 bra OTHERS;\n\
         POLL: ld.relaxed.gpu.global.u32 %r1, [%d0]; setp.eq.s32 %p1, %r1, 0; @%p1 bra POLL;\n\
         st.global.u32 [%d0+4], %r1; bra END;\n\
         OTHERS: setp.ne.s32 %p2, %r0, 31; @%p2 bra END; st.relaxed.gpu.global.u32 [%d0], 7;\nEND:";
    let heap = Heap::new(&[0]);
    start(&program(body), &heap, 1, 32, 0).unwrap();
    assert_eq!(heap.words(), [7 << 32 | 7]);
}

#[test]
fn blocks_meet_at_a_grid_barrier() {
    // Every block counts itself and waits for all 100.
    let body = "ld.param.u64 %d0, [out]; mov.u32 %r0, %tid.x; setp.ne.s32 %p0, %r0, 0; @%p0 bra JOIN;\n\
         atom.add.acq_rel.gpu.global.u32 %r1, [%d0], 1;\n\
         POLL: ld.acquire.gpu.global.u32 %r1, [%d0]; setp.lt.u32 %p1, %r1, 100; @%p1 bra POLL;\n\
         JOIN: bar.sync 0; red.global.add.u32 [%d0+4], 1;";
    let heap = Heap::new(&[0]);
    start(&program(body), &heap, 100, 64, 0).unwrap();
    assert_eq!(heap.words(), [6400 << 32 | 100]);
}

#[test]
fn barriers_reduce_over_the_block() {
    let body = "mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 70; bar.red.popc.u32 %r1, 0, %p0; bar.red.and.pred %p1, 0, %p0;\n\
         bar.red.or.pred %p2, 0, !%p0; selp.b32 %r2, 1, 0, %p1; selp.b32 %r3, 2, 0, %p2; add.s32 %r1, %r1, %r2;\n\
         mad.lo.s32 %r1, %r3, 1000, %r1; ld.param.u64 %d0, [out]; mul.wide.u32 %d1, %r0, 4; add.s64 %d0, %d0, %d1;\n\
         st.global.u32 [%d0], %r1;";
    let heap = Heap::new(&[0; 48]);
    start(&program(body), &heap, 1, 96, 0).unwrap();
    assert_eq!(heap.words(), [2070 << 32 | 2070; 48]);
}

#[test]
fn asynchronous_copies_fill_up_with_zeros() {
    let body = "ld.param.u64 %d0, [in]; mov.u32 %r0, %tid.x; mul.lo.s32 %r1, %r0, 16; mul.wide.u32 %d1, %r0, 16; add.s64 %d0, %d0, %d1;\n\
         cp.async.cg.shared.global [%r1], [%d0], 16, 8; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;\n\
         ld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [%r1]; st.global.v4.u32 [%d0], {%r2, %r3, %r4, %r5};";
    let heap = Heap::new(&[u64::MAX; 64]);
    let address = heap.address();
    // The copy of 16 bytes needs their alignment.
    if address.is_multiple_of(16) {
        start(&program(body), &heap, 1, 32, 512).unwrap();
        assert_eq!(heap.words()[..4], [u64::MAX, 0, u64::MAX, 0]);
    }
}

#[test]
fn generic_addresses_reach_local_and_shared_memory() {
    let body = ".local .align 8 .b8 stack[16]; .shared .align 8 .b8 board[256];\n\
         mov.u32 %r0, %tid.x; mov.u64 %d0, stack; cvta.local.u64 %d0, %d0; mov.u64 %d1, board; cvta.shared.u64 %d1, %d1;\n\
         mul.wide.u32 %d2, %r0, 8; add.s64 %d1, %d1, %d2; setp.lt.u32 %p0, %r0, 16; selp.b64 %d3, %d0, %d1, %p0;\n\
         cvt.u64.u32 %d4, %r0; st.u64 [%d3], %d4; ld.u64 %d5, [%d3]; ld.local.u64 %d6, [stack]; ld.shared.u64 %d7, [board+128];\n\
         ld.param.u64 %d8, [out]; add.s64 %d8, %d8, %d2; mad.lo.s64 %d6, %d7, 100, %d6; add.s64 %d5, %d5, %d6; st.global.u64 [%d8], %d5;";
    let heap = Heap::new(&[0; 32]);
    start(&program(body), &heap, 1, 32, 0).unwrap();
    let words = heap.words();
    assert_eq!((words[3], words[20]), (3 + 1600 + 3, 20 + 1600));
}

#[test]
fn variables_of_the_module_are_read_and_not_written() {
    let declarations = ".global .align 4 .b8 table[8] = {1, 2, 3, 4, 5};\n.extern .shared .align 16 .b8 dynamic[];";
    let body = "ld.param.u64 %d0, [out]; mov.u64 %d1, table; ld.global.v2.u32 {%r0, %r1}, [%d1]; mov.u32 %r2, dynamic;\n\
         st.shared.u32 [%r2], %r1; ld.shared.u32 %r1, [dynamic]; st.global.u32 [%d0], %r0; st.global.u32 [%d0+4], %r1;";
    let heap = Heap::new(&[0]);
    let program = Program::decode(&module(declarations, body), "k").unwrap();
    start(&program, &heap, 1, 1, 16).unwrap();
    assert_eq!(heap.words(), [0x0000_0005_0403_0201]);
    let stores = Program::decode(&module(declarations, "mov.u64 %d1, table; st.global.u32 [%d1], 1;"), "k").unwrap();
    assert!(matches!(start(&stores, &heap, 1, 1, 16).unwrap_err().kind, FaultKind::ReadOnly { .. }));
}

#[test]
fn functions_are_called_wherever_they_stand() {
    let declarations = ".func (.param .b32 result) outer(.param .b32 x, .param .b32 y);\n\
         .func (.param .b32 result) inner(.param .b32 x) { .reg .pred %p<2>; .reg .b32 %r<4>; ld.param.u32 %r1, [x];\n\
         setp.gt.u32 %p1, %r1, 15; @%p1 bra BIG; st.param.b32 [result+0], %r1; ret; BIG: st.param.b32 [result], 15; ret; }\n\
         .func (.param .b32 result) outer(.param .b32 x, .param .b32 y) { .reg .b32 %r<4>; ld.param.u32 %r1, [x]; ld.param.u32 %r2, [y];\n\
         { .param .b32 p; st.param.b32 [p], %r1; .param .b32 q; call.uni (q), inner, (p); ld.param.b32 %r3, [q]; }\n\
         mad.lo.s32 %r3, %r3, 100, %r2; st.param.b32 [result], %r3; ret; }";
    let body = "mov.u32 %r0, %tid.x; setp.ne.s32 %p0, %r0, 3; mov.u32 %r1, 7;\n\
         { .param .b32 a; st.param.b32 [a], %r0; .param .b32 b; st.param.b32 [b], %r1; .param .b32 c; st.param.b32 [c], %r1;\n\
         @%p0 call (c), outer, (a, b); ld.param.b32 %r2, [c]; }\n\
         ld.param.u64 %d0, [out]; mul.wide.u32 %d1, %r0, 8; add.s64 %d0, %d0, %d1; cvt.u64.u32 %d2, %r2; st.global.u64 [%d0], %d2;";
    let heap = Heap::new(&[0; 32]);
    let program = Program::decode(&module(declarations, body), "k").unwrap();
    start(&program, &heap, 1, 32, 0).unwrap();
    let expected: Vec<u64> = (0..32).map(|i| if i == 3 { 7 } else { 100 * i.min(15) + 7 }).collect();
    assert_eq!(heap.words(), expected);
    // One that calls itself ends with an error.
    let text = ".func f() { call.uni f; ret; } .entry k() { call.uni f; ret; }";
    assert!(Module::parse(text).is_err());
}

fn fault(body: &str, block: u32, shared: u32) -> Fault {
    start(&program(body), &Heap::new(&[0; 8]), 1, block, shared).unwrap_err()
}

#[test]
fn faults_name_what_and_who() {
    let fourth = "mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 16; ld.param.u64 %d0, [in]; add.s64 %d0, %d0, %d1;";
    let beyond = fault(&format!("{fourth} ld.global.u32 %r1, [%d0];"), 5, 0);
    assert!(matches!(beyond.kind, FaultKind::Address { bytes: 4, .. }), "{beyond}");
    assert_eq!(beyond.thread, Some([4, 0, 0]));
    let misaligned = fault(&format!("{fourth} ld.global.u64 %d1, [%d0+4];"), 1, 0);
    assert!(matches!(misaligned.kind, FaultKind::Misaligned { bytes: 8, .. }), "{misaligned}");
    let shared = fault("mov.u32 %r0, %tid.x; st.shared.u32 [%r0+60], %r0;", 1, 60);
    assert!(matches!(shared.kind, FaultKind::Shared { address: 60, bytes: 4, available: 60 }), "{shared}");
    let straddles = fault("ld.param.u64 %d0, [in]; ld.global.u64 %d1, [%d0+64];", 1, 0);
    assert!(matches!(straddles.kind, FaultKind::Address { .. }), "{straddles}");
    assert!(matches!(fault("trap;", 1, 0).kind, FaultKind::Trap));
    assert!(matches!(fault("bar.sync 16;", 32, 0).kind, FaultKind::NoBarrier(16)));
}

#[test]
fn endless_loops_and_lost_threads_end() {
    assert!(matches!(fault("L: bra L;", 32, 0).kind, FaultKind::Budget(_)));
    // Half of a warp goes past a barrier of all.
    let body = "mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 16; @%p0 bra A; bar.sync 0; bra B; A: bar.sync 1; B:";
    assert!(matches!(fault(body, 32, 0).kind, FaultKind::Convergence { missing: 0x0000_ffff | 0xffff_0000 }));
    // One of two warps waits at another barrier.
    let body = "mov.u32 %r0, %tid.x; shr.u32 %r0, %r0, 5; bar.sync %r0;";
    let kind = fault(body, 64, 0).kind;
    assert!(matches!(kind, FaultKind::Barrier { barrier: 0, arrived: 32, expected: 64 }), "{kind}");
    // Threads that have returned are not waited for.
    let body = "mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 40; @%p0 ret; bar.sync 0;";
    assert!(start(&program(body), &Heap::new(&[0]), 1, 64, 0).is_ok());
}

#[test]
fn absurd_launches_are_refused() {
    let (program, heap) = (program("ret;"), Heap::new(&[0]));
    let refused = |grid, block, dynamic_shared, bytes: usize| {
        let parameters = vec![0; bytes];
        let description = Launch { grid, block, dynamic_shared, parameters: &parameters };
        let result = launch(&program, &description, &heap, &Unwatched, &Limits::default());
        matches!(result, Err(Fault { kind: FaultKind::Launch(_), .. }))
    };
    assert!(!refused([1, 1, 1], [1024, 1, 1], 1 << 10, 16));
    assert!(refused([0, 1, 1], [1, 1, 1], 0, 16));
    assert!(refused([u32::MAX, 1, 1], [1, 1, 1], 0, 16));
    assert!(refused([1, 1 << 17, 1], [1, 1, 1], 0, 16));
    assert!(refused([1, 1, 1], [u32::MAX, u32::MAX, u32::MAX], 0, 16));
    assert!(refused([1, 1, 1], [0, 1, 1], 0, 16));
    assert!(refused([1, 1, 1], [1, 1, 1], u32::MAX, 16));
    assert!(refused([1, 1, 1], [1, 1, 1], 0, 8));
}

#[test]
fn bulk_prefetches_are_of_whole_sixteens() {
    let fault = |offset: u64, bytes: u64| {
        let body = format!(
            "ld.param.u64 %d0, [in]; and.b64 %d0, %d0, -16; cp.async.bulk.prefetch.L2.global [%d0+{offset}], {bytes};"
        );
        start(&program(&body), &Heap::new(&[0; 8]), 1, 1, 0).err().map(|fault| fault.kind)
    };
    assert_eq!(fault(16, 32), None);
    assert!(matches!(fault(8, 32), Some(FaultKind::Misaligned { bytes: 32, .. })));
    assert!(matches!(fault(16, 24), Some(FaultKind::Misaligned { bytes: 24, .. })));
}

#[test]
fn what_is_not_covered_is_refused_by_name() {
    let cases = [
        ("mbarrier.test_wait.shared.b64 %p0, [%r0], %d0;", "mbarrier.test_wait.shared.b64"),
        ("mbarrier.arrive.shared.b64 %d0, [%r0];", "mbarrier.arrive.shared.b64"),
        ("cp.async.bulk.commit_group;", "cp.async.bulk.commit_group"),
        ("ld.shared::cluster.u32 %r0, [%r1];", "ld.shared::cluster.u32"),
        ("fence.proxy.alias;", "fence.proxy.alias"),
        (
            "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r0, %r1}, %d0, %d1, %p0, 1, 1, 0, 0;",
            "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16",
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r0, %r1, %r2, %r3}, %d0, %d1, %p0, 1, -1, 0, 0;",
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
        ),
        ("add.rz.f64 %d0, %d1, %d2;", "add.rz.f64"),
        ("add.s32.strange %r0, %r1, %r2;", "add.s32.strange"),
        ("add.s64 %d0, %r1, %d2;", "add.s64"),
        ("call.uni f;", "call.uni"),
        ("mov.u32 %r0, %cluster_ctaid.x; setmaxnreg.inc.sync.aligned.u32 96; createpolicy.x %d0;", "createpolicy.x"),
    ];
    for (body, name) in cases {
        match Program::decode(&module("", body), "k") {
            Err(DecodeError::Instruction { instruction, line: 7, .. }) => assert_eq!(instruction, name),
            other => panic!("{body}: {other:?}"),
        }
    }
}

#[test]
fn addresses_are_traced_to_parameters() {
    let program = program(
        "ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out]; cvta.to.global.u64 %d0, %d0; mov.u32 %r0, %tid.x;\n\
         mul.wide.u32 %d2, %r0, 4; add.s64 %d3, %d0, %d2; ld.global.u32 %r1, [%d3]; setp.eq.s32 %p0, %r1, 0;\n\
         selp.b64 %d4, %d0, %d1, %p0; st.global.u32 [%d4], %r1; ld.global.u64 %d5, [%d1]; st.global.u32 [%d5], %r1;",
    );
    let roots = |name: &str, nth: usize| {
        let mut found = (0..program.len() as u32).filter(|i| program.text(*i).starts_with(name));
        program.roots(found.nth(nth).unwrap())
    };
    assert_eq!(roots("ld.global", 0), Roots::Parameters(&[0]));
    assert_eq!(roots("st.global", 0), Roots::Parameters(&[0, 8]));
    assert_eq!(roots("ld.global", 1), Roots::Parameters(&[8]));
    assert_eq!(roots("st.global", 1), Roots::Unknown);
}

#[test]
fn registers_share_rows_and_keep_their_values() {
    // Two hundred registers, each alive for two instructions.
    let mut body = "mov.u32 %q0, %tid.x;\n".to_owned();
    for i in 0..200 {
        body += &format!("add.s32 %q{}, %q{i}, 1;\n", i + 1);
    }
    body += "ld.param.u64 %d0, [out]; st.global.u32 [%d0], %q200;";
    let program = Program::decode(&module("", &format!(".reg .b32 %q<201>;\n{body}")), "k").unwrap();
    assert!(program.rows < 10, "{}", program.rows);
    let heap = Heap::new(&[0]);
    start(&program, &heap, 1, 1, 0).unwrap();
    assert_eq!(heap.words(), [200]);
}

/// Writes down what it hears.
#[derive(Default)]
struct Journal(Mutex<Vec<String>>);

impl Watch for Journal {
    type Block = ();

    fn block_start(&self, block: [u32; 3]) {
        self.0.lock().unwrap().push(format!("start {}", block[0]));
    }

    fn block_end(&self, (): ()) {
        self.0.lock().unwrap().push("end".to_owned());
    }

    fn access(&self, (): &mut (), access: &Access<'_>) {
        let text = format!("{:?} {:?} {} {:#x}", access.space, access.kind, access.bytes, access.lanes);
        self.0.lock().unwrap().push(text);
    }

    fn async_commit(&self, (): &mut (), _: u32, lanes: u32) {
        self.0.lock().unwrap().push(format!("commit {lanes:#x}"));
    }

    fn async_wait(&self, (): &mut (), _: u32, _: u32, pending: u32) {
        self.0.lock().unwrap().push(format!("wait {pending}"));
    }

    fn barrier_arrive(&self, (): &mut (), arrival: &Arrival) {
        self.0.lock().unwrap().push(format!("arrive {} {:#x} {:#x}", arrival.barrier, arrival.lanes, arrival.exited));
    }

    fn barrier_complete(&self, (): &mut (), barrier: u32) {
        self.0.lock().unwrap().push(format!("complete {barrier}"));
    }

    fn warp_sync(&self, (): &mut (), _: u32, lanes: u32) {
        self.0.lock().unwrap().push(format!("sync {lanes:#x}"));
    }

    fn fence(&self, (): &mut (), _: u32, _: u32) {
        self.0.lock().unwrap().push("fence".to_owned());
    }
}

#[test]
fn a_watch_hears_of_everything_in_order() {
    let body = "ld.param.u64 %d0, [in]; mov.u32 %r0, %tid.x; mul.lo.s32 %r1, %r0, 4; setp.lt.u32 %p0, %r0, 2;\n\
         @%p0 cp.async.ca.shared.global [%r1], [%d0], 4; cp.async.commit_group; cp.async.wait_group 1; bar.sync 0;\n\
         ld.shared.u32 %r2, [%r1]; bar.warp.sync -1; membar.gl; @%p0 st.global.u32 [%d0], %r2; bar.warp.sync 15; ";
    let (heap, journal) = (Heap::new(&[0; 2]), Journal::default());
    let parameters = [heap.address().to_le_bytes(); 2].concat();
    let description = Launch { grid: [1, 1, 1], block: [4, 1, 1], dynamic_shared: 16, parameters: &parameters };
    launch(&program(body), &description, &heap, &journal, &Limits::default()).unwrap();
    let expected = [
        "start 0",
        "Global AsyncLoad 4 0x3",
        "Shared AsyncStore 4 0x3",
        "commit 0xf",
        "wait 1",
        "arrive 0 0xf 0xfffffff0",
        "complete 0",
        "Shared Load 4 0xf",
        "sync 0xf",
        "fence",
        "Global Store 4 0x3",
        "sync 0xf",
        "end",
    ];
    assert_eq!(*journal.0.lock().unwrap(), expected);
}
