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

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
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

} // namespace detail

// An open plan. It refers to the file's bytes, which must outlive it and its sessions.
class Plan {
public:
    // The bytes of a plan file, at a multiple of FLOE_PLAN_ALIGNMENT.
    template <typename T> explicit Plan(Span<T> file) : memory_(FLOE_PLAN_BYTES) {
        floe_plan *plan = nullptr;
        detail::check([&](floe_error *error) {
            return floe_plan_open(memory_.data(), memory_.size(), file.data(), file.size_bytes(), &plan, error);
        });
        plan_.reset(plan);
    }
    explicit Plan(const Buffer &file) : Plan(Span<const std::byte>(file)) {}
    // The plan would outlive a temporary.
    explicit Plan(Buffer &&file) = delete;

    // Compares weights and kernel images with their digest.
    void verify() const {
        detail::check([&](floe_error *error) { return floe_plan_verify(get(), error); });
    }
    // The same, and proves who signed the plan: `key` is a SubjectPublicKeyInfo in DER.
    template <typename T> void verify_signature(Span<T> key) const {
        detail::check([&](floe_error *error) {
            return floe_plan_verify_signature(get(), key.data(), key.size_bytes(), error);
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

    // The handle lies in the memory, so the memory is freed after it: members are destroyed in reverse order.
    Buffer memory_;
    std::unique_ptr<floe_plan, detail::ClosePlan> plan_;
};

// A session in memory of its own. The plan's file must outlive it; the plan need not.
class Session {
public:
    // INIT. `options` as floe.h says; none for the host.
    Session(const Plan &plan, std::uint32_t variant, const floe_session_options *options = nullptr)
        : memory_(plan.requirements(variant, options).bytes) {
        floe_session *session = nullptr;
        detail::check([&](floe_error *error) {
            return floe_session_init(memory_.data(), memory_.size(), plan.get(), variant, options, &session, error);
        });
        session_.reset(session);
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
    void replay() {
        detail::check([&](floe_error *error) { return floe_session_replay(get(), error); });
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
    template <typename C> using Element = std::remove_reference_t<decltype(*std::data(std::declval<C &>()))>;

    // As in Plan: the memory is freed last.
    Buffer memory_;
    std::unique_ptr<floe_session, detail::DestroySession> session_;
};

} // namespace floe

#endif // FLOE_HPP
