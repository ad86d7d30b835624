/* The network's arithmetic for arriving items; called from kernel.py through ctypes.

   Optional: without GCC or Clang kvec installs all the same and streams through NumPy.

   The loops are written in vectors of WIDTH bytes, and compiled for each width that processors have registers of: what
   is wider than a register is cut into pieces that wander to the stack and back. kvec_width tells which to call. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>

#include "../words/_portable.h"

#define GROUP 4  /* rows that are multiplied with a tile of a matrix at once */
#define BLOCK 32 /* items that go through the network together */

/* e^x: a power of two times a polynomial of the rest, as in encode/_loops.c; relative error (1 + |x|) 1e-7. Below -87 it
   is 0, above 87 it grows no more; NaN stays NaN. */
static ALWAYS float quick_exp(float x) {
    const float bounded = x > 87.0f ? 87.0f : x, y = bounded * 1.44269504f;
    const float whole = floorf(y + 0.5f), r = y - whole;
    const float p = 1.0f + r * (0.6931472067f + r * (0.2402265092f + r * (0.05550327227f +
                    r * (0.009618056678f + r * (0.001340042818f + r * 0.0001546144472f)))));
    union { int32_t i; float f; } power = {.i = ((int32_t)whole + 127) << 23};
    return x < -87.0f ? 0.0f : p * power.f;
}

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define NAME(x) CAT(x, SUFFIX)
#define VEC NAME(vec)

#define WIDTH 16
#define REAL float
#define EXP quick_exp
#define SUFFIX _f32_16
#include "_kernel.h"
#define REAL double
#define EXP exp
#define SUFFIX _f64_16
#include "_kernel.h"
#undef WIDTH

#ifdef HAS_GENERATIONS
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
#define WIDTH 32
#define REAL float
#define EXP quick_exp
#define SUFFIX _f32_32
#include "_kernel.h"
#define REAL double
#define EXP exp
#define SUFFIX _f64_32
#include "_kernel.h"
#undef WIDTH
#pragma GCC pop_options
#endif

/* The widest vectors, in bytes, that this processor has registers of and that there is code for. */
EXPORT int64_t kvec_width(void) {
#ifdef HAS_GENERATIONS
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v3")) return 32;
#endif
    return 16;
}

/* So many items go through the network together. */
EXPORT int64_t kvec_block(void) { return BLOCK; }

#include "_ready.h"

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "kvec.decide._kernel", .m_size = 0};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModuleDef_Init(&module); }
