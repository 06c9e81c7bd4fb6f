// Products of normalised rows: the way out subtracts means and divides by deviations.

// From the sums of a row's products to those of the normalised row's.
DEVICE void normalize(Sum (&sums)[VECTOR_COLUMNS], const Bias (&bias)[VECTOR_COLUMNS], int row) {
    Sum2 of_row = *moments_of_row(row, 0);
#pragma unroll
    for (int part = 1; part < MOMENT_PARTS; part++) {
        const Sum2 of_part = *moments_of_row(row, part);
        of_row.x += of_part.x, of_row.y += of_part.y;
    }
    if (MOMENT_PARTS > 1) of_row = normaliser(of_row.x, of_row.y);
#pragma unroll
    for (int j = 0; j < VECTOR_COLUMNS; j++) {
        const f32 centred = fmaf(of_row.x, sum_of_column(bias[j]), sums[j]);
        // The last columns of no whole vector add the bias behind a branch, which only some compilers make one instruction with the product.
        sums[j] = N % VECTOR_COLUMNS == 0 ? centred * of_row.y : __fmul_rn(centred, of_row.y);
    }
}
