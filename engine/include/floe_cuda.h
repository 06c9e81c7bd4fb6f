/* Finds the CUDA driver and opens a GPU, for programs that use floe.h. C99 and C++11; nothing to link but dlopen (-ldl where
 * the C library is older than glibc 2.34, as on JetPack 5).
 *
 *     struct floe_cuda cuda;
 *     char text[FLOE_CUDA_TEXT_BYTES];
 *     if (floe_cuda_open(&cuda, 0, text) != 0) { fputs(text, stderr); ... }
 *     floe_plan_find_gpu(plan, cuda.architecture, cuda.multiprocessors, cuda.driver, &variant, &error);
 *     floe_session_options options = {0};
 *     options.struct_bytes = sizeof options;
 *     options.find_symbol = floe_cuda_find_symbol;
 *     options.find_symbol_context = &cuda;
 *     options.mapped = cuda.integrated;
 *     ... sessions are made, used and destroyed ...
 *     floe_cuda_close(&cuda);
 *
 * No CUDA toolkit is needed, to compile or to run. A program that has its own CUDA context needs none of this: it passes
 * floe_session_init a function that finds the driver's, with its context current. */
#ifndef FLOE_CUDA_H
#define FLOE_CUDA_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of an error's text, the closing NUL included. */
#define FLOE_CUDA_TEXT_BYTES 512

/* An opened GPU. Its context is current on the thread that opened it; floe_cuda_make_current brings it to another thread, or
 * back after other code changed it. */
struct floe_cuda {
    /* The driver's library; it is never unloaded, since its threads outlive every scope. */
    void *library;
    /* The device's primary context (CUcontext). */
    void *context;
    /* The device (CUdevice). */
    int device;
    /* Compute capability times ten, for example 87. */
    uint32_t architecture;
    /* Streaming multiprocessors. */
    uint32_t multiprocessors;
    /* CUDA version of the driver as cuDriverGetVersion counts, for example 12060. */
    uint32_t driver;
    /* 1 where GPU and CPU share their memory, as on a Jetson. */
    uint32_t integrated;
};

/* Address of a driver function, or null: a `floe_find_symbol` whose context is a `struct floe_cuda`. */
static inline void *floe_cuda_find_symbol(void *context, const char *name) {
    return dlsym(((struct floe_cuda *)context)->library, name);
}

/* A function of the driver's library as a function pointer; returns 0, or 1 with a text where the driver has none. */
static inline int floe_cuda_function(struct floe_cuda *cuda, const char *name, void *function, char *text) {
    void *address = floe_cuda_find_symbol(cuda, name);
    if (!address) {
        snprintf(text, FLOE_CUDA_TEXT_BYTES, "libcuda has no function %s: is it a stub, or too old?", name);
        return 1;
    }
    /* ISO C has no conversion from an object pointer to a function pointer; POSIX promises equal representation. */
    memcpy(function, &address, sizeof address);
    return 0;
}

/* Loads the library that the environment variable FLOE_LIBCUDA names, else the first of the places where drivers put it:
 * the administrator's choice first, then JetPack 6, JetPack 5, JetPack 7 on Orin and on Thor, then the folders of
 * distributions, containers, WSL and NixOS. */
static inline int floe_cuda_load(struct floe_cuda *cuda, char *text) {
    static const char *const places[] = {
        "libcuda.so.1",
        "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1",
        "/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1",
        "/opt/nvidia/l4t-gpu-libs/nvgpu/libcuda.so.1.1",
        "/opt/nvidia/l4t-gpu-libs/openrm/libcuda.so.1.1",
        "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
        "/usr/lib/aarch64-linux-gnu/libcuda.so.1",
        "/usr/lib64/libcuda.so.1",
        "/usr/local/nvidia/lib64/libcuda.so.1",
        "/usr/local/nvidia/lib/libcuda.so.1",
        "/usr/lib/wsl/lib/libcuda.so.1",
        "/run/opengl-driver/lib/libcuda.so.1",
    };
    const char *wanted = getenv("FLOE_LIBCUDA");
    const char *reason;
    size_t place;
    if (wanted && *wanted) {
        cuda->library = dlopen(wanted, RTLD_NOW | RTLD_LOCAL);
    } else {
        for (place = 0; !cuda->library && place < sizeof places / sizeof *places; place++) {
            cuda->library = dlopen(places[place], RTLD_NOW | RTLD_LOCAL);
        }
    }
    if (cuda->library) return 0;
    reason = dlerror();
    snprintf(text, FLOE_CUDA_TEXT_BYTES, "no CUDA driver found (%s): install NVIDIA's driver, or name it in FLOE_LIBCUDA",
             reason ? reason : "no reason given");
    return 1;
}

/* Makes the GPU's context current on the calling thread. Returns 0, or 1 with a text of FLOE_CUDA_TEXT_BYTES bytes. */
static inline int floe_cuda_make_current(struct floe_cuda *cuda, char *text) {
    unsigned (*set_current)(void *context);
    unsigned status;
    if (floe_cuda_function(cuda, "cuCtxSetCurrent", &set_current, text)) return 1;
    status = set_current(cuda->context);
    if (status) snprintf(text, FLOE_CUDA_TEXT_BYTES, "cuCtxSetCurrent failed with CUresult %u", status);
    return status != 0;
}

/* Releases the GPU's context; sessions must have been destroyed. Harmless where floe_cuda_open failed. */
static inline void floe_cuda_close(struct floe_cuda *cuda) {
    unsigned (*release)(int device);
    char text[FLOE_CUDA_TEXT_BYTES];
    if (cuda->context && !floe_cuda_function(cuda, "cuDevicePrimaryCtxRelease_v2", &release, text)) {
        release(cuda->device);
    }
    cuda->context = NULL;
}

/* Loads the driver, opens GPU number `ordinal` and makes its primary context current on this thread. Returns 0, or 1 with a
 * text of FLOE_CUDA_TEXT_BYTES bytes that says what failed. */
static inline int floe_cuda_open(struct floe_cuda *cuda, int ordinal, char *text) {
    enum { MULTIPROCESSORS = 16, INTEGRATED = 18, MAJOR = 75, MINOR = 76 }; /* CUdevice_attribute */
    unsigned (*init)(unsigned flags);
    unsigned (*driver_version)(int *version);
    unsigned (*device_get)(int *device, int ordinal);
    unsigned (*device_attribute)(int *value, int attribute, int device);
    unsigned (*retain)(void **context, int device);
    unsigned (*error_name)(unsigned error, const char **name);
    const char *call, *name = NULL;
    unsigned status;
    int version = 0, multiprocessors = 0, integrated = 0, major = 0, minor = 0;

    memset(cuda, 0, sizeof *cuda);
    text[0] = 0;
    if (floe_cuda_load(cuda, text) || floe_cuda_function(cuda, "cuInit", &init, text) ||
        floe_cuda_function(cuda, "cuDriverGetVersion", &driver_version, text) ||
        floe_cuda_function(cuda, "cuDeviceGet", &device_get, text) ||
        floe_cuda_function(cuda, "cuDeviceGetAttribute", &device_attribute, text) ||
        floe_cuda_function(cuda, "cuDevicePrimaryCtxRetain", &retain, text) ||
        floe_cuda_function(cuda, "cuGetErrorName", &error_name, text)) {
        return 1;
    }
    call = "cuInit";
    status = init(0);
    if (!status) call = "cuDriverGetVersion", status = driver_version(&version);
    if (!status) call = "cuDeviceGet", status = device_get(&cuda->device, ordinal);
    if (!status) call = "cuDeviceGetAttribute", status = device_attribute(&major, MAJOR, cuda->device);
    if (!status) status = device_attribute(&minor, MINOR, cuda->device);
    if (!status) status = device_attribute(&multiprocessors, MULTIPROCESSORS, cuda->device);
    if (!status) status = device_attribute(&integrated, INTEGRATED, cuda->device);
    if (!status) call = "cuDevicePrimaryCtxRetain", status = retain(&cuda->context, cuda->device);
    if (status) {
        if (error_name(status, &name) || !name) name = "unknown error";
        snprintf(text, FLOE_CUDA_TEXT_BYTES, "%s failed with %s (%u)", call, name, status);
        cuda->context = NULL;
        return 1;
    }
    cuda->architecture = (uint32_t)(major * 10 + minor);
    cuda->multiprocessors = (uint32_t)multiprocessors;
    cuda->driver = (uint32_t)version;
    cuda->integrated = integrated != 0;
    if (floe_cuda_make_current(cuda, text)) {
        floe_cuda_close(cuda);
        return 1;
    }
    return 0;
}

#ifdef __cplusplus
}
#endif

#endif /* FLOE_CUDA_H */
