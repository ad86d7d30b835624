/* The loops in vectors of WIDTH bytes, for both number types (see _loops.c). */

#define REAL float
#define SUFFIX CAT(_f32_, WIDTH)
typedef float VEC __attribute__((vector_size(WIDTH), aligned(4), may_alias));
typedef int32_t INTS __attribute__((vector_size(WIDTH), aligned(4), may_alias));
typedef uint8_t NAME(bytes) __attribute__((vector_size(WIDTH / 4), aligned(1), may_alias));

/* e^x for x <= 0: a power of two times a polynomial of the rest; relative error (1 + |x|) 1e-7, NaN stays NaN. */
static ALWAYS VEC NAME(below_exp)(VEC x) {
    const VEC y = x * 1.44269504f;
    const INTS whole = __builtin_convertvector(y - 0.5f, INTS), power = (whole + 127) << 23;
    const VEC r = y - __builtin_convertvector(whole, VEC);
    const VEC p = 1.0f + r * (0.6931472067f + r * (0.2402265092f + r * (0.05550327227f +
                  r * (0.009618056678f + r * (0.001340042818f + r * 0.0001546144472f)))));
    return (VEC)((INTS)((VEC)power * p) & ~(x < -87.0f));
}

#include "_attention.h"
#include "_cell.h"
#include "_drop.h"
#include "_rows.h"
#undef REAL
#undef SUFFIX

#define REAL double
#define SUFFIX CAT(_f64_, WIDTH)
typedef double VEC __attribute__((vector_size(WIDTH), aligned(8), may_alias));
typedef int64_t INTS __attribute__((vector_size(WIDTH), aligned(8), may_alias));
typedef uint8_t NAME(bytes) __attribute__((vector_size(WIDTH / 8), aligned(1), may_alias));

static ALWAYS VEC NAME(below_exp)(VEC x) {
    for (int e = 0; e < LANES; e++) x[e] = exp(x[e]);
    return x;
}

#include "_attention.h"
#include "_cell.h"
#include "_drop.h"
#include "_rows.h"
#undef REAL
#undef SUFFIX
