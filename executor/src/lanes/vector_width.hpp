#pragma once

// Compiles a function for several instruction sets; the loader chooses one. Not with the thread sanitizer, because the
// loader would choose before the sanitizer has started.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define MC2_EVERY_VECTOR_WIDTH [[gnu::target_clones("avx2", "default")]]
#else
#define MC2_EVERY_VECTOR_WIDTH
#endif
