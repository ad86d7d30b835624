/* How the C extensions mark functions, for each compiler: to be put into their callers, or to be called from Python.

   GCC on Linux makes a copy of the latter for each generation of x86 processors, and takes the best at start-up; or, with
   EXPORT_FOR, for one of them alone. */

#if defined(_MSC_VER)
#define ALWAYS __forceinline
#define restrict __restrict
#define EXPORT __declspec(dllexport)
#else
#define ALWAYS inline __attribute__((always_inline))
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define EXPORT __attribute__((visibility("default"), target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define EXPORT_FOR(arch) __attribute__((visibility("default"), target("arch=" arch)))
#define HAS_GENERATIONS
#else
#define EXPORT __attribute__((visibility("default")))
#endif
#endif

#ifndef HAS_GENERATIONS
#define EXPORT_FOR(arch) EXPORT
#endif
