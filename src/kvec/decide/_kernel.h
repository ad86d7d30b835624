/* Arriving items through the network, for one number type REAL, vectors of WIDTH bytes and one suffix (see _kernel.c).

   Matrices are packed in tiles of TILE columns, padded with zeros: tile t of a matrix of m rows begins at t * m * TILE
   and holds its rows one after the other. Buffers have room for padded columns; rows of the narrow ones hold
   a width or a state, rows of the wide ones all that a layer or the cell makes of one. */

#define TILE ((int64_t)(2 * WIDTH / sizeof(REAL))) /* its sums for GROUP rows fit into registers */

typedef REAL VEC __attribute__((vector_size(WIDTH), aligned(sizeof(REAL)), may_alias));

typedef struct {
    const REAL *norm1, *norm1_bias, *qkv, *qkv_bias, *out, *out_bias;
    const REAL *norm2, *norm2_bias, *widen, *widen_bias, *narrow, *narrow_bias;
    const REAL *relation; /* biases, (heads, relations); one zero where there are none */
} NAME(Layer);

typedef struct {
    int64_t width, heads, feed_forward, fusion, layers, relations, narrow_row, wide_row, parts, numbers, outputs;
    const REAL *table, *project, *norm, *norm_bias, *input, *input_bias, *recurrent, *head, *head_bias;
    const NAME(Layer) *layer;
} NAME(Net);

static ALWAYS int64_t NAME(padded)(int64_t n) { return (n + TILE - 1) / TILE * TILE; }

/* out = start + x W; `start` may be `out` itself. */
static ALWAYS void NAME(times)(const REAL *x, int64_t m, const REAL *w, int64_t n, const REAL *start, REAL *out) {
    for (int64_t g = 0; g < n; g += TILE, w += m * TILE) {
        const VEC *row = (const VEC *)w, *from = (const VEC *)(start + g);
        VEC left0 = from[0], right0 = from[1], left1 = {0}, right1 = {0}, left2 = {0}, right2 = {0}, left3 = {0};
        VEC right3 = {0}, *to = (VEC *)(out + g);
        int64_t d = 0;
        for (; d + 4 <= m; d += 4, row += 8) { /* four sums side by side: one alone would wait for itself */
            left0 += x[d] * row[0];
            right0 += x[d] * row[1];
            left1 += x[d + 1] * row[2];
            right1 += x[d + 1] * row[3];
            left2 += x[d + 2] * row[4];
            right2 += x[d + 2] * row[5];
            left3 += x[d + 3] * row[6];
            right3 += x[d + 3] * row[7];
        }
        for (; d < m; d++, row += 2) {
            left0 += x[d] * row[0];
            right0 += x[d] * row[1];
        }
        to[0] = left0 + left1 + (left2 + left3);
        to[1] = right0 + right1 + (right2 + right3);
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

/* Add x W to `out` for GROUP rows and one tile of columns. */
static ALWAYS void NAME(tile)(const REAL *x0, const REAL *x1, const REAL *x2, const REAL *x3, int64_t m, const REAL *w,
                              REAL *out0, REAL *out1, REAL *out2, REAL *out3) {
    VEC *to0 = (VEC *)out0, *to1 = (VEC *)out1, *to2 = (VEC *)out2, *to3 = (VEC *)out3;
    VEC left0 = to0[0], left1 = to1[0], left2 = to2[0], left3 = to3[0];
    VEC right0 = to0[1], right1 = to1[1], right2 = to2[1], right3 = to3[1];
    for (int64_t d = 0; d < m; d++, w += TILE) {
        const VEC left = ((const VEC *)w)[0], right = ((const VEC *)w)[1];
        left0 += x0[d] * left;
        right0 += x0[d] * right;
        left1 += x1[d] * left;
        right1 += x1[d] * right;
        left2 += x2[d] * left;
        right2 += x2[d] * right;
        left3 += x3[d] * left;
        right3 += x3[d] * right;
    }
    to0[0] = left0, to1[0] = left1, to2[0] = left2, to3[0] = left3;
    to0[1] = right0, to1[1] = right1, to2[1] = right2, to3[1] = right3;
}

/* out = start + x W for `count` rows of x and of `out`, which lie so far apart. A tile of W serves all of them while it
   is at hand. */
static ALWAYS void NAME(product)(const REAL *x, int64_t x_row, int64_t count, int64_t m, const REAL *w, int64_t n,
                                 const REAL *start, REAL *out, int64_t out_row) {
    const int64_t whole = count / GROUP * GROUP;
    for (int64_t g = 0; whole && g < n; g += TILE)
        for (int64_t i = 0; i < whole; i += GROUP) {
            const REAL *from = x + i * x_row;
            REAL *to = out + i * out_row + g;
            for (int k = 0; k < GROUP; k++)
                for (int o = 0; o < TILE; o++) to[k * out_row + o] = start[g + o];
            NAME(tile)(from, from + x_row, from + 2 * x_row, from + 3 * x_row, m, w + g * m, to, to + out_row,
                       to + 2 * out_row, to + 3 * out_row);
        }
    for (int64_t i = whole; i < count; i++) NAME(times)(x + i * x_row, m, w, n, start, out + i * out_row);
}

/* The first items in line of up to GROUP sequences, in order of arrival; marks them as done. */
static ALWAYS int NAME(first)(const int64_t *places, int64_t count, uint8_t *done, int64_t *taken) {
    int n = 0;
    for (int64_t i = 0; i < count && n < GROUP; i++) {
        if (done[i]) continue;
        int k = 0;
        while (k < n && places[taken[k]] != places[i]) k++;
        if (k == n) taken[n++] = i; /* else it comes after one that is taken now */
    }
    for (int k = 0; k < n; k++) done[taken[k]] = 1;
    return n;
}

/* Move the states of items on, each sequence's in order; `sums` hold the input's share of the gates, and what they end
   with is copied to `out`. */
static ALWAYS void NAME(fuse)(const NAME(Net) *net, int64_t count, const int64_t *places, REAL *sums, int64_t sums_row,
                              REAL *hidden, REAL *cell, REAL *out, int64_t out_row) {
    const int64_t n = net->fusion;
    uint8_t done[BLOCK] = {0};
    int64_t taken[GROUP];
    for (int64_t left = count; left > 0;) {
        const int k = NAME(first)(places, count, done, taken);
        REAL *state[GROUP], *sum[GROUP];
        for (int j = 0; j < k; j++) {
            state[j] = hidden + places[taken[j]] * n;
            sum[j] = sums + taken[j] * sums_row;
        }
        if (k == GROUP)
            for (int64_t g = 0; g < 4 * n; g += TILE)
                NAME(tile)(state[0], state[1], state[2], state[3], n, net->recurrent + g * n, sum[0] + g, sum[1] + g,
                           sum[2] + g, sum[3] + g);
        else
            for (int j = 0; j < k; j++) NAME(times)(state[j], n, net->recurrent, 4 * n, sum[j], sum[j]);
        for (int j = 0; j < k; j++) {
            NAME(gate)(sum[j], n, state[j], cell + places[taken[j]] * n);
            for (int64_t r = 0; r < n; r++) out[taken[j] * out_row + r] = state[j][r];
        }
        left -= k;
    }
}

/* n items in order of arrival, BLOCK at a time: caches, states and outputs are as if each had come alone. */
EXPORT void NAME(kvec_run)(const NAME(Net) *net, int64_t n, const int64_t *index, const REAL *numbers,
                           const int64_t *rows, const int64_t *starts, const int32_t *seen,
                           const uint8_t *relation, const int64_t *places, REAL *cache, REAL *hidden, REAL *cell,
                           REAL *out, REAL *room) {
    const int64_t width = net->width, row = net->layers * 2 * width, columns = NAME(padded)(net->outputs);
    const int64_t narrow = net->narrow_row, wide_row = net->wide_row;
    REAL *x = room, *h = x + BLOCK * narrow, *wide = h + BLOCK * narrow, *weights = wide + BLOCK * wide_row;
    for (int64_t first = 0; first < n; first += BLOCK) {
        const int64_t count = n - first < BLOCK ? n - first : BLOCK;
        for (int64_t i = 0; i < count; i++) {
            REAL *restrict sum = x + i * narrow;
            for (int64_t d = 0; d < width; d++) sum[d] = 0;
            for (int64_t p = 0; p < net->parts; p++) {
                const REAL *restrict part = net->table + index[(first + i) * net->parts + p] * width;
                for (int64_t d = 0; d < width; d++) sum[d] += part[d];
            }
            for (int64_t p = 0; p < net->numbers; p++) {
                const REAL number = numbers[(first + i) * net->numbers + p], *restrict part = net->project + p * width;
                for (int64_t d = 0; d < width; d++) sum[d] += number * part[d];
            }
        }
        for (int64_t l = 0; l < net->layers; l++) {
            const NAME(Layer) *layer = net->layer + l;
            REAL *own = cache + l * 2 * width;
            for (int64_t i = 0; i < count; i++)
                NAME(normalise)(x + i * narrow, width, layer->norm1, layer->norm1_bias, h + i * narrow);
            NAME(product)(h, narrow, count, width, layer->qkv, 3 * width, layer->qkv_bias, wide, wide_row);
            for (int64_t i = 0; i < count; i++)
                for (int64_t d = 0; d < 2 * width; d++)
                    own[rows[first + i] * row + d] = wide[i * wide_row + width + d];
            for (int64_t i = first; i < first + count; i++)
                NAME(attend)(wide + (i - first) * wide_row, own, row, seen + starts[i], relation + starts[i],
                             layer->relation, net->relations, starts[i + 1] - starts[i], width, net->heads, weights,
                             h + (i - first) * narrow);
            NAME(product)(h, narrow, count, width, layer->out, width, layer->out_bias, wide, wide_row);
            for (int64_t i = 0; i < count; i++) {
                for (int64_t d = 0; d < width; d++) x[i * narrow + d] += wide[i * wide_row + d];
                NAME(normalise)(x + i * narrow, width, layer->norm2, layer->norm2_bias, h + i * narrow);
            }
            NAME(product)(h, narrow, count, width, layer->widen, net->feed_forward, layer->widen_bias, wide, wide_row);
            for (int64_t i = 0; i < count; i++)
                for (int64_t d = 0; d < net->feed_forward; d++)
                    wide[i * wide_row + d] = wide[i * wide_row + d] > 0 ? wide[i * wide_row + d] : 0;
            NAME(product)(wide, wide_row, count, net->feed_forward, layer->narrow, width, layer->narrow_bias, h, narrow);
            for (int64_t i = 0; i < count; i++)
                for (int64_t d = 0; d < width; d++) x[i * narrow + d] += h[i * narrow + d];
        }
        for (int64_t i = 0; i < count; i++)
            NAME(normalise)(x + i * narrow, width, net->norm, net->norm_bias, h + i * narrow);
        NAME(product)(h, narrow, count, width, net->input, 4 * net->fusion, net->input_bias, wide, wide_row);
        NAME(fuse)(net, count, places + first, wide, wide_row, hidden, cell, h, narrow);
        NAME(product)(h, narrow, count, net->fusion, net->head, net->outputs, net->head_bias, out + first * columns,
                      columns);
    }
}

#undef TILE
#undef REAL
#undef EXP
#undef SUFFIX
