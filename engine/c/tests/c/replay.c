// The least program that replays a plan on a GPU: what the size of the engine's code is measured with.
// The memory is static, and the driver's functions and the plan come from elsewhere.

#include "floe.h"

extern const _Alignas(FLOE_PLAN_ALIGNMENT) unsigned char plan_file[];
extern const size_t plan_file_bytes;
void *find_symbol(void *context, const char *name);
void camera(void *frame, size_t bytes);
void display(const void *result, size_t bytes);

static _Alignas(FLOE_PLAN_ALIGNMENT) unsigned char plan_memory[FLOE_PLAN_BYTES];
static _Alignas(FLOE_SESSION_ALIGNMENT) unsigned char session_memory[FLOE_GPU_SESSION_BYTES];
static unsigned char frame[1 << 16], result[1 << 12];

int replay(void);

int replay(void) {
    floe_plan *plan;
    floe_session *session;
    floe_error error;
    floe_session_options options = {.struct_bytes = sizeof options, .find_symbol = find_symbol, .mapped = 1};
    uint32_t variant;
    floe_binding_info input, output;
    if (floe_plan_open(plan_memory, sizeof plan_memory, plan_file, plan_file_bytes, &plan, &error) != FLOE_STATUS_OK ||
        floe_plan_find_gpu(plan, 87, 8, 12060, &variant, &error) != FLOE_STATUS_OK ||
        floe_plan_binding(plan, variant, 0, &input, &error) != FLOE_STATUS_OK ||
        floe_plan_binding(plan, variant, 1, &output, &error) != FLOE_STATUS_OK ||
        input.bytes > sizeof frame || output.bytes > sizeof result ||
        floe_session_init(session_memory, sizeof session_memory, plan, variant, &options, &session, &error)
            != FLOE_STATUS_OK) {
        return 1;
    }
    for (;;) {
        camera(frame, input.bytes);
        if (floe_session_write(session, 0, frame, input.bytes, &error) != FLOE_STATUS_OK ||
            floe_session_replay(session, &error) != FLOE_STATUS_OK ||
            floe_session_read(session, 1, result, output.bytes, &error) != FLOE_STATUS_OK) {
            break;
        }
        display(result, output.bytes);
    }
    floe_session_destroy(session, &error);
    return 1;
}
