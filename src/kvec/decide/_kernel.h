/* One arriving item through the network, for one number type REAL and one suffix (see _kernel.c).

   Matrices are packed in columns of LANES, padded with zeros: column group g of a matrix of m rows begins at
   g * m * LANES and holds its rows one after the other. Buffers have room for padded columns. */

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define NAME(x) CAT(x, SUFFIX)

typedef struct {
    const REAL *norm1, *norm1_bias, *qkv, *qkv_bias, *out, *out_bias;
    const REAL *norm2, *norm2_bias, *widen, *widen_bias, *narrow, *narrow_bias;
    const REAL *relation; /* biases, (heads, relations); one zero where there are none */
} NAME(Layer);

typedef struct {
    int64_t width, heads, feed_forward, fusion, layers, relations, parts, numbers, outputs;
    const REAL *table, *project, *norm, *norm_bias, *input, *input_bias, *recurrent, *head, *head_bias;
    const NAME(Layer) *layer;
} NAME(Net);

static ALWAYS int64_t NAME(padded)(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

/* out = start + x W; `start` may be `out` itself. */
static ALWAYS void NAME(times)(const REAL *restrict x, int64_t m, const REAL *restrict w, int64_t n, const REAL *start,
                               REAL *out) {
    for (int64_t g = 0; g < n; g += LANES, w += m * LANES) {
        REAL sum[LANES];
        for (int o = 0; o < LANES; o++) sum[o] = start[g + o];
        int64_t d = 0;
        for (; d + 4 <= m; d += 4) { /* four rows for one load and store of the sums */
            const REAL x0 = x[d], x1 = x[d + 1], x2 = x[d + 2], x3 = x[d + 3], *restrict row = w + d * LANES;
            for (int o = 0; o < LANES; o++)
                sum[o] += x0 * row[o] + x1 * row[LANES + o] + x2 * row[2 * LANES + o] + x3 * row[3 * LANES + o];
        }
        for (; d < m; d++)
            for (int o = 0; o < LANES; o++) sum[o] += x[d] * w[d * LANES + o];
        for (int o = 0; o < LANES; o++) out[g + o] = sum[o];
    }
}

static ALWAYS void NAME(normalise)(const REAL *restrict x, int64_t n, const REAL *restrict weight,
                                   const REAL *restrict bias, REAL *restrict out) {
    REAL mean = 0, spread = 0;
    for (int64_t d = 0; d < n; d++) mean += x[d];
    mean /= (REAL)n;
    for (int64_t d = 0; d < n; d++) spread += (x[d] - mean) * (x[d] - mean);
    const REAL scale = 1 / (REAL)sqrt((double)(spread / (REAL)n) + 1e-5);
    for (int64_t d = 0; d < n; d++) out[d] = (x[d] - mean) * scale * weight[d] + bias[d];
}

/* Mix the values of the n seen rows; `cache` points at one layer of row 0, keys first, values behind them. What is added
   to a score lies in its head's row of `table`, in the column of its relation. */
static ALWAYS void NAME(mix)(const REAL *restrict q, const REAL *restrict cache, int64_t row, const int32_t *restrict seen,
                             const uint8_t *restrict relation, const REAL *restrict table, int64_t columns, int64_t n,
                             int64_t width, int64_t heads, const int size, REAL *restrict weights,
                             REAL *restrict out) {
    const REAL scale = 1 / (REAL)sqrt((double)size);
    for (int64_t h = 0; h < heads; h++) {
        const REAL *restrict query = q + h * size, *restrict bias = table + h * columns;
        REAL most = -INFINITY, total = 0, mixed[128];
        for (int64_t p = 0; p < n; p++) {
            const REAL *restrict key = cache + seen[p] * row + h * size;
            REAL sum = 0;
            for (int d = 0; d < size; d++) sum += query[d] * key[d];
            weights[p] = sum * scale + bias[relation[p]];
            most = weights[p] > most ? weights[p] : most;
        }
        for (int64_t p = 0; p < n; p++) weights[p] = EXP(weights[p] - most);
        for (int64_t p = 0; p < n; p++) total += weights[p];
        for (int d = 0; d < size; d++) mixed[d] = 0;
        for (int64_t p = 0; p < n; p++) {
            const REAL *restrict value = cache + seen[p] * row + width + h * size, w = weights[p];
            for (int d = 0; d < size; d++) mixed[d] += w * value[d];
        }
        for (int d = 0; d < size; d++) out[h * size + d] = mixed[d] / total;
    }
}

static ALWAYS void NAME(attend)(const REAL *q, const REAL *cache, int64_t row, const int32_t *seen,
                                const uint8_t *relation, const REAL *table, int64_t columns, int64_t n, int64_t width,
                                int64_t heads, REAL *weights, REAL *out) {
    const int64_t size = width / heads;
    switch (size) { /* one compiled copy for each usual head size */
        case 8: NAME(mix)(q, cache, row, seen, relation, table, columns, n, width, heads, 8, weights, out); break;
        case 16: NAME(mix)(q, cache, row, seen, relation, table, columns, n, width, heads, 16, weights, out); break;
        case 32: NAME(mix)(q, cache, row, seen, relation, table, columns, n, width, heads, 32, weights, out); break;
        default: NAME(mix)(q, cache, row, seen, relation, table, columns, n, width, heads, (int)size, weights, out);
    }
}

/* The gates of the cell, from 4 R sums in the order input, forget, new, output. */
static ALWAYS void NAME(gate)(REAL *restrict sums, int64_t n, REAL *restrict hidden, REAL *restrict cell) {
    for (int64_t r = 0; r < n; r++) {
        const REAL i = 1 / (1 + EXP(-sums[r])), f = 1 / (1 + EXP(-sums[n + r]));
        const REAL g = 2 / (1 + EXP(-2 * sums[2 * n + r])) - 1, o = 1 / (1 + EXP(-sums[3 * n + r]));
        const REAL c = f * cell[r] + i * g;
        cell[r] = c;
        hidden[r] = o * (2 / (1 + EXP(-2 * c)) - 1);
    }
}

/* n items one after the other: caches, states and outputs are written as if each had come alone. */
EXPORT void NAME(kvec_step)(const NAME(Net) *net, int64_t n, const int64_t *index, const REAL *numbers,
                            const int64_t *rows, const int64_t *starts, const int32_t *seen, const uint8_t *relation,
                            const int64_t *places, REAL *cache, REAL *hidden, REAL *cell, REAL *out, REAL *room) {
    const int64_t width = net->width, row = net->layers * 2 * width, fusion = net->fusion;
    const int64_t columns = NAME(padded)(net->outputs);
    REAL *x = room, *h = x + NAME(padded)(width), *wide = h + NAME(padded)(width);
    REAL *weights = wide + NAME(padded)(3 * width) + NAME(padded)(net->feed_forward) + NAME(padded)(4 * fusion);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t d = 0; d < width; d++) x[d] = 0;
        for (int64_t p = 0; p < net->parts; p++) {
            const REAL *restrict part = net->table + index[i * net->parts + p] * width;
            for (int64_t d = 0; d < width; d++) x[d] += part[d];
        }
        for (int64_t p = 0; p < net->numbers; p++)
            for (int64_t d = 0; d < width; d++) x[d] += numbers[i * net->numbers + p] * net->project[p * width + d];
        for (int64_t l = 0; l < net->layers; l++) {
            const NAME(Layer) *layer = net->layer + l;
            REAL *own = cache + rows[i] * row + l * 2 * width;
            NAME(normalise)(x, width, layer->norm1, layer->norm1_bias, h);
            NAME(times)(h, width, layer->qkv, 3 * width, layer->qkv_bias, wide);
            for (int64_t d = 0; d < 2 * width; d++) own[d] = wide[width + d];
            NAME(attend)(wide, cache + l * 2 * width, row, seen + starts[i], relation + starts[i], layer->relation,
                         net->relations, starts[i + 1] - starts[i], width, net->heads, weights, h);
            NAME(times)(h, width, layer->out, width, layer->out_bias, wide);
            for (int64_t d = 0; d < width; d++) x[d] += wide[d];
            NAME(normalise)(x, width, layer->norm2, layer->norm2_bias, h);
            NAME(times)(h, width, layer->widen, net->feed_forward, layer->widen_bias, wide);
            for (int64_t d = 0; d < net->feed_forward; d++) wide[d] = wide[d] > 0 ? wide[d] : 0;
            NAME(times)(wide, net->feed_forward, layer->narrow, width, layer->narrow_bias, h);
            for (int64_t d = 0; d < width; d++) x[d] += h[d];
        }
        NAME(normalise)(x, width, net->norm, net->norm_bias, h);
        REAL *state = hidden + places[i] * fusion;
        NAME(times)(h, width, net->input, 4 * fusion, net->input_bias, wide);
        NAME(times)(state, fusion, net->recurrent, 4 * fusion, wide, wide);
        NAME(gate)(wide, fusion, state, cell + places[i] * fusion);
        NAME(times)(state, fusion, net->head, net->outputs, net->head_bias, out + i * columns);
    }
}

/* Attention of a block of n items over one layer of the cache; their own keys and values lie in it already. */
EXPORT void NAME(kvec_attend)(const REAL *q, int64_t q_row, int64_t n, const int64_t *starts, const int32_t *seen,
                              const uint8_t *relation, const REAL *cache, int64_t row, int64_t width, int64_t heads,
                              const REAL *table, int64_t columns, REAL *weights, REAL *out) {
    for (int64_t i = 0; i < n; i++)
        NAME(attend)(q + i * q_row, cache, row, seen + starts[i], relation + starts[i], table, columns,
                     starts[i + 1] - starts[i], width, heads, weights, out + i * width);
}

/* Fusion of a block of n items: `sums` hold the input's share of the gates, (n, 4 R); `out` gets the representations. */
EXPORT void NAME(kvec_fuse)(REAL *sums, int64_t n, const int64_t *places, int64_t fusion, const REAL *recurrent,
                            REAL *hidden, REAL *cell, REAL *out) {
    for (int64_t i = 0; i < n; i++) {
        REAL *state = hidden + places[i] * fusion;
        NAME(times)(state, fusion, recurrent, 4 * fusion, sums + i * NAME(padded)(4 * fusion),
                    sums + i * NAME(padded)(4 * fusion));
        NAME(gate)(sums + i * NAME(padded)(4 * fusion), fusion, state, cell + places[i] * fusion);
        for (int64_t r = 0; r < fusion; r++) out[i * fusion + r] = state[r];
    }
}

#undef NAME
#undef CAT
#undef CAT_
#undef REAL
#undef EXP
#undef SUFFIX
