// The last step of a replay: one thread tells the host that everything before it has finished. Nobody else writes the
// counter, so it may be read before the wait.
extern "C" __global__ void __launch_bounds__(1) signal(u32* counter, u32* report) {
    const u32 replay = *counter == 0xffffffffu ? 1 : *counter + 1;
    wait_for_inputs();
    *counter = replay;
    // Everything that the kernels before wrote, host memory included, is visible to whoever acquires this word.
    asm volatile("st.release.sys.global.u32 [%0], %1;" :: "l"(report), "r"(replay) : "memory");
}
