// Thread block clusters (sm_90 and later): the blocks of a cluster send each other partial sums.
//
// A block owns a share of the tile's vectors. The others store their sums for it straight into its shared memory, and
// each store reports its bytes to a barrier there, so that neither side executes a fence.

// Barrier in shared memory that completes when `bytes` have arrived.
DEVICE void init_arrival(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;\n"
                 "mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;\n"
                 "fence.mbarrier_init.release.cluster;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}
DEVICE void wait_for_arrival(u32 barrier) {
    asm volatile("{\n.reg .pred done;\nAGAIN:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared.b64 done, [%0], 0;\n"
                 "@!done bra AGAIN;\n}" ::"r"(barrier)
                 : "memory");
}
// First half of a barrier over the cluster, which orders no memory but what a fence before it orders.
DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait;" ::: "memory"); }

// The address in block `rank` of the cluster that corresponds to an address in this block's shared memory.
DEVICE u32 address_in_block(u32 address, u32 rank) {
    u32 remote;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
    return remote;
}
// Four sums into the shared memory of another block; they count at the barrier, which is in the same block.
DEVICE void send(u32 to, u32 barrier, float4 v) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%2,%3,%4,%5}, [%1];" ::"r"(to),
                 "r"(barrier), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
}
DEVICE void send(u32 to, u32 barrier, uint4 v) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%0], {%2,%3,%4,%5}, [%1];" ::"r"(to),
                 "r"(barrier), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}
