#include <string>

#include "backends/cuda/cuda_backend.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::executor::cuda {
namespace {

using planner::Error;
using planner::ErrorCode;
using planner::Result;

constexpr const char* kReason = "this build has no CUDA: it needs nvcc, cuBLASLt and NCCL 2.28 or later when mc2 is configured";

Error absent() { return {ErrorCode::Unsupported, "backend", kReason}; }

/// Stands in the registry of a build without CUDA, so that a user who asks for it learns why it is not there.
class AbsentBackend final : public Backend {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "cuda"; }
  [[nodiscard]] Availability availability() const override { return {.is_available = false, .reason = kReason}; }
  [[nodiscard]] std::vector<planner::Variant> variants(const planner::OpSpec& /*op*/) const override { return {}; }
  [[nodiscard]] std::int64_t default_alignment() const noexcept override { return 128; }
  [[nodiscard]] Result<void> supports(const planner::OpSpec& /*op*/) const override { return absent(); }
  [[nodiscard]] planner::Fingerprint fingerprint(const CommunicatorOptions& /*options*/) const override {
    return {.fields = {{"backend", "cuda"}}};
  }
  [[nodiscard]] Result<std::unique_ptr<Communicator>> open(const CommunicatorOptions& /*options*/) const override {
    return absent();
  }
};

} // namespace

const Backend& cuda_backend() noexcept {
  static const AbsentBackend kBackend;
  return kBackend;
}

} // namespace mc2::executor::cuda
