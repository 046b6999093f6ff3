#pragma once

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace mc2::testing {

/// Under the address sanitizer: looks for leaks now instead of at the end of the process, when MPI has unloaded the
/// components that tests/support/lsan.supp names.
inline void check_leaks_now() {
#if defined(__SANITIZE_ADDRESS__)
  __lsan_do_leak_check();
#endif
}

} // namespace mc2::testing
