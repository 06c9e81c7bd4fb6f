// floe.hpp beyond the quickstart: signatures, lent bindings, and sessions that share and outlive whoever made what they share.
// `sharing PLAN KEY`: a signed plan with variants for the host and for an sm_87 GPU. FLOE_LIBCUDA names the simulated driver.

#include "floe.hpp"
#include "floe_cuda.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void require(bool holds, const char *what, int line) {
    if (holds) return;
    std::fprintf(stderr, "line %d: not so: %s\n", line, what);
    std::exit(1);
}

#define REQUIRE(...) require((__VA_ARGS__), #__VA_ARGS__, __LINE__)

// The status of the exception that `call` throws; OK without one.
template <typename Call> floe_status status_of(Call &&call) {
    try {
        call();
    } catch (const floe::Error &error) {
        return error.status();
    }
    return FLOE_STATUS_OK;
}

void sign(const floe::Plan &plan, const floe::Buffer &key) {
    plan.verify_signature(key);
    std::vector<unsigned char> other(key.size());
    std::memcpy(other.data(), key.data(), key.size());
    other.back() ^= 1;
    REQUIRE(status_of([&] { plan.verify_signature(other); }) == FLOE_STATUS_SIGNATURE);
    plan.verify_release("digits", plan.version());
    REQUIRE(status_of([&] { plan.verify_release(nullptr, plan.version() + 1); }) == FLOE_STATUS_RELEASE);
}

// On the host: what is filled in place gives what a write gives.
void lend(const floe::Plan &plan) {
    const std::uint32_t variant = plan.find_target("host");
    const std::uint32_t image = plan.find_binding(variant, "image", FLOE_DIRECTION_INPUT);
    const std::uint32_t result = plan.find_binding(variant, "probabilities", FLOE_DIRECTION_OUTPUT);
    std::array<float, 64> picture;
    for (std::size_t i = 0; i < picture.size(); i++) picture[i] = static_cast<float>(i % 7) / 7;
    std::array<float, 10> expected;
    floe::Session written(plan, variant);
    written.write(image, picture);
    written.replay();
    written.read(result, expected);
    floe::Session filled(plan, variant);
    const floe::Span<float> place = filled.input<float>(image);
    REQUIRE(place.size() == picture.size());
    std::copy(picture.begin(), picture.end(), place.begin());
    filled.replay();
    const floe::Span<const float> found = filled.output<float>(result);
    REQUIRE(found.size() == expected.size() && std::equal(found.begin(), found.end(), expected.begin()));
    struct Odd {
        char bytes[48];
    };
    REQUIRE(status_of([&] { filled.input<Odd>(image); }) == FLOE_STATUS_LENGTH);
    REQUIRE(status_of([&] { filled.input<float>(result); }) == FLOE_STATUS_DIRECTION);
}

void share(const floe::Plan &plan, floe_session_options options, const floe_cuda &cuda) {
    const std::uint32_t variant = plan.find_gpu(cuda.architecture, cuda.multiprocessors, cuda.driver);
    const std::uint32_t image = plan.find_binding(variant, "image", FLOE_DIRECTION_INPUT);
    const std::array<floe_set_member, 2> members = {{{plan.get(), variant, 0}, {plan.get(), variant, 0}}};
    const floe_set_memory memory = floe::set_memory(members, &options);
    REQUIRE(memory.device_bytes < memory.apart_bytes);
    std::vector<floe::Session> sessions;
    {
        const floe::Shared shared{std::make_shared<floe::Weights>(plan, variant, options),
                                  std::make_shared<floe::Scratch>(memory.scratch_bytes, options)};
        REQUIRE(shared.weights->fit(plan, variant));
        for (int i = 0; i < 2; i++) sessions.emplace_back(plan, variant, &options, shared);
        REQUIRE(status_of([&] { floe::Session(plan, plan.find_target("host"), nullptr, shared); }) == FLOE_STATUS_OPTIONS);
        // As long as a session uses them they cannot be destroyed.
        floe_error error;
        REQUIRE(floe_weights_destroy(shared.weights->get(), &error) == FLOE_STATUS_IN_USE);
        REQUIRE(floe_scratch_destroy(shared.scratch->get(), &error) == FLOE_STATUS_IN_USE);
    }
    // Nobody else holds on to what they share now.
    for (floe::Session &session : sessions) {
        const floe::Span<float> place = session.input<float>(image);
        std::fill(place.begin(), place.end(), 0.5f);
        session.replay();
        session.guard();
    }
    sessions.erase(sessions.begin());
    sessions.front().replay();
    sessions.front().synchronize();
    // The last that shares is replaced by one that does not.
    sessions.front() = floe::Session(plan, variant, &options);
    sessions.front().replay();
    REQUIRE(sessions.front().synchronize_until(std::chrono::steady_clock::now() + std::chrono::minutes(1)));
    if (std::getenv("FLOE_LIBCUDA")) {
        // The simulated GPU does not finish, until it does.
        setenv("SIMULATED_RUNNING", "1", 1);
        sessions.front().replay();
        REQUIRE(!sessions.front().synchronize_while([] { return false; }));
        REQUIRE(!sessions.front().synchronize_until(std::chrono::steady_clock::now()));
        unsetenv("SIMULATED_RUNNING");
        REQUIRE(sessions.front().synchronize_while([] { return true; }));
    }
    floe::Session host(plan, plan.find_target("host"));
    REQUIRE(status_of([&] { host.replay_while([](std::uint64_t) { return false; }); }) == FLOE_STATUS_STOPPED);
    std::uint64_t most = 0;
    host.replay_while([&](std::uint64_t operations) { return (most = std::max(most, operations)) > 0; });
}

void move(const floe::Buffer &file) {
    floe::Plan plan(file);
    plan = floe::Plan(file);
    floe::Plan moved = std::move(plan);
    moved.verify();
    REQUIRE(status_of([&] { plan.verify(); }) == FLOE_STATUS_NULL_POINTER);
}

} // namespace

int main(int count, char **arguments) {
    if (count != 3) return 2;
    const floe::Buffer file = floe::Buffer::of_file(arguments[1]);
    const floe::Plan plan(file);
    sign(plan, floe::Buffer::of_file(arguments[2]));
    lend(plan);
    move(file);
    floe_cuda cuda;
    char text[FLOE_CUDA_TEXT_BYTES];
    REQUIRE(floe_cuda_open(&cuda, 0, text) == 0);
    floe_session_options options{};
    options.struct_bytes = sizeof options;
    options.find_symbol = floe_cuda_find_symbol;
    options.find_symbol_context = &cuda;
    options.guard = 1;
    for (options.mapped = 0; options.mapped < 2; options.mapped++) share(plan, options, cuda);
    floe_cuda_close(&cuda);
    return 0;
}
