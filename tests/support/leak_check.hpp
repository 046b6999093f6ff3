#pragma once

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>

/// Replaces the C library's dlclose() in programs that include this header. No library is unloaded, so that leaks of
/// MPI's components still have the names that tests/support/lsan.supp lists.
extern "C" [[gnu::used, gnu::visibility("default")]] inline int dlclose(void* /*library*/) noexcept { return 0; }
#endif

namespace mc2::testing {

/// With the address sanitizer, looks for leaks now, before MPI is ended, instead of at the end of the process.
inline void check_leaks_now() {
#if defined(__SANITIZE_ADDRESS__)
  __lsan_do_leak_check();
#endif
}

} // namespace mc2::testing
