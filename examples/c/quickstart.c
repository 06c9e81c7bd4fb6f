// Runs a plan from C: opens the file, makes a session on the host or a GPU, replays it once and prints the outputs.
//
//     quickstart PLAN host|cuda [INPUT ...]
//
// Each INPUT is a file with the bytes of the next input, in the plan's order; inputs without one are all zero.

#include "floe.h"
#include "floe_cuda.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Ends the program where a call failed, and says why.
static void check(floe_status status, const floe_error *error) {
    if (status == FLOE_STATUS_OK) return;
    fprintf(stderr, "%s: %s\n", floe_status_name(status), error->text);
    exit(1);
}

// Memory at a multiple of `alignment`, to be freed by the caller; ends the program where there is none.
static void *allocate(size_t alignment, size_t bytes) {
    void *memory = aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
    if (memory) return memory;
    fprintf(stderr, "no memory for %zu bytes\n", bytes);
    exit(1);
}

// A whole file in memory, to be freed by the caller; ends the program where it cannot be read.
static void *read_file(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    long length = -1;
    void *memory = NULL;
    if (file && fseek(file, 0, SEEK_END) == 0) length = ftell(file);
    if (length >= 0 && fseek(file, 0, SEEK_SET) == 0) {
        memory = allocate(FLOE_PLAN_ALIGNMENT, (size_t)length);
        *bytes = fread(memory, 1, (size_t)length, file);
    }
    if (!memory || *bytes != (size_t)length) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
    fclose(file);
    return memory;
}

// Prints an output: floats as numbers, anything else as bytes.
static void print(const floe_binding_info *binding, const void *data) {
    printf("%s [", binding->name);
    for (uint32_t i = 0; i < binding->rank; i++) printf("%s%u", i ? ", " : "", (unsigned)binding->shape[i]);
    printf("]\n");
    if (binding->element_type == FLOE_ELEMENT_TYPE_F32) {
        for (size_t i = 0; i < binding->bytes / sizeof(float); i++) {
            float value;
            memcpy(&value, (const char *)data + i * sizeof value, sizeof value);
            printf("%.6f\n", (double)value);
        }
    } else {
        for (size_t i = 0; i < binding->bytes; i++) printf("%02x\n", ((const unsigned char *)data)[i]);
    }
}

int main(int count, char **arguments) {
    if (count < 3 || (strcmp(arguments[2], "host") && strcmp(arguments[2], "cuda"))) {
        fprintf(stderr, "usage: %s PLAN host|cuda [INPUT ...]\n", arguments[0]);
        return 2;
    }
    int on_gpu = !strcmp(arguments[2], "cuda");
    floe_error error = {{0}};

    // The plan: its bytes stay where they are as long as it is used.
    size_t file_bytes;
    void *file = read_file(arguments[1], &file_bytes);
    void *plan_memory = allocate(FLOE_PLAN_ALIGNMENT, FLOE_PLAN_BYTES);
    floe_plan *plan;
    check(floe_plan_open(plan_memory, FLOE_PLAN_BYTES, file, file_bytes, &plan, &error), &error);
    check(floe_plan_verify(plan, &error), &error);

    // The device and the variant for it.
    struct floe_cuda cuda;
    uint32_t variant;
    floe_session_options options = {0};
    options.struct_bytes = sizeof options;
    if (on_gpu) {
        char text[FLOE_CUDA_TEXT_BYTES];
        if (floe_cuda_open(&cuda, 0, text)) {
            fprintf(stderr, "%s\n", text);
            return 1;
        }
        options.find_symbol = floe_cuda_find_symbol;
        options.find_symbol_context = &cuda;
        options.mapped = cuda.integrated;
        check(floe_plan_find_gpu(plan, cuda.architecture, cuda.multiprocessors, cuda.driver, &variant, &error), &error);
    } else {
        check(floe_plan_find_target(plan, "host", &variant, &error), &error);
    }

    // INIT: everything that is ever allocated.
    floe_requirements requirements;
    check(floe_session_requirements(plan, variant, &options, &requirements, &error), &error);
    void *memory = allocate(requirements.alignment, requirements.bytes);
    floe_session *session;
    check(floe_session_init(memory, requirements.bytes, plan, variant, &options, &session, &error), &error);

    // RUN: a program with a camera repeats this part.
    floe_variant_info info;
    floe_binding_info binding;
    int next = 3;
    check(floe_plan_variant(plan, variant, &info, &error), &error);
    for (uint32_t number = 0; number < info.bindings; number++) {
        check(floe_plan_binding(plan, variant, number, &binding, &error), &error);
        if (binding.direction != FLOE_DIRECTION_INPUT || next >= count) continue;
        size_t bytes;
        void *data = read_file(arguments[next++], &bytes);
        check(floe_session_write(session, number, data, bytes, &error), &error);
        free(data);
    }
    check(floe_session_replay(session, &error), &error);
    for (uint32_t number = 0; number < info.bindings; number++) {
        check(floe_plan_binding(plan, variant, number, &binding, &error), &error);
        if (binding.direction != FLOE_DIRECTION_OUTPUT) continue;
        void *data = allocate(16, binding.bytes);
        check(floe_session_read(session, number, data, binding.bytes, &error), &error);
        print(&binding, data);
        free(data);
    }

    check(floe_session_destroy(session, &error), &error);
    check(floe_plan_close(plan, &error), &error);
    if (on_gpu) floe_cuda_close(&cuda);
    free(memory);
    free(plan_memory);
    free(file);
    return 0;
}
