/* The inner loops of the look-up, of attention over lists, of dropout and of the gated cell; called from loops.py through ctypes.

   Optional: without GCC or Clang kvec installs all the same, attends through dense masks and fuses by nn.LSTM.

   The loops are written in vectors of WIDTH bytes, and compiled for each width that processors have registers of: what
   is wider than a register is cut into pieces that wander to the stack and back. kvec_width tells which to call. */

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
#define LANES (WIDTH / (int64_t)sizeof(REAL))

#define SELECT(mask, a, b) ((VEC)(((INTS)(a) & (mask)) | ((INTS)(b) & ~(mask))))

#define WIDTH 16
#include "_width.h"
#undef WIDTH

#ifdef HAS_GENERATIONS
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
#define WIDTH 32
#include "_width.h"
#undef WIDTH
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4")
#define WIDTH 64
#include "_width.h"
#undef WIDTH
#pragma GCC pop_options
#endif

/* The widest vectors, in bytes, that this processor has registers of. */
EXPORT int64_t kvec_width(void) {
#ifdef HAS_GENERATIONS
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v4")) return 64;
    if (__builtin_cpu_supports("x86-64-v3")) return 32;
#endif
    return 16;
}

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "kvec.encode._loops", .m_size = 0};

PyMODINIT_FUNC PyInit__loops(void) { return PyModuleDef_Init(&module); }
