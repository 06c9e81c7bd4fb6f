// What finished vectors leave where means are stored: their results, as they would be read.
struct Left {
    Sum of_column[VECTOR_COLUMNS];
    DEVICE void add(const Left& other) {
#pragma unroll
        for (int j = 0; j < VECTOR_COLUMNS; j++) of_column[j] += other.of_column[j];
    }
};
