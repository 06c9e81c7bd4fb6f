/* The C interface of Floe's engine: plans and sessions in memory that the caller gives.
 *
 * Generated from engine/c by cbindgen: do not edit. Link libfloe_c.a, which engine/c builds.
 *
 * The way of a program:
 *
 *     floe_plan_open            checks the plan's bytes
 *     floe_plan_find_target     chooses a variant; floe_plan_find_gpu does so for a GPU
 *     floe_plan_find_binding    finds inputs and outputs, once
 *     floe_session_requirements says what a session takes
 *     floe_session_init         INIT: all that is ever allocated
 *     floe_session_write        RUN: input, replay, output; nothing else
 *     floe_session_replay
 *     floe_session_read
 *     floe_session_destroy
 *     floe_plan_close
 *
 * A plan may have several variants for one target, each for other shapes, behind one another. A session of one of them holds
 * them all: floe_session_choose changes from one to another between replays.
 *
 * In place of a write and a read, floe_session_input and floe_session_output lend a session's own memory. Several sessions on
 * one GPU share constants and scratch: floe_set_requirements says what they take, floe_weights_upload and
 * floe_scratch_allocate make what they share, before the first floe_session_init and until after the last
 * floe_session_destroy.
 *
 * Rules that hold for every function:
 *
 * - The result is a floe_status: FLOE_STATUS_OK, or why nothing was done. `error`, where it is not null, gets the same in
 *   words. The library keeps no error, has no global variables, and allocates no memory; a session on a GPU allocates
 *   what floe_session_requirements says, in floe_session_init, and so does what sessions share, when it is made.
 * - Handles (`floe_plan`, `floe_session`, `floe_weights`, `floe_scratch`) are the addresses of objects in memory that the
 *   caller gives, and stay the caller's. A handle that is null, misaligned, destroyed, never made, moved or overwritten is
 *   recognised and refused; so is destroying what a session still uses.
 * - Pointers to results must not be null unless it says so. A null or misaligned pointer is refused, and so is one into the
 *   memory of the session in question; where that is `error`, nothing is written there.
 * - What remains the caller's promise, as ever in C: that a pointer which is neither null nor misaligned points to as much
 *   memory as is said; that strings end with NUL; that objects and plan files stay in place, unchanged, as long as they
 *   are used; that no thread uses what another destroys (two that use one session are told so, with FLOE_STATUS_BUSY); and
 *   that on a GPU the plan comes from someone trusted.
 * - Structures that a function fills are not touched where it fails.
 */

#ifndef FLOE_H
#define FLOE_H

#include <stddef.h>
#include <stdint.h>

// Most dimensions of a binding.
#define FLOE_MAX_RANK 8

// Version of `floe_operator_library`.
#define FLOE_OPERATOR_LIBRARY_VERSION 1

// Bytes of a name, the closing NUL included.
#define FLOE_NAME_BYTES 256

// Bytes of memory for an open plan.
#define FLOE_PLAN_BYTES 512

// Alignment of the memory of an open plan, and of a plan file in memory. `malloc` and `mmap` give at least this.
#define FLOE_PLAN_ALIGNMENT 16

// For `floe_plan_find_binding`: any direction.
#define FLOE_ANY_DIRECTION 4294967295

// Alignment of the memory of a session.
#define FLOE_SESSION_ALIGNMENT 64

// Bytes of memory that a session on a GPU needs: a constant, for static memory. `floe_session_requirements` says what
// any session needs.
#define FLOE_GPU_SESSION_BYTES (32 * 1024)

// Bytes of memory for a `floe_weights` or a `floe_scratch`.
#define FLOE_SHARED_BYTES 1024

// Alignment of that memory.
#define FLOE_SHARED_ALIGNMENT 16

// Bytes of an error's text, the closing NUL included.
#define FLOE_ERROR_BYTES 256

// What a function returns. The numbers never change their meaning; later versions may add some.
enum floe_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // All went well.
    FLOE_STATUS_OK = 0,
    // A pointer is null that must not be.
    FLOE_STATUS_NULL_POINTER = 1,
    // A pointer is not aligned as it must be.
    FLOE_STATUS_MISALIGNED = 2,
    // Memory is shorter than it must be.
    FLOE_STATUS_TOO_SHORT = 3,
    // A length is beyond what memory can have.
    FLOE_STATUS_TOO_LONG = 4,
    // Two ranges of memory overlap that must not.
    FLOE_STATUS_OVERLAP = 5,
    // The handle is none: never made, moved in memory, or overwritten.
    FLOE_STATUS_NOT_A_HANDLE = 6,
    // The handle was closed or destroyed.
    FLOE_STATUS_DESTROYED = 7,
    // The memory already holds an object, or sessions still use the object: those have to be destroyed first.
    FLOE_STATUS_IN_USE = 8,
    // The call needs another before it.
    FLOE_STATUS_ORDER = 9,
    // An options structure has an impossible size or value.
    FLOE_STATUS_OPTIONS = 10,
    // The library was built without what this needs.
    FLOE_STATUS_NOT_BUILT = 11,
    // The bytes are no plan.
    FLOE_STATUS_NOT_A_PLAN = 12,
    // The plan has another version of the format.
    FLOE_STATUS_PLAN_VERSION = 13,
    // The plan is damaged: lengths, digests or contents are wrong.
    FLOE_STATUS_PLAN_DAMAGED = 14,
    // The plan is not signed, or not by the holder of the key.
    FLOE_STATUS_SIGNATURE = 15,
    // No variant or binding of that number, name or direction, or none with these extents.
    FLOE_STATUS_NOT_FOUND = 16,
    // No variant of the plan runs on that device.
    FLOE_STATUS_NO_VARIANT = 17,
    // The binding goes the other way.
    FLOE_STATUS_DIRECTION = 18,
    // The length is not the binding's.
    FLOE_STATUS_LENGTH = 19,
    // The plan needs more than a session of this library holds.
    FLOE_STATUS_CAPACITY = 20,
    // The device has not enough free memory.
    FLOE_STATUS_OUT_OF_MEMORY = 21,
    // A function of the CUDA driver failed or is missing.
    FLOE_STATUS_DRIVER = 22,
    // A host kernel refused its operands.
    FLOE_STATUS_KERNEL = 23,
    // The results contain NaN or infinity, and the session was asked to watch for them.
    FLOE_STATUS_NOT_FINITE = 24,
    // The GPU has not finished, and `go_on` wanted to wait no longer. The session is as it was.
    FLOE_STATUS_STILL_RUNNING = 25,
    // A replay on the host was stopped by `go_on`. Reset the session.
    FLOE_STATUS_STOPPED = 26,
    // The GPU has not finished as many replays as were launched, so nothing is known of the results. Replay again.
    FLOE_STATUS_MISCOUNTED = 27,
    // Another call is using the session.
    FLOE_STATUS_BUSY = 28,
    // The plan is of another model, or older, than what is asked for.
    FLOE_STATUS_RELEASE = 29,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum floe_status floe_status;
#else
typedef int32_t floe_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Which way a binding goes.
enum floe_direction
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Written before a replay.
    FLOE_DIRECTION_INPUT = 0,
    // Read after a replay.
    FLOE_DIRECTION_OUTPUT = 1,
    // Lives on between replays; written to set it, read to look at it, zero at first and after a reset.
    FLOE_DIRECTION_STATE = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum floe_direction floe_direction;
#else
typedef uint32_t floe_direction;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Type of a binding's elements, little-endian.
enum floe_element_type
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // IEEE 754 binary32: `float`.
    FLOE_ELEMENT_TYPE_F32 = 0,
    // IEEE 754 binary16.
    FLOE_ELEMENT_TYPE_F16 = 1,
    // The upper half of a binary32.
    FLOE_ELEMENT_TYPE_BF16 = 2,
    // IEEE 754 binary64: `double`.
    FLOE_ELEMENT_TYPE_F64 = 3,
    // `int8_t`.
    FLOE_ELEMENT_TYPE_I8 = 4,
    // `int16_t`.
    FLOE_ELEMENT_TYPE_I16 = 5,
    // `int32_t`.
    FLOE_ELEMENT_TYPE_I32 = 6,
    // `int64_t`.
    FLOE_ELEMENT_TYPE_I64 = 7,
    // `uint8_t`.
    FLOE_ELEMENT_TYPE_U8 = 8,
    // `uint16_t`.
    FLOE_ELEMENT_TYPE_U16 = 9,
    // `uint32_t`.
    FLOE_ELEMENT_TYPE_U32 = 10,
    // `uint64_t`.
    FLOE_ELEMENT_TYPE_U64 = 11,
    // One byte, 0 or 1.
    FLOE_ELEMENT_TYPE_BOOL = 12,
    // One byte: a float with 4 bits of exponent and 3 of mantissa, with NaN but without infinities (OCP E4M3).
    FLOE_ELEMENT_TYPE_F8E4M3 = 13,
    // One byte: as that, with one NaN and without a negative zero.
    FLOE_ELEMENT_TYPE_F8E4M3_FNUZ = 14,
    // One byte: a float with 5 bits of exponent and 2 of mantissa, with NaN and infinities (OCP E5M2).
    FLOE_ELEMENT_TYPE_F8E5M2 = 15,
    // One byte: as that, with one NaN, without infinities and without a negative zero.
    FLOE_ELEMENT_TYPE_F8E5M2_FNUZ = 16,
    // A signed integer of 4 bits, in a byte of its own, sign-extended: `int8_t` from -8 to 7.
    FLOE_ELEMENT_TYPE_I4 = 17,
    // An unsigned integer of 4 bits, in a byte of its own: `uint8_t` from 0 to 15.
    FLOE_ELEMENT_TYPE_U4 = 18,
    // A type that this library has no name for; the binding's bytes are right all the same.
    FLOE_ELEMENT_TYPE_OTHER = 255,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum floe_element_type floe_element_type;
#else
typedef uint32_t floe_element_type;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How a session waits for the GPU.
enum floe_wait
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // As the CUDA context was set up: `cuStreamSynchronize`.
    FLOE_WAIT_DRIVER = 0,
    // Sleeps until the GPU interrupts: costs no processor time, and some microseconds to wake up.
    FLOE_WAIT_BLOCK = 1,
    // Asks the driver again and again: takes a processor, answers at once.
    FLOE_WAIT_SPIN = 2,
    // Looks at a word of host memory that the plan's last step writes: takes a processor, and no call of the driver. Best
    // with `mapped`; the plan must have such a step.
    FLOE_WAIT_POLL = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum floe_wait floe_wait;
#else
typedef uint32_t floe_wait;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// An open plan.
//
// The memory that it lies in and the plan file's bytes belong to the caller and must stay, unchanged and in place, until
// the plan is closed; the file's bytes also until the last session of it is destroyed. Functions that take it as `const`
// may be called from several threads at a time.
typedef struct floe_plan floe_plan;

// Memory of a GPU for the activations of several sessions, and the stream in which these replay, one after another.
//
// The memory that it lies in belongs to the caller and must stay in place, untouched, until it is destroyed, which is
// refused as long as a session uses it.
typedef struct floe_scratch floe_scratch;

// A session: a variant of a plan, bound to memory and ready to be replayed.
//
// The memory that it lies in belongs to the caller and must stay in place, untouched, until the session is destroyed. A
// session may be used by one thread at a time, and a call meanwhile gives `BUSY`; one on a GPU only where the CUDA context
// is current that was current at its `floe_session_init`. Different ones may be used by different threads at the same time;
// over one `floe_scratch` they replay one after another all the same.
typedef struct floe_session floe_session;

// The constants of a variant in the memory of a GPU, for sessions of every variant with equal constants.
//
// The memory that it lies in and the plan file's bytes belong to the caller and must stay, unchanged and in place, until it
// is destroyed, which is refused as long as a session uses it. Sessions that share it may be used by different threads at
// the same time.
typedef struct floe_weights floe_weights;

// What went wrong, in words: UTF-8, closed by NUL, cut off where it is too long, empty after success.
//
// Every function that can fail takes the address of one, or null where the text is not wanted. It belongs to the caller;
// the library keeps no error.
typedef struct floe_error {
    // The text.
    char text[FLOE_ERROR_BYTES];
} floe_error;

// A variant: the plan, compiled for one kind of device.
typedef struct floe_variant_info {
    // Name of the target that it was compiled for, closed by NUL, for example `host` or `jetson-orin-nano`.
    char target[FLOE_NAME_BYTES];
    // Compute capability of its GPU times ten, for example 87; 0 for the host.
    uint32_t architecture;
    // Oldest driver that it runs on, as `cuDriverGetVersion` counts: 12020 is 12.2. 0 for the host.
    uint32_t driver;
    // Fewest multiprocessors that its GPU must have; 0 where any number does.
    uint32_t multiprocessors;
    // Number of bindings. They are numbered from 0.
    uint32_t bindings;
    // Number of steps of a replay.
    uint32_t steps;
    // Not used; 0.
    uint32_t reserved;
    // Bytes of constants.
    uint64_t weights_bytes;
    // Bytes of activations and scratch.
    uint64_t arena_bytes;
} floe_variant_info;

// A binding: a named input, output or state. Its bytes are row-major without gaps.
typedef struct floe_binding_info {
    // Name in the model, closed by NUL. An input and an output may share one.
    char name[FLOE_NAME_BYTES];
    // Which way it goes.
    floe_direction direction;
    // Type of its elements.
    floe_element_type element_type;
    // Number of dimensions.
    uint32_t rank;
    // Extents, outermost first; 0 beyond `rank`.
    uint32_t shape[FLOE_MAX_RANK];
    // Bytes of one element.
    uint32_t element_bytes;
    // Bytes of the whole binding: what a write gives and a read takes.
    uint64_t bytes;
} floe_binding_info;

// Finds a function of the CUDA driver by its symbol's name, for example `cuLaunchKernel`: its address, or null where the
// driver has none. `dlsym` does it; `floe_cuda.h` has one ready. Called only inside of `floe_session_init`,
// `floe_weights_upload` and `floe_scratch_allocate`.
typedef void *(*floe_find_symbol)(void *context, const char *name);

// A tensor that an operator's function works on: row-major elements without gaps.
typedef struct floe_tensor {
    // The elements. Those of an input must not be written; those of an output mean nothing before they are.
    void *data;
    // Their bytes.
    size_t bytes;
    // Their type.
    floe_element_type element_type;
    // Number of dimensions.
    uint32_t rank;
    // Extents, outermost first; 0 beyond `rank`.
    uint32_t shape[FLOE_MAX_RANK];
} floe_tensor;

// A number of an operator's attributes.
typedef struct floe_number {
    // The number, where it is an integer or that of a choice; else 0.
    int64_t integer;
    // The number, of either kind.
    double real;
} floe_number;

// One call of an operator's function. Nothing of it may be used afterwards.
typedef struct floe_operator_call {
    // The inputs.
    const struct floe_tensor *inputs;
    // Their number.
    size_t input_count;
    // The outputs, all of whose elements the function writes.
    const struct floe_tensor *outputs;
    // Their number.
    size_t output_count;
    // All numbers of the attributes, in the order of the operator's description; lists have one after another.
    const struct floe_number *numbers;
    // How many there are.
    size_t number_count;
    // Scratch, at a multiple of 64 bytes.
    void *workspace;
    // Its bytes, as the description says.
    size_t workspace_bytes;
} floe_operator_call;

// An operator's function: 0 for success, else a number that the text of the error tells. It must not use the session, and gives
// the same outputs for the same inputs.
typedef uint32_t (*floe_operator_function)(void *context, const struct floe_operator_call *call);

// An operator's function under its name.
typedef struct floe_operator {
    // The operator's domain and name, `DOMAIN.NAME`, closed by NUL.
    const char *name;
    // The function.
    floe_operator_function function;
    // What the function gets as its context.
    void *context;
} floe_operator;

// How a session is made. Zero is the usual value of every field but the first.
typedef struct floe_session_options {
    // `sizeof(floe_session_options)`: so the library knows what the caller knows. Fields beyond it count as zero.
    size_t struct_bytes;
    // For a GPU: finds the driver's functions.
    floe_find_symbol find_symbol;
    // What `find_symbol` gets as its context.
    void *find_symbol_context;
    // For a GPU: the stream (`CUstream`) to replay in; null for one that the session makes.
    void *stream;
    // For a GPU: 1 where bindings shall live in page-locked host memory that the GPU reads and writes itself, which is
    // right where both share memory, as on a Jetson.
    uint32_t mapped;
    // For a GPU: how to wait for it, a `floe_wait`.
    uint32_t wait;
    // 1 to watch float outputs and states for NaN and infinity, which `floe_session_guard` tells.
    uint32_t guard;
    // Not used; 0.
    uint32_t reserved;
    // For a GPU: constants that lie on the device already; null where the session uploads its own. They must be those of
    // the variant, and stay until the session is destroyed. Sessions on the host share the plan file's as it is.
    struct floe_weights *weights;
    // For a GPU: memory for the activations, which other sessions use in turn; null for memory of the session's own. It
    // must be as large as `arena_bytes` of the variant, and stay until the session is destroyed. The session replays in
    // its stream, so `stream` must be null.
    struct floe_scratch *scratch;
    // On the host: functions for the plan's operators that are not Floe's own; null for none. They and their names stay in place
    // until the session is destroyed. A variant for a GPU has their CUDA in it, and needs none.
    const struct floe_operator *operators;
    // How many there are.
    size_t operator_count;
} floe_session_options;

// What a session takes. All of it is known before: a session takes nothing more until it is destroyed.
typedef struct floe_requirements {
    // Bytes of memory to give to `floe_session_init`. On the host that is all that the session uses.
    size_t bytes;
    // Alignment of that memory.
    size_t alignment;
    // Bytes of stack that `floe_session_init` takes at most, calls of the driver not counted.
    size_t init_stack_bytes;
    // Device memory that it allocates, in one piece. Code of the kernels and the graph come on top: the driver keeps those.
    uint64_t device_bytes;
    // Page-locked host memory that it allocates, in one piece.
    uint64_t page_locked_bytes;
} floe_requirements;

// Asked whether to go on, with the `context` that was given beside it: anything but 0 for yes. `operations`: on the host a
// bound, but for a constant factor, of the operations of the step that comes next; 0 on a GPU. It must not use the session.
typedef uint32_t (*floe_go_on)(void *context, uint64_t operations);

// Extents that an input is to hold.
typedef struct floe_input_shape {
    // Number of the input.
    uint32_t binding;
    // Number of dimensions.
    uint32_t rank;
    // Extents, outermost first; nothing beyond `rank` is looked at.
    uint32_t extents[FLOE_MAX_RANK];
} floe_input_shape;

// A session of a set: a variant of an open plan.
typedef struct floe_set_member {
    // The plan.
    const struct floe_plan *plan;
    // Number of the variant, which is for a GPU.
    uint32_t variant;
    // Not used; 0.
    uint32_t reserved;
} floe_set_member;

// What a set of sessions on a GPU takes that share constants and scratch. All of it is known before.
typedef struct floe_set_memory {
    // Device memory of all constants, equal ones once: one `floe_weights` for each kind.
    uint64_t weights_bytes;
    // Device memory of the scratch: what to give to `floe_scratch_allocate`.
    uint64_t scratch_bytes;
    // Device memory of the sessions themselves.
    uint64_t own_bytes;
    // Device memory of all that.
    uint64_t device_bytes;
    // Device memory that the sessions would take if they shared nothing.
    uint64_t apart_bytes;
    // Page-locked host memory of all sessions.
    uint64_t page_locked_bytes;
} floe_set_memory;

// The functions of a shared library, which `--host-library` of the programs `floe` and `floec` loads: it exports one of these as
// `floe_operators`. Several threads may call a function at once.
typedef struct floe_operator_library {
    // `FLOE_OPERATOR_LIBRARY_VERSION` of the header that it was compiled with. It stays the first field in every version.
    uint32_t version;
    // How many functions there are.
    uint32_t operator_count;
    // The functions, which stay as they are.
    const struct floe_operator *operators;
} floe_operator_library;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Version of the library: a constant string such as "0.1.0".
const char *floe_version(void);

// Opens a plan: checks all of the file's structure, and the digest of it. Work and stack are bounded by the length of
// the file, whatever it holds. Weights and kernel images are not read: `floe_plan_verify` does that.
//
// `memory`: `FLOE_PLAN_BYTES` bytes at a multiple of `FLOE_PLAN_ALIGNMENT`. It becomes the plan's. A plan that lay there
// before is forgotten.
// `file`: the bytes of a plan file, at a multiple of `FLOE_PLAN_ALIGNMENT`. They are not copied.
// `plan`: set to the open plan, or to null on failure.
//
// Both must stay as `floe_plan` says. Errors: `NULL_POINTER`, `MISALIGNED`, `TOO_SHORT`, `TOO_LONG`, `OVERLAP` (of memory
// and file), `NOT_A_PLAN`, `PLAN_VERSION`, `PLAN_DAMAGED`.
floe_status floe_plan_open(void *memory,
                           size_t memory_bytes,
                           const void *file,
                           size_t file_bytes,
                           struct floe_plan **plan,
                           struct floe_error *error);

// Closes a plan. Its memory is the caller's again; sessions made from it are not touched.
//
// Errors: `NULL_POINTER`, `MISALIGNED`, `NOT_A_HANDLE`, `DESTROYED`.
floe_status floe_plan_close(struct floe_plan *plan, struct floe_error *error);

// Reads the whole file and compares weights and kernel images with their digest. Worth its time where the file came
// over a network or from a medium that wears out.
//
// Errors: those of a handle, as `floe_plan_close`; `PLAN_DAMAGED`.
floe_status floe_plan_verify(const struct floe_plan *plan, struct floe_error *error);

// As `floe_plan_verify`, and proves that the holder of an Ed25519 key signed the plan.
//
// `key`: the public key in a SubjectPublicKeyInfo, as `openssl pkey -pubin -outform DER` writes it: 44 bytes.
//
// Errors: as `floe_plan_verify`; `SIGNATURE` where the plan is not signed, or not by that key, or the key is none;
// `NOT_BUILT` where the library was built without the feature `signature`.
floe_status floe_plan_verify_signature(const struct floe_plan *plan,
                                       const void *key,
                                       size_t key_bytes,
                                       struct floe_error *error);

// Refuses a plan of another model, or an older one: a device that accepts only versions that are no less than those it has run
// cannot be taken back to a plan with a known fault. Says nothing about who made the plan: call it together with
// `floe_plan_verify_signature`, which proves that name and version are what the holder of the key wrote.
//
// `model`: the name that `floec inspect` shows, or null for any.
// `least_version`: versions below it are refused; see `floe_plan_version`.
//
// Errors: those of a handle, as `floe_plan_close`; `RELEASE`; `NOT_FOUND` where the name is not UTF-8.
floe_status floe_plan_verify_release(const struct floe_plan *plan,
                                     const char *model,
                                     uint32_t least_version,
                                     struct floe_error *error);

// The version that `floec compile --plan-version` gave a plan, 0 where it gave none.
//
// Errors: those of a handle, as `floe_plan_close`; of `version`, `NULL_POINTER` and `MISALIGNED`.
floe_status floe_plan_version(const struct floe_plan *plan, uint32_t *version, struct floe_error *error);

// Number of variants of a plan, at least 1. They are numbered from 0.
//
// Errors: those of a handle, as `floe_plan_close`; of `count`, `NULL_POINTER` and `MISALIGNED`.
floe_status floe_plan_variant_count(const struct floe_plan *plan, uint32_t *count, struct floe_error *error);

// Describes variant `variant`.
//
// Errors: those of a handle, as `floe_plan_close`; `NOT_FOUND`; of `info`, `NULL_POINTER` and `MISALIGNED`.
floe_status floe_plan_variant(const struct floe_plan *plan,
                              uint32_t variant,
                              struct floe_variant_info *info,
                              struct floe_error *error);

// Finds the first variant that was compiled for the target called `target`, for example `host`.
//
// Errors: those of a handle, as `floe_plan_close`; `NOT_FOUND`; of the other pointers, `NULL_POINTER` and `MISALIGNED`.
floe_status floe_plan_find_target(const struct floe_plan *plan,
                                  const char *target,
                                  uint32_t *variant,
                                  struct floe_error *error);

// Finds the variant that suits a GPU best: machine code for exactly its architecture, then for an older one of the same
// generation (desktop GPUs only), then PTX; among equals the one tuned for that number of multiprocessors, then the
// first. Variants that need a newer driver or more multiprocessors are left out.
//
// `architecture`: compute capability times ten, for example 87.
// `multiprocessors`: those of the GPU that may be used.
// `driver`: as `cuDriverGetVersion` counts, for example 12020.
//
// Errors: those of a handle, as `floe_plan_close`; `NO_VARIANT`; of `variant`, `NULL_POINTER` and `MISALIGNED`.
floe_status floe_plan_find_gpu(const struct floe_plan *plan,
                               uint32_t architecture,
                               uint32_t multiprocessors,
                               uint32_t driver,
                               uint32_t *variant,
                               struct floe_error *error);

// Describes binding `binding` of variant `variant`.
//
// Errors: those of a handle, as `floe_plan_close`; `NOT_FOUND`; of `info`, `NULL_POINTER` and `MISALIGNED`.
floe_status floe_plan_binding(const struct floe_plan *plan,
                              uint32_t variant,
                              uint32_t binding,
                              struct floe_binding_info *info,
                              struct floe_error *error);

// Finds the binding of variant `variant` that is called `name` and goes that way: a `floe_direction`, or
// `FLOE_ANY_DIRECTION` for the first of that name.
//
// Errors: those of a handle, as `floe_plan_close`; `NOT_FOUND`; of the other pointers, `NULL_POINTER` and `MISALIGNED`.
floe_status floe_plan_find_binding(const struct floe_plan *plan,
                                   uint32_t variant,
                                   const char *name,
                                   uint32_t direction,
                                   uint32_t *binding,
                                   struct floe_error *error);

// What a session of variant `variant` takes. `options` as for `floe_session_init`; null stands for zeros. What it shares with
// others is not counted: `floe_set_requirements` says what a set of sessions takes.
//
// Errors: those of a plan's handle; of `options`, `MISALIGNED`, `OPTIONS` and those of the handles in it; `NOT_FOUND` where
// there is no such variant; `NOT_BUILT`; `CAPACITY`; of `requirements`, `NULL_POINTER` and `MISALIGNED`.
floe_status floe_session_requirements(const struct floe_plan *plan,
                                      uint32_t variant,
                                      const struct floe_session_options *options,
                                      struct floe_requirements *requirements,
                                      struct floe_error *error);

// INIT: makes a session of variant `variant`. Everything that the session will ever need is allocated here. Bindings are
// zero afterwards, except that on a GPU outputs hold what the network makes of zeros.
//
// `memory`: as much as `floe_session_requirements` says, at a multiple of `FLOE_SESSION_ALIGNMENT`. It becomes the
// session's.
// `plan`: an open plan; it may be closed afterwards, but the file's bytes must stay in place.
// `options`: null stands for zeros. A GPU needs at least `find_symbol`, a current CUDA context, and the caller's trust in
// the plan: its kernels can do anything on the device.
// `session`: set to the session, or to null on failure. Whatever a failed call had made is freed.
//
// Errors: those of a plan's handle; of the memory, `NULL_POINTER`, `MISALIGNED`, `TOO_SHORT`, `TOO_LONG`, `OVERLAP` (with
// the plan, its file, what is shared, or the places for `session` and `error`) and `IN_USE`; of `options`, `MISALIGNED`,
// `OPTIONS`, `NULL_POINTER` (no `find_symbol`), those of the handles in it, and `TOO_SHORT` where the scratch is;
// `NOT_FOUND`; `NOT_BUILT`; `CAPACITY`; `OUT_OF_MEMORY`; `DRIVER`.
floe_status floe_session_init(void *memory,
                              size_t memory_bytes,
                              const struct floe_plan *plan,
                              uint32_t variant,
                              const struct floe_session_options *options,
                              struct floe_session **session,
                              struct floe_error *error);

// Destroys a session: waits for the device and frees all that INIT has made. The memory is the caller's again. After a
// `floe_session_synchronize_while` that gave `STILL_RUNNING` it neither waits for a GPU that is still at work nor frees
// anything there: what INIT has allocated stays the GPU's until the CUDA context is destroyed. So does what the session
// shares with others.
//
// Errors: those of a session's handle; `BUSY`.
floe_status floe_session_destroy(struct floe_session *session, struct floe_error *error);

// Copies `bytes` bytes into input or state `binding`: row-major without gaps, in the binding's element type, and exactly as
// many as it has. On a GPU this waits only where the device may still be reading an earlier value.
//
// Errors: those of a session's handle; of `data`, `NULL_POINTER`, `TOO_LONG` and `OVERLAP` (with the session's memory);
// `NOT_FOUND`, `DIRECTION`, `LENGTH`; `DRIVER`.
floe_status floe_session_write(struct floe_session *session,
                               uint32_t binding,
                               const void *data,
                               size_t bytes,
                               struct floe_error *error);

// Copies output or state `binding` into `data`: exactly as many bytes as it has. On a GPU this waits for the replay.
//
// Errors: those of a session's handle; of `data`, `NULL_POINTER`, `TOO_LONG` and `OVERLAP` (with the session's memory or the
// plan file); `NOT_FOUND`, `DIRECTION`, `LENGTH`; `DRIVER`, also where the replay failed.
floe_status floe_session_read(struct floe_session *session,
                              uint32_t binding,
                              void *data,
                              size_t bytes,
                              struct floe_error *error);

// Lends the memory of input `binding`, to be filled in place in place of a `floe_session_write`: row-major without gaps, in the
// binding's element type. It holds what it held before. On a GPU this waits where the device may still be reading it.
//
// `data`: set to the first byte; aligned to 64 bytes on the host, to 256 on a GPU.
// `bytes`: set to the binding's length.
//
// It may be written until the next `floe_session_replay`, which sees what was written: without any copy on the host and with
// `mapped` of the options, else by a copy that it begins with. After it the memory is the session's again; it stays at that
// address, but has to be lent again, which waits for the device.
//
// Errors: those of a session's handle; `NOT_FOUND`, `DIRECTION` (a state is written and read, not lent); of `data` and
// `bytes`, `NULL_POINTER`, `MISALIGNED` and `OVERLAP` (with the session's memory); `DRIVER`.
floe_status floe_session_input(struct floe_session *session,
                               uint32_t binding,
                               void **data,
                               size_t *bytes,
                               struct floe_error *error);

// Lends the memory of output `binding`, to be read in place in place of a `floe_session_read`. On a GPU this waits for the
// replay; without any copy with `mapped` of the options.
//
// `data`: set to the first byte; aligned to 64 bytes on the host, to 256 on a GPU.
// `bytes`: set to the binding's length.
//
// It may be read until the next `floe_session_replay`; it stays at that address, but has to be lent again then.
//
// Errors: as `floe_session_input`; `DRIVER` also where the replay failed.
floe_status floe_session_output(struct floe_session *session,
                                uint32_t binding,
                                const void **data,
                                size_t *bytes,
                                struct floe_error *error);

// Replays the plan once. On the host it has run when the function returns; on a GPU it is enqueued.
//
// Errors: those of a session's handle; `DRIVER`.
floe_status floe_session_replay(struct floe_session *session, struct floe_error *error);

// As `floe_session_replay`, which on the host goes on only as long as `go_on` says so: it is asked before each step. A step
// that has begun runs to its end; who must not wait for long refuses steps of many `operations`. After `STOPPED` states and
// outputs hold parts of two replays, and `floe_session_reset` makes the session as good as new. On a GPU a replay is only
// enqueued, and `go_on` is not asked: `floe_session_synchronize_while` is.
//
// Errors: those of a session's handle; `NULL_POINTER` without `go_on`; `STOPPED`; `DRIVER`.
floe_status floe_session_replay_while(struct floe_session *session,
                                      floe_go_on go_on,
                                      void *context,
                                      struct floe_error *error);

// As `floe_session_replay`, between two events of the stream that `floe_session_is_done` and `floe_session_device_time`
// look at.
//
// Errors: those of a session's handle; `DRIVER`.
floe_status floe_session_replay_timed(struct floe_session *session, struct floe_error *error);

// Whether the last `floe_session_replay_timed` has finished; does not wait. `done` is set to 1 or 0.
//
// Errors: those of a session's handle; `ORDER` where there was none; of `done`, `NULL_POINTER`, `MISALIGNED` and `OVERLAP`;
// `DRIVER`, also where the replay failed.
floe_status floe_session_is_done(struct floe_session *session,
                                 uint32_t *done,
                                 struct floe_error *error);

// Milliseconds that the last `floe_session_replay_timed` took on the GPU; waits for it.
//
// Errors: those of a session's handle; `ORDER` where there was none, or the session is on the host; of `milliseconds`,
// `NULL_POINTER`, `MISALIGNED` and `OVERLAP`; `DRIVER`, also where the replay failed.
floe_status floe_session_device_time(struct floe_session *session, float *milliseconds, struct floe_error *error);

// Waits until everything enqueued has finished. On the host there is nothing to wait for.
//
// Errors: those of a session's handle; `DRIVER`, also where a replay failed.
floe_status floe_session_synchronize(struct floe_session *session, struct floe_error *error);

// As `floe_session_synchronize`, as long as `go_on` says so, which is asked again and again: it looks at a clock, sleeps, or
// both. After `STILL_RUNNING` the session is as it was: wait again, with or without limit, and results are right once that
// succeeds; every other function waits without limit where it needs the GPU. Or destroy the session, which then neither
// waits nor frees anything on a GPU that is still at work.
//
// Errors: those of a session's handle; `NULL_POINTER` without `go_on`; `STILL_RUNNING`; `DRIVER`, also where a replay failed.
floe_status floe_session_synchronize_while(struct floe_session *session,
                                           floe_go_on go_on,
                                           void *context,
                                           struct floe_error *error);

// Whether all float outputs and states that the last replay left are finite, in a session made with `guard`; waits for the
// replay and copies nothing. Where one is not, the result is `NOT_FINITE`, and `binding`, unless it is null, is set to the
// number of the first such binding. On the host it looks at them when it is called.
//
// Errors: those of a session's handle; `ORDER` where the session was made without `guard`; of `binding`, `MISALIGNED` and
// `OVERLAP`; `NOT_FINITE`; `MISCOUNTED` where nothing is known of the results; `DRIVER`, also where the replay failed.
floe_status floe_session_guard(struct floe_session *session,
                               uint32_t *binding,
                               struct floe_error *error);

// Zeroes every state, after the last replay and before the next.
//
// Errors: those of a session's handle; `DRIVER`.
floe_status floe_session_reset(struct floe_session *session, struct floe_error *error);

// Chooses the shape of the replays from now on: variant `variant` of the plan, of the same target as the session's.
// `floe_plan_variant` and `floe_plan_binding` describe them. Nothing is allocated, and a GPU's driver is not called: replays that
// were enqueued before are of the shape before, and their outputs are to be read before.
//
// Bindings keep their numbers and addresses, and states what they hold. So does an input whose shape is equal; any other is to
// be written before the next replay, and outputs are read after it. What was lent has to be lent again.
//
// Errors: those of a session's handle; `NOT_FOUND` where the plan has no such variant, or it is another target's: the session is
// as it was.
floe_status floe_session_choose(struct floe_session *session,
                                uint32_t variant,
                                struct floe_error *error);

// As `floe_session_choose`, of the smallest variant in which no extent of these inputs is less than the one given: that whose
// inputs have the fewest bytes, the first among equals. The caller fills what is left over. Floe adds no mask: where the
// network has an input that says what counts, such as an attention mask or a length, it has to say so. What outputs hold for
// the filling has no meaning.
//
// `inputs`: `count` of them; may be null where `count` is 0.
// `variant`: set to the number of the variant that was chosen, unless it is null.
//
// Errors: those of a session's handle; of `inputs`, `NULL_POINTER`, `MISALIGNED`, `TOO_LONG` and `OVERLAP`; of `variant`,
// `MISALIGNED` and `OVERLAP`; `NOT_FOUND` where an input is none or has another number of dimensions, or no variant is large
// enough: the session is as it was.
floe_status floe_session_choose_holding(struct floe_session *session,
                                        const struct floe_input_shape *inputs,
                                        size_t count,
                                        uint32_t *variant,
                                        struct floe_error *error);

// Part of INIT: allocates memory of a GPU for the constants of variant `variant`, and waits until they are there. Sessions of
// every variant with equal constants can then be made with `weights` of their options: of the same plan, or of another.
//
// `memory`: `FLOE_SHARED_BYTES` bytes at a multiple of `FLOE_SHARED_ALIGNMENT`. It becomes that of the weights.
// `plan`: an open plan; it may be closed afterwards, but the file's bytes must stay in place.
// `options`: as for `floe_session_init`; `find_symbol` is needed, and nothing else is looked at.
// `weights`: set to the weights, or to null on failure. Whatever a failed call had made is freed.
//
// Errors: those of a plan's handle; of the memory, `NULL_POINTER`, `MISALIGNED`, `TOO_SHORT`, `TOO_LONG`, `OVERLAP` (with the
// plan or its file) and `IN_USE`; of `options`, `MISALIGNED`, `OPTIONS` (also where the variant is for the host),
// `NULL_POINTER`; `NOT_FOUND`; `NOT_BUILT`; `OUT_OF_MEMORY`; `DRIVER`.
floe_status floe_weights_upload(void *memory,
                                size_t memory_bytes,
                                const struct floe_plan *plan,
                                uint32_t variant,
                                const struct floe_session_options *options,
                                struct floe_weights **weights,
                                struct floe_error *error);

// Whether these are the constants of variant `variant`: a session of it can share them. `fit` is set to 1 or 0. Takes the
// longer the more constants there are, unless they are the same bytes of one file.
//
// Errors: those of the handles, as `floe_plan_close`; `OPTIONS` where the variant is for the host; `NOT_FOUND`; of `fit`,
// `NULL_POINTER` and `MISALIGNED`.
floe_status floe_weights_fit(const struct floe_weights *weights,
                             const struct floe_plan *plan,
                             uint32_t variant,
                             uint32_t *fit,
                             struct floe_error *error);

// Frees the constants. The memory is the caller's again.
//
// Errors: those of a handle, as `floe_plan_close`; `IN_USE` as long as a session uses them.
floe_status floe_weights_destroy(struct floe_weights *weights, struct floe_error *error);

// Part of INIT: allocates `scratch_bytes` bytes of a GPU's memory, in which sessions made with `scratch` of their options
// keep what they need during a replay only. `floe_set_requirements` says how many that are.
//
// `memory`: `FLOE_SHARED_BYTES` bytes at a multiple of `FLOE_SHARED_ALIGNMENT`. It becomes that of the scratch.
// `options`: as for `floe_session_init`; `find_symbol` is needed, `stream` is the stream in which all sessions over it will
// replay, null for one of its own, and nothing else is looked at.
// `scratch`: set to the scratch, or to null on failure. Whatever a failed call had made is freed.
//
// Errors: of the memory, `NULL_POINTER`, `MISALIGNED`, `TOO_SHORT`, `TOO_LONG` and `IN_USE`; of `options`, `MISALIGNED`,
// `OPTIONS`, `NULL_POINTER`; `NOT_BUILT`; `CAPACITY`; `OUT_OF_MEMORY`; `DRIVER`.
floe_status floe_scratch_allocate(void *memory,
                                  size_t memory_bytes,
                                  uint64_t scratch_bytes,
                                  const struct floe_session_options *options,
                                  struct floe_scratch **scratch,
                                  struct floe_error *error);

// Frees the scratch. The memory is the caller's again.
//
// Errors: those of a handle, as `floe_plan_close`; `IN_USE` as long as a session uses it.
floe_status floe_scratch_destroy(struct floe_scratch *scratch, struct floe_error *error);

// What sessions of these variants take, all made with these options and sharing all that they can. Takes longer the more of
// them there are: constants of each two are compared, where they are not the same bytes of one file.
//
// `members`: `count` of them; may be null where `count` is 0.
// `options`: as for `floe_session_init`; only `mapped`, `wait` and `guard` matter. Null stands for zeros.
//
// Errors: of `members`, `NULL_POINTER`, `MISALIGNED`, `TOO_LONG`, those of a plan's handle, `NOT_FOUND`, and `OPTIONS` where
// a variant is for the host or `reserved` is not 0; of `options`, `MISALIGNED` and `OPTIONS`; of `memory`, `NULL_POINTER` and
// `MISALIGNED`.
floe_status floe_set_requirements(const struct floe_set_member *members,
                                  size_t count,
                                  const struct floe_session_options *options,
                                  struct floe_set_memory *memory,
                                  struct floe_error *error);

// A few words for a status: a constant string, never null.
const char *floe_status_name(int32_t status);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FLOE_H */
