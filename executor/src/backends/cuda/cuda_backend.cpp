#include "backends/cuda/cuda_backend.hpp"

#include <fstream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/cuda_checks.hpp"
#include "backends/cuda/cuda_communicator.hpp"
#include "backends/cuda/runtime/check.hpp"
#include "backends/cuda/runtime/machine.hpp"
#include "backends/cuda/transports/variants.hpp"
#include "checks.hpp"
#include "process_group.hpp"
#include "texts.hpp"

namespace mc2::executor::cuda {
namespace {

/// Checks the rank's number among the ranks of its host. Errors: InvalidSpec, Unsupported (process).
Result<void> check_place(const CommunicatorOptions& options) {
  if (!spans_hosts(options)) return {};
  if (ranks_per_device() > 1)
    return Error{
        ErrorCode::Unsupported, "process",
        "is of several hosts, which meet through NCCL; NCCL takes a device only once, so give each rank its own "
        "(unset MC2_RANKS_PER_DEVICE)"};
  const ProcessPlace& place = *options.process;
  const bool is_whole = place.local_size >= 1 && options.world_size % place.local_size == 0;
  if (is_whole && place.local_rank >= 0 && place.local_rank < place.local_size) return {};
  return Error{ErrorCode::InvalidSpec, "process",
               "is number " + std::to_string(place.local_rank) + " of " + std::to_string(place.local_size) +
                   " ranks on its host; every host has as many of " + std::to_string(options.world_size) +
                   " ranks, one after the other, numbered from 0"};
}

Result<void> check_options(const CommunicatorOptions& options) {
  MC2_TRY(options.validate());
  MC2_TRY(cuda_backend().check_emulation(options));
  MC2_TRY(cuda_backend().check_rank_count(options.world_size));
  MC2_TRY(check_place(options));
  MC2_TRY(check_devices(ranks_here(options)));
  return check_native_communicators(options.native_communicators, local_ranks_of(options), options.world_size);
}

/// Identifies the running operating system kernel, and so the host, of this process.
std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string identity;
  std::getline(file, identity);
  return identity;
}

/// Checks that consecutive ranks are on one host, as the mapping of memory needs. Errors, the same on every rank:
/// Mismatch.
Result<void> check_hosts(ProcessGroup& group, const CommunicatorOptions& options) {
  if (!spans_hosts(options)) return {};
  const int here = ranks_here(options);
  const auto places = group.all_gather(std::to_string(options.process->local_rank) + " " + host_identity());
  for (int rank = 0; rank < options.world_size; ++rank) {
    const int first = rank / here * here;
    for (int other = first; other < rank; ++other) {
      const std::string &one = places[static_cast<std::size_t>(other)], &two = places[static_cast<std::size_t>(rank)];
      const auto number = [](const std::string& place) { return place.substr(0, place.find(' ')); };
      const auto host = [](const std::string& place) { return place.substr(place.find(' ')); };
      if (number(one) != number(two) && host(one) == host(two)) continue;
      return Error{
          ErrorCode::Mismatch, "process",
          rank_text(other) + " and " + rank_text(rank) +
              (host(one) != host(two) ? " are on two hosts" : " are both number " + number(one) + " of their host") +
              "; of " + std::to_string(here) + " ranks a host, ranks " + std::to_string(first) + " to " +
              std::to_string(first + here - 1) + " must be on one; start ranks host by host"};
    }
  }
  return {};
}

/// Opens a communicator of which every process holds one rank. If one process gets an error, all get it.
Result<std::unique_ptr<Communicator>> open_between_processes(const CommunicatorOptions& options) {
  MC2_TRY(check_meeting(*options.process, options.world_size));
  auto group = open_process_group(*options.process, options.world_size, options.deadline);
  MC2_TRY(group->share_error(check_options(options)));
  auto fingerprint = cuda_fingerprint(options);
  MC2_TRY(group->agree("open on " + fingerprint.canonical_text()));
  MC2_TRY(check_hosts(*group, options));
  return std::unique_ptr<Communicator>(
      std::make_unique<CudaCommunicator>(options, std::move(fingerprint), std::move(group)));
}

class CudaBackend final : public Backend {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "cuda"; }

  [[nodiscard]] Availability availability(int local_ranks) const override {
    std::string reason;
    const int count = device_count(&reason);
    if (count == 0) return {.is_available = false, .reason = reason};
    const std::string devices = std::to_string(count) + " x " + device_name() + ", " + software_text();
    if (count < devices_for(local_ranks))
      return {.is_available = false,
              .reason = devices + "; " + std::to_string(devices_for(local_ranks)) + " devices are the least"};
    return {.is_available = true, .reason = devices};
  }

  [[nodiscard]] int most_ranks() const noexcept override { return kMaxCudaRanks; }

  [[nodiscard]] std::vector<planner::Variant> variants(const planner::OpSpec& op,
                                                       const CommunicatorOptions& options) const override {
    auto variants = cuda_variants(op, gpu_traits(), spans_hosts(options));
    std::erase_if(variants, [&](const planner::Variant& variant) { return !check_variant(op, options, variant).ok(); });
    return variants;
  }

  [[nodiscard]] Result<void> check_variant(const planner::OpSpec& op, const CommunicatorOptions& options,
                                           const planner::Variant& variant) const override {
    MC2_ASSIGN(const auto read, read_variant(op, variant, gpu_traits()));
    return check_reach(read, options);
  }

  [[nodiscard]] Result<void> takes(const planner::OpSpec& op, const CommunicatorOptions& options) const override {
    MC2_TRY(check_operator(op));
    MC2_TRY(check_devices(ranks_here(options)));
    return check_device_types(op, devices_for(ranks_here(options)));
  }

  [[nodiscard]] Result<void> supports(const planner::OpSpec& op) const override {
    CommunicatorOptions all_here;
    all_here.world_size = op.world_size;
    MC2_TRY(takes(op, all_here));
    const auto sizes = prepared_sizes(op, false, true);
    const std::int64_t needed_bytes = std::accumulate(sizes.begin(), sizes.end(), operand_bytes(op));
    for (int rank = 0; rank < op.world_size; ++rank) {
      MC2_TRY(check_memory({rank, device_for(rank)}, needed_bytes * ranks_per_device(), 0));
    }
    return {};
  }

  [[nodiscard]] planner::Fingerprint fingerprint(const CommunicatorOptions& options) const override {
    return cuda_fingerprint(options);
  }

  [[nodiscard]] Result<std::unique_ptr<Communicator>> open(const CommunicatorOptions& options) const override {
    MC2_TRY(options.validate());
    if (options.process) return open_between_processes(options);
    MC2_TRY(check_options(options));
    return std::unique_ptr<Communicator>(
        std::make_unique<CudaCommunicator>(options, cuda_fingerprint(options), nullptr));
  }
};

} // namespace

const Backend& cuda_backend() noexcept {
  static const CudaBackend kBackend;
  return kBackend;
}

} // namespace mc2::executor::cuda
