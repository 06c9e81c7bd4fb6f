// What only a driver can show, best a real one: `gpu KEY PLAN [PLAN ...]`, signed plans with a variant for GPU 0.
//
// Each plan is replayed by sessions that share nothing, then all of them in turn over one scratch and shared constants. What they
// compute must be equal bit for bit, and what they ask the driver for must be what the library said before, byte for byte.
// Then every function of the driver fails in turn: INIT must say which, give everything back, and succeed when tried again.
//
// FLOE_LIBCUDA may name the simulated driver of the tests, whose kernels do nothing.

#include "floe.h"
#include "floe_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS = 8, TURNS = 3, FUNCTIONS = 64, ALLOCATIONS = 64, KEY_BYTES = 44 };

static floe_error error;

static void require(int holds, const char *what, int line) {
    if (holds) return;
    fprintf(stderr, "line %d: not so: %s (last error: %s)\n", line, what, error.text);
    exit(1);
}

#define REQUIRE(condition) require((condition), #condition, __LINE__)
#define OK(call) require((call) == FLOE_STATUS_OK, #call, __LINE__)

// The driver, watched: what is allocated and not freed yet, and which function fails.
typedef unsigned long long address;

struct allocation {
    unsigned long long at, bytes;
    int page_locked;
};

static struct floe_cuda cuda;
static struct allocation allocations[ALLOCATIONS];
static long streams;
// Functions that the library has asked for, and the number of the one that fails, or -1.
static char functions[FUNCTIONS][64];
static int function_count, failing = -1;

// The driver's own.
static struct {
    unsigned (*mem_alloc)(address *at, size_t bytes);
    unsigned (*mem_free)(address at);
    unsigned (*mem_host_alloc)(void **at, size_t bytes, unsigned flags);
    unsigned (*mem_free_host)(void *at);
    unsigned (*mem_get_info)(size_t *unused, size_t *total);
    unsigned (*stream_create)(void **stream, unsigned flags);
    unsigned (*stream_destroy)(void *stream);
} driver;

static int find_driver(char *text) {
    return floe_cuda_function(&cuda, "cuMemAlloc_v2", &driver.mem_alloc, text) ||
           floe_cuda_function(&cuda, "cuMemFree_v2", &driver.mem_free, text) ||
           floe_cuda_function(&cuda, "cuMemHostAlloc", &driver.mem_host_alloc, text) ||
           floe_cuda_function(&cuda, "cuMemFreeHost", &driver.mem_free_host, text) ||
           floe_cuda_function(&cuda, "cuMemGetInfo_v2", &driver.mem_get_info, text) ||
           floe_cuda_function(&cuda, "cuStreamCreate", &driver.stream_create, text) ||
           floe_cuda_function(&cuda, "cuStreamDestroy_v2", &driver.stream_destroy, text);
}

static void note(address at, unsigned long long bytes, int page_locked) {
    size_t free_place = 0;
    while (free_place < ALLOCATIONS && allocations[free_place].at) free_place++;
    REQUIRE(free_place < ALLOCATIONS);
    allocations[free_place] = (struct allocation){at, bytes, page_locked};
}

static void forget(address at) {
    for (size_t i = 0; i < ALLOCATIONS; i++) {
        if (allocations[i].at != at) continue;
        allocations[i].at = 0;
        return;
    }
    REQUIRE(!"only what was allocated is freed, and once");
}

static unsigned allocate_device(address *at, size_t bytes) {
    const unsigned status = driver.mem_alloc(at, bytes);
    if (!status) note(*at, bytes, 0);
    return status;
}

static unsigned free_device(address at) {
    forget(at);
    return driver.mem_free(at);
}

static unsigned allocate_host(void **at, size_t bytes, unsigned flags) {
    const unsigned status = driver.mem_host_alloc(at, bytes, flags);
    if (!status) note((address)(uintptr_t)*at, bytes, 1);
    return status;
}

static unsigned free_host(void *at) {
    forget((address)(uintptr_t)at);
    return driver.mem_free_host(at);
}

static unsigned create_stream(void **stream, unsigned flags) {
    const unsigned status = driver.stream_create(stream, flags);
    streams += !status;
    return status;
}

static unsigned destroy_stream(void *stream) {
    streams--;
    return driver.stream_destroy(stream);
}

// CUDA_ERROR_UNKNOWN, whatever the arguments.
static unsigned fail(void) { return 999; }

static void *find_symbol(void *context, const char *name) {
    // POSIX promises equal representation of both kinds of pointers; ISO C lets them meet in an integer.
    const struct {
        const char *name;
        uintptr_t function;
    } watched[] = {
        {"cuMemAlloc_v2", (uintptr_t)allocate_device}, {"cuMemFree_v2", (uintptr_t)free_device},
        {"cuMemHostAlloc", (uintptr_t)allocate_host},  {"cuMemFreeHost", (uintptr_t)free_host},
        {"cuStreamCreate", (uintptr_t)create_stream},  {"cuStreamDestroy_v2", (uintptr_t)destroy_stream},
    };
    void *const found = floe_cuda_find_symbol(context, name);
    if (!found) return NULL;
    int number = 0;
    while (number < function_count && strcmp(functions[number], name)) number++;
    if (number == function_count) {
        REQUIRE(function_count < FUNCTIONS && strlen(name) < sizeof functions[0]);
        strcpy(functions[function_count++], name);
    }
    if (number == failing) return (void *)(uintptr_t)fail;
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++) {
        if (!strcmp(watched[i].name, name)) return (void *)watched[i].function;
    }
    return found;
}

static unsigned long long allocated(int page_locked) {
    unsigned long long bytes = 0;
    for (size_t i = 0; i < ALLOCATIONS; i++) {
        if (allocations[i].at && allocations[i].page_locked == page_locked) bytes += allocations[i].bytes;
    }
    return bytes;
}

// Device memory that nobody uses, as the driver says.
static unsigned long long available(void) {
    size_t unused = 0, total = 0;
    REQUIRE(!driver.mem_get_info(&unused, &total));
    return unused;
}

// A plan, where its sessions lie, and what each turn computed when it was alone.
struct member {
    const char *path;
    unsigned char *file;
    floe_plan *plan;
    uint32_t variant, bindings;
    void *session_memory, *weights_memory;
    floe_session *session;
    floe_weights *weights;
    unsigned char *expected[TURNS];
    size_t output_bytes;
};

static struct member members[PLANS];
static size_t count;

static void *allocate(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    REQUIRE(memory != NULL);
    memset(memory, 0xa7, (bytes + 63) / 64 * 64);
    return memory;
}

static size_t read_file(const char *path, unsigned char **bytes) {
    FILE *stream = fopen(path, "rb");
    REQUIRE(stream != NULL && fseek(stream, 0, SEEK_END) == 0);
    const size_t length = (size_t)ftell(stream);
    rewind(stream);
    *bytes = allocate(length);
    REQUIRE(fread(*bytes, 1, length, stream) == length);
    fclose(stream);
    return length;
}

// Only what the holder of the key signed goes any further.
static void open_plan(struct member *member, const char *path, const unsigned char *key) {
    unsigned char wrong[KEY_BYTES];
    floe_variant_info info;
    member->path = path;
    const size_t bytes = read_file(path, &member->file);
    OK(floe_plan_open(allocate(FLOE_PLAN_BYTES), FLOE_PLAN_BYTES, member->file, bytes, &member->plan, &error));
    OK(floe_plan_verify_signature(member->plan, key, KEY_BYTES, &error));
    memcpy(wrong, key, KEY_BYTES);
    wrong[KEY_BYTES - 1] ^= 1;
    REQUIRE(floe_plan_verify_signature(member->plan, wrong, KEY_BYTES, &error) == FLOE_STATUS_SIGNATURE);
    member->file[bytes / 2] ^= 1;
    REQUIRE(floe_plan_verify_signature(member->plan, key, KEY_BYTES, &error) == FLOE_STATUS_PLAN_DAMAGED);
    member->file[bytes / 2] ^= 1;
    OK(floe_plan_find_gpu(member->plan, cuda.architecture, cuda.multiprocessors, cuda.driver, &member->variant, &error));
    OK(floe_plan_variant(member->plan, member->variant, &info, &error));
    member->bindings = info.bindings;
    member->session_memory = allocate(FLOE_GPU_SESSION_BYTES);
    member->weights_memory = allocate(FLOE_SHARED_BYTES);
    // Behind the outputs what the guard says.
    member->output_bytes = 1;
    for (uint32_t i = 0; i < info.bindings; i++) {
        floe_binding_info binding;
        OK(floe_plan_binding(member->plan, member->variant, i, &binding, &error));
        if (binding.direction == FLOE_DIRECTION_OUTPUT) member->output_bytes += binding.bytes;
    }
    for (size_t turn = 0; turn < TURNS; turn++) member->expected[turn] = allocate(member->output_bytes);
}

// Element `i` of an input, the same whenever turn `turn` comes: a float between 0 and 1, or a small integer.
static void fill(const floe_binding_info *binding, void *data, unsigned turn) {
    const uint64_t elements = binding->bytes / binding->element_bytes;
    for (uint64_t i = 0; i < elements; i++) {
        const uint32_t number = (uint32_t)(i * 2654435761u + turn * 40503u) >> 24;
        const float real = (float)number / 256;
        if (binding->element_type == FLOE_ELEMENT_TYPE_F32) memcpy((char *)data + 4 * i, &real, sizeof real);
        else memset((char *)data + binding->element_bytes * i, binding->element_bytes == 1 ? (int)number : 0, binding->element_bytes);
    }
}

// One replay. Inputs are filled in place or written, outputs seen in place or read, by turns.
static void replay(const struct member *member, unsigned turn, unsigned char *outputs) {
    floe_binding_info binding;
    for (uint32_t i = 0; i < member->bindings; i++) {
        void *lent;
        size_t bytes;
        OK(floe_plan_binding(member->plan, member->variant, i, &binding, &error));
        if (binding.direction != FLOE_DIRECTION_INPUT) continue;
        if (turn % 2) {
            OK(floe_session_input(member->session, i, &lent, &bytes, &error));
            REQUIRE(bytes == binding.bytes);
            fill(&binding, lent, turn);
        } else {
            void *data = allocate(binding.bytes);
            fill(&binding, data, turn);
            OK(floe_session_write(member->session, i, data, binding.bytes, &error));
            free(data);
        }
    }
    OK(floe_session_replay(member->session, &error));
    for (uint32_t i = 0; i < member->bindings; i++) {
        const void *seen;
        size_t bytes;
        OK(floe_plan_binding(member->plan, member->variant, i, &binding, &error));
        if (binding.direction != FLOE_DIRECTION_OUTPUT) continue;
        if (turn % 2) {
            OK(floe_session_read(member->session, i, outputs, binding.bytes, &error));
        } else {
            OK(floe_session_output(member->session, i, &seen, &bytes, &error));
            REQUIRE(bytes == binding.bytes);
            memcpy(outputs, seen, bytes);
        }
        outputs += binding.bytes;
    }
    // What the guard sees is a result like any other.
    const floe_status finite = floe_session_guard(member->session, NULL, &error);
    REQUIRE(finite == FLOE_STATUS_OK || finite == FLOE_STATUS_NOT_FINITE);
    *outputs = finite == FLOE_STATUS_OK;
    OK(floe_session_reset(member->session, &error));
}

static void init(struct member *member, const floe_session_options *options) {
    OK(floe_session_init(member->session_memory, FLOE_GPU_SESSION_BYTES, member->plan, member->variant, options,
                         &member->session, &error));
}

// Each plan by itself: what it asks for is what it said, and it is given back.
static void alone(const floe_session_options *options) {
    for (size_t i = 0; i < count; i++) {
        struct member *member = &members[i];
        floe_requirements known;
        OK(floe_session_requirements(member->plan, member->variant, options, &known, &error));
        init(member, options);
        REQUIRE(allocated(0) == known.device_bytes && allocated(1) == known.page_locked_bytes && streams == 1);
        for (unsigned turn = 0; turn < TURNS; turn++) replay(member, turn, member->expected[turn]);
        REQUIRE(allocated(0) == known.device_bytes && allocated(1) == known.page_locked_bytes);
        OK(floe_session_destroy(member->session, &error));
        REQUIRE(allocated(0) == 0 && allocated(1) == 0 && streams == 0);
    }
}

// All of them over what they share.
static void together(floe_session_options options) {
    floe_set_member set[PLANS] = {{0}};
    floe_set_memory known;
    for (size_t i = 0; i < count; i++) set[i] = (floe_set_member){members[i].plan, members[i].variant, 0};
    OK(floe_set_requirements(set, count, &options, &known, &error));

    void *scratch_memory = allocate(FLOE_SHARED_BYTES);
    const unsigned long long before = available();
    OK(floe_scratch_allocate(scratch_memory, FLOE_SHARED_BYTES, known.scratch_bytes, &options, &options.scratch, &error));
    unsigned long long constants = 0;
    for (size_t i = 0; i < count; i++) {
        struct member *member = &members[i];
        uint32_t fit = 0;
        for (size_t other = 0; other < i && !fit; other++) {
            if (!(options.weights = members[other].weights)) continue;
            OK(floe_weights_fit(options.weights, member->plan, member->variant, &fit, &error));
        }
        member->weights = NULL;
        if (!fit) {
            const unsigned long long already = allocated(0);
            OK(floe_weights_upload(member->weights_memory, FLOE_SHARED_BYTES, member->plan, member->variant, &options,
                                   &member->weights, &error));
            options.weights = member->weights;
            constants += allocated(0) - already;
        }
        init(member, &options);
    }
    const unsigned long long taken = before - available();
    REQUIRE(allocated(0) == known.device_bytes && allocated(1) == known.page_locked_bytes);
    REQUIRE(constants == known.weights_bytes && streams == 1);

    // In turn, forwards and backwards: nobody disturbs anybody.
    for (unsigned round = 0; round < 2 * TURNS; round++) {
        for (size_t i = 0; i < count; i++) {
            struct member *member = &members[round % 2 ? count - 1 - i : i];
            const unsigned turn = (round + (unsigned)i) % TURNS;
            unsigned char *found = allocate(member->output_bytes);
            replay(member, turn, found);
            REQUIRE(!memcmp(found, member->expected[turn], member->output_bytes));
            free(found);
        }
    }
    REQUIRE(before - available() == taken && allocated(0) == known.device_bytes);
    printf("%zu plans, mapped %u, wait %u: %llu bytes of device memory known and asked for (%llu apart), %llu page-locked; "
           "%llu fewer are available, code and graphs included\n",
           count, (unsigned)options.mapped, (unsigned)options.wait, allocated(0), (unsigned long long)known.apart_bytes,
           allocated(1), taken);

    REQUIRE(floe_scratch_destroy(options.scratch, &error) == FLOE_STATUS_IN_USE);
    for (size_t i = 0; i < count; i++) {
        if (members[i].weights) {
            REQUIRE(floe_weights_destroy(members[i].weights, &error) == FLOE_STATUS_IN_USE);
        }
    }
    for (size_t i = 0; i < count; i++) OK(floe_session_destroy(members[i].session, &error));
    for (size_t i = 0; i < count; i++) {
        if (members[i].weights) OK(floe_weights_destroy(members[i].weights, &error));
    }
    OK(floe_scratch_destroy(options.scratch, &error));
    REQUIRE(allocated(0) == 0 && allocated(1) == 0 && streams == 0);
    free(scratch_memory);
}

// Whether INIT calls the function for every plan and however the session waits, and does not go on where it fails.
static int matters(const char *name) {
    static const char *const others[] = {
        "MemGetInfo", "GetErrorName", "EventQuery", "EventSynchronize", "EventRecord",
        "EventElapsedTime", "MemcpyDtoH", "FuncSetAttribute", "GraphAddDependencies", "StreamSynchronize",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strstr(name, others[i])) return 0;
    }
    return 1;
}

// Every function fails in turn, the real ones around it going on.
static void faults(const floe_session_options *options) {
    struct member *member = &members[0];
    unsigned char *outputs = allocate(member->output_bytes);
    unsigned failed = 0;
    const unsigned long long before = available();
    for (failing = 0; failing < function_count; failing++) {
        const char *name = functions[failing];
        // What frees cannot be made to fail without losing something for good.
        if (strstr(name, "Free") || strstr(name, "Destroy") || strstr(name, "Unload")) continue;
        const floe_status status = floe_session_init(member->session_memory, FLOE_GPU_SESSION_BYTES, member->plan,
                                                     member->variant, options, &member->session, &error);
        if (status == FLOE_STATUS_OK) {
            REQUIRE(!matters(name));
            OK(floe_session_destroy(member->session, &error));
        } else {
            REQUIRE(status == FLOE_STATUS_DRIVER && member->session == NULL && strstr(error.text, name) != NULL);
            failed++;
        }
        REQUIRE(allocated(0) == 0 && allocated(1) == 0 && streams == 0);
    }
    failing = -1;
    const unsigned long long after = available();
    init(member, options);
    replay(member, 0, outputs);
    REQUIRE(!memcmp(outputs, member->expected[0], member->output_bytes));
    OK(floe_session_destroy(member->session, &error));
    free(outputs);
    printf("mapped %u, wait %u: %u of %d functions of the driver fail INIT, and nothing is left; %lld bytes less are available "
           "than before\n", (unsigned)options->mapped, (unsigned)options->wait, failed, function_count,
           (long long)(before - after));
    REQUIRE(failed >= 10);
}

int main(int argument_count, char **arguments) {
    if (argument_count < 3 || argument_count - 2 > PLANS) return 2;
    unsigned char *key;
    char text[FLOE_CUDA_TEXT_BYTES];
    REQUIRE(read_file(arguments[1], &key) == KEY_BYTES);
    if (floe_cuda_open(&cuda, 0, text) || find_driver(text)) {
        fprintf(stderr, "%s\n", text);
        return 1;
    }
    for (; count < (size_t)argument_count - 2; count++) open_plan(&members[count], arguments[2 + count], key);
    floe_session_options options = {.struct_bytes = sizeof options,
                                    .find_symbol = find_symbol,
                                    .find_symbol_context = &cuda,
                                    .guard = 1};
    for (options.mapped = 0; options.mapped < 2; options.mapped++) {
        for (options.wait = 0; options.wait < 4; options.wait++) {
            alone(&options);
            together(options);
            faults(&options);
        }
    }
    for (size_t i = 0; i < count; i++) {
        void *const memory = members[i].plan;
        OK(floe_plan_close(members[i].plan, &error));
        free(memory), free(members[i].file), free(members[i].session_memory), free(members[i].weights_memory);
        for (size_t turn = 0; turn < TURNS; turn++) free(members[i].expected[turn]);
    }
    free(key);
    floe_cuda_close(&cuda);
    puts("What sessions ask of the driver is known before, and shared memory changes no result");
    return 0;
}
