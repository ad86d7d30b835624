/* The gated cell over packed sequences, for one number type REAL and one suffix (see _loops.c).

   Sequences lie longest first; step l holds the first sizes[l] of them, and packed row offsets[l] + s is sequence s at
   step l. `rows` and `places` say where a packed row lies among the items (gates) and among the outputs. The gates
   lie in rows of 4 R numbers: input, forget, cell, output. R is a whole number of vectors. */

#define TILE 4 /* sequences that are held in registers together */

static ALWAYS VEC NAME(sigmoid)(VEC x) {
    const INTS is_above = x > 0;
    const VEC small = NAME(below_exp)(SELECT(is_above, -x, x)), share = 1 / (1 + small);
    return SELECT(is_above, share, small * share);
}

static ALWAYS VEC NAME(tangent)(VEC x) {
    const INTS is_above = x > 0;
    const VEC small = NAME(below_exp)(SELECT(is_above, -2 * x, 2 * x)), size = (1 - small) / (1 + small);
    return SELECT(is_above, size, -size);
}

/* One vector of units of `n` sequences, one step: gates += bias + before @ weight, then the gates' functions. */
static ALWAYS void NAME(cell_tile)(const int n, int64_t size, REAL *const *gates, const REAL *bias,
                                   const REAL *const *before, const REAL *weight, const REAL *const *old,
                                   REAL *const *memory, REAL *const *bent, REAL *const *out) {
    VEC sums[TILE][4];
#pragma GCC unroll 4
    for (int s = 0; s < n; s++)
#pragma GCC unroll 4
        for (int g = 0; g < 4; g++) sums[s][g] = *(const VEC *)(gates[s] + g * size) + *(const VEC *)(bias + g * size);
    for (int64_t k = 0; k < size; k++)
#pragma GCC unroll 4
        for (int g = 0; g < 4; g++) {
            const VEC w = *(const VEC *)(weight + k * 4 * size + g * size);
#pragma GCC unroll 4
            for (int s = 0; s < n; s++) sums[s][g] += before[s][k] * w;
        }
#pragma GCC unroll 4
    for (int s = 0; s < n; s++) {
        const VEC i = NAME(sigmoid)(sums[s][0]), f = NAME(sigmoid)(sums[s][1]);
        const VEC a = NAME(tangent)(sums[s][2]), o = NAME(sigmoid)(sums[s][3]);
        const VEC c = f * *(const VEC *)old[s] + i * a, t = NAME(tangent)(c);
        *(VEC *)gates[s] = i;
        *(VEC *)(gates[s] + size) = f;
        *(VEC *)(gates[s] + 2 * size) = a;
        *(VEC *)(gates[s] + 3 * size) = o;
        *(VEC *)memory[s] = c;
        *(VEC *)bent[s] = t;
        *(VEC *)out[s] = o * t;
    }
}

/* out = x @ weight for `n` rows of x, `wide` vectors of columns. */
static ALWAYS void NAME(product_tile)(const int n, const int wide, int64_t length, const REAL *const *x,
                                      const REAL *weight, int64_t row, REAL *const *out) {
    VEC sums[TILE][4];
#pragma GCC unroll 4
    for (int s = 0; s < n; s++)
#pragma GCC unroll 4
        for (int g = 0; g < wide; g++) sums[s][g] = (VEC){0};
    for (int64_t k = 0; k < length; k++)
#pragma GCC unroll 4
        for (int g = 0; g < wide; g++) {
            const VEC w = *(const VEC *)(weight + k * row + g * LANES);
#pragma GCC unroll 4
            for (int s = 0; s < n; s++) sums[s][g] += x[s][k] * w;
        }
#pragma GCC unroll 4
    for (int s = 0; s < n; s++)
#pragma GCC unroll 4
        for (int g = 0; g < wide; g++) *(VEC *)(out[s] + g * LANES) = sums[s][g];
}

#define BY_COUNT(n, call)         \
    switch (n) {                  \
        case 4: call(4); break;   \
        case 3: call(3); break;   \
        case 2: call(2); break;   \
        default: call(1);         \
    }

/* Steps forwards for the sequences first .. last. `weight` is (R, 4 R); gates become their functions' values;
   `hidden` and `held` hold the states at the start and, after it, at each sequence's end. */
EXPORT void NAME(kvec_cell)(REAL *gates, const REAL *bias, const REAL *weight, const int64_t *sizes,
                            const int64_t *offsets, int64_t n_steps, const int64_t *rows, const int64_t *places, int64_t size, int64_t first,
                            int64_t last, REAL *hidden, REAL *held, REAL *memory, REAL *bent, REAL *before,
                            REAL *out) {
    for (int64_t l = 0; l < n_steps && first < sizes[l]; l++) {
        const int64_t end = sizes[l] < last ? sizes[l] : last;
        for (int64_t s = first; s < end; s++)
            memcpy(before + rows[offsets[l] + s] * size, hidden + s * size, size * sizeof(REAL));
        for (int64_t u = 0; u < size; u += LANES)
            for (int64_t s = first; s < end; s += TILE) {
                const int n = end - s < TILE ? (int)(end - s) : TILE;
                REAL *z[TILE], *c[TILE], *t[TILE], *h[TILE];
                const REAL *x[TILE], *old[TILE];
                for (int i = 0; i < n; i++) {
                    const int64_t packed = offsets[l] + s + i, row = rows[packed];
                    z[i] = gates + row * 4 * size + u;
                    x[i] = before + row * size;
                    old[i] = l ? memory + (offsets[l - 1] + s + i) * size + u : held + (s + i) * size + u;
                    c[i] = memory + packed * size + u;
                    t[i] = bent + packed * size + u;
                    h[i] = out + places[packed] * size + u;
                }
#define CALL(n) NAME(cell_tile)(n, size, z, bias + u, x, weight + u, old, c, t, h)
                BY_COUNT(n, CALL)
#undef CALL
            }
        for (int64_t s = first; s < end; s++)
            memcpy(hidden + s * size, out + places[offsets[l] + s] * size, size * sizeof(REAL));
        for (int64_t s = l + 1 < n_steps ? sizes[l + 1] : 0; s < end; s++)
            if (s >= first) memcpy(held + s * size, memory + (offsets[l] + s) * size, size * sizeof(REAL));
    }
}

/* Steps backwards: `d_hidden` and `d_held` hold the gradients of the states at the end and, after it, at the start. */
EXPORT void NAME(kvec_cell_back)(const REAL *gates, const REAL *weight, const int64_t *sizes, const int64_t *offsets,
                                 int64_t n_steps, const int64_t *rows, const int64_t *places, int64_t size,
                                 int64_t first, int64_t last, const REAL *start, const REAL *memory,
                                 const REAL *bent, const REAL *grad, REAL *d_hidden, REAL *d_held, REAL *d_gates) {
    for (int64_t l = n_steps - 1; l >= 0; l--) {
        const int64_t end = sizes[l] < last ? sizes[l] : last;
        for (int64_t s = first; s < end; s++) {
            const int64_t packed = offsets[l] + s;
            const REAL *restrict z = gates + rows[packed] * 4 * size, *restrict t = bent + packed * size;
            const REAL *restrict old = l ? memory + (offsets[l - 1] + s) * size : start + s * size;
            const REAL *restrict g = grad + places[packed] * size, *restrict dh = d_hidden + s * size;
            REAL *restrict dz = d_gates + rows[packed] * 4 * size, *restrict dc = d_held + s * size;
            for (int64_t u = 0; u < size; u += LANES) {
                const VEC i = *(const VEC *)(z + u), f = *(const VEC *)(z + size + u);
                const VEC a = *(const VEC *)(z + 2 * size + u), o = *(const VEC *)(z + 3 * size + u);
                const VEC bend = *(const VEC *)(t + u), h = *(const VEC *)(g + u) + *(const VEC *)(dh + u);
                const VEC c = *(const VEC *)(dc + u) + h * o * (1 - bend * bend);
                *(VEC *)(dz + u) = c * a * i * (1 - i);
                *(VEC *)(dz + size + u) = c * *(const VEC *)(old + u) * f * (1 - f);
                *(VEC *)(dz + 2 * size + u) = c * i * (1 - a * a);
                *(VEC *)(dz + 3 * size + u) = h * bend * o * (1 - o);
                *(VEC *)(dc + u) = c * f;
            }
        }
        for (int64_t s = first; s < end; s += TILE) {
            const int n = end - s < TILE ? (int)(end - s) : TILE;
            const REAL *x[TILE];
            REAL *y[TILE];
            for (int64_t u = 0; u < size;) {
                for (int i = 0; i < n; i++) {
                    x[i] = d_gates + rows[offsets[l] + s + i] * 4 * size;
                    y[i] = d_hidden + (s + i) * size + u;
                }
                if (size - u >= 4 * LANES) {
#define CALL(n) NAME(product_tile)(n, 4, 4 * size, x, weight + u, size, y)
                    BY_COUNT(n, CALL)
#undef CALL
                    u += 4 * LANES;
                } else {
#define CALL(n) NAME(product_tile)(n, 1, 4 * size, x, weight + u, size, y)
                    BY_COUNT(n, CALL)
#undef CALL
                    u += LANES;
                }
            }
        }
    }
}

#undef BY_COUNT
#undef TILE
