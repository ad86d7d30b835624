/* How the C extensions mark functions: to be put into their callers, or to be called from Python. They need GCC or Clang.

   HAS_GENERATIONS: there are generations of x86 processors to compile for, of which the best is taken at start-up. */

#define ALWAYS inline __attribute__((always_inline))
#define EXPORT __attribute__((visibility("default")))

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define HAS_GENERATIONS
#endif
