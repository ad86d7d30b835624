/* Attention over lists of visible items, for one number type REAL and one suffix (see _loops.c).

   B tangles of T queries each; query row r = b * T + t sees the entries starts[r] .. starts[r + 1] of `items`, which
   are rows of the same tangle's keys and values. Heads lie side by side in a row: head h holds the numbers
   h * size .. (h + 1) * size. Weights are laid out row by row, inside a row head by head: the weights of row r and
   head h begin at starts[r] * heads + h * (starts[r + 1] - starts[r]).

   `relation` tells for each entry of `items` which number of a head's row of `table`, (heads, n_relations), is added to
   its score; where there is no table, nothing is.

   A head's rows are first copied side by side, in `n_vecs` whole vectors each, so that they fit the nearest cache, or
   across, number by number, so that one vector holds the same number of neighbouring rows. */

static ALWAYS int64_t NAME(whole)(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

/* A vector of which only `n` numbers are in memory. */
static ALWAYS VEC NAME(load)(const REAL *from, const int64_t n) {
    VEC x = {0};
    if (n >= LANES) return *(const VEC *)from;
    for (int64_t e = 0; e < n; e++) x[e] = from[e];
    return x;
}

static ALWAYS void NAME(store)(REAL *to, VEC x, const int64_t n) {
    if (n >= LANES) *(VEC *)to = x;
    for (int64_t e = 0; e < n && n < LANES; e++) to[e] = x[e];
}

static ALWAYS void NAME(side_by_side)(REAL *to, const REAL *from, int64_t row, int64_t n, int size, int64_t wide) {
    for (int64_t j = 0; j < n; j++) {
        for (int d = 0; d < size; d++) to[j * wide + d] = from[j * row + d];
        for (int64_t d = size; d < wide; d++) to[j * wide + d] = 0;
    }
}

static ALWAYS void NAME(across)(REAL *to, const REAL *from, int64_t row, int64_t n, int size) {
    const int64_t long_row = NAME(whole)(n);
    for (int64_t j = 0; j < n; j++)
        for (int d = 0; d < size; d++) to[d * long_row + j] = from[j * row + d];
    for (int d = 0; d < size; d++)
        for (int64_t j = n; j < long_row; j++) to[d * long_row + j] = 0;
}

static ALWAYS REAL NAME(greatest)(VEC x) {
    REAL a[LANES];
    *(VEC *)a = x;
    for (int half = LANES / 2; half; half /= 2)
        for (int e = 0; e < half; e++) a[e] = a[e] > a[e + half] ? a[e] : a[e + half];
    return a[0];
}

static ALWAYS REAL NAME(sum)(VEC x) {
    REAL a[LANES];
    *(VEC *)a = x;
    for (int half = LANES / 2; half; half /= 2)
        for (int e = 0; e < half; e++) a[e] += a[e + half];
    return a[0];
}

static ALWAYS REAL NAME(dot)(const REAL *a, const REAL *b, int size) {
    REAL sum = 0;
    for (int d = 0; d < size; d++) sum += a[d] * b[d];
    return sum;
}

/* The products of x with all rows between the first and the last that a query sees; 0 and nothing done where the
   query sees so few of them that they are better taken one by one. */
static ALWAYS int NAME(products)(const REAL *x, const REAL *rows_across, int64_t n_rows, int size,
                                 const int32_t *items, int64_t n, REAL *out) {
    const int64_t long_row = NAME(whole)(n_rows);
    int32_t low = INT32_MAX, high = -1;
    for (int64_t p = 0; p < n; p++) {
        low = items[p] < low ? items[p] : low;
        high = items[p] > high ? items[p] : high;
    }
    if (high - low >= 8 * n) return 0;
    for (int64_t j = low / LANES * LANES; j <= high; j += LANES) {
        VEC even = {0}, odd = {0};
        int d = 0;
        for (; d + 8 <= size; d += 8)
#pragma GCC unroll 8
            for (int e = d; e < d + 8; e += 2) {
                even += x[e] * *(const VEC *)(rows_across + e * long_row + j);
                odd += x[e + 1] * *(const VEC *)(rows_across + (e + 1) * long_row + j);
            }
        for (; d < size; d++) even += x[d] * *(const VEC *)(rows_across + d * long_row + j);
        *(VEC *)(out + j) = even + odd;
    }
    return 1;
}

static ALWAYS void NAME(attend_head)(const REAL *query, const REAL *k, int64_t k_row, const REAL *k_across,
                                     const REAL *v, int64_t n_keys, const int32_t *restrict items,
                                     const uint8_t *restrict relation, const REAL *restrict bias, int64_t n,
                                     const int size, const int n_vecs, REAL *restrict weights, REAL *restrict products,
                                     REAL *restrict scores, REAL *restrict out) {
    const REAL scale = 1 / (REAL)sqrt((double)size);
    const int is_near = NAME(products)(query, k_across, n_keys, size, items, n, products);
    if (!is_near)
        for (int64_t p = 0; p < n; p++) products[items[p]] = NAME(dot)(query, k + items[p] * k_row, size);
    VEC most = {0}, total = {0};
    most -= INFINITY;
    if (bias)
        for (int64_t p = 0; p < n; p++) scores[p] = products[items[p]] * scale + bias[relation[p]];
    else
        for (int64_t p = 0; p < n; p++) scores[p] = products[items[p]] * scale;
    for (int64_t p = n; p % LANES; p++) scores[p] = -INFINITY;
    for (int64_t p = 0; p < n; p += LANES) {
        const VEC x = *(const VEC *)(scores + p);
        most = SELECT(x > most, x, most);
    }
    const REAL top = NAME(greatest)(most);
    for (int64_t p = 0; p < n; p += LANES) {
        const VEC x = NAME(below_exp)(*(const VEC *)(scores + p) - top);
        *(VEC *)(scores + p) = x;
        total += x;
    }
    const REAL share = 1 / NAME(sum)(total);
    for (int64_t p = 0; p < n; p++) weights[p] = scores[p] * share;
    for (int i = 0; i < n_vecs; i++) {
        const REAL *from = v + i * LANES;
        VEC a = {0}, b = {0}, c = {0}, d = {0};
        int64_t p = 0;
        for (; p + 4 <= n; p += 4) {
            a += weights[p] * *(const VEC *)(from + items[p] * n_vecs * LANES);
            b += weights[p + 1] * *(const VEC *)(from + items[p + 1] * n_vecs * LANES);
            c += weights[p + 2] * *(const VEC *)(from + items[p + 2] * n_vecs * LANES);
            d += weights[p + 3] * *(const VEC *)(from + items[p + 3] * n_vecs * LANES);
        }
        for (; p < n; p++) a += weights[p] * *(const VEC *)(from + items[p] * n_vecs * LANES);
        NAME(store)(out + i * LANES, (a + b) + (c + d), size - i * LANES);
    }
}

/* The gradient of a head's biases: each is added to every score of its relation. Four sums take turns, so that none
   waits for the one before. */
static ALWAYS void NAME(back_bias)(const int32_t *restrict items, const uint8_t *restrict relation,
                                   const REAL *restrict weights, int64_t n, const REAL *restrict products, REAL shift,
                                   int64_t n_relations, REAL *restrict dbias) {
    REAL sums[4][256];
    for (int s = 0; s < 4; s++) memset(sums[s], 0, (size_t)n_relations * sizeof(REAL));
    for (int64_t p = 0; p < n; p++) sums[p & 3][relation[p]] += weights[p] * (products[items[p]] - shift);
    for (int64_t r = 0; r < n_relations; r++) dbias[r] += (sums[0][r] + sums[1][r]) + (sums[2][r] + sums[3][r]);
}

static ALWAYS void NAME(back_pair)(int64_t item, int i, const int n_vecs, REAL w, const REAL *products, REAL shift, VEC q,
                                   VEC g, const REAL *k, REAL *dk, REAL *dv, VEC *to_q) {
    const int64_t at = (item * n_vecs + i) * LANES;
    const REAL ds = w * (products[item] - shift);
    *(VEC *)(dv + at) += w * g;
    *(VEC *)(dk + at) += ds * q;
    *to_q += ds * *(const VEC *)(k + at);
}

static ALWAYS void NAME(back_head)(const REAL *query, const REAL *grad, const REAL *mixed, const REAL *v,
                                   int64_t v_row, const REAL *v_across, const REAL *k, int64_t n_keys,
                                   const int32_t *restrict items, const uint8_t *restrict relation,
                                   const REAL *restrict weights, int64_t n, const int size, const int n_vecs,
                                   REAL *restrict products, REAL *dq, REAL *dk, REAL *dv, int64_t n_relations,
                                   REAL *dbias) {
    const REAL scale = 1 / (REAL)sqrt((double)size), shift = NAME(dot)(grad, mixed, size);
    const int is_near = NAME(products)(grad, v_across, n_keys, size, items, n, products);
    if (!is_near)
        for (int64_t p = 0; p < n; p++) products[items[p]] = NAME(dot)(grad, v + items[p] * v_row, size);
    if (dbias) NAME(back_bias)(items, relation, weights, n, products, shift, n_relations, dbias);
    for (int i = 0; i < n_vecs; i++) {
        const VEC q = NAME(load)(query + i * LANES, size - i * LANES) * scale;
        const VEC g = NAME(load)(grad + i * LANES, size - i * LANES);
        VEC even = {0}, odd = {0};
        int64_t p = 0;
        for (; p + 2 <= n; p += 2) {
            NAME(back_pair)(items[p], i, n_vecs, weights[p], products, shift, q, g, k, dk, dv, &even);
            NAME(back_pair)(items[p + 1], i, n_vecs, weights[p + 1], products, shift, q, g, k, dk, dv, &odd);
        }
        if (p < n) NAME(back_pair)(items[p], i, n_vecs, weights[p], products, shift, q, g, k, dk, dv, &even);
        NAME(store)(dq + i * LANES, (even + odd) * scale, size - i * LANES);
    }
}

static ALWAYS void NAME(attend)(const REAL *q, int64_t q_tangle, int64_t q_row, const REAL *k, const REAL *v,
                                int64_t k_tangle, int64_t k_row, int64_t n_keys, const int64_t *starts,
                                const int32_t *items, const uint8_t *relation, const REAL *table,
                                int64_t n_relations, int64_t first, int64_t last, int64_t n_queries, int heads,
                                const int size, const int n_vecs, REAL *weights, REAL *out, REAL *scratch) {
    REAL *vs = scratch, *k_across = vs + n_keys * n_vecs * LANES, *products = k_across + size * NAME(whole)(n_keys);
    REAL *scores = products + NAME(whole)(n_keys);
    for (int64_t b = first; b < last; b++)
        for (int h = 0; h < heads; h++) {
            const REAL *keys = k + b * k_tangle + h * size, *bias = table ? table + h * n_relations : table;
            NAME(across)(k_across, keys, k_row, n_keys, size);
            NAME(side_by_side)(vs, v + b * k_tangle + h * size, k_row, n_keys, size, n_vecs * LANES);
            for (int64_t t = 0; t < n_queries; t++) {
                const int64_t row = b * n_queries + t, begin = starts[row], n = starts[row + 1] - begin;
                NAME(attend_head)(q + b * q_tangle + t * q_row + h * size, keys, k_row, k_across, vs, n_keys,
                                  items + begin, relation + begin, bias, n, size, n_vecs,
                                  weights + begin * heads + h * n, products, scores, out + (row * heads + h) * size);
            }
        }
}

/* Gradients of queries, keys and values, the keys of the context left out: all three lie in rows of `row` numbers. Those
   of the table are added up for each tangle, (B, heads, n_relations). */
static ALWAYS void NAME(back)(const REAL *q, int64_t q_tangle, int64_t q_row, const REAL *k, const REAL *v,
                              int64_t k_tangle, int64_t k_row, int64_t n_keys, const int64_t *starts,
                              const int32_t *items, const uint8_t *relation, const REAL *weights, const REAL *mixed,
                              const REAL *grad, int64_t first, int64_t last, int64_t n_queries, int heads,
                              const int size, const int n_vecs, REAL *dq, REAL *dk, REAL *dv, int64_t row,
                              REAL *dtable, int64_t n_relations, REAL *scratch) {
    const int64_t wide = n_vecs * LANES, n_context = n_keys - n_queries;
    REAL *ks = scratch, *dks = ks + n_keys * wide, *dvs = dks + n_keys * wide, *v_across = dvs + n_keys * wide;
    REAL *products = v_across + size * NAME(whole)(n_keys);
    for (int64_t b = first; b < last; b++)
        for (int h = 0; h < heads; h++) {
            const REAL *values = v + b * k_tangle + h * size;
            const int64_t at = b * n_queries * row + h * size;
            REAL *dbias = dtable ? dtable + (b * heads + h) * n_relations : dtable;
            NAME(side_by_side)(ks, k + b * k_tangle + h * size, k_row, n_keys, size, wide);
            NAME(across)(v_across, values, k_row, n_keys, size);
            memset(dks, 0, 2 * n_keys * wide * sizeof(REAL));
            for (int64_t t = 0; t < n_queries; t++) {
                const int64_t r = b * n_queries + t, begin = starts[r], n = starts[r + 1] - begin;
                const int64_t here = (r * heads + h) * size;
                NAME(back_head)(q + b * q_tangle + t * q_row + h * size, grad + here, mixed + here, values, k_row,
                                v_across, ks, n_keys, items + begin, relation + begin, weights + begin * heads + h * n,
                                n, size, n_vecs, products, dq + at + t * row, dks, dvs, n_relations, dbias);
            }
            for (int64_t t = 0; t < n_queries; t++)
                for (int d = 0; d < size; d++) {
                    dk[at + t * row + d] = dks[(n_context + t) * wide + d];
                    dv[at + t * row + d] = dvs[(n_context + t) * wide + d];
                }
        }
}

/* One compiled copy for each usual head size, so that the innermost loops have a known length. */
#define BY_SIZE(call)                                  \
    switch (size) {                                    \
        case 8: call(8, (int)(8 + LANES - 1) / LANES); break;    \
        case 16: call(16, (int)(16 / LANES)); break;   \
        case 32: call(32, (int)(32 / LANES)); break;   \
        default: call((int)size, (int)(NAME(whole)(size) / LANES)); \
    }

EXPORT void NAME(kvec_attend)(const REAL *q, int64_t q_tangle, int64_t q_row, const REAL *k, const REAL *v,
                              int64_t k_tangle, int64_t k_row, int64_t n_keys, const int64_t *starts,
                              const int32_t *items, const uint8_t *relation, const REAL *table,
                              int64_t n_relations, int64_t first, int64_t last, int64_t n_queries, int64_t heads,
                              int64_t size, REAL *weights, REAL *out, REAL *scratch) {
#define CALL(s, n_vecs)                                                                                              \
    NAME(attend)(q, q_tangle, q_row, k, v, k_tangle, k_row, n_keys, starts, items, relation, table, n_relations,     \
                 first, last, n_queries, (int)heads, s, n_vecs, weights, out, scratch)
    BY_SIZE(CALL)
#undef CALL
}

EXPORT void NAME(kvec_attend_back)(const REAL *q, int64_t q_tangle, int64_t q_row, const REAL *k, const REAL *v,
                                   int64_t k_tangle, int64_t k_row, int64_t n_keys, const int64_t *starts,
                                   const int32_t *items, const uint8_t *relation, const REAL *weights,
                                   const REAL *mixed, const REAL *grad, int64_t first, int64_t last,
                                   int64_t n_queries, int64_t heads, int64_t size, REAL *dq, REAL *dk, REAL *dv,
                                   int64_t row, REAL *dtable, int64_t n_relations, REAL *scratch) {
#define CALL(s, n_vecs)                                                                                               \
    NAME(back)(q, q_tangle, q_row, k, v, k_tangle, k_row, n_keys, starts, items, relation, weights, mixed, grad,      \
               first, last, n_queries, (int)heads, s, n_vecs, dq, dk, dv, row, dtable, n_relations, scratch)
    BY_SIZE(CALL)
#undef CALL
}

#undef BY_SIZE
