// Counts this block's arrival: all that the block wrote before is visible to whoever sees the count.
DEVICE u32 arrive(u32* counter) {
    u32 before;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
}
