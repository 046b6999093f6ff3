#pragma once

#include <cublasLt.h>

#include <atomic>

namespace mc2::executor::cuda {

/// The address of a function of cuBLASLt. The first call loads the library: that takes 0.1 s and 200 MB, too much for a
/// command that multiplies nothing. Throws SystemError if the library or the function is missing. Threads: any.
[[nodiscard]] void* cublas_lt_address(const char* name);

template <typename Signature>
class LateFunction;

/// A function of cuBLASLt that is looked up at its first call.
template <typename R, typename... Arguments>
class LateFunction<R(Arguments...)> {
 public:
  constexpr explicit LateFunction(const char* name) noexcept : name_(name) {}

  R operator()(Arguments... arguments) const {
    void* address = address_.load(std::memory_order_relaxed);
    if (address == nullptr) address_.store(address = cublas_lt_address(name_), std::memory_order_relaxed);
    return reinterpret_cast<R (*)(Arguments...)>(address)(arguments...);
  }

 private:
  const char* name_;
  mutable std::atomic<void*> address_{nullptr};
};

// In this namespace a call of cuBLASLt finds these objects and not the library's functions, which are not linked.
#define MC2_LATE(name) \
  inline constinit const LateFunction<decltype(::name)> name { #name }
MC2_LATE(cublasLtCreate);
MC2_LATE(cublasLtDestroy);
MC2_LATE(cublasLtGetStatusString);
MC2_LATE(cublasLtGetVersion);
MC2_LATE(cublasLtMatmul);
MC2_LATE(cublasLtMatmulAlgoConfigGetAttribute);
MC2_LATE(cublasLtMatmulAlgoGetHeuristic);
MC2_LATE(cublasLtMatmulDescCreate);
MC2_LATE(cublasLtMatmulDescDestroy);
MC2_LATE(cublasLtMatmulDescSetAttribute);
MC2_LATE(cublasLtMatmulPreferenceCreate);
MC2_LATE(cublasLtMatmulPreferenceDestroy);
MC2_LATE(cublasLtMatmulPreferenceSetAttribute);
MC2_LATE(cublasLtMatrixLayoutCreate);
MC2_LATE(cublasLtMatrixLayoutDestroy);
MC2_LATE(cublasLtMatrixLayoutSetAttribute);
#undef MC2_LATE

} // namespace mc2::executor::cuda
