/* The gradient of a look-up, for one number type REAL and one suffix (see _loops.c). */

/* Add each of `n` rows of `grad` to the `parts` rows of `table` that it was the sum of. */
EXPORT void NAME(kvec_add_rows)(const REAL *grad, const int64_t *index, int64_t n, int64_t parts, int64_t size,
                                REAL *table) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t part = 0; part < parts; part++) {
            REAL *to = table + index[i * parts + part] * size;
            int64_t d = 0;
            for (; d + LANES <= size; d += LANES) *(VEC *)(to + d) += *(const VEC *)(grad + i * size + d);
            for (; d < size; d++) to[d] += grad[i * size + d];
        }
}
