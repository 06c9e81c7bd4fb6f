// One BM×BN tile of C = A·Bᵀ on tensor cores by `wgmma` (sm_90a): four warps together multiply 64 rows, and the tensor
// cores read both tiles from shared memory themselves. A row of a tile is 128 bytes, so that the swizzle of the copies is
// the one that descriptors call 128-byte swizzle.
constexpr int GROUP_COLUMNS = BN / WN;
constexpr int STEPS = BK / 16 / WK;  // K steps of a warpgroup in one tile.
static_assert(BM == 64 * WM && BK == 64 && STEPS > 0 && THREADS == 128 * WM * WN * WK && STAGES >= 3, "tile");

// Matrix descriptor of rows of 128 swizzled bytes at a multiple of 1024: eight rows are 1024 bytes apart.
DEVICE u64 descriptor(u32 address) {
    return (u64)(address >> 4 & 0x3fff) | 1ull << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}
// What cp.async has written becomes visible to the tensor cores, which read through another path.
DEVICE void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void warpgroup_arrive() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void warpgroup_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> DEVICE void warpgroup_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

DEVICE void warpgroup_tile(const Operands& o) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const u32 base = shared_address(shared);
    const Tile t = this_tile();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, group = threadIdx.x / 128;
    const int group_row = group % WM * 64, group_column = group / WM % WN * GROUP_COLUMNS, group_k = group / (WM * WN);
    const int first = t.slice * K_TILES / SPLIT, last = (t.slice + 1) * K_TILES / SPLIT;
#if SPLIT_IN_CLUSTER
    expect_partials(base + RECEIVED_AT);
#endif
    Bias bias[GROUPS][VECTOR_COLUMNS];
    const Copies copies = start_copies<STAGES - 2>(o, t, shared, first, last, bias);
    Extras extras[BATCH] = {};
    if (BEFORE_LOOP) read_extras(o, t, 0, extras);

    f32 sums[GROUP_COLUMNS / 2] = {};
    int stage = 0;
#pragma unroll 1
    for (int k_tile = first; k_tile < last; k_tile++) {
        copy_async_wait<STAGES - 3>();
        fence_async();
        __syncthreads();
        const u32 tile = base + stage * STAGE_BYTES;
        const u64 a = descriptor(tile + group_row * 128), b = descriptor(tile + A_BYTES + group_column * 128);
        warpgroup_arrive();
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            const int k = (group_k * STEPS + step) * 2;  // In units of 16 bytes.
            multiply_add(sums, a + k, b + k);
        }
        warpgroup_commit();
        // The buffer that this fills was read two turns ago: before the barrier above, every warp has waited for that.
        const int next = k_tile + STAGES - 2;
        const int to = stage >= 2 ? stage - 2 : stage + STAGES - 2;
        if (next < last) copies.copy_b(next, to), copies.copy_a(next, to);
        copy_async_commit();
        warpgroup_wait<1>();
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
    warpgroup_wait<0>();
    if (READS_AHEAD && !BEFORE_LOOP) read_extras(o, t, 0, extras);
    copy_async_wait<0>();
    __syncthreads();
    // The accumulators go through shared memory so that a thread gets eight neighbouring columns.
    f32* const staged = (f32*)shared;
#pragma unroll
    for (int j = 0; j < GROUP_COLUMNS / 8; j++) {
        f32* to = staged + group_k * STAGE + (group_row + warp * 16 + lane / 4) * STAGE_PITCH +
                  staged_column(group_column + j * 8 + lane % 4 * 2);
        *(float2*)to = make_float2(sums[j * 4], sums[j * 4 + 1]);
        *(float2*)(to + 8 * STAGE_PITCH) = make_float2(sums[j * 4 + 2], sums[j * 4 + 3]);
    }
    __syncthreads();
    finish_tile(o, t, staged, bias[0], extras);
}
