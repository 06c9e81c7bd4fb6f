// cost[i, d, y, x] = mean over channels of left[i, c, y, x] · right[i, c, y + dy, x + dx]; outside of the image, right is 0.
// A thread has one element of the cost; neighbours in a warp read neighbours in memory.

constexpr i32 SIDE = 2 * op::displacement + 1;

extern "C" __global__ void correlation(const op::left_t* left, const op::right_t* right, op::cost_t* cost) {
    const i32 x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const i32 image = blockIdx.z / (SIDE * SIDE), channel = blockIdx.z % (SIDE * SIDE);
    if (x >= op::w || y >= op::h) return;
    const i32 from_y = y + channel / SIDE - op::displacement, from_x = x + channel % SIDE - op::displacement;
    f32 sum = 0.0f;
    if (from_x >= 0 && from_x < op::w && from_y >= 0 && from_y < op::h) {
        for (i32 c = 0; c < op::c; ++c) {
            const i32 plane = (image * op::c + c) * op::h;
            sum = fmaf(to_f32(left[(plane + y) * op::w + x]), to_f32(right[(plane + from_y) * op::w + from_x]), sum);
        }
    }
    cost[(blockIdx.z * op::h + y) * op::w + x] = store_as<op::cost_t>(sum / op::c);
}
