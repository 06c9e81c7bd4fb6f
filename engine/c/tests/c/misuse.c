// Bad use of the C interface: every call here must give the error code that floe.h promises, and no sanitizer may find
// anything. `misuse PLAN KEY`: a signed plan with variants for the host and for GPU 0, and the public key, DER-encoded.
// FLOE_LIBCUDA names the simulated driver, which can also be made to fail; without it the driver is the real one.

#define _POSIX_C_SOURCE 200809L

#include "floe.h"
#include "floe_cuda.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Bytes of the signature behind a plan.
enum { SIGNATURE = 72 };

static unsigned checks;
static floe_error error;

// Checks that a call gave a status, with words where it is no success.
static void expect(floe_status found, floe_status wanted, const char *call, int line) {
    checks++;
    if (found == wanted && (found == FLOE_STATUS_OK) == (error.text[0] == 0)) return;
    fprintf(stderr, "line %d: %s gave '%s' (%s) instead of '%s'\n", line, call, floe_status_name(found), error.text,
            floe_status_name(wanted));
    exit(1);
}

#define EXPECT(status, call) (memset(&error, 1, sizeof error), expect((call), FLOE_STATUS_##status, #call, __LINE__))

static void require(int holds, const char *what, int line) {
    checks++;
    if (holds) return;
    fprintf(stderr, "line %d: not so: %s\n", line, what);
    exit(1);
}

#define REQUIRE(condition) require((condition), #condition, __LINE__)

static void *allocate(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    REQUIRE(memory != NULL);
    // Garbage, as memory has it.
    memset(memory, 0xa7, (bytes + 63) / 64 * 64);
    return memory;
}

// The plan file, and the plan that most tests use.
static unsigned char *file;
static size_t file_bytes;
// The plan without its signature begins with as many bytes.
static size_t unsigned_bytes;
static unsigned char key[44];
static _Alignas(FLOE_PLAN_ALIGNMENT) unsigned char plan_memory[FLOE_PLAN_BYTES];
static floe_plan *plan;
static uint32_t host, gpu, input, output;
static struct floe_cuda cuda;
static int simulated;

static void read_plan(const char *path) {
    FILE *stream = fopen(path, "rb");
    REQUIRE(stream != NULL && fseek(stream, 0, SEEK_END) == 0);
    file_bytes = (size_t)ftell(stream);
    rewind(stream);
    file = allocate(file_bytes);
    REQUIRE(fread(file, 1, file_bytes, stream) == file_bytes);
    fclose(stream);
    REQUIRE(file_bytes > SIGNATURE && memcmp(file + file_bytes - SIGNATURE, "FLOESIGN", 8) == 0);
    unsigned_bytes = file_bytes - SIGNATURE;
}

static void read_key(const char *path) {
    FILE *stream = fopen(path, "rb");
    REQUIRE(stream != NULL && fread(key, 1, sizeof key, stream) == sizeof key);
    fclose(stream);
}

// What is no plan handle is refused by every function that takes one.
static void refuse_plan(floe_plan *bad, floe_status wanted) {
    uint32_t number = 77;
    floe_variant_info variant;
    floe_binding_info binding;
    floe_requirements requirements;
    floe_session *session;
    floe_weights *weights;
    floe_set_memory set;
    unsigned char *memory = allocate(FLOE_GPU_SESSION_BYTES);
#define EACH(call) (memset(&error, 1, sizeof error), expect((call), wanted, #call, __LINE__))
    EACH(floe_plan_close(bad, &error));
    EACH(floe_plan_verify(bad, &error));
    EACH(floe_plan_verify_signature(bad, "key", 3, &error));
    EACH(floe_plan_verify_release(bad, NULL, 0, &error));
    EACH(floe_plan_version(bad, &number, &error));
    EACH(floe_plan_variant_count(bad, &number, &error));
    EACH(floe_plan_variant(bad, 0, &variant, &error));
    EACH(floe_plan_find_target(bad, "host", &number, &error));
    EACH(floe_plan_find_gpu(bad, 87, 8, 12060, &number, &error));
    EACH(floe_plan_binding(bad, 0, 0, &binding, &error));
    EACH(floe_plan_find_binding(bad, 0, "image", FLOE_ANY_DIRECTION, &number, &error));
    EACH(floe_session_requirements(bad, 0, NULL, &requirements, &error));
    EACH(floe_session_init(memory, FLOE_GPU_SESSION_BYTES, bad, 0, NULL, &session, &error));
    EACH(floe_weights_upload(memory, FLOE_SHARED_BYTES, bad, 0, NULL, &weights, &error));
    const floe_set_member member = {.plan = bad};
    EACH(floe_set_requirements(&member, 1, NULL, &set, &error));
    REQUIRE(session == NULL && weights == NULL && number == 77);
    free(memory);
}

// The same for sessions.
static void refuse_session(floe_session *bad, floe_status wanted) {
    unsigned char bytes[16] = {0};
    uint32_t done = 77;
    float milliseconds = 77;
    void *lent = NULL;
    const void *seen = NULL;
    size_t length = 77;
    EACH(floe_session_input(bad, 0, &lent, &length, &error));
    EACH(floe_session_output(bad, 0, &seen, &length, &error));
    EACH(floe_session_write(bad, 0, bytes, sizeof bytes, &error));
    EACH(floe_session_read(bad, 0, bytes, sizeof bytes, &error));
    EACH(floe_session_replay(bad, &error));
    EACH(floe_session_replay_timed(bad, &error));
    EACH(floe_session_is_done(bad, &done, &error));
    EACH(floe_session_device_time(bad, &milliseconds, &error));
    EACH(floe_session_synchronize(bad, &error));
    EACH(floe_session_reset(bad, &error));
    EACH(floe_session_choose(bad, 0, &error));
    EACH(floe_session_choose_holding(bad, NULL, 0, &done, &error));
    EACH(floe_session_guard(bad, &done, &error));
    EACH(floe_session_replay_while(bad, NULL, NULL, &error));
    EACH(floe_session_synchronize_while(bad, NULL, NULL, &error));
    EACH(floe_session_destroy(bad, &error));
    REQUIRE(done == 77 && milliseconds > 76 && lent == NULL && seen == NULL && length == 77);
}

// The same for what sessions share: when it is destroyed, and when a session is to be made with it.
static void refuse_shared(void *bad, const floe_session_options *good, floe_status wanted) {
    floe_session *session;
    floe_requirements needed;
    unsigned char *memory = allocate(FLOE_GPU_SESSION_BYTES);
    for (int kind = 0; kind < 2; kind++) {
        floe_session_options options = *good;
        if (kind) options.weights = bad;
        else options.scratch = bad;
        if (bad) {
            EACH(floe_session_requirements(plan, gpu, &options, &needed, &error));
            EACH(floe_session_init(memory, FLOE_GPU_SESSION_BYTES, plan, gpu, &options, &session, &error));
            REQUIRE(session == NULL);
        }
    }
    uint32_t fit = 77;
    EACH(floe_weights_fit(bad, plan, gpu, &fit, &error));
    REQUIRE(fit == 77);
    EACH(floe_weights_destroy(bad, &error));
    EACH(floe_scratch_destroy(bad, &error));
    free(memory);
#undef EACH
}

static void opening(void) {
    floe_plan *opened = (floe_plan *)plan_memory;
    unsigned char *memory = allocate(FLOE_PLAN_BYTES + 64);
    EXPECT(NULL_POINTER, floe_plan_open(NULL, FLOE_PLAN_BYTES, file, file_bytes, &opened, &error));
    REQUIRE(opened == NULL);
    EXPECT(NULL_POINTER, floe_plan_open(memory, FLOE_PLAN_BYTES, NULL, file_bytes, &opened, &error));
    EXPECT(NULL_POINTER, floe_plan_open(memory, FLOE_PLAN_BYTES, file, file_bytes, NULL, &error));
    EXPECT(MISALIGNED, floe_plan_open(memory + 8, FLOE_PLAN_BYTES, file, file_bytes, &opened, &error));
    EXPECT(MISALIGNED, floe_plan_open(memory, FLOE_PLAN_BYTES, file + 1, file_bytes - 1, &opened, &error));
    EXPECT(TOO_SHORT, floe_plan_open(memory, FLOE_PLAN_BYTES - 1, file, file_bytes, &opened, &error));
    EXPECT(TOO_SHORT, floe_plan_open(memory, 0, file, file_bytes, &opened, &error));
    EXPECT(TOO_LONG, floe_plan_open(memory, FLOE_PLAN_BYTES, file, SIZE_MAX, &opened, &error));
    EXPECT(TOO_LONG, floe_plan_open(memory, SIZE_MAX, file, file_bytes, &opened, &error));
    EXPECT(TOO_LONG, floe_plan_open(memory, FLOE_PLAN_BYTES, file, (size_t)PTRDIFF_MAX + 1, &opened, &error));
    EXPECT(OVERLAP, floe_plan_open(file + 16, FLOE_PLAN_BYTES, file, file_bytes, &opened, &error));
    EXPECT(NOT_A_PLAN, floe_plan_open(memory, FLOE_PLAN_BYTES, file, 0, &opened, &error));
    REQUIRE(floe_plan_open(memory, 0, file, file_bytes, &opened, NULL) == FLOE_STATUS_TOO_SHORT);
    // A plan may be opened over another, and closed once.
    EXPECT(OK, floe_plan_open(memory, FLOE_PLAN_BYTES, file, file_bytes, &opened, &error));
    EXPECT(OK, floe_plan_open(memory, FLOE_PLAN_BYTES, file, file_bytes, &opened, &error));
    EXPECT(OK, floe_plan_close(opened, &error));
    refuse_plan(opened, FLOE_STATUS_DESTROYED);
    free(memory);
}

static void plan_handles(void) {
    unsigned char *memory = allocate(FLOE_PLAN_BYTES + 64);
    refuse_plan(NULL, FLOE_STATUS_NULL_POINTER);
    refuse_plan((floe_plan *)(plan_memory + 1), FLOE_STATUS_MISALIGNED);
    refuse_plan((floe_plan *)memory, FLOE_STATUS_NOT_A_HANDLE);
    memset(memory, 0, FLOE_PLAN_BYTES);
    refuse_plan((floe_plan *)memory, FLOE_STATUS_NOT_A_HANDLE);
    // A copy of a plan elsewhere is none.
    memcpy(memory, plan_memory, FLOE_PLAN_BYTES);
    refuse_plan((floe_plan *)memory, FLOE_STATUS_NOT_A_HANDLE);
    free(memory);
}

static void queries(void) {
    uint32_t number;
    floe_variant_info variant;
    floe_binding_info binding;
    floe_requirements requirements;
    floe_session_options options = {.struct_bytes = sizeof options};
    EXPECT(OK, floe_plan_verify(plan, &error));
    EXPECT(NULL_POINTER, floe_plan_variant_count(plan, NULL, &error));
    EXPECT(MISALIGNED, floe_plan_variant_count(plan, (uint32_t *)((unsigned char *)&number + 1), &error));
    EXPECT(OK, floe_plan_variant_count(plan, &number, &error));
    REQUIRE(number == 2);
    EXPECT(NOT_FOUND, floe_plan_variant(plan, number, &variant, &error));
    EXPECT(NOT_FOUND, floe_plan_variant(plan, UINT32_MAX, &variant, &error));
    EXPECT(NULL_POINTER, floe_plan_variant(plan, 0, NULL, &error));
    EXPECT(NULL_POINTER, floe_plan_find_target(plan, NULL, &number, &error));
    EXPECT(NULL_POINTER, floe_plan_find_target(plan, "host", NULL, &error));
    EXPECT(NOT_FOUND, floe_plan_find_target(plan, "", &number, &error));
    EXPECT(NOT_FOUND, floe_plan_find_target(plan, "\xff\xfe", &number, &error));
    EXPECT(NOT_FOUND, floe_plan_find_target(plan, "abacus", &number, &error));
    EXPECT(NO_VARIANT, floe_plan_find_gpu(plan, 0, 0, 0, &number, &error));
    EXPECT(NO_VARIANT, floe_plan_find_gpu(plan, 53, 132, 12060, &number, &error));
    EXPECT(NO_VARIANT, floe_plan_find_gpu(plan, cuda.architecture, cuda.multiprocessors, 11000, &number, &error));
    EXPECT(NULL_POINTER, floe_plan_find_gpu(plan, cuda.architecture, cuda.multiprocessors, cuda.driver, NULL, &error));
    EXPECT(NOT_FOUND, floe_plan_binding(plan, host, UINT32_MAX, &binding, &error));
    EXPECT(NOT_FOUND, floe_plan_binding(plan, 9, 0, &binding, &error));
    EXPECT(NULL_POINTER, floe_plan_binding(plan, host, 0, NULL, &error));
    EXPECT(OK, floe_plan_binding(plan, host, input, &binding, &error));
    EXPECT(NOT_FOUND, floe_plan_find_binding(plan, host, binding.name, FLOE_DIRECTION_OUTPUT, &number, &error));
    EXPECT(NOT_FOUND, floe_plan_find_binding(plan, host, binding.name, 55, &number, &error));
    EXPECT(NOT_FOUND, floe_plan_find_binding(plan, 9, binding.name, FLOE_DIRECTION_INPUT, &number, &error));
    EXPECT(NULL_POINTER, floe_plan_find_binding(plan, host, NULL, FLOE_DIRECTION_INPUT, &number, &error));
    EXPECT(NULL_POINTER, floe_plan_find_binding(plan, host, binding.name, FLOE_DIRECTION_INPUT, NULL, &error));
    EXPECT(OK, floe_plan_find_binding(plan, host, binding.name, FLOE_DIRECTION_INPUT, &number, &error));
    REQUIRE(number == input);
    EXPECT(NOT_FOUND, floe_session_requirements(plan, 9, &options, &requirements, &error));
    EXPECT(NULL_POINTER, floe_session_requirements(plan, host, &options, NULL, &error));
    EXPECT(OK, floe_session_requirements(plan, gpu, &options, &requirements, &error));
    REQUIRE(requirements.bytes == FLOE_GPU_SESSION_BYTES && requirements.device_bytes > 0);
    EXPECT(OK, floe_session_requirements(plan, host, NULL, &requirements, &error));
    REQUIRE(requirements.device_bytes == 0 && requirements.page_locked_bytes == 0);
}

// Only the plan that the holder of the key signed passes.
static void signature(void) {
    unsigned char *memory = allocate(FLOE_PLAN_BYTES), *other = allocate(file_bytes), wrong[sizeof key];
    floe_plan *opened;
    EXPECT(OK, floe_plan_verify_signature(plan, key, sizeof key, &error));
    EXPECT(NULL_POINTER, floe_plan_verify_signature(plan, NULL, sizeof key, &error));
    EXPECT(SIGNATURE, floe_plan_verify_signature(plan, NULL, 0, &error));
    EXPECT(SIGNATURE, floe_plan_verify_signature(plan, key, sizeof key - 1, &error));
    EXPECT(SIGNATURE, floe_plan_verify_signature(plan, key + 12, sizeof key - 12, &error));
    EXPECT(TOO_LONG, floe_plan_verify_signature(plan, key, SIZE_MAX, &error));
    for (size_t place = 0; place < sizeof key; place++) {
        memcpy(wrong, key, sizeof key);
        wrong[place] ^= 0x10;
        EXPECT(SIGNATURE, floe_plan_verify_signature(plan, wrong, sizeof wrong, &error));
    }
    memset(wrong + 12, 0, 32);
    EXPECT(SIGNATURE, floe_plan_verify_signature(plan, wrong, sizeof wrong, &error));
    EXPECT(OK, floe_plan_open(memory, FLOE_PLAN_BYTES, file, unsigned_bytes, &opened, &error));
    EXPECT(SIGNATURE, floe_plan_verify_signature(opened, key, sizeof key, &error));
    memcpy(other, file, file_bytes);
    for (size_t place = unsigned_bytes; place < file_bytes; place++) {
        other[place] ^= 4;
        if (floe_plan_open(memory, FLOE_PLAN_BYTES, other, file_bytes, &opened, &error) == FLOE_STATUS_OK) {
            EXPECT(SIGNATURE, floe_plan_verify_signature(opened, key, sizeof key, &error));
        }
        other[place] ^= 4;
    }
    other[unsigned_bytes - 1] ^= 1;
    EXPECT(OK, floe_plan_open(memory, FLOE_PLAN_BYTES, other, file_bytes, &opened, &error));
    EXPECT(PLAN_DAMAGED, floe_plan_verify_signature(opened, key, sizeof key, &error));
    free(memory), free(other);
}

// A plan of another model or of an earlier version is refused; engine/c/check compiles the plan with version 3.
static void release(void) {
    uint32_t version = 0;
    EXPECT(OK, floe_plan_version(plan, &version, &error));
    REQUIRE(version == 3);
    EXPECT(NULL_POINTER, floe_plan_version(plan, NULL, &error));
    EXPECT(OK, floe_plan_verify_release(plan, NULL, 0, &error));
    EXPECT(OK, floe_plan_verify_release(plan, "digits", 3, &error));
    EXPECT(RELEASE, floe_plan_verify_release(plan, NULL, 4, &error));
    EXPECT(RELEASE, floe_plan_verify_release(plan, "digits", UINT32_MAX, &error));
    EXPECT(RELEASE, floe_plan_verify_release(plan, "digit", 0, &error));
    EXPECT(RELEASE, floe_plan_verify_release(plan, "", 0, &error));
    EXPECT(NOT_FOUND, floe_plan_verify_release(plan, "\xff", 0, &error));
}

// A flipped bit anywhere is found, at the latest by floe_plan_verify; truncation always when opening.
static void damage(void) {
    unsigned char *memory = allocate(FLOE_PLAN_BYTES), *damaged = allocate(file_bytes);
    floe_plan *opened;
    memcpy(damaged, file, file_bytes);
    for (size_t place = 0; place < unsigned_bytes; place += place < 2048 ? 1 : 211) {
        const unsigned char bit = (unsigned char)(1u << (place % 8));
        damaged[place] ^= bit;
        floe_status status = floe_plan_open(memory, FLOE_PLAN_BYTES, damaged, file_bytes, &opened, &error);
        if (status == FLOE_STATUS_OK) {
            status = floe_plan_verify(opened, &error);
            REQUIRE(status == FLOE_STATUS_PLAN_DAMAGED);
        }
        REQUIRE(status == FLOE_STATUS_PLAN_DAMAGED || status == FLOE_STATUS_NOT_A_PLAN ||
                status == FLOE_STATUS_PLAN_VERSION || status == FLOE_STATUS_SIGNATURE);
        REQUIRE(error.text[0] != 0);
        damaged[place] ^= bit;
    }
    free(damaged);
    for (size_t length = 0; length < unsigned_bytes; length += length < 512 ? 1 : 997) {
        // Of exactly that length, so that a sanitizer sees every byte too many.
        damaged = aligned_alloc(16, length + 1 > 16 ? (length + 15) / 16 * 16 : 16);
        REQUIRE(damaged != NULL);
        memcpy(damaged, file, length);
        const floe_status status = floe_plan_open(memory, FLOE_PLAN_BYTES, damaged, length, &opened, &error);
        REQUIRE(status == FLOE_STATUS_PLAN_DAMAGED || status == FLOE_STATUS_NOT_A_PLAN);
        REQUIRE(opened == NULL);
        free(damaged);
    }
    free(memory);
}

static void init(uint32_t variant, const floe_session_options *good) {
    floe_session *session = NULL;
    floe_requirements needed;
    floe_session_options bad = *good;
    EXPECT(OK, floe_session_requirements(plan, variant, good, &needed, &error));
    REQUIRE(needed.alignment == FLOE_SESSION_ALIGNMENT);
    unsigned char *memory = allocate(needed.bytes + 64);
#define INIT(status, memory, bytes, variant, options) \
    EXPECT(status, floe_session_init(memory, bytes, plan, variant, options, &session, &error)); \
    REQUIRE(session == NULL)
    INIT(NULL_POINTER, NULL, needed.bytes, variant, good);
    INIT(MISALIGNED, memory + 16, needed.bytes, variant, good);
    INIT(TOO_SHORT, memory, needed.bytes - 1, variant, good);
    INIT(TOO_SHORT, memory, 0, variant, good);
    INIT(TOO_LONG, memory, SIZE_MAX, variant, good);
    INIT(NOT_FOUND, memory, needed.bytes, 9, good);
    if (needed.bytes <= file_bytes) {
        INIT(OVERLAP, file, needed.bytes, variant, good);
    }
    EXPECT(NULL_POINTER, floe_session_init(memory, needed.bytes, plan, variant, good, NULL, &error));
    bad.struct_bytes = 0;
    INIT(OPTIONS, memory, needed.bytes, variant, &bad);
    bad.struct_bytes = sizeof bad + 1;
    INIT(OPTIONS, memory, needed.bytes, variant, &bad);
    bad.struct_bytes = SIZE_MAX;
    INIT(OPTIONS, memory, needed.bytes, variant, &bad);
    // Between two fields that the library knows.
    bad.struct_bytes = offsetof(floe_session_options, scratch) + 4;
    INIT(OPTIONS, memory, needed.bytes, variant, &bad);
    bad = *good;
    bad.mapped = 2;
    INIT(OPTIONS, memory, needed.bytes, variant, &bad);
    bad = *good;
    bad.wait = 4;
    INIT(OPTIONS, memory, needed.bytes, variant, &bad);
    bad = *good;
    bad.guard = 2;
    INIT(OPTIONS, memory, needed.bytes, variant, &bad);
    bad = *good;
    bad.reserved = 1;
    INIT(OPTIONS, memory, needed.bytes, variant, &bad);
    INIT(MISALIGNED, memory, needed.bytes, variant, (const floe_session_options *)((const char *)&bad + 1));
    refuse_session((floe_session *)memory, FLOE_STATUS_NOT_A_HANDLE);
#undef INIT
    free(memory);
}

// A good session, and everything that is wrong to do with it.
static void session(uint32_t variant, const floe_session_options *options) {
    floe_session *session = NULL;
    floe_requirements needed;
    floe_binding_info in, out;
    EXPECT(OK, floe_session_requirements(plan, variant, options, &needed, &error));
    EXPECT(OK, floe_plan_binding(plan, variant, input, &in, &error));
    EXPECT(OK, floe_plan_binding(plan, variant, output, &out, &error));
    unsigned char *memory = allocate(needed.bytes), *moved = allocate(needed.bytes);
    unsigned char *data = allocate(in.bytes), *first = allocate(out.bytes), *second = allocate(out.bytes);
    for (size_t i = 0; i < in.bytes; i++) data[i] = (unsigned char)(i % 4 == 3 ? 0x3f : i);

    // The plan may be closed once the session is made.
    unsigned char *other_memory = allocate(FLOE_PLAN_BYTES);
    floe_plan *other;
    EXPECT(OK, floe_plan_open(other_memory, FLOE_PLAN_BYTES, file, file_bytes, &other, &error));
    EXPECT(OK, floe_session_init(memory, needed.bytes, other, variant, options, &session, &error));
    EXPECT(OK, floe_plan_close(other, &error));
    free(other_memory);
    REQUIRE(session != NULL);
    floe_session *again;
    EXPECT(IN_USE, floe_session_init(memory, needed.bytes, plan, variant, options, &again, &error));
    REQUIRE(again == NULL);

    EXPECT(OK, floe_session_write(session, input, data, in.bytes, &error));
    EXPECT(OK, floe_session_replay(session, &error));
    EXPECT(OK, floe_session_read(session, output, first, out.bytes, &error));

    uint32_t done;
    float milliseconds;
    EXPECT(ORDER, floe_session_is_done(session, &done, &error));
    EXPECT(ORDER, floe_session_guard(session, &done, &error));
    EXPECT(ORDER, floe_session_device_time(session, &milliseconds, &error));
    EXPECT(NULL_POINTER, floe_session_write(session, input, NULL, in.bytes, &error));
    EXPECT(LENGTH, floe_session_write(session, input, data, in.bytes - 1, &error));
    EXPECT(LENGTH, floe_session_write(session, input, NULL, 0, &error));
    EXPECT(TOO_LONG, floe_session_write(session, input, data, SIZE_MAX, &error));
    EXPECT(OVERLAP, floe_session_write(session, input, memory, in.bytes, &error));
    EXPECT(DIRECTION, floe_session_write(session, output, first, out.bytes, &error));
    EXPECT(NOT_FOUND, floe_session_write(session, UINT32_MAX, data, in.bytes, &error));
    EXPECT(NULL_POINTER, floe_session_read(session, output, NULL, out.bytes, &error));
    EXPECT(LENGTH, floe_session_read(session, output, second, out.bytes - 1, &error));
    EXPECT(LENGTH, floe_session_read(session, output, NULL, 0, &error));
    EXPECT(TOO_LONG, floe_session_read(session, output, second, SIZE_MAX, &error));
    EXPECT(OVERLAP, floe_session_read(session, output, memory + needed.bytes - 4, out.bytes, &error));
    EXPECT(OVERLAP, floe_session_read(session, output, file, out.bytes, &error));
    EXPECT(DIRECTION, floe_session_read(session, input, data, in.bytes, &error));
    EXPECT(NOT_FOUND, floe_session_read(session, 99, second, out.bytes, &error));

    // Memory that the session lends takes the place of a write and a read, and is not to be copied onto itself.
    void *lent = NULL;
    const void *seen = NULL;
    size_t length = 0;
    EXPECT(NULL_POINTER, floe_session_input(session, input, NULL, &length, &error));
    EXPECT(NULL_POINTER, floe_session_input(session, input, &lent, NULL, &error));
    EXPECT(MISALIGNED, floe_session_input(session, input, &lent, (size_t *)(data + 1), &error));
    EXPECT(DIRECTION, floe_session_input(session, output, &lent, &length, &error));
    EXPECT(NOT_FOUND, floe_session_input(session, UINT32_MAX, &lent, &length, &error));
    EXPECT(NULL_POINTER, floe_session_output(session, output, NULL, &length, &error));
    EXPECT(NULL_POINTER, floe_session_output(session, output, &seen, NULL, &error));
    EXPECT(MISALIGNED, floe_session_output(session, output, (const void **)(data + 1), &length, &error));
    EXPECT(DIRECTION, floe_session_output(session, input, &seen, &length, &error));
    EXPECT(NOT_FOUND, floe_session_output(session, 99, &seen, &length, &error));
    REQUIRE(lent == NULL && seen == NULL && length == 0);
    EXPECT(OK, floe_session_input(session, input, &lent, &length, &error));
    REQUIRE(length == in.bytes && (uintptr_t)lent % 64 == 0 && memcmp(lent, data, length) == 0);
    memset(lent, 0, length);
    memcpy(lent, data, length);
    EXPECT(OVERLAP, floe_session_write(session, input, lent, in.bytes, &error));
    EXPECT(OK, floe_session_replay(session, &error));
    EXPECT(OK, floe_session_output(session, output, &seen, &length, &error));
    REQUIRE(length == out.bytes && (uintptr_t)seen % 64 == 0 && memcmp(seen, first, length) == 0);
    EXPECT(OVERLAP, floe_session_read(session, output, (void *)(uintptr_t)seen, out.bytes, &error));

    // After all that the session is as it was.
    EXPECT(OK, floe_session_reset(session, &error));
    EXPECT(OK, floe_session_replay_timed(session, &error));
    EXPECT(OK, floe_session_synchronize(session, &error));
    EXPECT(OK, floe_session_is_done(session, &done, &error));
    REQUIRE(done == 1);
    EXPECT(NULL_POINTER, floe_session_is_done(session, NULL, &error));
    EXPECT(MISALIGNED, floe_session_is_done(session, (uint32_t *)(memory + 1), &error));
    EXPECT(OK, floe_session_read(session, output, second, out.bytes, &error));
    REQUIRE(memcmp(first, second, out.bytes) == 0);

    refuse_session(NULL, FLOE_STATUS_NULL_POINTER);
    refuse_session((floe_session *)(memory + 4), FLOE_STATUS_MISALIGNED);
    memcpy(moved, memory, needed.bytes);
    refuse_session((floe_session *)moved, FLOE_STATUS_NOT_A_HANDLE);
    refuse_plan((floe_plan *)session, FLOE_STATUS_NOT_A_HANDLE);
    EXPECT(OK, floe_session_destroy(session, &error));
    refuse_session(session, FLOE_STATUS_DESTROYED);
    // The memory may hold another session then.
    EXPECT(OK, floe_session_init(memory, needed.bytes, plan, variant, options, &session, &error));
    EXPECT(OK, floe_session_destroy(session, &error));
    free(memory), free(moved), free(data), free(first), free(second);
}

static void *find_nothing(void *context, const char *name) {
    (void)context;
    return name ? NULL : context;
}

// A driver that lacks functions, or whose functions fail.
static void bad_driver(const floe_session_options *good) {
    floe_session *made;
    unsigned char *memory = allocate(FLOE_GPU_SESSION_BYTES);
    floe_session_options bad = *good;
    bad.find_symbol = NULL;
    EXPECT(NULL_POINTER, floe_session_init(memory, FLOE_GPU_SESSION_BYTES, plan, gpu, &bad, &made, &error));
    EXPECT(NULL_POINTER, floe_session_init(memory, FLOE_GPU_SESSION_BYTES, plan, gpu, NULL, &made, &error));
    bad.find_symbol = find_nothing;
    EXPECT(DRIVER, floe_session_init(memory, FLOE_GPU_SESSION_BYTES, plan, gpu, &bad, &made, &error));
    const char *const settings[] = {"SIMULATED_LOAD", "SIMULATED_SYNCHRONIZE"};
    for (size_t i = 0; simulated && i < sizeof settings / sizeof *settings; i++) {
        REQUIRE(setenv(settings[i], "700", 1) == 0);
        EXPECT(DRIVER, floe_session_init(memory, FLOE_GPU_SESSION_BYTES, plan, gpu, good, &made, &error));
        REQUIRE(made == NULL && strstr(error.text, "CUDA_ERROR_ILLEGAL_ADDRESS") != NULL);
        REQUIRE(unsetenv(settings[i]) == 0);
    }
    EXPECT(OK, floe_session_init(memory, FLOE_GPU_SESSION_BYTES, plan, gpu, good, &made, &error));
    EXPECT(OK, floe_session_replay(made, &error));
    if (simulated) {
        REQUIRE(setenv("SIMULATED_SYNCHRONIZE", "700", 1) == 0);
        EXPECT(DRIVER, floe_session_synchronize(made, &error));
        REQUIRE(unsetenv("SIMULATED_SYNCHRONIZE") == 0);
    }
    EXPECT(OK, floe_session_synchronize(made, &error));
    EXPECT(OK, floe_session_destroy(made, &error));
    free(memory);
}

// A guard tells what it sees, however the session waits.
static void guard(const floe_session_options *good) {
    floe_session *session;
    unsigned char *memory = allocate(FLOE_GPU_SESSION_BYTES);
    char number[16];
    snprintf(number, sizeof number, "%u", (unsigned)output);
    for (uint32_t way = 0; way < 8; way++) {
        uint32_t binding = 77;
        floe_session_options options = *good;
        options.guard = 1;
        options.mapped = way / 4;
        options.wait = way % 4;
        EXPECT(OK, floe_session_init(memory, FLOE_GPU_SESSION_BYTES, plan, gpu, &options, &session, &error));
        EXPECT(OK, floe_session_replay(session, &error));
        EXPECT(OK, floe_session_guard(session, &binding, &error));
        REQUIRE(binding == 77);
        EXPECT(MISALIGNED, floe_session_guard(session, (uint32_t *)(memory + 1), &error));
        if (simulated) {
            REQUIRE(setenv("SIMULATED_NOT_FINITE", number, 1) == 0);
            EXPECT(OK, floe_session_replay(session, &error));
            EXPECT(NOT_FINITE, floe_session_guard(session, NULL, &error));
            EXPECT(NOT_FINITE, floe_session_guard(session, &binding, &error));
            REQUIRE(binding == output && unsetenv("SIMULATED_NOT_FINITE") == 0);
        }
        EXPECT(OK, floe_session_replay(session, &error));
        EXPECT(OK, floe_session_guard(session, &binding, &error));
        EXPECT(OK, floe_session_destroy(session, &error));
    }
    free(memory);
}

// Says yes as often as `*context` says.
static uint32_t some_times(void *context, uint64_t operations) {
    (void)operations;
    return (*(uint32_t *)context)-- > 0;
}

// Uses a session that a call is using.
static uint32_t use_again(void *context, uint64_t operations) {
    floe_session *session = context;
    (void)operations;
    EXPECT(BUSY, floe_session_replay(session, &error));
    EXPECT(BUSY, floe_session_guard(session, NULL, &error));
    EXPECT(BUSY, floe_session_destroy(session, &error));
    return 1;
}

// Waits and replays that their caller ends, on either device.
static void limits(uint32_t variant, const floe_session_options *options) {
    floe_requirements needed;
    floe_session *session;
    EXPECT(OK, floe_session_requirements(plan, variant, options, &needed, &error));
    unsigned char *memory = allocate(needed.bytes);
    EXPECT(OK, floe_session_init(memory, needed.bytes, plan, variant, options, &session, &error));
    uint32_t none = 0, some = 3, many = 1000000;
    EXPECT(NULL_POINTER, floe_session_replay_while(session, NULL, NULL, &error));
    EXPECT(NULL_POINTER, floe_session_synchronize_while(session, NULL, NULL, &error));
    if (variant == host) {
        EXPECT(STOPPED, floe_session_replay_while(session, some_times, &none, &error));
        EXPECT(OK, floe_session_reset(session, &error));
        EXPECT(OK, floe_session_replay_while(session, use_again, session, &error));
    }
    EXPECT(OK, floe_session_replay_while(session, some_times, &many, &error));
    EXPECT(OK, floe_session_synchronize_while(session, some_times, &many, &error));
    if (variant == gpu && simulated) {
        REQUIRE(setenv("SIMULATED_RUNNING", "1", 1) == 0);
        EXPECT(OK, floe_session_replay(session, &error));
        EXPECT(STILL_RUNNING, floe_session_synchronize_while(session, some_times, &some, &error));
        REQUIRE(some == UINT32_MAX && unsetenv("SIMULATED_RUNNING") == 0);
        some = 3;
        EXPECT(OK, floe_session_synchronize_while(session, use_again, session, &error));
        EXPECT(OK, floe_session_synchronize(session, &error));
    }
    EXPECT(OK, floe_session_destroy(session, &error));
    free(memory);
}

// Places for results that lie in the session's memory.
static void places(uint32_t variant, const floe_session_options *good) {
    floe_session_options options = *good;
    options.guard = 1;
    floe_requirements needed;
    floe_session *session;
    EXPECT(OK, floe_session_requirements(plan, variant, &options, &needed, &error));
    unsigned char *memory = allocate(needed.bytes), *kept = allocate(needed.bytes);
    EXPECT(OVERLAP, floe_session_init(memory, needed.bytes, plan, variant, &options, (floe_session **)memory, &error));
    REQUIRE(floe_session_init(memory, needed.bytes, plan, variant, &options, &session, (floe_error *)memory) ==
            FLOE_STATUS_OVERLAP);
    EXPECT(OK, floe_session_init(memory, needed.bytes, plan, variant, &options, &session, &error));
    EXPECT(OK, floe_session_replay_timed(session, &error));
    EXPECT(OK, floe_session_synchronize(session, &error));
    const void *seen;
    void *lent;
    size_t bytes;
    for (size_t at = 0; at < needed.bytes - sizeof(floe_error); at += needed.bytes / 8 / 64 * 64 + 64) {
        void *inside = memory + at;
        memcpy(kept, memory, needed.bytes);
        EXPECT(OVERLAP, floe_session_input(session, input, inside, &bytes, &error));
        EXPECT(OVERLAP, floe_session_input(session, input, &lent, inside, &error));
        EXPECT(OVERLAP, floe_session_output(session, output, inside, &bytes, &error));
        EXPECT(OVERLAP, floe_session_output(session, output, &seen, inside, &error));
        EXPECT(OVERLAP, floe_session_is_done(session, inside, &error));
        EXPECT(OVERLAP, floe_session_guard(session, inside, &error));
        if (variant == gpu) EXPECT(OVERLAP, floe_session_device_time(session, inside, &error));
        REQUIRE(floe_session_replay(session, inside) == FLOE_STATUS_OVERLAP);
        REQUIRE(floe_session_synchronize(session, inside) == FLOE_STATUS_OVERLAP);
        REQUIRE(memcmp(kept, memory, needed.bytes) == 0);
    }
    EXPECT(OK, floe_session_replay(session, &error));
    EXPECT(OK, floe_session_guard(session, NULL, &error));
    EXPECT(OK, floe_session_destroy(session, &error));
    free(kept);
    free(memory);
}

// Two threads on one session: each call is done, or told that it is not; never is half of one done.
static void *replay_often(void *context) {
    floe_session *session = ((void **)context)[0];
    size_t *done = ((void **)context)[1];
    for (int i = 0; i < 2000; i++) {
        const floe_status status = floe_session_replay(session, NULL);
        if (status != FLOE_STATUS_OK && status != FLOE_STATUS_BUSY) return "another status";
        *done += status == FLOE_STATUS_OK;
    }
    return NULL;
}

static void threads(void) {
    floe_requirements needed;
    floe_session *session;
    EXPECT(OK, floe_session_requirements(plan, host, NULL, &needed, &error));
    unsigned char *memory = allocate(needed.bytes);
    EXPECT(OK, floe_session_init(memory, needed.bytes, plan, host, NULL, &session, &error));
    pthread_t other;
    size_t mine = 0, others = 0;
    void *here[2] = {session, &mine}, *there[2] = {session, &others}, *failed = NULL;
    REQUIRE(pthread_create(&other, NULL, replay_often, there) == 0);
    REQUIRE(replay_often(here) == NULL);
    REQUIRE(pthread_join(other, &failed) == 0 && failed == NULL && mine + others > 0);
    printf("two threads: %zu of 4000 replays done, the others told\n", mine + others);
    EXPECT(OK, floe_session_replay(session, &error));
    EXPECT(OK, floe_session_destroy(session, &error));
    free(memory);
}

// What sessions share: made and destroyed wrongly, and in the wrong order.
static void sharing(const floe_session_options *good) {
    const floe_set_member members[2] = {{.plan = plan, .variant = gpu}, {.plan = plan, .variant = gpu}};
    floe_set_member wrong = members[0];
    floe_set_memory set, one;
    EXPECT(OK, floe_set_requirements(NULL, 0, NULL, &set, &error));
    REQUIRE(set.device_bytes == 0 && set.page_locked_bytes == 0);
    EXPECT(NULL_POINTER, floe_set_requirements(NULL, 1, NULL, &set, &error));
    EXPECT(NULL_POINTER, floe_set_requirements(members, 2, NULL, NULL, &error));
    EXPECT(TOO_LONG, floe_set_requirements(members, SIZE_MAX, NULL, &set, &error));
    EXPECT(TOO_LONG, floe_set_requirements(members, SIZE_MAX / sizeof *members, NULL, &set, &error));
    EXPECT(MISALIGNED, floe_set_requirements((const floe_set_member *)((const char *)members + 1), 1, NULL, &set, &error));
    EXPECT(MISALIGNED, floe_set_requirements(members, 1, NULL, (floe_set_memory *)((char *)&set + 1), &error));
    wrong.variant = host;
    EXPECT(OPTIONS, floe_set_requirements(&wrong, 1, NULL, &set, &error));
    wrong.variant = 9;
    EXPECT(NOT_FOUND, floe_set_requirements(&wrong, 1, NULL, &set, &error));
    wrong = members[0];
    wrong.reserved = 1;
    EXPECT(OPTIONS, floe_set_requirements(&wrong, 1, NULL, &set, &error));
    EXPECT(OK, floe_set_requirements(members, 1, good, &one, &error));
    EXPECT(OK, floe_set_requirements(members, 2, good, &set, &error));
    REQUIRE(set.weights_bytes == one.weights_bytes && set.scratch_bytes == one.scratch_bytes);
    REQUIRE(set.own_bytes == 2 * one.own_bytes && set.device_bytes < set.apart_bytes);
    REQUIRE(set.page_locked_bytes == 2 * one.page_locked_bytes);

    unsigned char *memory = allocate(FLOE_SHARED_BYTES + 64), *big = allocate(2 * FLOE_GPU_SESSION_BYTES);
    floe_weights *weights = NULL;
    floe_scratch *scratch = NULL;
    floe_session_options bad = *good;
#define UPLOAD(status, memory, bytes, variant, options) \
    EXPECT(status, floe_weights_upload(memory, bytes, plan, variant, options, &weights, &error)); \
    REQUIRE(weights == NULL)
#define ALLOCATE(status, memory, bytes, scratch_bytes, options) \
    EXPECT(status, floe_scratch_allocate(memory, bytes, scratch_bytes, options, &scratch, &error)); \
    REQUIRE(scratch == NULL)
    UPLOAD(NULL_POINTER, NULL, FLOE_SHARED_BYTES, gpu, good);
    UPLOAD(MISALIGNED, memory + 8, FLOE_SHARED_BYTES, gpu, good);
    UPLOAD(TOO_SHORT, memory, FLOE_SHARED_BYTES - 1, gpu, good);
    UPLOAD(TOO_LONG, memory, SIZE_MAX, gpu, good);
    UPLOAD(OVERLAP, file + 64, FLOE_SHARED_BYTES, gpu, good);
    UPLOAD(OVERLAP, plan_memory, FLOE_SHARED_BYTES, gpu, good);
    UPLOAD(NOT_FOUND, memory, FLOE_SHARED_BYTES, 9, good);
    UPLOAD(OPTIONS, memory, FLOE_SHARED_BYTES, host, good);
    UPLOAD(NULL_POINTER, memory, FLOE_SHARED_BYTES, gpu, NULL);
    EXPECT(NULL_POINTER, floe_weights_upload(memory, FLOE_SHARED_BYTES, plan, gpu, good, NULL, &error));
    ALLOCATE(NULL_POINTER, NULL, FLOE_SHARED_BYTES, 256, good);
    ALLOCATE(MISALIGNED, memory + 8, FLOE_SHARED_BYTES, 256, good);
    ALLOCATE(TOO_SHORT, memory, 0, 256, good);
    ALLOCATE(TOO_LONG, memory, (size_t)PTRDIFF_MAX + 1, 256, good);
    ALLOCATE(NULL_POINTER, memory, FLOE_SHARED_BYTES, 256, NULL);
    ALLOCATE(OUT_OF_MEMORY, memory, FLOE_SHARED_BYTES, (uint64_t)1 << 50, good);
    EXPECT(NULL_POINTER, floe_scratch_allocate(memory, FLOE_SHARED_BYTES, 256, good, NULL, &error));
    bad.struct_bytes = 1;
    UPLOAD(OPTIONS, memory, FLOE_SHARED_BYTES, gpu, &bad);
    ALLOCATE(OPTIONS, memory, FLOE_SHARED_BYTES, 256, &bad);
    bad = *good;
    bad.find_symbol = find_nothing;
    UPLOAD(DRIVER, memory, FLOE_SHARED_BYTES, gpu, &bad);
    ALLOCATE(DRIVER, memory, FLOE_SHARED_BYTES, 256, &bad);
    if (simulated) {
        ALLOCATE(OUT_OF_MEMORY, memory, FLOE_SHARED_BYTES, UINT64_MAX, good);
        REQUIRE(setenv("SIMULATED_SYNCHRONIZE", "700", 1) == 0);
        UPLOAD(DRIVER, memory, FLOE_SHARED_BYTES, gpu, good);
        REQUIRE(unsetenv("SIMULATED_SYNCHRONIZE") == 0);
    }
#undef UPLOAD
#undef ALLOCATE
    refuse_shared(NULL, good, FLOE_STATUS_NULL_POINTER);
    refuse_shared(memory + 4, good, FLOE_STATUS_MISALIGNED);
    refuse_shared(memory, good, FLOE_STATUS_NOT_A_HANDLE);
    refuse_shared(plan_memory, good, FLOE_STATUS_NOT_A_HANDLE);

    // Two sessions that share, and one that does not, compute the same.
    unsigned char *weights_memory = allocate(FLOE_SHARED_BYTES), *scratch_memory = allocate(FLOE_SHARED_BYTES);
    unsigned char *room[3] = {big, big + FLOE_GPU_SESSION_BYTES, allocate(FLOE_GPU_SESSION_BYTES)};
    floe_session *sessions[3], *refused;
    floe_requirements alone, needed;
    floe_session_options options = *good;
    EXPECT(OK, floe_weights_upload(weights_memory, FLOE_SHARED_BYTES, plan, gpu, good, &weights, &error));
    EXPECT(IN_USE, floe_weights_upload(weights_memory, FLOE_SHARED_BYTES, plan, gpu, good, &options.weights, &error));
    EXPECT(OK, floe_scratch_allocate(scratch_memory, FLOE_SHARED_BYTES, 1, good, &scratch, &error));
    uint32_t fit = 0;
    EXPECT(OK, floe_weights_fit(weights, plan, gpu, &fit, &error));
    REQUIRE(fit == 1);
    EXPECT(OPTIONS, floe_weights_fit(weights, plan, host, &fit, &error));
    EXPECT(NOT_FOUND, floe_weights_fit(weights, plan, 9, &fit, &error));
    EXPECT(NULL_POINTER, floe_weights_fit(weights, NULL, gpu, &fit, &error));
    EXPECT(NULL_POINTER, floe_weights_fit(weights, plan, gpu, NULL, &error));
    EXPECT(MISALIGNED, floe_weights_fit(weights, plan, gpu, (uint32_t *)(memory + 1), &error));
    options = *good;
    options.scratch = scratch;
    if (set.scratch_bytes > 256) {
        EXPECT(TOO_SHORT, floe_session_init(room[0], FLOE_GPU_SESSION_BYTES, plan, gpu, &options, &refused, &error));
    }
    EXPECT(OK, floe_scratch_destroy(scratch, &error));
    EXPECT(OK, floe_scratch_allocate(scratch_memory, FLOE_SHARED_BYTES, set.scratch_bytes, good, &scratch, &error));
    options.weights = (floe_weights *)scratch;
    EXPECT(NOT_A_HANDLE, floe_session_init(room[0], FLOE_GPU_SESSION_BYTES, plan, gpu, &options, &refused, &error));
    options.weights = weights;
    options.scratch = scratch;
    options.stream = memory;
    EXPECT(OPTIONS, floe_session_init(room[0], FLOE_GPU_SESSION_BYTES, plan, gpu, &options, &refused, &error));
    options.stream = NULL;
    EXPECT(OPTIONS, floe_session_requirements(plan, host, &options, &needed, &error));
    unsigned char *over = allocate(FLOE_GPU_SESSION_BYTES);
    floe_weights *inside;
    EXPECT(OK, floe_weights_upload(over + 4096, FLOE_SHARED_BYTES, plan, gpu, good, &inside, &error));
    options.weights = inside;
    EXPECT(OVERLAP, floe_session_init(over, FLOE_GPU_SESSION_BYTES, plan, gpu, &options, &refused, &error));
    EXPECT(OK, floe_weights_destroy(inside, &error));
    EXPECT(DESTROYED, floe_session_init(room[0], FLOE_GPU_SESSION_BYTES, plan, gpu, &options, &refused, &error));
    free(over);
    options.weights = weights;

    EXPECT(OK, floe_session_requirements(plan, gpu, good, &alone, &error));
    EXPECT(OK, floe_session_requirements(plan, gpu, &options, &needed, &error));
    REQUIRE(2 * needed.device_bytes == set.own_bytes && 2 * alone.device_bytes == set.apart_bytes);
    floe_binding_info in, out;
    EXPECT(OK, floe_plan_binding(plan, gpu, input, &in, &error));
    EXPECT(OK, floe_plan_binding(plan, gpu, output, &out, &error));
    unsigned char *data = allocate(in.bytes), *expected = allocate(out.bytes), *found = allocate(out.bytes);
    for (size_t i = 0; i < 3; i++) {
        const floe_session_options *how = i < 2 ? &options : good;
        EXPECT(OK, floe_session_init(room[i], FLOE_GPU_SESSION_BYTES, plan, gpu, how, &sessions[i], &error));
        EXPECT(OK, floe_session_write(sessions[i], input, data, in.bytes, &error));
    }
    EXPECT(OK, floe_session_replay(sessions[2], &error));
    EXPECT(OK, floe_session_read(sessions[2], output, expected, out.bytes, &error));
    for (size_t turn = 0; turn < 4; turn++) {
        EXPECT(OK, floe_session_replay(sessions[turn % 2], &error));
        EXPECT(OK, floe_session_read(sessions[turn % 2], output, found, out.bytes, &error));
        REQUIRE(memcmp(found, expected, out.bytes) == 0);
    }
    // What is used stays, until its last user is gone.
    for (size_t i = 0; i < 3; i++) {
        EXPECT(IN_USE, floe_weights_destroy(weights, &error));
        EXPECT(IN_USE, floe_scratch_destroy(scratch, &error));
        EXPECT(OK, floe_session_destroy(sessions[2 - i], &error));
    }
    EXPECT(OK, floe_weights_destroy(weights, &error));
    EXPECT(OK, floe_scratch_destroy(scratch, &error));
    EXPECT(DESTROYED, floe_weights_destroy(weights, &error));
    EXPECT(DESTROYED, floe_scratch_destroy(scratch, &error));
    // A session that could not be made uses nothing.
    EXPECT(OK, floe_weights_upload(weights_memory, FLOE_SHARED_BYTES, plan, gpu, good, &weights, &error));
    options.weights = weights;
    options.scratch = NULL;
    if (simulated) {
        REQUIRE(setenv("SIMULATED_LOAD", "700", 1) == 0);
        EXPECT(DRIVER, floe_session_init(room[0], FLOE_GPU_SESSION_BYTES, plan, gpu, &options, &refused, &error));
        REQUIRE(unsetenv("SIMULATED_LOAD") == 0);
    }
    EXPECT(OK, floe_weights_destroy(weights, &error));
    // Who knows only the options of the first version shares nothing, whatever lies behind them.
    options.struct_bytes = offsetof(floe_session_options, weights);
    EXPECT(OK, floe_session_init(room[0], FLOE_GPU_SESSION_BYTES, plan, gpu, &options, &refused, &error));
    EXPECT(OK, floe_session_destroy(refused, &error));
    free(memory), free(big), free(weights_memory), free(scratch_memory), free(room[2]);
    free(data), free(expected), free(found);
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    read_plan(arguments[1]);
    read_key(arguments[2]);
    REQUIRE(floe_version()[0] != 0);
    REQUIRE(strcmp(floe_status_name(-1), "unknown status") == 0);
    EXPECT(OK, floe_plan_open(plan_memory, sizeof plan_memory, file, file_bytes, &plan, &error));
    EXPECT(OK, floe_plan_find_target(plan, "host", &host, &error));
    EXPECT(OK, floe_plan_find_binding(plan, host, "image", FLOE_DIRECTION_INPUT, &input, &error));
    EXPECT(OK, floe_plan_find_binding(plan, host, "probabilities", FLOE_DIRECTION_OUTPUT, &output, &error));

    char text[FLOE_CUDA_TEXT_BYTES];
    const char *driver = getenv("FLOE_LIBCUDA");
    char *kept = driver ? strdup(driver) : NULL;
    simulated = kept != NULL;
    REQUIRE(setenv("FLOE_LIBCUDA", "/nonexistent/libcuda.so.1", 1) == 0);
    REQUIRE(floe_cuda_open(&cuda, 0, text) == 1 && strstr(text, "no CUDA driver found") != NULL);
    floe_cuda_close(&cuda);
    if (simulated) {
        REQUIRE(setenv("FLOE_LIBCUDA", kept, 1) == 0 && setenv("SIMULATED_INIT", "100", 1) == 0);
        REQUIRE(floe_cuda_open(&cuda, 0, text) == 1 && strstr(text, "CUDA_ERROR_NO_DEVICE") != NULL);
        REQUIRE(unsetenv("SIMULATED_INIT") == 0);
        free(kept);
    } else {
        REQUIRE(unsetenv("FLOE_LIBCUDA") == 0);
    }
    REQUIRE(floe_cuda_open(&cuda, 999, text) == 1);
    if (floe_cuda_open(&cuda, 0, text)) fprintf(stderr, "%s\n", text);
    REQUIRE(cuda.context != NULL && (!simulated || (cuda.architecture == 87 && cuda.integrated == 1)));
    EXPECT(OK, floe_plan_find_gpu(plan, cuda.architecture, cuda.multiprocessors, cuda.driver, &gpu, &error));

    opening();
    plan_handles();
    queries();
    signature();
    release();
    damage();
    floe_session_options on_host = {.struct_bytes = sizeof on_host};
    floe_session_options on_gpu = {.struct_bytes = sizeof on_gpu,
                                   .find_symbol = floe_cuda_find_symbol,
                                   .find_symbol_context = &cuda};
    init(host, &on_host);
    session(host, &on_host);
    for (on_gpu.mapped = 0; on_gpu.mapped < 2; on_gpu.mapped++) {
        init(gpu, &on_gpu);
        session(gpu, &on_gpu);
    }
    on_gpu.mapped = 1;
    bad_driver(&on_gpu);
    guard(&on_gpu);
    limits(host, &on_host);
    limits(gpu, &on_gpu);
    places(host, &on_host);
    places(gpu, &on_gpu);
    threads();
    for (on_gpu.mapped = 0; on_gpu.mapped < 2; on_gpu.mapped++) sharing(&on_gpu);
    EXPECT(OK, floe_plan_close(plan, &error));
    floe_cuda_close(&cuda);
    free(file);
    printf("%u checks of bad use\n", checks);
    return 0;
}
