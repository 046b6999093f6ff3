#pragma once

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>

/// In place of the C library's: nothing is unloaded, so that what MPI's components leave behind still has a name, which
/// tests/support/lsan.supp can give. Only in programs that include this.
extern "C" [[gnu::used, gnu::visibility("default")]] inline int dlclose(void* /*library*/) noexcept { return 0; }
#endif

namespace mc2::testing {

/// Under the address sanitizer: looks for leaks now instead of at the end of the process, before MPI is ended.
inline void check_leaks_now() {
#if defined(__SANITIZE_ADDRESS__)
  __lsan_do_leak_check();
#endif
}

} // namespace mc2::testing
