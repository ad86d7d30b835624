/* How the C extensions mark functions, for each compiler: to be put into their callers, or to be called from Python.

   Where GCC has generations of x86 processors to choose from, on Linux, EXPORT makes a copy of a function for each of
   them, and the best is taken at start-up; ONE_EXPORT is as it stands. */

#if defined(_MSC_VER)
#define ALWAYS __forceinline
#define restrict __restrict
#define ONE_EXPORT __declspec(dllexport)
#else
#define ALWAYS inline __attribute__((always_inline))
#define ONE_EXPORT __attribute__((visibility("default")))
#endif

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define HAS_GENERATIONS
#define EXPORT __attribute__((visibility("default"), target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EXPORT ONE_EXPORT
#endif
