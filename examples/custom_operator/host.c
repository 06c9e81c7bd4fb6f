// The example's operator on the host in C, for the option --host-library of floe and floec:
//
//     cc -O2 -shared -fPIC -I ../../engine/include host.c -o host.so

#include "floe.h"

// The mean over channels of the products of `left` and the displaced `right`.
static uint32_t correlation(void *context, const floe_operator_call *call) {
    (void)context;
    if (call->input_count != 2 || call->output_count != 1 || call->number_count != 1) return 1;
    const float *left = call->inputs[0].data, *right = call->inputs[1].data;
    float *cost = call->outputs[0].data;
    const int64_t n = call->inputs[0].shape[0], c = call->inputs[0].shape[1];
    const int64_t h = call->inputs[0].shape[2], w = call->inputs[0].shape[3];
    const int64_t reach = call->numbers[0].integer;
    for (int64_t image = 0; image < n; image++)
        for (int64_t dy = -reach; dy <= reach; dy++)
            for (int64_t dx = -reach; dx <= reach; dx++)
                for (int64_t y = 0; y < h; y++)
                    for (int64_t x = 0; x < w; x++) {
                        float sum = 0;
                        if (y + dy >= 0 && y + dy < h && x + dx >= 0 && x + dx < w)
                            for (int64_t channel = image * c; channel < (image + 1) * c; channel++)
                                sum += left[(channel * h + y) * w + x] * right[(channel * h + y + dy) * w + x + dx];
                        *cost++ = sum / (float)c;
                    }
    return 0;
}

static const floe_operator operators[] = {{"example.vision.Correlation", correlation, NULL}};

const floe_operator_library floe_operators = {FLOE_OPERATOR_LIBRARY_VERSION, 1, operators};
