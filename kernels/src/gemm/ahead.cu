// What a launch fetches into level 2 for a later step (Launch::fetch_ahead), from sm_90 on: each block an equal share of a constant's bytes,
// a multiple of 16.
#ifdef FETCH_AHEAD
#define AHEAD_PARAMETERS , const u8* ahead, const u8* second_share
#define fetch_ahead() fetch_share(ahead, second_share)
DEVICE void fetch_share(const u8* from, const u8* second_share) {
    const u32 bytes = (u32)(second_share - from), first = blockIdx.x * bytes;
    if (threadIdx.x == 0 && bytes > 0)
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(from + first)), "r"(bytes));
}
#else
#define AHEAD_PARAMETERS
#define fetch_ahead()
#endif
