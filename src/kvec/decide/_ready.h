/* How ready sequences are to be decided, by the class logits after their newest items: as readiness.py has it. */

/* p_i^b / sum p^b of C probabilities by their logarithms, in place. */
static void shares_of(double *p, int64_t n_classes, double beta) {
    double top = p[0], sum = 0;
    for (int64_t c = 1; c < n_classes; c++) if (p[c] > top) top = p[c];
    for (int64_t c = 0; c < n_classes; c++) sum += p[c] = exp(beta * (p[c] - top));
    for (int64_t c = 0; c < n_classes; c++) p[c] /= sum;
}

static double log_of(double p) { return log(p > 1e-12 ? p : 1e-12); }

/* The largest probability (no weights), or the halting score by what waiting loses: `weights` holds `n_knots` rows of
   F + 1 for each of the steps, mixed by `dial`; `row` says which step a number of items is, -1 for none. `room` is for C
   numbers. Probabilities and logits are rounded to single precision, as those of whole tables are. */
EXPORT void kvec_ready(int64_t n, int64_t n_classes, const double *logits, const int64_t *n_observed,
                       int64_t n_octaves, const double *sharpness, int64_t n_rows, const int32_t *row, int64_t n_knots,
                       const double *weights, const float *dial, double *room, double *out) {
    const int64_t n_features = 2 * n_classes + 6;
    for (int64_t i = 0; i < n; i++) {
        const int64_t seen = n_observed[i];
        const int64_t step = !weights ? 0 : row[seen < n_rows ? seen : n_rows - 1];
        if (step < 0) {
            out[i] = 0;
            continue;
        }
        for (int64_t c = 0; c < n_classes; c++) room[c] = logits[i * n_classes + c];
        shares_of(room, n_classes, 1);
        if (n_octaves) {
            int64_t octave = 0;
            while (octave < n_octaves - 1 && seen >> (octave + 1)) octave++;
            double top = 0;
            for (int64_t c = 0; c < n_classes; c++) {
                room[c] = log_of(room[c]);
                if (!c || room[c] > top) top = room[c];
            }
            const double least = 1.0 / n_classes, range = 1 - least > 1e-12 ? 1 - least : 1e-12;
            const double *pair = sharpness + 2 * octave;
            shares_of(room, n_classes, pair[0] + (exp(top) - least) / range * (pair[1] - pair[0]));
        }
        double first = 0, second = 0, doubt = 0;
        for (int64_t c = 0; c < n_classes; c++) {
            const double p = room[c] = (float)room[c];
            if (p > first) second = first, first = p;
            else if (p > second) second = p;
            doubt -= p * log_of(p);
        }
        if (!weights) {
            out[i] = first;
            continue;
        }
        const double lead = n_classes > 1 ? first - second : 0;
        const double rest[] = {first, first * first * first, lead, lead * lead, lead * lead * lead, doubt};
        float logit = 0;
        for (int64_t k = 0; k < n_knots; k++) {
            const double *w = weights + (step * n_knots + k) * (n_features + 1);
            double sum = w[n_features];
            for (int64_t c = 0; c < n_classes; c++) sum += room[c] * (w[c] + room[c] * w[n_classes + c]);
            for (int64_t f = 0; f < 6; f++) sum += rest[f] * w[2 * n_classes + f];
            logit += (float)sum * dial[k];
        }
        out[i] = 1 / (1 + expf(-logit));
    }
}
