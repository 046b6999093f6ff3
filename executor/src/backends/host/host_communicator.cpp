#include "backends/host/host_communicator.hpp"

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <utility>

#include "backends/host/host_prepared.hpp"
#include "backends/host/mechanisms/mechanism.hpp"
#include "checks.hpp"
#include "choices.hpp"
#include "lanes/block_layout.hpp"
#include "lanes/host_memory.hpp"
#include "lanes/lane_checks.hpp"
#include "row_splits.hpp"

namespace mc2::executor::host {
namespace {

/// Bytes that prepare() allocates beside the caller's own buffers.
std::int64_t prepared_bytes(const StageList& list, const HostVariant& variant, const PrepareOptions& options,
                            const Transport& transport) {
  const std::int64_t intermediates = (options.allow_independent ? 2 : 1) * lanes::intermediate_bytes(list.op);
  const std::int64_t staging = staging_bytes(list.op, longest_rows(list), transport);
  return list.op.world_size * (intermediates + lanes::device_bytes(list) + staging) +
         mechanism_bytes(variant, mechanism_shape(list.op));
}

} // namespace

HostCommunicator::HostCommunicator(const CommunicatorOptions& options, planner::Fingerprint fingerprint, StageHook hook)
    : options_(options),
      fingerprint_(std::move(fingerprint)),
      hook_(std::move(hook)),
      ranks_(static_cast<std::size_t>(options.world_size)),
      control_(options.world_size),
      transport_(make_transport(options.link, options.world_size)),
      proxies_(options.world_size) {
  std::iota(ranks_.begin(), ranks_.end(), 0);
  const lanes::CoreLayout layout(lanes::allowed_cores(), options.world_size, options.pin_threads);
  threads_ = std::make_unique<lanes::LaneThreads>(0, options.world_size, layout, 0);
}

std::unique_ptr<RankMemory> HostCommunicator::allocate(int /*rank*/, std::size_t byte_count) {
  return std::make_unique<lanes::HostMemory>(byte_count);
}

Result<std::unique_ptr<Prepared>> HostCommunicator::prepare_stages(const StageList& stages,
                                                                   const planner::Variant& variant,
                                                                   std::span<const RankBuffers> buffers,
                                                                   const PrepareOptions& options) {
  MC2_TRY(lanes::check_operator(stages.op));
  MC2_TRY(check_world(stages, options_.world_size));
  MC2_ASSIGN(const auto read, read_variant(stages.op, options_.link, variant));
  MC2_TRY(lanes::check_operands(stages.op, ranks_, buffers, "host"));
  MC2_TRY(check_splits_agree(stages.op, buffers));
  if (read.mechanism != HostVariant::Mechanism::Direct && !buffers.front().send_counts.empty()) {
    return Error{ErrorCode::Unsupported, "variant",
                 "\"" + variant.name + "\" exchanges equal splits only; \"direct\" takes counts"};
  }
  std::vector<std::int64_t> digests;
  for (const RankBuffers& rank : buffers) digests.push_back(choice_digest(stages.op, rank));
  MC2_TRY(check_choices_agree(digests));
  MC2_TRY(lanes::check_memory(prepared_bytes(stages, read, options, *transport_)));
  throw_if_failed();
  return std::unique_ptr<Prepared>(std::make_unique<HostPrepared>(*this, stages, read, buffers, options));
}

void HostCommunicator::execute(lanes::LaneTask& task, Transport& transport, RunMode mode,
                               const std::function<void(lanes::Clock::time_point)>& at_start) {
  throw_if_failed();
  control_.begin(mode, options_.deadline);
  running_ = &transport;
  transport.begin_run(control_.start());
  at_start(control_.start());
  threads_->start(task, mode);
  if (threads_->wait(control_.deadline()) != lanes::WaitResult::Reached) {
    fail(lanes::deadline_error(control_.laggard()));
    (void)threads_->wait(lanes::Clock::time_point::max());
  }
  transport.end_run();
  if (control_.has_failed()) throw control_.failure();
}

void HostCommunicator::fail(const SystemError& failure) noexcept {
  control_.fail(failure);
  running_->abort();
}

void HostCommunicator::throw_if_failed() const {
  if (process_.is_inherited()) {
    throw SystemError("fork", ECHILD,
                      "the communicator was opened by the parent process; open another one in the child");
  }
  if (!control_.has_failed()) return;
  throw SystemError("communicator", ECANCELED,
                    std::string("aborted by an earlier failure: ") + control_.failure().what());
}

} // namespace mc2::executor::host
