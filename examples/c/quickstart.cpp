// Runs a plan from C++: as quickstart.c, in fewer lines.
//
//     quickstart PLAN host|cuda [INPUT ...]

#include "floe.hpp"
#include "floe_cuda.h"

#include <cstdio>
#include <string>
#include <vector>

namespace {

// An opened GPU, closed at the end of its scope.
class Gpu {
public:
    Gpu() {
        char text[FLOE_CUDA_TEXT_BYTES];
        if (floe_cuda_open(&cuda_, 0, text)) throw std::runtime_error(text);
    }
    ~Gpu() { floe_cuda_close(&cuda_); }
    Gpu(const Gpu &) = delete;
    Gpu &operator=(const Gpu &) = delete;

    std::uint32_t variant(const floe::Plan &plan) const {
        return plan.find_gpu(cuda_.architecture, cuda_.multiprocessors, cuda_.driver);
    }
    floe_session_options options() {
        floe_session_options options{};
        options.struct_bytes = sizeof options;
        options.find_symbol = floe_cuda_find_symbol;
        options.find_symbol_context = &cuda_;
        options.mapped = cuda_.integrated;
        return options;
    }

private:
    floe_cuda cuda_;
};

// Prints an output: floats as numbers, anything else as bytes.
void print(const floe_binding_info &binding, floe::Span<const std::byte> data) {
    std::printf("%s [", binding.name);
    for (std::uint32_t i = 0; i < binding.rank; i++) std::printf("%s%u", i ? ", " : "", unsigned{binding.shape[i]});
    std::printf("]\n");
    if (binding.element_type == FLOE_ELEMENT_TYPE_F32) {
        for (std::size_t i = 0; i < data.size(); i += sizeof(float)) {
            float value;
            std::memcpy(&value, &data[i], sizeof value);
            std::printf("%.6f\n", static_cast<double>(value));
        }
    } else {
        for (const std::byte byte : data) std::printf("%02x\n", std::to_integer<unsigned>(byte));
    }
}

void run(const floe::Plan &plan, std::uint32_t variant, const floe_session_options *options,
         const std::vector<std::string> &inputs) {
    floe::Session session(plan, variant, options);
    const std::uint32_t bindings = plan.variant(variant).bindings;
    std::size_t next = 0;
    for (std::uint32_t number = 0; number < bindings; number++) {
        const auto direction = plan.binding(variant, number).direction;
        if (direction == FLOE_DIRECTION_INPUT && next < inputs.size()) {
            session.write(number, floe::Buffer::of_file(inputs[next++]));
        }
    }
    session.replay();
    for (std::uint32_t number = 0; number < bindings; number++) {
        const floe_binding_info binding = plan.binding(variant, number);
        if (binding.direction != FLOE_DIRECTION_OUTPUT) continue;
        // The session's own memory, where the result lies; `session.read` copies it elsewhere.
        print(binding, session.output<std::byte>(number));
    }
}

} // namespace

int main(int count, char **arguments) {
    const std::vector<std::string> words(arguments + 1, arguments + count);
    if (words.size() < 2 || (words[1] != "host" && words[1] != "cuda")) {
        std::fprintf(stderr, "usage: %s PLAN host|cuda [INPUT ...]\n", arguments[0]);
        return 2;
    }
    try {
        const floe::Buffer file = floe::Buffer::of_file(words[0]);
        const floe::Plan plan(file);
        plan.verify();
        const std::vector<std::string> inputs(words.begin() + 2, words.end());
        if (words[1] == "cuda") {
            Gpu gpu;
            const floe_session_options options = gpu.options();
            run(plan, gpu.variant(plan), &options, inputs);
        } else {
            run(plan, plan.find_target("host"), nullptr, inputs);
        }
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
