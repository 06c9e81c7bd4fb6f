// Floe's engine for C++17: floe.h with handles that free themselves, exceptions and spans. One header, nothing to link but
// libfloe_c.a.
//
//     floe::Plan plan(file);                                     // file: a floe::Buffer, or any contiguous bytes
//     floe::Session session(plan, plan.find_target("host"));     // INIT: everything that is ever allocated
//     const auto image = plan.find_binding(0, "image"), scores = plan.find_binding(0, "scores");
//     session.write(image, pixels);                              // RUN: no allocation, no exception but for an error
//     session.replay();
//     session.read(scores, results);
//
// Objects are movable and not copyable. Threads: as floe.h says.
#ifndef FLOE_HPP
#define FLOE_HPP

#include "floe.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace floe {

// What a call of floe.h reports: its status, and its text.
class Error : public std::runtime_error {
public:
    Error(floe_status status, const char *text)
        : std::runtime_error(std::string(floe_status_name(status)) + ": " + text), status_(status) {}

    floe_status status() const noexcept { return status_; }

private:
    floe_status status_;
};

// Elements that lie one behind another and belong to someone else, as std::span of C++20.
template <typename T> class Span {
    static_assert(std::is_trivially_copyable_v<T>, "bindings hold plain elements");

public:
    constexpr Span() noexcept = default;
    constexpr Span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    // Of an array, a vector, a string, a std::span, a Buffer: whatever has data() and size().
    template <typename C, typename = std::enable_if_t<std::is_convertible_v<
                              std::remove_pointer_t<decltype(std::declval<C &>().data())> (*)[], T (*)[]>>>
    constexpr Span(C &&container) noexcept : data_(container.data()), size_(container.size()) {}
    template <std::size_t N> constexpr Span(T (&array)[N]) noexcept : data_(array), size_(N) {}

    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t i) const noexcept { return data_[i]; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

// Owned bytes at a multiple of 64, which suffices for plan files and sessions.
class Buffer {
public:
    Buffer() noexcept = default;
    explicit Buffer(std::size_t size)
        : data_(static_cast<std::byte *>(::operator new(size, std::align_val_t(64)))), size_(size) {}

    // A whole file.
    static Buffer of_file(const std::string &path) {
        std::ifstream file(path, std::ios::binary | std::ios::ate);
        const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : -1;
        if (size < 0) throw std::runtime_error("cannot open " + path);
        Buffer buffer(static_cast<std::size_t>(size));
        file.seekg(0);
        if (!file.read(reinterpret_cast<char *>(buffer.data()), size)) throw std::runtime_error("cannot read " + path);
        return buffer;
    }

    std::byte *data() noexcept { return data_.get(); }
    const std::byte *data() const noexcept { return data_.get(); }
    std::size_t size() const noexcept { return size_; }

private:
    struct Free {
        void operator()(std::byte *data) const noexcept { ::operator delete(data, std::align_val_t(64)); }
    };
    std::unique_ptr<std::byte, Free> data_;
    std::size_t size_ = 0;
};

namespace detail {

// Throws where `call`, a function of floe.h without its last argument, fails.
template <typename Call> void check(Call &&call) {
    floe_error error;
    const floe_status status = call(&error);
    if (status != FLOE_STATUS_OK) throw Error(status, error.text);
}

struct ClosePlan {
    void operator()(floe_plan *plan) const noexcept { floe_plan_close(plan, nullptr); }
};

struct DestroySession {
    void operator()(floe_session *session) const noexcept { floe_session_destroy(session, nullptr); }
};

struct DestroyWeights {
    void operator()(floe_weights *weights) const noexcept { floe_weights_destroy(weights, nullptr); }
};

struct DestroyScratch {
    void operator()(floe_scratch *scratch) const noexcept { floe_scratch_destroy(scratch, nullptr); }
};

// A handle in memory of its own, which is freed after the handle has come to its end.
template <typename T, typename End> class Object {
public:
    Object() noexcept = default;
    explicit Object(std::size_t size) : memory_(size) {}
    Object(Object &&) noexcept = default;
    Object &operator=(Object &&other) noexcept {
        handle_ = std::move(other.handle_);
        memory_ = std::move(other.memory_);
        return *this;
    }

    // Lets `make` put the handle into the memory; throws where it fails.
    template <typename Make> void make(Make &&make) {
        T *handle = nullptr;
        check([&](floe_error *error) { return make(memory_.data(), memory_.size(), &handle, error); });
        handle_.reset(handle);
    }

    T *get() const noexcept { return handle_.get(); }

private:
    // Members are destroyed in reverse order.
    Buffer memory_;
    std::unique_ptr<T, End> handle_;
};

} // namespace detail

// An open plan. It refers to the file's bytes, which must outlive it and its sessions.
class Plan {
public:
    // The bytes of a plan file, at a multiple of FLOE_PLAN_ALIGNMENT.
    template <typename T> explicit Plan(Span<T> file) : plan_(FLOE_PLAN_BYTES) {
        plan_.make([&](void *memory, std::size_t size, floe_plan **plan, floe_error *error) {
            return floe_plan_open(memory, size, file.data(), file.size_bytes(), plan, error);
        });
    }
    explicit Plan(const Buffer &file) : Plan(Span<const std::byte>(file)) {}
    // The plan would outlive a temporary.
    explicit Plan(Buffer &&file) = delete;

    // Compares weights and kernel images with their digest.
    void verify() const {
        detail::check([&](floe_error *error) { return floe_plan_verify(get(), error); });
    }
    // The same, and proves who signed the plan: `key` is a SubjectPublicKeyInfo in DER, in any contiguous bytes.
    template <typename C> void verify_signature(const C &key) const {
        const Span<const std::remove_reference_t<decltype(*std::data(key))>> span(key);
        detail::check([&](floe_error *error) {
            return floe_plan_verify_signature(get(), span.data(), span.size_bytes(), error);
        });
    }
    // Refuses a plan of another model (null: any), or one of a lower version: no way back to a plan with a known fault.
    void verify_release(const char *model, std::uint32_t least_version) const {
        detail::check([&](floe_error *error) { return floe_plan_verify_release(get(), model, least_version, error); });
    }
    // What floec compile --plan-version gave it, or 0.
    std::uint32_t version() const {
        return number([&](std::uint32_t *version, floe_error *error) {
            return floe_plan_version(get(), version, error);
        });
    }

    std::uint32_t variant_count() const {
        return number([&](std::uint32_t *count, floe_error *error) {
            return floe_plan_variant_count(get(), count, error);
        });
    }
    floe_variant_info variant(std::uint32_t variant) const {
        floe_variant_info info;
        detail::check([&](floe_error *error) { return floe_plan_variant(get(), variant, &info, error); });
        return info;
    }
    std::uint32_t find_target(const std::string &target) const {
        return number([&](std::uint32_t *variant, floe_error *error) {
            return floe_plan_find_target(get(), target.c_str(), variant, error);
        });
    }
    std::uint32_t find_gpu(std::uint32_t architecture, std::uint32_t multiprocessors, std::uint32_t driver) const {
        return number([&](std::uint32_t *variant, floe_error *error) {
            return floe_plan_find_gpu(get(), architecture, multiprocessors, driver, variant, error);
        });
    }
    floe_binding_info binding(std::uint32_t variant, std::uint32_t binding) const {
        floe_binding_info info;
        detail::check([&](floe_error *error) { return floe_plan_binding(get(), variant, binding, &info, error); });
        return info;
    }
    std::uint32_t find_binding(std::uint32_t variant, const std::string &name,
                               std::uint32_t direction = FLOE_ANY_DIRECTION) const {
        return number([&](std::uint32_t *binding, floe_error *error) {
            return floe_plan_find_binding(get(), variant, name.c_str(), direction, binding, error);
        });
    }
    floe_requirements requirements(std::uint32_t variant, const floe_session_options *options = nullptr) const {
        floe_requirements requirements;
        detail::check([&](floe_error *error) {
            return floe_session_requirements(get(), variant, options, &requirements, error);
        });
        return requirements;
    }

    // The handle, for calls of floe.h.
    const floe_plan *get() const noexcept { return plan_.get(); }

private:
    template <typename Call> static std::uint32_t number(Call &&call) {
        std::uint32_t found = 0;
        detail::check([&](floe_error *error) { return call(&found, error); });
        return found;
    }

    detail::Object<floe_plan, detail::ClosePlan> plan_;
};

// The constants of a variant on a GPU, for sessions of every variant with equal ones. The plan's file must outlive it.
class Weights {
public:
    Weights(const Plan &plan, std::uint32_t variant, const floe_session_options &options) : weights_(FLOE_SHARED_BYTES) {
        weights_.make([&](void *memory, std::size_t size, floe_weights **weights, floe_error *error) {
            return floe_weights_upload(memory, size, plan.get(), variant, &options, weights, error);
        });
    }

    // Whether a session of that variant can share them.
    bool fit(const Plan &plan, std::uint32_t variant) const {
        std::uint32_t fit = 0;
        detail::check([&](floe_error *error) { return floe_weights_fit(get(), plan.get(), variant, &fit, error); });
        return fit != 0;
    }

    // The handle, for calls of floe.h.
    floe_weights *get() const noexcept { return weights_.get(); }

private:
    detail::Object<floe_weights, detail::DestroyWeights> weights_;
};

// Memory of a GPU for what sessions need during a replay only, and the stream in which they replay in turn.
class Scratch {
public:
    // As many bytes as set_memory says.
    Scratch(std::uint64_t bytes, const floe_session_options &options) : scratch_(FLOE_SHARED_BYTES) {
        scratch_.make([&](void *memory, std::size_t size, floe_scratch **scratch, floe_error *error) {
            return floe_scratch_allocate(memory, size, bytes, &options, scratch, error);
        });
    }

    // The handle, for calls of floe.h.
    floe_scratch *get() const noexcept { return scratch_.get(); }

private:
    detail::Object<floe_scratch, detail::DestroyScratch> scratch_;
};

// What a session shares with others; nothing by default. Each session keeps what it shares alive.
struct Shared {
    std::shared_ptr<const Weights> weights;
    std::shared_ptr<const Scratch> scratch;
};

// What sessions of these variants on a GPU take that share all that they can. `members`: any contiguous floe_set_member.
template <typename C> floe_set_memory set_memory(const C &members, const floe_session_options *options = nullptr) {
    const Span<const floe_set_member> span(members);
    floe_set_memory memory;
    detail::check([&](floe_error *error) {
        return floe_set_requirements(span.data(), span.size(), options, &memory, error);
    });
    return memory;
}

// A session in memory of its own. The plan's file must outlive it; the plan need not.
class Session {
public:
    // INIT. `options` as floe.h says; none for the host. What is `shared` takes the place of the options'.
    Session(const Plan &plan, std::uint32_t variant, const floe_session_options *options = nullptr, Shared shared = {})
        : shared_(std::move(shared)) {
        floe_session_options all{};
        if (options) all = *options;
        if (!options) all.struct_bytes = sizeof all;
        if (shared_.weights) all.weights = shared_.weights->get();
        if (shared_.scratch) all.scratch = shared_.scratch->get();
        session_ = detail::Object<floe_session, detail::DestroySession>(plan.requirements(variant, &all).bytes);
        session_.make([&](void *memory, std::size_t size, floe_session **session, floe_error *error) {
            return floe_session_init(memory, size, plan.get(), variant, &all, session, error);
        });
    }
    Session(Session &&) noexcept = default;
    Session &operator=(Session &&other) noexcept {
        // The session comes to its end before what it shares.
        session_ = std::move(other.session_);
        shared_ = std::move(other.shared_);
        return *this;
    }

    // Writes an input or state: exactly its bytes.
    template <typename C> void write(std::uint32_t binding, const C &data) {
        const Span<const Element<const C>> span(data);
        detail::check([&](floe_error *error) {
            return floe_session_write(get(), binding, span.data(), span.size_bytes(), error);
        });
    }
    // Reads an output or state: exactly its bytes.
    template <typename C> void read(std::uint32_t binding, C &&data) {
        const Span<Element<C>> span(data);
        detail::check([&](floe_error *error) {
            return floe_session_read(get(), binding, span.data(), span.size_bytes(), error);
        });
    }
    // An input's own memory, to be filled in place until the next replay, which sees it.
    template <typename T> Span<T> input(std::uint32_t binding) {
        void *data = nullptr;
        std::size_t bytes = 0;
        detail::check([&](floe_error *error) { return floe_session_input(get(), binding, &data, &bytes, error); });
        return {static_cast<T *>(data), elements<T>(bytes)};
    }
    // An output's own memory, to be read in place until the next replay.
    template <typename T> Span<const T> output(std::uint32_t binding) {
        const void *data = nullptr;
        std::size_t bytes = 0;
        detail::check([&](floe_error *error) { return floe_session_output(get(), binding, &data, &bytes, error); });
        return {static_cast<const T *>(data), elements<T>(bytes)};
    }
    // Chooses the shape of the replays from now on: another variant of the same target. As floe.h says.
    void choose(std::uint32_t variant) {
        detail::check([&](floe_error *error) { return floe_session_choose(get(), variant, error); });
    }
    // The smallest variant that holds these extents, which `inputs`, an array or vector of floe_input_shape, gives; its number.
    template <typename C> std::uint32_t choose_holding(const C &inputs) {
        const Span<const floe_input_shape> span(inputs);
        std::uint32_t variant = 0;
        detail::check([&](floe_error *error) {
            return floe_session_choose_holding(get(), span.data(), span.size(), &variant, error);
        });
        return variant;
    }
    void replay() {
        detail::check([&](floe_error *error) { return floe_session_replay(get(), error); });
    }
    // On the host only as long as `go_on`, a callable, says so: it is asked before each step, with a bound of the step's
    // operations. Where it says no, throws FLOE_STATUS_STOPPED: reset then.
    template <typename GoOn> void replay_while(GoOn &&go_on) {
        detail::check([&](floe_error *error) {
            return floe_session_replay_while(get(), ask<GoOn>, place(go_on), error);
        });
    }
    void replay_timed() {
        detail::check([&](floe_error *error) { return floe_session_replay_timed(get(), error); });
    }
    bool is_done() {
        std::uint32_t done = 0;
        detail::check([&](floe_error *error) { return floe_session_is_done(get(), &done, error); });
        return done != 0;
    }
    // Milliseconds on the GPU.
    float device_time() {
        float milliseconds = 0;
        detail::check([&](floe_error *error) { return floe_session_device_time(get(), &milliseconds, error); });
        return milliseconds;
    }
    void synchronize() {
        detail::check([&](floe_error *error) { return floe_session_synchronize(get(), error); });
    }
    // The same as long as `go_on`, a callable without arguments, says so: whether all has finished. If not, wait again, or
    // destroy the session, which does not wait then; as floe.h says.
    template <typename GoOn> bool synchronize_while(GoOn &&go_on) {
        const auto asked = [&](std::uint64_t) { return go_on(); };
        floe_error error;
        const floe_status status = floe_session_synchronize_while(get(), ask<decltype(asked)>, place(asked), &error);
        if (status != FLOE_STATUS_OK && status != FLOE_STATUS_STILL_RUNNING) throw Error(status, error.text);
        return status == FLOE_STATUS_OK;
    }
    // The same until a time.
    template <typename Clock, typename Duration>
    bool synchronize_until(const std::chrono::time_point<Clock, Duration> &deadline) {
        return synchronize_while([&] { return Clock::now() < deadline; });
    }
    // Throws where a float output or state holds NaN or infinity; for sessions made with `guard`.
    void guard() {
        detail::check([&](floe_error *error) { return floe_session_guard(get(), nullptr, error); });
    }
    // Zeroes every state.
    void reset() {
        detail::check([&](floe_error *error) { return floe_session_reset(get(), error); });
    }

    // The handle, for calls of floe.h.
    floe_session *get() noexcept { return session_.get(); }

private:
    template <typename T> static std::size_t elements(std::size_t bytes) {
        if (bytes % sizeof(T)) throw Error(FLOE_STATUS_LENGTH, "the binding does not hold whole elements of that type");
        return bytes / sizeof(T);
    }

    // Calls a callable; an exception cannot leave through the library, and ends the program.
    template <typename GoOn> static std::uint32_t ask(void *go_on, std::uint64_t operations) noexcept {
        return (*static_cast<std::remove_reference_t<GoOn> *>(go_on))(operations) ? 1 : 0;
    }
    template <typename GoOn> static void *place(GoOn &go_on) noexcept {
        return const_cast<void *>(static_cast<const void *>(std::addressof(go_on)));
    }

    template <typename C> using Element = std::remove_reference_t<decltype(*std::data(std::declval<C &>()))>;

    Shared shared_;
    detail::Object<floe_session, detail::DestroySession> session_;
};

} // namespace floe

#endif // FLOE_HPP
