// The stack that INIT and RUN take, measured on a painted one: `stack PLAN host|cuda`. Built without sanitizers.

#define _POSIX_C_SOURCE 200809L

#include "floe.h"
#include "floe_cuda.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STACK = 1 << 20, PAINT = 0xc5 };

static unsigned char *stack;
static unsigned char *file;
static size_t file_bytes;
static int on_gpu;
static struct floe_cuda cuda;
static _Alignas(FLOE_PLAN_ALIGNMENT) unsigned char plan_memory[FLOE_PLAN_BYTES];
static unsigned char *memory;
static floe_plan *plan;
static floe_session *session;
static floe_session_options options;
static floe_requirements requirements;
static uint32_t variant;
static floe_status status;
static floe_error error;

static void *nothing(void *unused) { return unused; }

static void *open_plan(void *unused) {
    status = floe_plan_open(plan_memory, sizeof plan_memory, file, file_bytes, &plan, &error);
    return unused;
}

static void *init(void *unused) {
    char text[FLOE_CUDA_TEXT_BYTES];
    if (on_gpu && floe_cuda_make_current(&cuda, text)) abort();
    status = floe_session_init(memory, requirements.bytes, plan, variant, &options, &session, &error);
    return unused;
}

static void *run(void *unused) {
    status = floe_session_replay(session, &error);
    return unused;
}

// Bytes of stack that a thread with this body touches.
static size_t measure(void *(*body)(void *)) {
    pthread_attr_t attributes;
    pthread_t thread;
    size_t untouched = 0;
    memset(stack, PAINT, STACK);
    if (pthread_attr_init(&attributes) || pthread_attr_setstack(&attributes, stack, STACK) ||
        pthread_create(&thread, &attributes, body, NULL) || pthread_join(thread, NULL)) {
        abort();
    }
    if (status != FLOE_STATUS_OK) {
        fprintf(stderr, "%s: %s\n", floe_status_name(status), error.text);
        exit(1);
    }
    while (untouched < STACK && stack[untouched] == PAINT) untouched++;
    return STACK - untouched;
}

int main(int count, char **arguments) {
    FILE *stream = count == 3 ? fopen(arguments[1], "rb") : NULL;
    if (!stream || fseek(stream, 0, SEEK_END)) return 2;
    file_bytes = (size_t)ftell(stream);
    rewind(stream);
    file = aligned_alloc(64, (file_bytes + 63) / 64 * 64);
    stack = aligned_alloc(4096, STACK);
    if (!file || !stack || fread(file, 1, file_bytes, stream) != file_bytes) return 2;
    fclose(stream);
    on_gpu = !strcmp(arguments[2], "cuda");
    options.struct_bytes = sizeof options;
    if (on_gpu) {
        char text[FLOE_CUDA_TEXT_BYTES];
        if (floe_cuda_open(&cuda, 0, text)) {
            fprintf(stderr, "%s\n", text);
            return 1;
        }
        options.find_symbol = floe_cuda_find_symbol;
        options.find_symbol_context = &cuda;
    }

    const size_t thread = measure(nothing), opening = measure(open_plan) - thread;
    if (on_gpu ? floe_plan_find_gpu(plan, cuda.architecture, cuda.multiprocessors, cuda.driver, &variant, NULL)
               : floe_plan_find_target(plan, "host", &variant, NULL)) {
        return 1;
    }
    if (floe_session_requirements(plan, variant, &options, &requirements, NULL)) return 1;
    memory = aligned_alloc(64, (requirements.bytes + 63) / 64 * 64);
    if (!memory) return 1;
    const size_t initialising = measure(init) - thread, running = measure(run) - thread;
    printf("stack on %s: open %zu, init %zu (stated: %zu), replay %zu bytes\n", arguments[2], opening, initialising,
           requirements.init_stack_bytes, running);
    if (floe_session_destroy(session, NULL) || floe_plan_close(plan, NULL)) return 1;
    if (on_gpu) floe_cuda_close(&cuda);
    free(memory), free(stack), free(file);
    return initialising > requirements.init_stack_bytes;
}
