/* The network's arithmetic for arriving items; called from kernel.py through ctypes.

   Optional: without a compiler kvec installs all the same and streams through NumPy. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>

#define LANES 64 /* columns of a matrix that are worked on at once */
#if defined(_MSC_VER)
#define ALWAYS __forceinline
#define restrict __restrict
#define EXPORT __declspec(dllexport)
#elif defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define ALWAYS inline __attribute__((always_inline))
#define EXPORT __attribute__((visibility("default"), target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ALWAYS inline __attribute__((always_inline))
#define EXPORT __attribute__((visibility("default")))
#endif

/* e^x for x <= 0 or moderate, to about one unit in the last place; plain enough to be vectorised. */
static ALWAYS float quick_exp(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 87.0f ? 87.0f : x;
    const float n = floorf(x * 1.44269504f + 0.5f);
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    union { int32_t i; float f; } power = {.i = ((int32_t)n + 127) << 23};
    return p * power.f;
}

#define REAL float
#define EXP quick_exp
#define SUFFIX _f32
#include "_kernel.h"

#define REAL double
#define EXP exp
#define SUFFIX _f64
#include "_kernel.h"

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "kvec.decide._kernel", .m_size = 0};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModuleDef_Init(&module); }
