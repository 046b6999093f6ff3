#include "backends/cuda/runtime/check.hpp"

#include <string>

#include "backends/cuda/runtime/cublas_lt.hpp"
#include "backends/cuda/runtime/driver.hpp"
#include "mc2/executor/failure_log.hpp"
#include "mc2/planner/error.hpp"
#include "texts.hpp"

namespace mc2::executor::cuda {
namespace {

[[noreturn]] void fail(const char* call, int code, const std::string& what, int rank) {
  const std::string text = call;
  const std::string name = text.substr(0, text.find('('));
  throw SystemError(name, code, (rank < 0 ? "" : rank_text(rank) + ": ") + what);
}

} // namespace

void check(cudaError_t code, const char* call, int rank) {
  if (code != cudaSuccess)
    fail(call, code, std::string(cudaGetErrorName(code)) + ", " + cudaGetErrorString(code), rank);
}

void check(CUresult code, const char* call, int rank) {
  if (code == CUDA_SUCCESS) return;
  const char* name = nullptr; // stays null for codes that the driver does not know
  (void)reinterpret_cast<decltype(&cuGetErrorName)>(driver_function("cuGetErrorName"))(code, &name);
  fail(call, code, name == nullptr ? "an unknown error" : name, rank);
}

void check(ncclResult_t code, const char* call, int rank) {
  if (code != ncclSuccess)
    fail(call, code, std::string(ncclGetErrorString(code)) + "; " + ncclGetLastError(nullptr), rank);
}

void check(cublasStatus_t code, const char* call, int rank) {
  if (code != CUBLAS_STATUS_SUCCESS) fail(call, code, cublasLtGetStatusString(code), rank);
}

void log_failure(cudaError_t code, const char* call) noexcept {
  if (code != cudaSuccess)
    executor::log_failure("call=" + std::string(call) + " code=" + std::to_string(code) + " text=\"" +
                          cudaGetErrorString(code) + "\"");
}

} // namespace mc2::executor::cuda
