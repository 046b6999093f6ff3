#include "backends/mpi/mpi_communicator.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include "backends/mpi/mpi_checks.hpp"
#include "backends/mpi/mpi_prepared.hpp"
#include "checks.hpp"
#include "choices.hpp"
#include "lanes/host_memory.hpp"
#include "lanes/lane_checks.hpp"
#include "row_splits.hpp"
#include "run_mode.hpp"

namespace mc2::executor::mpi {
namespace {

/// How many rows every rank has for every other. If the kind takes counts, the ranks exchange theirs first.
/// Order: collective. Errors: as check_splits_agree, the same on every rank. Throws SystemError.
Result<RowSplits> agree_on_splits(Agreement& agreement, const planner::OpSpec& op, const RankBuffers& own) {
  if (!planner::traits_of(op.kind).takes_counts) return RowSplits(op);
  MC2_ASSIGN(auto splits, agreed_splits(op, agreement.gather(counts_of(op, own))));
  return splits ? std::move(*splits) : RowSplits(op);
}

std::string options_text(const CommunicatorOptions& options) {
  return std::to_string(options.world_size) + " ranks, deadline " + std::to_string(options.deadline.count()) + " ms, " +
         (options.pin_threads ? "pinned" : "not pinned");
}

} // namespace

MpiCommunicator::MpiCommunicator(const CommunicatorOptions& options)
    : options_(options),
      rank_(World::get().rank()),
      fingerprint_(mpi_fingerprint(options)),
      channel_(options.deadline),
      agreement_(options.deadline),
      control_(1) {}

Result<std::unique_ptr<MpiCommunicator>> MpiCommunicator::open(const CommunicatorOptions& options) {
  std::unique_ptr<MpiCommunicator> opened(new MpiCommunicator(options));
  MC2_TRY(opened->agreement_.agree("open with " + options_text(options)));
  MC2_TRY(opened->agreement_.agree_on_machine(opened->fingerprint_));
  opened->rails_ = make_rails(World::get(), options.deadline);
  opened->ring_order_ = make_ring_order(World::get(), options.deadline);
  const lanes::CoreLayout layout = World::get().core_layout(options.pin_threads);
  opened->threads_ = std::make_unique<lanes::LaneThreads>(opened->rank_, 1, layout, World::get().layout_rank());
  return opened;
}

std::unique_ptr<RankMemory> MpiCommunicator::allocate(int /*rank*/, std::size_t byte_count) {
  return std::make_unique<lanes::HostMemory>(byte_count);
}

Result<std::unique_ptr<Prepared>> MpiCommunicator::prepare_stages(const StageList& stages,
                                                                  const planner::Variant& variant,
                                                                  std::span<const RankBuffers> buffers,
                                                                  const PrepareOptions& options) {
  const auto own = [&]() -> Result<MpiVariant> {
    MC2_TRY(lanes::check_operator(stages.op));
    MC2_TRY(check_world(stages, options_.world_size));
    MC2_ASSIGN(auto read, read_variant(stages.op, variant));
    MC2_TRY(check_message_sizes(stages));
    MC2_TRY(lanes::check_operands(stages.op, local_ranks(), buffers, "mpi"));
    MC2_TRY(check_prepared_memory(stages, read, options.allow_independent));
    return read;
  }();
  MC2_TRY(agreement_.share_error(own ? Result<void>() : own.error()));
  MpiPrepared::Settings settings{.variant = own.value(),
                                 .allow_independent = options.allow_independent,
                                 .call = call_text(stages, variant, options),
                                 .node_heap = nullptr};
  MC2_TRY(agreement_.agree("prepare " + settings.call));
  MC2_ASSIGN(auto splits, agree_on_splits(agreement_, stages.op, buffers.front()));
  if (stages.op.experts) {
    const std::array digest{choice_digest(stages.op, buffers.front())};
    MC2_TRY(check_choices_agree(agreement_.gather(digest)));
  }
  if (settings.variant.shares_memory()) {
    const SegmentLayout layout(stages, settings.variant, options.allow_independent);
    MC2_ASSIGN(settings.node_heap, make_node_heap(layout.byte_count));
  }
  return std::unique_ptr<Prepared>(
      std::make_unique<MpiPrepared>(*this, stages, buffers.front(), std::move(splits), std::move(settings)));
}

Result<std::unique_ptr<node::NodeHeap>> MpiCommunicator::make_node_heap(std::size_t bytes_per_rank) {
  const Placement& placement = World::get().placement();
  const auto& neighbours = placement.ranks_of(placement.node_of(rank_));
  const node::Meeting meeting{.rank = placement.place_of(rank_),
                              .world_size = static_cast<int>(neighbours.size()),
                              .gather =
                                  [&](std::int64_t own) {
                                    const auto all = agreement_.gather({&own, 1});
                                    std::vector<std::int64_t> of_node;
                                    for (const int neighbour : neighbours)
                                      of_node.push_back(all[static_cast<std::size_t>(neighbour)]);
                                    return of_node;
                                  },
                              .share_error = [&](const Result<void>& fault) { return agreement_.share_error(fault); },
                              .names = neighbours};
  auto heap = node::NodeHeap::create(meeting, bytes_per_rank);
  if (!heap) return Error{heap.error().code, "variant", heap.error().message + "; use another variant"};
  return heap;
}

void MpiCommunicator::execute(lanes::LaneTask& task, RunMode mode, const std::string& call,
                              const std::function<std::string()>& progress) {
  if (auto same = agreement_.agree(call); !same) throw SystemError("run", EINVAL, same.error().text());
  control_.begin(mode, options_.deadline);
  threads_->start(task, mode);
  if (threads_->wait(control_.deadline()) != lanes::WaitResult::Reached) {
    abort_job(progress() + ", past the run's deadline; " + agreement_.roll_call(progress()));
  }
  if (control_.has_failed()) abort_job(control_.failure().what());
}

} // namespace mc2::executor::mpi
