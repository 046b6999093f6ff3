#include "backends/host/host_backend.hpp"

#include <string>
#include <utility>

#include "backends/host/host_communicator.hpp"
#include "backends/host/mechanisms/variants.hpp"
#include "checks.hpp"
#include "lanes/affinity.hpp"
#include "lanes/gemm.hpp"
#include "lanes/lane_checks.hpp"
#include "lanes/machine.hpp"

namespace mc2::executor::host {
namespace {

constexpr std::string_view kName = "host";

/// Names the parts of the machine that are emulated; empty when all are real.
std::string emulation_text(const CommunicatorOptions& options) {
  std::string text;
  if (options.link.is_emulated()) text = "link " + options.link.text();
  if (options.virtual_compute) {
    text += (text.empty() ? "" : ", ") + ("virtual compute " + options.virtual_compute->text());
  }
  return text;
}

class HostBackend final : public Backend {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return kName; }

  [[nodiscard]] Availability availability(int /*local_ranks*/) const override {
    return {.is_available = true,
            .reason = std::to_string(lanes::allowed_cores().size()) + " cores of " + lanes::cpu_model() + ", oneDNN " +
                      lanes::gemm_library_version() + " with " + lanes::gemm_isa()};
  }

  [[nodiscard]] int most_ranks() const noexcept override { return kMaxHostRanks; }
  [[nodiscard]] bool emulates() const noexcept override { return true; }

  [[nodiscard]] std::vector<planner::Variant> variants(const planner::OpSpec& op,
                                                       const CommunicatorOptions& options) const override {
    return host_variants(op, options.link);
  }

  [[nodiscard]] bool variants_share_matmul() const noexcept override { return true; }

  [[nodiscard]] Result<void> check_variant(const planner::OpSpec& op, const CommunicatorOptions& options,
                                           const planner::Variant& variant) const override {
    MC2_TRY(read_variant(op, options.link, variant));
    return {};
  }

  [[nodiscard]] Result<void> supports(const planner::OpSpec& op) const override {
    MC2_TRY(lanes::check_operator(op));
    MC2_TRY(check_rank_count(op.world_size));
    return lanes::check_memory(lanes::operator_bytes(op));
  }

  [[nodiscard]] planner::Fingerprint fingerprint(const CommunicatorOptions& options) const override {
    const auto cores = lanes::allowed_cores();
    const lanes::CoreLayout layout(cores, options.world_size, options.pin_threads);
    planner::Fingerprint print{.fields = {{"backend", std::string(kName)},
                                          {"compute_threads", std::to_string(layout.compute_thread_count())},
                                          {"cores", std::to_string(cores.size())},
                                          {"cpu_model", lanes::cpu_model()},
                                          {"isa", lanes::gemm_isa()},
                                          {"link", options.link.text()},
                                          {"onednn", lanes::gemm_library_version()},
                                          {"pinning", std::string(to_string(layout.pinning()))},
                                          {"ranks", std::to_string(options.world_size)}}};
    if (auto emulation = emulation_text(options); !emulation.empty()) print.fields["emulation"] = std::move(emulation);
    return print;
  }

  [[nodiscard]] Result<std::unique_ptr<Communicator>> open(const CommunicatorOptions& options) const override {
    return open_host(options, {});
  }
};

} // namespace

const Backend& host_backend() noexcept {
  static const HostBackend kBackend;
  return kBackend;
}

Result<std::unique_ptr<Communicator>> open_host(const CommunicatorOptions& options, StageHook hook) {
  MC2_TRY(options.validate());
  MC2_TRY(check_holds_all_ranks(options, "host"));
  MC2_TRY(host_backend().check_rank_count(options.world_size));
  return std::unique_ptr<Communicator>(
      std::make_unique<HostCommunicator>(options, host_backend().fingerprint(options), std::move(hook)));
}

} // namespace mc2::executor::host
