/* The inner loops of attention over lists of visible items; called from sparse.py through ctypes.

   Optional: without a compiler kvec installs all the same and attends through dense masks. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>

#define MOST_SIZE 128 /* numbers of a head */
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

#define REAL float
#define SUFFIX _f32
#include "_sparse.h"

#define REAL double
#define SUFFIX _f64
#include "_sparse.h"

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "kvec.encode._sparse", .m_size = 0};

PyMODINIT_FUNC PyInit__sparse(void) { return PyModuleDef_Init(&module); }
