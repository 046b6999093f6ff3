#include "backends/cuda/runtime/cublas_lt.hpp"

#include <dlfcn.h>

#include <string>

#include "mc2/planner/error.hpp"

namespace mc2::executor::cuda {
namespace {

#define MC2_TEXT_OF(value) #value
#define MC2_TEXT(value) MC2_TEXT_OF(value)
/// The interface changes with the major version, so only the version of the headers will do.
constexpr const char* kLibrary = "libcublasLt.so." MC2_TEXT(CUBLAS_VER_MAJOR);

void* found(void* symbol, const char* call, const std::string& advice) {
  if (symbol != nullptr) return symbol;
  const char* reason = dlerror();
  throw SystemError(call, 0, (reason != nullptr ? reason : "no reason given") + advice);
}

} // namespace

void* cublas_lt_address(const char* name) {
  // Never unloaded, because handles of other threads may outlive any owner.
  static void* const library =
      found(dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL), "dlopen",
            "; install cuBLAS " MC2_TEXT(CUBLAS_VER_MAJOR) " or put its folder into LD_LIBRARY_PATH");
  return found(dlsym(library, name), "dlsym", "");
}

} // namespace mc2::executor::cuda
