/* Dropout by random bytes, for one number type REAL and one suffix (see _loops.c). */

/* out = x + y / share kept where the byte is at least `least`, and x elsewhere; without x where that is null. */
EXPORT void NAME(kvec_drop)(const REAL *y, const REAL *x, const uint8_t *bytes, int64_t least, int64_t first,
                            int64_t last, REAL *out) {
    const REAL scale = 256 / (REAL)(256 - least);
    int64_t i = first;
    for (; i + LANES <= last; i += LANES) {
        const INTS is_kept = __builtin_convertvector(*(const NAME(bytes) *)(bytes + i), INTS) >= (int)least;
        VEC sum = (VEC)((INTS)(scale * *(const VEC *)(y + i)) & is_kept);
        if (x) sum += *(const VEC *)(x + i);
        *(VEC *)(out + i) = sum;
    }
    for (; i < last; i++) out[i] = (x ? x[i] : 0) + (bytes[i] >= least ? scale * y[i] : 0);
}
