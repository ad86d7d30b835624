/* The inner loops of the look-up, of attention over lists, of dropout and of the gated cell; called from loops.py through ctypes.

   Optional: without GCC or Clang kvec installs all the same, attends through dense masks and fuses by nn.LSTM. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "../words/_portable.h"

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define NAME(x) CAT(x, SUFFIX)
#define VEC NAME(vec)
#define INTS NAME(ints)
#define LANES (64 / (int64_t)sizeof(REAL))

#define SELECT(mask, a, b) ((VEC)(((INTS)(a) & (mask)) | ((INTS)(b) & ~(mask))))

typedef float vec_f32 __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t ints_f32 __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint8_t bytes_f32 __attribute__((vector_size(16), aligned(1), may_alias));
typedef double vec_f64 __attribute__((vector_size(64), aligned(8), may_alias));
typedef int64_t ints_f64 __attribute__((vector_size(64), aligned(8), may_alias));
typedef uint8_t bytes_f64 __attribute__((vector_size(8), aligned(1), may_alias));

/* e^x for x <= 0: a power of two times a polynomial of the rest; relative error (1 + |x|) 1e-7, NaN stays NaN. */
static ALWAYS vec_f32 below_exp_f32(vec_f32 x) {
    const vec_f32 y = x * 1.44269504f;
    const ints_f32 whole = __builtin_convertvector(y - 0.5f, ints_f32), power = (whole + 127) << 23;
    const vec_f32 r = y - __builtin_convertvector(whole, vec_f32);
    const vec_f32 p = 1.0f + r * (0.6931472067f + r * (0.2402265092f + r * (0.05550327227f +
                      r * (0.009618056678f + r * (0.001340042818f + r * 0.0001546144472f)))));
    return (vec_f32)((ints_f32)((vec_f32)power * p) & ~(x < -87.0f));
}

static ALWAYS vec_f64 below_exp_f64(vec_f64 x) {
    for (int e = 0; e < 8; e++) x[e] = exp(x[e]);
    return x;
}

#define REAL float
#define SUFFIX _f32
#include "_attention.h"
#include "_cell.h"
#include "_drop.h"
#include "_rows.h"
#undef REAL
#undef SUFFIX

#define REAL double
#define SUFFIX _f64
#include "_attention.h"
#include "_cell.h"
#include "_drop.h"
#include "_rows.h"

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "kvec.encode._loops", .m_size = 0};

PyMODINIT_FUNC PyInit__loops(void) { return PyModuleDef_Init(&module); }
