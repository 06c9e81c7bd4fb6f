// A thread computes one element. A block looks at the indices BLOCK at a time and skips those that name none of its rows.
extern "C" __global__ void __launch_bounds__(BLOCK) scatter(const T* __restrict__ data, const i64* __restrict__ indices,
                                                            const T* __restrict__ updates, T* __restrict__ output) {
    __shared__ i32 rows[BLOCK];
    wait_for_inputs();
    const u32 thread = blockIdx.x * BLOCK + threadIdx.x;
    const bool exists = thread < ELEMENTS;
    const u32 element = exists ? thread : ELEMENTS - 1u;
    const i32 row = (i32)(element / WIDTH);
    const u32 column = element % WIDTH;
    const i32 first = (i32)(blockIdx.x * BLOCK / WIDTH);
    const u32 end = (blockIdx.x + 1u) * BLOCK - 1u;
    const i32 last = (i32)((end < ELEMENTS ? end : ELEMENTS - 1u) / WIDTH);
    T value = data[data_at(element)];
    for (u32 start = 0; start < COUNT; start += BLOCK) {
        const u32 i = start + threadIdx.x;
        i64 index = i < COUNT ? indices[indices_at(i)] : (i64)ROWS;
        index = index < 0 ? index + (i64)ROWS : index;
        const bool here = index >= (i64)first && index <= (i64)last;
        // The barrier also keeps the rows until every thread is done with the last ones.
        if (!__syncthreads_or(here)) continue;
        rows[threadIdx.x] = here ? (i32)index : -1;
        __syncthreads();
        const u32 count = COUNT - start < BLOCK ? COUNT - start : BLOCK;
        for (u32 j = 0; j < count; ++j) {
            if (rows[j] == row) value = join(value, updates[updates_at((start + j) * WIDTH + column)]);
        }
    }
    if (exists) output[output_at(element)] = value;
}
