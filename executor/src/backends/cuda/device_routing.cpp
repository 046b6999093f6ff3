#include "backends/cuda/device_routing.hpp"

#include <cerrno>
#include <string>

#include "mc2/planner/error.hpp"
#include "row_splits.hpp"
#include "texts.hpp"

namespace mc2::executor::cuda {
namespace {

std::int64_t number_count(const planner::OpSpec& op) {
  return op.world_size * static_cast<std::int64_t>(count_count(op));
}

std::int64_t table_bytes(const planner::OpSpec& op) {
  return number_count(op) * static_cast<std::int64_t>(sizeof(std::int64_t));
}

std::int64_t derived_bytes(const planner::OpSpec& op) {
  const std::int64_t pair_count = std::int64_t{op.world_size} * op.world_size;
  return number_count(op) * static_cast<std::int64_t>(sizeof(RoutedRows)) +
         (pair_count + 1) * static_cast<std::int64_t>(sizeof(std::int64_t));
}

} // namespace

DeviceRouting::DeviceRouting(const planner::OpSpec& op, int rank, DevicePool& pool)
    : columns_(op.n),
      table_(std::make_unique<DeviceMemory>(pool, static_cast<std::size_t>(table_bytes(op)))),
      derived_(std::make_unique<DeviceMemory>(pool, static_cast<std::size_t>(derived_bytes(op)))) {
  const auto expert_count = static_cast<int>(op.experts_per_rank);
  told_.rank = counts_.rank = rank;
  told_.world_size = counts_.world_size = op.world_size;
  told_.expert_count = counts_.expert_count = expert_count;
  counts_.gathers_first = planner::traits_of(op.kind).communicates_first();
  counts_.most_rows = op.m / op.world_size;
  counts_.table = reinterpret_cast<const std::int64_t*>(table());
  counts_.rows = reinterpret_cast<RoutedRows*>(derived_->bytes().data());
  counts_.pair_rows = reinterpret_cast<std::int64_t*>(counts_.rows + number_count(op));
  counts_.fault = reinterpret_cast<std::uint32_t*>(counts_.pair_rows + std::int64_t{op.world_size} * op.world_size);
  for (std::size_t i = 0; i < fault_.size(); ++i) {
    fault_[i] = std::make_unique<MappedWord>();
    counts_.host_fault[i] = fault_[i]->device();
  }
}

void DeviceRouting::set_tables(std::span<std::byte* const> of_rank) noexcept {
  for (std::size_t rank = 0; rank < of_rank.size(); ++rank)
    told_.tables[rank] = reinterpret_cast<std::int64_t*>(of_rank[rank]);
}

void DeviceRouting::set_lists(std::span<const RoutedList> lists, DevicePool& pool) {
  const auto bytes = std::as_bytes(lists);
  list_memory_ = std::make_unique<DeviceMemory>(pool, bytes.size());
  list_memory_->upload(bytes);
  list_count_ = static_cast<int>(lists.size());
}

void DeviceRouting::enqueue_telling(std::span<const std::byte> own, cudaStream_t stream) const {
  ToldCounts told = told_;
  told.own = reinterpret_cast<const std::int64_t*>(own.data());
  cuda::enqueue_telling(told, stream);
}

void DeviceRouting::enqueue_lists(std::span<std::byte> c, cudaStream_t stream) const {
  const RoutedLists lists{.lists = reinterpret_cast<const RoutedList*>(list_memory_->bytes().data()),
                          .list_count = list_count_,
                          .columns = columns_,
                          .c = c.data(),
                          .c_bytes = static_cast<std::int64_t>(c.size())};
  enqueue_routing(counts_, lists, stream);
}

void DeviceRouting::require_legal() const {
  if (fault_[0]->get() == 0) return;
  const auto place = static_cast<std::int64_t>(fault_[0]->get()) - 1;
  const auto value = static_cast<std::int64_t>(std::uint64_t{fault_[2]->get()} << 32U | fault_[1]->get());
  const std::int64_t pair = place / told_.expert_count;
  throw SystemError("counts", EINVAL,
                    rank_text(pair / told_.world_size) + " sends " + rank_text(pair % told_.world_size) + " " +
                        std::to_string(value) + " rows of expert " + std::to_string(place % told_.expert_count) +
                        "; legal: 0 to m / ranks = " + std::to_string(counts_.most_rows) +
                        " with all experts of the rank");
}

void DeviceRouting::keep_memory() noexcept {
  for (auto* memory : {&table_, &derived_, &list_memory_}) (void)memory->release();
  for (auto& word : fault_) (void)word.release();
}

bool reads_device_counts(std::span<const RankBuffers> buffers) noexcept {
  return !buffers.empty() && !buffers.front().device_send_counts.empty();
}

std::vector<std::int64_t> device_routing_bytes(const planner::OpSpec& op) {
  return {table_bytes(op), derived_bytes(op)};
}

} // namespace mc2::executor::cuda
