// Several plans that someone trusted has signed, in turn on one GPU, as a device runs them: constants that are equal lie in the
// GPU's memory once, activations of all plans in one scratch, inputs are filled and outputs read in place, and guards watch
// the results.
//
//     in_turn KEY.der TURNS PLAN [PLAN ...]
//
// KEY.der is the public key: `openssl pkey -pubin -in plans.key.pub -outform DER -out KEY.der` of what `floec keygen` made.
// Nothing is allocated here: the limits below are part of the program, as on a device without a heap.

#include "floe.h"
#include "floe_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS = 8, FILE_BYTES = 64 << 20, KEY_BYTES = 44 };

// A plan on the GPU: where it lies, and what its session is made in.
struct member {
    _Alignas(FLOE_SESSION_ALIGNMENT) unsigned char session_memory[FLOE_GPU_SESSION_BYTES];
    _Alignas(FLOE_PLAN_ALIGNMENT) unsigned char plan_memory[FLOE_PLAN_BYTES];
    _Alignas(FLOE_SHARED_ALIGNMENT) unsigned char weights_memory[FLOE_SHARED_BYTES];
    const char *path;
    floe_plan *plan;
    uint32_t variant, bindings;
    floe_weights *weights;
    floe_session *session;
};

static _Alignas(FLOE_PLAN_ALIGNMENT) unsigned char files[FILE_BYTES];
static _Alignas(FLOE_SHARED_ALIGNMENT) unsigned char scratch_memory[FLOE_SHARED_BYTES];
static struct member members[PLANS];
static floe_error error;

// Ends the program where a call failed, and says why.
static void check(const char *what, floe_status status) {
    if (status == FLOE_STATUS_OK) return;
    fprintf(stderr, "%s: %s: %s\n", what, floe_status_name(status), error.text);
    exit(1);
}

// A whole file, read into `memory`: its length. Ends the program where that fails.
static size_t read_file(const char *path, void *memory, size_t room) {
    FILE *file = fopen(path, "rb");
    const size_t bytes = file ? fread(memory, 1, room, file) : 0;
    if (!file || ferror(file) || !feof(file)) {
        fprintf(stderr, "%s: cannot be read, or is too long\n", path);
        exit(1);
    }
    fclose(file);
    return bytes;
}

// Fills an input with some picture of the world: here bytes of no meaning.
static void sense(void *data, size_t bytes, unsigned turn) {
    for (size_t i = 0; i < bytes; i++) ((unsigned char *)data)[i] = (unsigned char)((i + turn) % 61);
}

// One replay: inputs filled in place, outputs looked at in place. A sum of all bytes tells whether runs agree.
static uint32_t turn(const struct member *member, unsigned number) {
    uint32_t sum = 0, not_finite = 0;
    floe_binding_info binding;
    for (uint32_t i = 0; i < member->bindings; i++) {
        void *data;
        size_t bytes;
        check(member->path, floe_plan_binding(member->plan, member->variant, i, &binding, &error));
        if (binding.direction != FLOE_DIRECTION_INPUT) continue;
        check(member->path, floe_session_input(member->session, i, &data, &bytes, &error));
        sense(data, bytes, number);
    }
    check(member->path, floe_session_replay(member->session, &error));
    const floe_status finite = floe_session_guard(member->session, &not_finite, &error);
    if (finite == FLOE_STATUS_NOT_FINITE) printf("%s: output %u is not finite\n", member->path, (unsigned)not_finite);
    else check(member->path, finite);
    for (uint32_t i = 0; i < member->bindings; i++) {
        const void *data;
        size_t bytes;
        check(member->path, floe_plan_binding(member->plan, member->variant, i, &binding, &error));
        if (binding.direction != FLOE_DIRECTION_OUTPUT) continue;
        check(member->path, floe_session_output(member->session, i, &data, &bytes, &error));
        for (size_t byte = 0; byte < bytes; byte++) sum = sum * 31 + ((const unsigned char *)data)[byte];
    }
    return sum;
}

int main(int count, char **arguments) {
    if (count < 4 || count - 3 > PLANS) {
        fprintf(stderr, "usage: %s KEY.der TURNS PLAN [PLAN ...], at most %d plans\n", arguments[0], PLANS);
        return 2;
    }
    const size_t plans = (size_t)count - 3;
    unsigned char key[KEY_BYTES + 1];
    const size_t key_bytes = read_file(arguments[1], key, sizeof key);
    const unsigned turns = (unsigned)strtoul(arguments[2], NULL, 10);
    struct floe_cuda cuda;
    char text[FLOE_CUDA_TEXT_BYTES];
    if (floe_cuda_open(&cuda, 0, text)) {
        fprintf(stderr, "%s\n", text);
        return 1;
    }
    floe_session_options options = {0};
    options.struct_bytes = sizeof options;
    options.find_symbol = floe_cuda_find_symbol;
    options.find_symbol_context = &cuda;
    options.mapped = cuda.integrated;
    options.guard = 1;

    // The plans: nothing of one is used before its signature has been checked.
    floe_set_member set[PLANS] = {{0}};
    size_t used = 0;
    for (size_t i = 0; i < plans; i++) {
        struct member *member = &members[i];
        member->path = arguments[3 + i];
        unsigned char *file = files + used;
        const size_t bytes = read_file(member->path, file, FILE_BYTES - used);
        used += (bytes + FLOE_PLAN_ALIGNMENT) / FLOE_PLAN_ALIGNMENT * FLOE_PLAN_ALIGNMENT;
        if (used > FILE_BYTES) used = FILE_BYTES;
        check(member->path, floe_plan_open(member->plan_memory, FLOE_PLAN_BYTES, file, bytes, &member->plan, &error));
        check(member->path, floe_plan_verify_signature(member->plan, key, key_bytes, &error));
        check(member->path, floe_plan_find_gpu(member->plan, cuda.architecture, cuda.multiprocessors, cuda.driver,
                                               &member->variant, &error));
        floe_variant_info info;
        check(member->path, floe_plan_variant(member->plan, member->variant, &info, &error));
        member->bindings = info.bindings;
        set[i].plan = member->plan;
        set[i].variant = member->variant;
    }

    // What all of them will take, before anything is allocated.
    floe_set_memory memory;
    check("the set", floe_set_requirements(set, plans, &options, &memory, &error));
    printf("%zu plans take %llu bytes of device memory, %llu apart; %llu of page-locked memory\n", plans,
           (unsigned long long)memory.device_bytes, (unsigned long long)memory.apart_bytes,
           (unsigned long long)memory.page_locked_bytes);

    // INIT: constants that another plan has already are shared, others uploaded.
    floe_scratch *scratch;
    check("the scratch", floe_scratch_allocate(scratch_memory, sizeof scratch_memory, memory.scratch_bytes, &options,
                                               &scratch, &error));
    options.scratch = scratch;
    for (size_t i = 0; i < plans; i++) {
        struct member *member = &members[i];
        uint32_t fit = 0;
        for (size_t other = 0; other < i && !fit; other++) {
            options.weights = members[other].weights;
            if (!options.weights) continue;
            check(member->path, floe_weights_fit(options.weights, member->plan, member->variant, &fit, &error));
        }
        if (!fit) {
            check(member->path, floe_weights_upload(member->weights_memory, FLOE_SHARED_BYTES, member->plan,
                                                    member->variant, &options, &member->weights, &error));
            options.weights = member->weights;
        }
        check(member->path, floe_session_init(member->session_memory, FLOE_GPU_SESSION_BYTES, member->plan,
                                              member->variant, &options, &member->session, &error));
    }

    // RUN.
    for (unsigned number = 0; number < turns; number++) {
        for (size_t i = 0; i < plans; i++) {
            printf("turn %u of %s: %08x\n", number, members[i].path, (unsigned)turn(&members[i], number));
        }
    }

    // The end: sessions before what they share.
    for (size_t i = 0; i < plans; i++) check(members[i].path, floe_session_destroy(members[i].session, &error));
    for (size_t i = 0; i < plans; i++) {
        if (members[i].weights) check(members[i].path, floe_weights_destroy(members[i].weights, &error));
        check(members[i].path, floe_plan_close(members[i].plan, &error));
    }
    check("the scratch", floe_scratch_destroy(scratch, &error));
    floe_cuda_close(&cuda);
    return 0;
}
