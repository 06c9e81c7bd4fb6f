// What the products of a row are multiplied by where its elements are to be normalised, of the means of elements and of squares.
DEVICE f32 inverse_deviation(f32 mean, f32 square) {
    const f32 variance = fmaf(-mean, mean, square);
    return rsqrt_16(maximum(variance, 0.0f) + EPSILON);
}
