#include <string>

#include "backends/mpi/mpi_backend.hpp"
#include "mc2/executor/processes.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::executor {
namespace mpi {
namespace {

using planner::Error;
using planner::ErrorCode;
using planner::Result;

constexpr const char* kReason = "this build has no MPI: it needs Open MPI (libopenmpi-dev) when mc2 is configured";

Error absent() { return {ErrorCode::Unsupported, "backend", kReason}; }

/// Stands in the registry of a build without MPI, so that a user who asks for it learns why it is not there.
class AbsentBackend final : public Backend {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "mpi"; }
  [[nodiscard]] Availability availability() const override { return {.is_available = false, .reason = kReason}; }
  [[nodiscard]] std::vector<planner::Variant> variants(const planner::OpSpec& /*op*/) const override { return {}; }
  [[nodiscard]] std::int64_t default_alignment() const noexcept override { return 64; }
  [[nodiscard]] Result<void> supports(const planner::OpSpec& /*op*/) const override { return absent(); }
  [[nodiscard]] planner::Fingerprint fingerprint(const CommunicatorOptions& /*options*/) const override {
    return {.fields = {{"backend", "mpi"}}};
  }
  [[nodiscard]] Result<std::unique_ptr<Communicator>> open(const CommunicatorOptions& /*options*/) const override {
    return absent();
  }
};

} // namespace

const Backend& mpi_backend() noexcept {
  static const AbsentBackend kBackend;
  return kBackend;
}

} // namespace mpi

planner::Result<int> lead_processes(const std::string& /*request*/, const std::function<int()>& lead) {
  return lead();
}

} // namespace mc2::executor
