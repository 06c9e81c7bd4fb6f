// Several shapes of one target: `shapes PLAN host|cuda`, a plan of the digits for batches of one and of two. In a batch of two
// equal pictures both rows must be what the picture alone gives; on the simulated driver, whose kernels do nothing, all is zero.

#include "floe.h"
#include "floe_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 64, DIGITS = 10 };

static floe_error error;

static void require(int holds, const char *what, int line) {
    if (holds) return;
    fprintf(stderr, "line %d: not so: %s (last error: %s)\n", line, what, error.text);
    exit(1);
}

#define REQUIRE(condition) require((condition), #condition, __LINE__)
#define OK(call) require((call) == FLOE_STATUS_OK, #call, __LINE__)

static _Alignas(FLOE_PLAN_ALIGNMENT) unsigned char plan_memory[FLOE_PLAN_BYTES];

int main(int count, char **words) {
    REQUIRE(count == 3);
    FILE *stream = fopen(words[1], "rb");
    REQUIRE(stream && !fseek(stream, 0, SEEK_END));
    const size_t file_bytes = (size_t)ftell(stream);
    rewind(stream);
    unsigned char *file = aligned_alloc(256, (file_bytes + 255) / 256 * 256);
    REQUIRE(file && fread(file, 1, file_bytes, stream) == file_bytes);
    fclose(stream);

    floe_plan *plan;
    floe_session *session;
    uint32_t variant, image, result, chosen = 0;
    OK(floe_plan_open(plan_memory, sizeof plan_memory, file, file_bytes, &plan, &error));
    floe_session_options options = {.struct_bytes = sizeof options};
    struct floe_cuda cuda = {0};
    char text[FLOE_CUDA_TEXT_BYTES];
    if (!strcmp(words[2], "cuda")) {
        REQUIRE(!floe_cuda_open(&cuda, 0, text));
        options.find_symbol = floe_cuda_find_symbol;
        options.find_symbol_context = &cuda;
        OK(floe_plan_find_gpu(plan, cuda.architecture, cuda.multiprocessors, cuda.driver, &variant, &error));
    } else {
        OK(floe_plan_find_target(plan, "host", &variant, &error));
    }
    OK(floe_plan_find_binding(plan, variant, "image", FLOE_DIRECTION_INPUT, &image, &error));
    OK(floe_plan_find_binding(plan, variant, "probabilities", FLOE_DIRECTION_OUTPUT, &result, &error));
    floe_requirements needed;
    OK(floe_session_requirements(plan, variant, &options, &needed, &error));
    void *memory = aligned_alloc(FLOE_SESSION_ALIGNMENT, (needed.bytes + 63) / 64 * 64);
    REQUIRE(memory != NULL);
    OK(floe_session_init(memory, needed.bytes, plan, variant, &options, &session, &error));

    float pictures[2][PIXELS], one[DIGITS], two[2][DIGITS];
    for (int i = 0; i < PIXELS; i++) pictures[0][i] = pictures[1][i] = (float)(i % 7) / 7;
    OK(floe_session_write(session, image, pictures, sizeof pictures[0], &error));
    OK(floe_session_replay(session, &error));
    OK(floe_session_read(session, result, one, sizeof one, &error));
    for (int turn = 0; turn < 3; turn++) {
        OK(floe_session_choose(session, variant + 1, &error));
        REQUIRE(floe_session_write(session, image, pictures, sizeof pictures[0], &error) == FLOE_STATUS_LENGTH);
        OK(floe_session_write(session, image, pictures, sizeof pictures, &error));
        OK(floe_session_replay(session, &error));
        OK(floe_session_read(session, result, two, sizeof two, &error));
        for (int i = 0; i < DIGITS; i++) {
            const float off = two[turn % 2][i] - one[i];
            REQUIRE(off < 1e-3f && off > -1e-3f);
        }
        const floe_input_shape single = {.binding = image, .rank = 4, .extents = {1, 1, 8, 8}};
        OK(floe_session_choose_holding(session, &single, 1, &chosen, &error));
        REQUIRE(chosen == variant);
        const floe_input_shape three = {.binding = image, .rank = 4, .extents = {3, 1, 8, 8}};
        REQUIRE(floe_session_choose_holding(session, &three, 1, &chosen, &error) == FLOE_STATUS_NOT_FOUND);
        REQUIRE(floe_session_choose(session, 99, &error) == FLOE_STATUS_NOT_FOUND);
        OK(floe_session_write(session, image, pictures, sizeof pictures[0], &error));
        OK(floe_session_replay(session, &error));
        OK(floe_session_read(session, result, one, sizeof one, &error));
    }
    OK(floe_session_destroy(session, &error));
    OK(floe_plan_close(plan, &error));
    floe_cuda_close(&cuda);
    free(memory);
    free(file);
    return 0;
}
