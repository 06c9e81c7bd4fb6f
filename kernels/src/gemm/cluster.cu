// Thread block clusters (sm_90 and later).
// Barrier over the cluster that also makes shared memory written before it visible to the other blocks.
DEVICE void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
// Barrier that orders no memory: for loads whose values have been used already.
DEVICE void cluster_barrier_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;" ::: "memory");
}
// Four floats from the shared memory of block `rank` of the cluster, at the address that they have in this block.
DEVICE float4 load_remote(u32 address, u32 rank) {
    u32 remote;
    float4 v;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
    asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(remote)
                 : "memory");
    return v;
}
