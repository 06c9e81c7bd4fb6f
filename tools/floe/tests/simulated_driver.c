// A CUDA driver without a GPU: memory is the host's, kernels do nothing, except that replays are signalled and guards see what
// SIMULATED_NOT_FINITE says: the number of a binding. With SIMULATED_COPY each other kernel copies so many bytes from its first
// argument to its second. Environment variables make it fail.
// Only for tests of the command line; `cc -shared -fPIC` makes a libcuda.so.1 of it.

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned Result;
typedef void *Handle;
typedef unsigned long long Address;

static int setting(const char *name, int otherwise) {
    const char *value = getenv(name);
    return value ? atoi(value) : otherwise;
}

static Result memory(Handle *place, size_t bytes) {
    if (bytes > (size_t)1 << 30) return 2; // CUDA_ERROR_OUT_OF_MEMORY
    *place = aligned_alloc(256, (bytes + 255) / 256 * 256);
    return *place ? 0 : 2;
}

static Result handle(Handle *place) {
    *place = (Handle)1;
    return 0;
}

Result cuInit(unsigned flags) { return setting("SIMULATED_INIT", 0); }
Result cuDriverGetVersion(int *version) { *version = setting("SIMULATED_DRIVER", 12060); return 0; }
Result cuGetErrorName(Result error, const char **name) {
    *name = error == 100 ? "CUDA_ERROR_NO_DEVICE" : error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_UNKNOWN";
    return 0;
}
Result cuDeviceGetCount(int *count) { *count = 1; return 0; }
Result cuDeviceGet(int *device, int ordinal) { *device = ordinal; return ordinal ? 101 : 0; }
Result cuDeviceGetName(char *name, int length, int device) { strncpy(name, "Simulated GPU", length); return 0; }
Result cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 1 << 30; return 0; }
Result cuDeviceGetAttribute(int *value, int attribute, int device) {
    int architecture = setting("SIMULATED_ARCHITECTURE", 87);
    switch (attribute) {
    case 13: *value = 1300000; break;            // CLOCK_RATE
    case 16: *value = 8; break;                  // MULTIPROCESSOR_COUNT
    case 18: *value = architecture == 87; break; // INTEGRATED
    case 19: *value = 1; break;                  // CAN_MAP_HOST_MEMORY
    case 38: *value = 4 << 20; break;            // L2_CACHE_SIZE
    case 75: *value = architecture / 10; break;  // COMPUTE_CAPABILITY_MAJOR
    case 76: *value = architecture % 10; break;  // COMPUTE_CAPABILITY_MINOR
    default: return 1;
    }
    return 0;
}
Result cuDevicePrimaryCtxRetain(Handle *context, int device) { return handle(context); }
Result cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
Result cuCtxSetCurrent(Handle context) { return 0; }
Result cuMemGetInfo_v2(size_t *free, size_t *total) {
    *free = setting("SIMULATED_FREE", 1 << 29);
    *total = 1 << 30;
    return 0;
}
Result cuModuleLoadData(Handle *module, const void *image) { handle(module); return setting("SIMULATED_LOAD", 0); }
// What a function is: the others do nothing.
enum { GUARD = 2, SIGNAL = 3 };
Result cuModuleGetFunction(Handle *function, Handle module, const char *name) {
    *function = (Handle)(size_t)(!strcmp(name, "guard") ? GUARD : !strcmp(name, "signal") ? SIGNAL : 1);
    return 0;
}
Result cuModuleUnload(Handle module) { return 0; }
Result cuFuncSetAttribute(Handle function, int attribute, int value) { return 0; }
Result cuMemAlloc_v2(Address *address, size_t bytes) { return memory((Handle *)address, bytes); }
Result cuMemFree_v2(Address address) { free((Handle)address); return 0; }
Result cuMemHostAlloc(Handle *place, size_t bytes, unsigned flags) { return memory(place, bytes); }
Result cuMemHostGetDevicePointer_v2(Address *address, Handle place, unsigned flags) {
    *address = (Address)place;
    return 0;
}
Result cuMemFreeHost(Handle place) { free(place); return 0; }
Result cuStreamCreate(Handle *stream, unsigned flags) { return handle(stream); }
Result cuStreamDestroy_v2(Handle stream) { return 0; }
Result cuEventCreate(Handle *event, unsigned flags) { return handle(event); }
Result cuEventDestroy_v2(Handle event) { return 0; }
// Every kernel takes half a millisecond. One graph is built at a time.
struct Graph {
    size_t nodes;
    int guarded;
    unsigned *counter, *report; // of the signal, if there is one
    void *from, *to;            // of the last other kernel with two arguments
};
static struct Graph building;
static size_t launched;
Result cuGraphCreate(Handle *graph, unsigned flags) {
    memset(&building, 0, sizeof building);
    return handle(graph);
}
// The name of drivers before CUDA 12, which floe-cuda must find as well.
Result cuGraphAddKernelNode(Handle *node, Handle graph, const Handle *after, size_t count, const void *parameters) {
    const struct { Handle function; unsigned grid[3], block[3], shared; Handle **arguments; } *kernel = parameters;
    building.nodes++;
    building.guarded |= kernel->function == (Handle)GUARD;
    if (kernel->function == (Handle)SIGNAL) {
        building.counter = *kernel->arguments[0];
        building.report = *kernel->arguments[1];
    } else if (kernel->function != (Handle)GUARD && setting("SIMULATED_COPY", 0)) {
        building.from = *kernel->arguments[0];
        building.to = *kernel->arguments[1];
    }
    return handle(node);
}
Result cuGraphInstantiateWithFlags(Handle *exec, Handle graph, unsigned long long flags) {
    Result failed = memory(exec, sizeof building);
    if (!failed) memcpy(*exec, &building, sizeof building);
    return failed;
}
Result cuGraphUpload(Handle exec, Handle stream) { return 0; }
Result cuGraphExecDestroy(Handle exec) { free(exec); return 0; }
Result cuGraphDestroy(Handle graph) { return 0; }
Result cuGraphLaunch(Handle exec, Handle stream) {
    enum { REPORT_GUARD = 64 }; // bytes, as the plan format has it
    const struct Graph *graph = exec;
    const int not_finite = setting("SIMULATED_NOT_FINITE", -1);
    launched = graph->nodes;
    if (launched == (size_t)setting("SIMULATED_REFUSED", -1)) return 1; // CUDA_ERROR_INVALID_VALUE
    if (graph->to) memcpy(graph->to, graph->from, (size_t)setting("SIMULATED_COPY", 0));
    if (graph->report) {
        const unsigned replay = ++*graph->counter;
        if (graph->guarded && not_finite >= 0) graph->report[REPORT_GUARD / sizeof replay + (size_t)not_finite] = replay;
        *graph->report = replay;
    }
    return 0;
}
Result cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t bytes, Handle stream) {
    memcpy((Handle)to, from, bytes);
    return 0;
}
Result cuMemcpyDtoHAsync_v2(void *to, Address from, size_t bytes, Handle stream) {
    memcpy(to, (Handle)from, bytes);
    return 0;
}
Result cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, Handle stream) {
    memcpy((Handle)to, (Handle)from, bytes);
    return 0;
}
Result cuMemsetD8Async(Address to, unsigned char value, size_t bytes, Handle stream) {
    memset((Handle)to, value, bytes);
    return 0;
}
Result cuEventRecord(Handle event, Handle stream) { return 0; }
// The GPU does not finish as long as SIMULATED_RUNNING is 1: waiting for it takes for ever.
Result cuEventQuery(Handle event) { return setting("SIMULATED_RUNNING", 0) ? 600 : 0; } // CUDA_ERROR_NOT_READY
static void finish(void) {
    // From the SIMULATED_HANGS-th wait on.
    static int waits;
    if (setting("SIMULATED_RUNNING", 0) || ++waits == setting("SIMULATED_HANGS", -1)) {
        for (;;) pause();
    }
}
Result cuStreamSynchronize(Handle stream) {
    finish();
    return setting("SIMULATED_SYNCHRONIZE", 0);
}
Result cuEventSynchronize(Handle event) {
    finish();
    return 0;
}
Result cuEventElapsedTime(float *milliseconds, Handle start, Handle end) {
    *milliseconds = 0.5f * launched;
    return 0;
}
