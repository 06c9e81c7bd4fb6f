// Instructions that CUDA C++ without headers has no function for. sm_80 and later; the cluster part sm_90 and later.
DEVICE u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

// The same pointer, of which the compiler knows nothing: what is added to it is one instruction, not part of a longer
// sum that is computed anew.
template <typename T> DEVICE const T* opaque(const T* pointer) {
    asm("" : "+l"(pointer));
    return pointer;
}

// 16 bytes from global to shared memory in the background; zeros where `inside` is false, when nothing is read. CACHED goes through level 1,
// which pays where several taps read the same element.
template <bool CACHED> DEVICE void copy_async(u32 to, const void* from, bool inside) {
    const int bytes = inside ? 16 : 0;
    if (CACHED)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
    else
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
// The same past level 1 where `run` is true, else nothing; no branch parts the instructions around it.
DEVICE void copy_async_if(bool run, u32 to, const void* from, bool inside) {
    const int bytes = inside ? 16 : 0;
    asm volatile("{.reg .pred run; setp.ne.u32 run, %3, 0; @run cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;}" ::"r"(to),
                 "l"(from), "r"(bytes), "r"((u32)run)
                 : "memory");
}
DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Four equal words into shared memory.
DEVICE void store_chunk(u32 to, u32 word) {
    asm volatile("st.shared.v4.u32 [%0], {%1,%1,%1,%1};" ::"r"(to), "r"(word) : "memory");
}
// Waits until at most `PENDING` committed groups of this thread are still in flight.
template <int PENDING> DEVICE void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Four 8×8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
DEVICE void load_matrices(u32 (&r)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}
// Two of them, at the addresses of lanes 0 to 15.
DEVICE void load_two_matrices(u32 (&r)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(address)
                 : "memory");
}
DEVICE void load_matrices_transposed(u32 (&r)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// c += a·b for a 16×16, b 16×8, accumulated in f32.
DEVICE void multiply_add(f32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1, f16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEVICE void multiply_add(f32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1, bf16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// The same for a 16×8, b 8×8.
DEVICE void multiply_add(f32 (&c)[4], u32 a0, u32 a1, u32 b, f16) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(b));
}
DEVICE void multiply_add(f32 (&c)[4], u32 a0, u32 a1, u32 b, bf16) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(b));
}
