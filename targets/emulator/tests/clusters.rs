//! Clusters and products of warpgroups, and what the watches find in them.

use floe_emulator::{
    machine::{self, Fault, FaultKind, Launch, Limits, Program},
    memory::Allocations,
    ptx::Module,
    watch::{
        Label, Watcher,
        findings::{Defect, Findings},
        operands::{Operand, Operands, Watched},
    },
};

const WORDS: usize = 4096;

/// Runs a kernel of one parameter over words of memory that begin as given: what they are afterwards, and what was found.
fn run(directives: &str, body: &str, grid: u32, block: u32, words: &[u32]) -> (Result<Vec<u32>, Fault>, Vec<Defect>) {
    let text = format!(
        ".version 8.5\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 memory) {directives} {{\n\
         .reg .pred %p<8>; .reg .b32 %r<64>; .reg .b64 %d<16>;\n.shared .align 8 .b8 barrier[8]; .shared .align 16 .b8 board[1024];\n\
         ld.param.u64 %d0, [memory]; mov.u32 %r0, %tid.x; mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %ctaid.x;\n{body}\nret;\n}}\n"
    );
    let module = Module::parse(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    let program = Program::decode(&module, "k").unwrap_or_else(|error| panic!("{error}"));
    let mut memory = Allocations::default();
    let bytes = 4 * WORDS as u64;
    let start = memory.allocate(bytes).unwrap();
    let mut all = words.to_vec();
    all.resize(WORDS, 0);
    // SAFETY: as many bytes as the words have.
    assert!(unsafe { memory.write(start, all.as_ptr().cast(), bytes) });
    let operand = Operand { name: "memory".to_owned(), offset: 0, range: start..start + bytes, written: true };
    let parameters = start.to_le_bytes();
    let launch = Launch { grid: [grid, 1, 1], block: [block, 1, 1], dynamic_shared: 16 << 10, parameters: &parameters };
    let limits = Limits { instructions: 1 << 22, ..Limits::default() };
    let (result, findings) = {
        let written = memory.find(start, 1).unwrap().written();
        let operands = Operands::new(&program, vec![Watched::new(&operand, written, None)]);
        let label = Label::default();
        let watcher = Watcher::new(&program, &launch, &label, operands, true);
        let result = machine::launch(&program, &launch, &memory, &watcher, &limits);
        let (found, _) = watcher.finish(None);
        let mut findings = Findings::default();
        findings.add(0, found);
        (result, findings.all().iter().map(|finding| finding.defect).collect())
    };
    // SAFETY: as above.
    assert!(unsafe { memory.read(start, all.as_mut_ptr().cast(), bytes) });
    (result.map(|_| all), findings)
}

/// Each block sends its rank to the next by a store that reports itself to a barrier there.
const RING: &str = "mov.u32 %r3, barrier; mov.u32 %r4, board; setp.ne.u32 %p0, %r0, 0;\n\
    @%p0 bra READY; mbarrier.init.shared.b64 [%r3], 1; mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 256;\n\
    fence.mbarrier_init.release.cluster; READY: barrier.cluster.arrive.relaxed; barrier.cluster.wait;\n\
    add.u32 %r5, %r1, 1; and.b32 %r5, %r5, 3; mapa.shared::cluster.u32 %r6, %r3, %r5; mapa.shared::cluster.u32 %r7, %r4, %r5;\n\
    shl.b32 %r8, %r0, 2; add.u32 %r7, %r7, %r8; add.u32 %r9, %r4, %r8;\n\
    st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r7], %r1, [%r6];\n\
    AGAIN: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p1, [%r3], 0; @!%p1 bra AGAIN;\n\
    ld.shared.u32 %r10, [%r9]; shl.b32 %r11, %r2, 6; add.u32 %r11, %r11, %r0; mul.wide.u32 %d1, %r11, 4; add.s64 %d1, %d0, %d1;\n\
    st.global.u32 [%d1], %r10;";

#[test]
fn blocks_of_a_cluster_send_each_other_what_they_wait_for() {
    let (result, found) = run(".reqnctapercluster 4", RING, 8, 64, &[]);
    let words = result.unwrap();
    for block in 0..8 {
        assert_eq!(words[64 * block..][..64], [(block as u32 + 3) % 4; 64]);
    }
    assert_eq!(found, []);
}

#[test]
fn what_was_sent_is_read_behind_its_wait_only() {
    let eager =
        RING.replace("AGAIN: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p1, [%r3], 0; @!%p1 bra AGAIN;", "");
    assert_ne!(eager, RING);
    let (_, found) = run(".reqnctapercluster 4", &eager, 4, 64, &[]);
    let early = [Defect::CopyNotAwaited, Defect::UnwrittenShared, Defect::RaceInShared];
    assert!(!found.is_empty() && found.iter().all(|defect| early.contains(defect)), "{found:?}");
}

#[test]
fn threads_that_wait_for_too_much_are_found() {
    let (result, _) = run(".reqnctapercluster 4", &RING.replace("%r3], 256", "%r3], 260"), 4, 64, &[]);
    assert!(matches!(result.unwrap_err().kind, FaultKind::Waiting { arrived: 0, expected: 256 }));
    let (result, _) = run(
        ".reqnctapercluster 4",
        "setp.ne.u32 %p0, %r1, 2; @%p0 barrier.cluster.arrive; @%p0 barrier.cluster.wait; @!%p0 bar.sync 0, 128;",
        4,
        64,
        &[],
    );
    assert!(matches!(result.unwrap_err().kind, FaultKind::Waiting { arrived: 192, expected: 256 }));
    // A barrier that nobody initialised, a block that does not exist, and grids that clusters do not divide.
    let (result, _) = run(".reqnctapercluster 4", &RING.replace("mbarrier.init.shared.b64 [%r3], 1;", ""), 4, 64, &[]);
    assert!(matches!(result.unwrap_err().kind, FaultKind::Arrival { .. }));
    let (result, _) = run(".reqnctapercluster 4", &RING.replace("and.b32 %r5, %r5, 3;", ""), 4, 64, &[]);
    assert!(matches!(result.unwrap_err().kind, FaultKind::Remote { rank: 4, .. }));
    assert!(matches!(run(".reqnctapercluster 4", RING, 6, 64, &[]).0.unwrap_err().kind, FaultKind::Launch(_)));
    assert!(matches!(run(".reqnctapercluster 16", RING, 16, 64, &[]).0.unwrap_err().kind, FaultKind::Launch(_)));
}

#[test]
fn what_a_block_did_before_its_fault_is_told() {
    let read = "mov.u32 %r3, board; ld.shared.u32 %r4, [%r3];";
    // The second kernel has atomics on global memory: its blocks take turns on one thread.
    for body in [format!("{read} trap;"), format!("{read} red.global.add.u32 [%d0], 1; trap;")] {
        for directives in ["", ".reqnctapercluster 2"] {
            let (result, found) = run(directives, &body, 2, 32, &[]);
            assert_eq!(result.unwrap_err().kind, FaultKind::Trap);
            assert_eq!(found, [Defect::UnwrittenShared], "{body}");
        }
    }
}

/// Each block stores into its own memory and then into the other's, with the cluster's barrier between and behind.
const ROUNDS: &str = "mov.u32 %r4, board; shl.b32 %r8, %r0, 2; add.u32 %r9, %r4, %r8; st.shared.u32 [%r9], %r0;\n\
    barrier.cluster.arrive.release; barrier.cluster.wait.acquire;\n\
    add.u32 %r5, %r1, 1; and.b32 %r5, %r5, 1; mapa.shared::cluster.u32 %r7, %r9, %r5; add.u32 %r6, %r2, 7;\n\
    st.shared::cluster.u32 [%r7], %r6; barrier.cluster.arrive.release; barrier.cluster.wait.acquire;\n\
    ld.shared.u32 %r10, [%r9]; shl.b32 %r11, %r2, 6; add.u32 %r11, %r11, %r0; mul.wide.u32 %d1, %r11, 4; add.s64 %d1, %d0, %d1;\n\
    st.global.u32 [%d1], %r10;";

#[test]
fn stores_into_other_blocks_are_ordered_by_the_cluster_s_barrier() {
    let (result, found) = run(".reqnctapercluster 2", ROUNDS, 4, 64, &[]);
    let words = result.unwrap();
    assert_eq!([words[0], words[64], words[128], words[192]], [8, 7, 10, 9]);
    assert_eq!(found, []);
    let first = "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;\nadd";
    assert!(ROUNDS.contains(first));
    // Without the first barrier a store may come before the own one; relaxed arrivals order nothing.
    let racy = |body: &str| {
        let (_, found) = run(".reqnctapercluster 2", body, 4, 64, &[]);
        assert!(!found.is_empty() && found.iter().all(|defect| *defect == Defect::RaceInShared), "{found:?}");
    };
    racy(&ROUNDS.replacen(first, "add", 1));
    racy(&ROUNDS.replace("arrive.release", "arrive.relaxed"));
}

#[test]
fn special_registers_say_where_a_block_is() {
    let body = "mov.u32 %r3, %clusterid.x; mov.u32 %r4, %nclusterid.x; mov.u32 %r5, %cluster_ctaid.x; mov.u32 %r6, %cluster_nctarank;\n\
        mul.wide.u32 %d1, %r2, 16; add.s64 %d1, %d0, %d1; st.global.v4.u32 [%d1], {%r3, %r4, %r5, %r6};";
    let words = run(".reqnctapercluster 2", body, 6, 1, &[]).0.unwrap();
    assert_eq!(words[12..16], [1, 3, 1, 2]);
    assert_eq!(run("", body, 6, 1, &[]).0.unwrap()[12..16], [3, 6, 0, 1]);
}

/// 64 rows of A and 24 rows of B of 64 f16 each, as the copies lay them out: 16 bytes change places within eight rows.
fn tiles(a: impl Fn(usize, usize) -> f32, b: impl Fn(usize, usize) -> f32) -> Vec<u32> {
    let mut bytes = vec![0_u8; 88 * 128];
    for row in 0..88 {
        for k in 0..64 {
            let value = if row < 64 { a(row, k) } else { b(row - 64, k) };
            let place = (row * 128 + 2 * k) ^ (row % 8) << 4;
            bytes[place..place + 2].copy_from_slice(&half::f16::from_f32(value).to_le_bytes());
        }
    }
    bytes.chunks(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}

/// Copies the tiles to shared memory from byte 2048 on, adds the products of the second 16 of K to ones, and stores the sums; then a
/// thread overwrites what B holds there.
const PRODUCT: &str = "mov.u32 %r3, 2048; shl.b32 %r4, %r0, 2; add.u32 %r3, %r3, %r4; cvt.u64.u32 %d1, %r4; add.s64 %d1, %d0, %d1; mov.u32 %r5, 0;\n\
    COPY: ld.global.u32 %r6, [%d1]; st.shared.u32 [%r3], %r6; add.s64 %d1, %d1, 512; add.u32 %r3, %r3, 512; add.u32 %r5, %r5, 1;\n\
    setp.lt.u32 %p0, %r5, 22; @%p0 bra COPY; fence.proxy.async.shared::cta; bar.sync 0;\n\
    mov.u64 %d4, DESCRIPTOR_A; mov.u64 %d5, DESCRIPTOR_B; setp.eq.u32 %p1, 0, 0;\n\
    mov.u32 %r10, 0f3F800000; mov.u32 %r11, 0f3F800000; mov.u32 %r12, 0f3F800000; mov.u32 %r13, 0f3F800000;\n\
    mov.u32 %r14, 0f3F800000; mov.u32 %r15, 0f3F800000; mov.u32 %r16, 0f3F800000; mov.u32 %r17, 0f3F800000;\n\
    mov.u32 %r18, 0f3F800000; mov.u32 %r19, 0f3F800000; mov.u32 %r20, 0f3F800000; mov.u32 %r21, 0f3F800000;\n\
    wgmma.fence.sync.aligned;\n\
    wgmma.mma_async.sync.aligned.m64n24k16.f32.f16.f16 {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17, %r18, %r19, %r20, %r21}, %d4, %d5, %p1, 1, 1, 0, 0;\n\
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; bar.sync 0; setp.eq.u32 %p2, %r0, 0; @%p2 st.shared.u32 [10272], %r10;\n\
    mul.wide.u32 %d1, %r0, 48; add.s64 %d1, %d0, %d1; st.global.v4.u32 [%d1], {%r10, %r11, %r12, %r13};\n\
    st.global.v4.u32 [%d1+16], {%r14, %r15, %r16, %r17}; st.global.v4.u32 [%d1+32], {%r18, %r19, %r20, %r21};";

fn product(edit: impl Fn(String) -> String) -> (Result<Vec<u32>, Fault>, Vec<Defect>) {
    // The second 16 of K begin 32 bytes on.
    let descriptor = |start: u64| format!("{:#x}", (start + 32) >> 4 | 1 << 16 | (1024 >> 4) << 32 | 1 << 62);
    let body = PRODUCT.replace("DESCRIPTOR_A", &descriptor(2048)).replace("DESCRIPTOR_B", &descriptor(2048 + 8192));
    let (a, b) = (|row, k| (row * 7 + k * 3) as f32 % 11.0 - 5.0, |row, k| (row * 5 + k * 13) as f32 % 9.0 - 4.0);
    run("", &edit(body), 1, 128, &tiles(a, b))
}

#[test]
fn a_warpgroup_multiplies_the_rows_that_descriptors_name() {
    let (result, found) = product(|body| body);
    let words = result.unwrap();
    for thread in 0..128 {
        let (warp, lane) = (thread / 32, thread % 32);
        for i in 0..12 {
            let (row, column) = (16 * warp + lane / 4 + 8 * (i / 2 % 2), 8 * (i / 4) + 2 * (lane % 4) + i % 2);
            let term = |k: usize| ((row * 7 + k * 3) as f32 % 11.0 - 5.0) * ((column * 5 + k * 13) as f32 % 9.0 - 4.0);
            let expected = 1.0 + (16..32).map(term).sum::<f32>();
            assert_eq!(f32::from_bits(words[12 * thread + i]), expected, "thread {thread}, element {i}");
        }
    }
    assert_eq!(found, []);
    // Without what was there before.
    let words = product(|body| body.replace("setp.eq.u32 %p1, 0, 0;", "setp.ne.u32 %p1, 0, 0;")).0.unwrap();
    let first = (16..32).map(|k| ((k * 3) as f32 % 11.0 - 5.0) * ((k * 13) as f32 % 9.0 - 4.0)).sum::<f32>();
    assert_eq!(f32::from_bits(words[0]), first);
}

#[test]
fn products_without_their_fence_barrier_or_wait_are_found() {
    let without = |what: &'static str| {
        product(move |body| {
            assert!(body.contains(what), "{what}");
            body.replacen(what, if what.ends_with("setp.eq") { "setp.eq" } else { "" }, 1)
        })
    };
    assert_eq!(without("fence.proxy.async.shared::cta;").1, [Defect::NoProxyFence]);
    assert!(without("bar.sync 0;").1.contains(&Defect::RaceInShared));
    // Every store of the sums is one.
    let (_, found) = without("wgmma.wait_group.sync.aligned 0;");
    assert_eq!(found, [&[Defect::OperandInUse][..], &[Defect::SumInUse; 4]].concat());
    // A read and a write of sums between the products and their wait, and a wait that leaves the group pending.
    let wait = "wgmma.commit_group.sync.aligned; wgmma.wait";
    for early in ["add.f32 %r40, %r21, %r21;", "mov.u32 %r21, 0;", "st.global.u32 [%d0], %r10;"] {
        let with = format!("wgmma.commit_group.sync.aligned; {early} wgmma.wait");
        let (_, found) = product(|body| body.replace(wait, &with));
        assert!(found.contains(&Defect::SumInUse), "{early}: {found:?}");
    }
    let (_, found) = product(|body| body.replace("wait_group.sync.aligned 0", "wait_group.sync.aligned 1"));
    assert!(found.contains(&Defect::SumInUse), "{found:?}");
    // The wait is each warp's own: others may still read.
    assert!(!without("bar.sync 0; setp.eq").1.is_empty());
    let (result, _) = product(|body| body.replace("mov.u64 %d4, 0x4", "mov.u64 %d4, 0x8"));
    assert!(matches!(result.unwrap_err().kind, FaultKind::Descriptor(_)));
}
