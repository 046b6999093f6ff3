#include "backends/host/host_communicator.hpp"

#include <omp.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <numeric>
#include <utility>

#include "backends/host/host_prepared.hpp"
#include "backends/host/mechanisms/mechanism.hpp"
#include "bags.hpp"
#include "checks.hpp"
#include "lanes/block_layout.hpp"
#include "lanes/host_memory.hpp"
#include "lanes/lane_checks.hpp"

namespace mc2::executor::host {
namespace {

class CallTask final : public lanes::LaneTask {
 public:
  CallTask(const std::function<void(int)>& work, int world_size)
      : work_(work), errors_(static_cast<std::size_t>(world_size)) {}

  void run_lane(int rank, planner::Lane /*lane*/) noexcept override {
    try {
      work_(rank);
    } catch (...) {
      errors_[static_cast<std::size_t>(rank)] = std::current_exception();
    }
  }

  void rethrow_first() const {
    for (const auto& error : errors_) {
      if (error) std::rethrow_exception(error);
    }
  }

 private:
  const std::function<void(int)>& work_;
  std::vector<std::exception_ptr> errors_; ///< by rank
};

/// What prepare() adds to the caller's own buffers.
std::int64_t prepared_bytes(const StageList& list, const HostVariant& variant, const PrepareOptions& options,
                            const Transport& transport) {
  std::int64_t longest = 0;
  for (const Stage& stage : list.stages) longest = std::max(longest, stage.row_count);
  const std::int64_t intermediates = (options.allow_independent ? 2 : 1) * lanes::intermediate_bytes(list.op);
  const std::int64_t staging = staging_bytes(list.op, longest, transport);
  return list.op.world_size * (intermediates + lanes::packed_b_bytes(list) + staging) +
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
  set_up_lanes(lanes::CoreLayout(lanes::allowed_cores(), options.world_size, options.pin_threads));
}

void HostCommunicator::set_up_lanes(const lanes::CoreLayout& layout) {
  for (const int rank : ranks_) {
    compute_lanes_.push_back(std::make_unique<lanes::LaneThread>(rank, planner::Lane::Compute, completion_));
    communication_lanes_.push_back(
        std::make_unique<lanes::LaneThread>(rank, planner::Lane::Communication, completion_));
  }
  for (const auto lane : {planner::Lane::Compute, planner::Lane::Communication}) {
    call_on_lanes(lane, [&](int rank) {
      const auto cores = layout.cores_of(rank, lane);
      // Before the thread's first parallel region: its team inherits the cores.
      if (!cores.empty()) lanes::pin_current_thread(cores, rank);
      omp_set_num_threads(lane == planner::Lane::Compute ? layout.compute_thread_count() : 1);
    });
  }
}

std::unique_ptr<RankMemory> HostCommunicator::allocate(int /*rank*/, std::size_t byte_count) {
  return std::make_unique<lanes::HostMemory>(byte_count);
}

planner::Result<std::unique_ptr<Prepared>> HostCommunicator::prepare_stages(const StageList& stages,
                                                                            const planner::Variant& variant,
                                                                            std::span<const RankBuffers> buffers,
                                                                            const PrepareOptions& options) {
  if (auto legal = lanes::check_operator(stages.op); !legal) return legal.error();
  if (auto legal = check_world(stages, options_.world_size); !legal) return legal.error();
  const auto read = read_variant(stages.op, options_.link, variant);
  if (!read) return read.error();
  if (auto legal = check_buffers(stages.op, buffers); !legal) return legal.error();
  if (read.value().mechanism != HostVariant::Mechanism::Direct && !buffers.front().send_counts.empty()) {
    return planner::Error{planner::ErrorCode::Unsupported, "variant",
                          "\"" + variant.name + "\" exchanges equal splits only; \"direct\" takes counts"};
  }
  if (auto legal = check_b_is_plain(ranks_, buffers, "host"); !legal) return legal.error();
  if (auto legal = check_bags(stages.op, ranks_, buffers); !legal) return legal.error();
  if (auto legal = lanes::check_memory(prepared_bytes(stages, read.value(), options, *transport_)); !legal)
    return legal.error();
  throw_if_failed();
  return std::unique_ptr<Prepared>(std::make_unique<HostPrepared>(*this, stages, read.value(), buffers, options));
}

void HostCommunicator::execute(lanes::LaneTask& task, Transport& transport, RunMode mode,
                               const std::function<void(lanes::Clock::time_point)>& at_start) {
  throw_if_failed();
  control_.begin(mode, options_.deadline);
  running_ = &transport;
  transport.begin_run(control_.start());
  at_start(control_.start());
  const bool has_both = runs_lane(mode, planner::Lane::Compute) && runs_lane(mode, planner::Lane::Communication);
  completion_.expect((has_both ? 2 : 1) * options_.world_size);
  for (const auto lane : {planner::Lane::Compute, planner::Lane::Communication}) {
    if (runs_lane(mode, lane)) post_to(task, lane);
  }
  if (completion_.wait(control_.deadline()) != lanes::WaitResult::Reached) {
    fail(lanes::deadline_error(control_.laggard()));
    (void)completion_.wait(lanes::Clock::time_point::max());
  }
  transport.end_run();
  if (control_.has_failed()) throw control_.failure();
}

void HostCommunicator::call_on_lanes(planner::Lane lane, const std::function<void(int)>& work) {
  CallTask task(work, options_.world_size);
  completion_.expect(options_.world_size);
  post_to(task, lane);
  (void)completion_.wait(lanes::Clock::time_point::max());
  task.rethrow_first();
}

void HostCommunicator::post_to(lanes::LaneTask& task, planner::Lane lane) noexcept {
  for (const auto& thread : lane == planner::Lane::Compute ? compute_lanes_ : communication_lanes_) thread->post(task);
}

void HostCommunicator::fail(const planner::SystemError& failure) noexcept {
  control_.fail(failure);
  running_->abort();
}

void HostCommunicator::throw_if_failed() const {
  if (process_.is_inherited()) {
    throw planner::SystemError("fork", ECHILD,
                               "the communicator was opened by the parent process; open another one in the child");
  }
  if (!control_.has_failed()) return;
  throw planner::SystemError("communicator", ECANCELED,
                             std::string("aborted by an earlier failure: ") + control_.failure().what());
}

} // namespace mc2::executor::host
