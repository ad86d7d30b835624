/* Attention over lists of visible items, for one number type REAL and one suffix (see _sparse.c).

   B tangles of T queries each; query row r = b * T + t sees the entries starts[r] .. starts[r + 1] of `items`, which
   are rows of the same tangle's keys and values. Heads lie side by side in a row: head h holds the numbers
   h * size .. (h + 1) * size. Weights are laid out row by row, inside a row head by head: the weights of row r and
   head h begin at starts[r] * heads + h * (starts[r + 1] - starts[r]). `size` is a constant wherever it matters. */

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define NAME(x) CAT(x, SUFFIX)

static ALWAYS REAL NAME(dot)(const REAL *restrict a, const REAL *restrict b, const int size) {
    REAL sum = 0;
    for (int d = 0; d < size; d++) sum += a[d] * b[d];
    return sum;
}

static ALWAYS void NAME(score_head)(const REAL *restrict query, const REAL *restrict k, int64_t k_row,
                                    const int32_t *restrict items, const float *restrict bias, int64_t n,
                                    const int size, REAL scale, REAL *restrict out) {
    REAL q[MOST_SIZE], most = -INFINITY;
    for (int d = 0; d < size; d++) q[d] = query[d] * scale;
    for (int64_t p = 0; p < n; p++) {
        const REAL s = NAME(dot)(q, k + items[p] * k_row, size) + (REAL)bias[p];
        out[p] = s;
        most = s > most ? s : most;
    }
    for (int64_t p = 0; p < n; p++) out[p] -= most;
}

static ALWAYS void NAME(mix_head)(REAL *restrict weights, const REAL *restrict v, int64_t v_row,
                                  const int32_t *restrict items, int64_t n, const int size, REAL *restrict out) {
    REAL mixed[MOST_SIZE], total = 0;
    for (int64_t p = 0; p < n; p++) total += weights[p];
    total = 1 / total;
    for (int d = 0; d < size; d++) mixed[d] = 0;
    for (int64_t p = 0; p < n; p++) {
        const REAL w = weights[p] *= total, *restrict value = v + items[p] * v_row;
        for (int d = 0; d < size; d++) mixed[d] += w * value[d];
    }
    for (int d = 0; d < size; d++) out[d] = mixed[d];
}

static ALWAYS void NAME(back_head)(const REAL *restrict query, const REAL *restrict k, const REAL *restrict v,
                                   int64_t k_row, const int32_t *restrict items, const REAL *restrict weights,
                                   const REAL *restrict mixed, const REAL *restrict grad, int64_t n, const int size,
                                   REAL scale, REAL *restrict dq, REAL *restrict dk, REAL *restrict dv,
                                   int64_t dk_row) {
    REAL q[MOST_SIZE], g[MOST_SIZE], to_q[MOST_SIZE];
    const REAL shift = NAME(dot)(grad, mixed, size);
    for (int d = 0; d < size; d++) q[d] = query[d], g[d] = grad[d], to_q[d] = 0;
    for (int64_t p = 0; p < n; p++) {
        const REAL *restrict key = k + items[p] * k_row, *restrict value = v + items[p] * k_row, w = weights[p];
        REAL *restrict to_k = dk + items[p] * dk_row, *restrict to_v = dv + items[p] * dk_row;
        const REAL ds = w * (NAME(dot)(g, value, size) - shift) * scale;
        for (int d = 0; d < size; d++) to_v[d] += w * g[d];
        for (int d = 0; d < size; d++) to_q[d] += ds * key[d];
        for (int d = 0; d < size; d++) to_k[d] += ds * q[d];
    }
    for (int d = 0; d < size; d++) dq[d] = to_q[d];
}

/* A head's rows of one tangle, gathered side by side so that they fit the nearest cache, and scattered back. */
static ALWAYS void NAME(gather)(REAL *restrict to, const REAL *restrict from, int64_t row, int64_t n, const int size) {
    for (int64_t j = 0; j < n; j++)
        for (int d = 0; d < size; d++) to[j * size + d] = from[j * row + d];
}

static ALWAYS void NAME(scatter)(REAL *restrict to, int64_t row, const REAL *restrict from, int64_t n, const int size) {
    for (int64_t j = 0; j < n; j++)
        for (int d = 0; d < size; d++) to[j * row + d] = from[j * size + d];
}

/* One compiled copy for each usual head size, so that the innermost loops have a known length. */
#define BY_SIZE(call)             \
    switch ((int)size) {          \
        case 8: call(8); break;   \
        case 16: call(16); break; \
        case 32: call(32); break; \
        default: call((int)size); \
    }

static ALWAYS void NAME(scores)(const REAL *q, int64_t q_tangle, int64_t q_row, const REAL *k, int64_t k_tangle,
                                int64_t k_row, int64_t n_keys, const int64_t *starts, const int32_t *items,
                                const float *bias, int64_t first, int64_t last, int64_t n_queries, int heads,
                                const int size, REAL *out, REAL *scratch) {
    const REAL scale = 1 / (REAL)sqrt((double)size);
    for (int64_t b = first; b < last; b++)
        for (int h = 0; h < heads; h++) {
            NAME(gather)(scratch, k + b * k_tangle + h * size, k_row, n_keys, size);
            for (int64_t t = 0; t < n_queries; t++) {
                const int64_t begin = starts[b * n_queries + t], n = starts[b * n_queries + t + 1] - begin;
                NAME(score_head)(q + b * q_tangle + t * q_row + h * size, scratch, size, items + begin, bias + begin, n,
                                 size, scale, out + begin * heads + h * n);
            }
        }
}

static ALWAYS void NAME(mix)(REAL *weights, const REAL *v, int64_t v_tangle, int64_t v_row, int64_t n_keys,
                             const int64_t *starts, const int32_t *items, int64_t first, int64_t last,
                             int64_t n_queries, int heads, const int size, REAL *out, REAL *scratch) {
    for (int64_t b = first; b < last; b++)
        for (int h = 0; h < heads; h++) {
            NAME(gather)(scratch, v + b * v_tangle + h * size, v_row, n_keys, size);
            for (int64_t t = 0; t < n_queries; t++) {
                const int64_t row = b * n_queries + t, begin = starts[row], n = starts[row + 1] - begin;
                NAME(mix_head)(weights + begin * heads + h * n, scratch, size, items + begin, n, size,
                               out + (row * heads + h) * size);
            }
        }
}

static ALWAYS void NAME(back)(const REAL *q, int64_t q_tangle, int64_t q_row, const REAL *k, const REAL *v,
                              int64_t k_tangle, int64_t k_row, int64_t n_keys, const int64_t *starts,
                              const int32_t *items, const REAL *weights, const REAL *mixed, const REAL *grad,
                              int64_t first, int64_t last, int64_t n_queries, int heads, const int size, REAL *dq,
                              int64_t dq_tangle, int64_t dq_row, REAL *dk, REAL *dv, int64_t dk_tangle,
                              int64_t dk_row, REAL *scratch) {
    const REAL scale = 1 / (REAL)sqrt((double)size);
    REAL *ks = scratch, *vs = ks + n_keys * size, *dks = vs + n_keys * size, *dvs = dks + n_keys * size;
    for (int64_t b = first; b < last; b++)
        for (int h = 0; h < heads; h++) {
            NAME(gather)(ks, k + b * k_tangle + h * size, k_row, n_keys, size);
            NAME(gather)(vs, v + b * k_tangle + h * size, k_row, n_keys, size);
            for (int64_t j = 0; j < 2 * n_keys * size; j++) dks[j] = 0;
            for (int64_t t = 0; t < n_queries; t++) {
                const int64_t row = b * n_queries + t, begin = starts[row], n = starts[row + 1] - begin;
                NAME(back_head)(q + b * q_tangle + t * q_row + h * size, ks, vs, size, items + begin,
                                weights + begin * heads + h * n, mixed + (row * heads + h) * size,
                                grad + (row * heads + h) * size, n, size, scale,
                                dq + b * dq_tangle + t * dq_row + h * size, dks, dvs, size);
            }
            NAME(scatter)(dk + b * dk_tangle + h * size, dk_row, dks, n_keys, size);
            NAME(scatter)(dv + b * dk_tangle + h * size, dk_row, dvs, n_keys, size);
        }
}

EXPORT void NAME(kvec_scores)(const REAL *q, int64_t q_tangle, int64_t q_row, const REAL *k, int64_t k_tangle,
                              int64_t k_row, int64_t n_keys, const int64_t *starts, const int32_t *items,
                              const float *bias, int64_t first, int64_t last, int64_t n_queries, int64_t heads, int64_t size,
                              REAL *out, REAL *scratch) {
#define CALL(s)                                                                                                \
    NAME(scores)(q, q_tangle, q_row, k, k_tangle, k_row, n_keys, starts, items, bias, first, last, n_queries, \
                 (int)heads, s, out, scratch)
    BY_SIZE(CALL)
#undef CALL
}

EXPORT void NAME(kvec_mix)(REAL *weights, const REAL *v, int64_t v_tangle, int64_t v_row, int64_t n_keys,
                           const int64_t *starts, const int32_t *items, int64_t first, int64_t last,
                           int64_t n_queries, int64_t heads, int64_t size, REAL *out, REAL *scratch) {
#define CALL(s) \
    NAME(mix)(weights, v, v_tangle, v_row, n_keys, starts, items, first, last, n_queries, (int)heads, s, out, scratch)
    BY_SIZE(CALL)
#undef CALL
}

EXPORT void NAME(kvec_back)(const REAL *q, int64_t q_tangle, int64_t q_row, const REAL *k, const REAL *v,
                            int64_t k_tangle, int64_t k_row, int64_t n_keys, const int64_t *starts,
                            const int32_t *items, const REAL *weights, const REAL *mixed, const REAL *grad,
                            int64_t first, int64_t last, int64_t n_queries, int64_t heads, int64_t size, REAL *dq,
                            int64_t dq_tangle, int64_t dq_row, REAL *dk, REAL *dv, int64_t dk_tangle, int64_t dk_row,
                            REAL *scratch) {
#define CALL(s)                                                                                                    \
    NAME(back)(q, q_tangle, q_row, k, v, k_tangle, k_row, n_keys, starts, items, weights, mixed, grad, first, last, \
               n_queries, (int)heads, s, dq, dq_tangle, dq_row, dk, dv, dk_tangle, dk_row, scratch)
    BY_SIZE(CALL)
#undef CALL
}

#undef BY_SIZE
#undef NAME
#undef CAT
#undef CAT_
#undef REAL
#undef SUFFIX
