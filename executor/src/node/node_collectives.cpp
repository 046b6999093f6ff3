#include "mc2/executor/node_collectives.hpp"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "checks.hpp"
#include "lanes/affinity.hpp"
#include "lanes/combine.hpp"
#include "mc2/executor/process_mark.hpp"
#include "node/lane.hpp"
#include "shared_memory_group.hpp"
#include "texts.hpp"

namespace mc2::executor {
namespace {

using node::Call;
using planner::DType;
using Clock = std::chrono::steady_clock;

constexpr int kMostThreads = 256;
constexpr std::chrono::milliseconds kLongestDeadline{1'000'000'000};
/// Tells whether this process is a fork()ed child of the one that loaded the library. OpenMP's threads do not exist in
/// a child, and OpenMP would wait for them.
const ProcessMark kLoadingProcess;
constexpr std::size_t kBytesPerThread = std::size_t{32} << 10U; ///< less work is not worth waking a thread
/// Where every thread has a core of its own, a waiting thread looks for some milliseconds before it sleeps. Waking a
/// thread takes up to a tenth of that.
constexpr int kManyLooks = 200'000;
/// How long to go on waiting after a rank has left: it may have ended this very call, which the others then end soon.
constexpr std::chrono::seconds kDepartureGrace{1};

Error illegal(std::string field, std::string message) {
  return {ErrorCode::InvalidSpec, std::move(field), std::move(message)};
}

Result<void> check_summed(DType dtype, std::size_t byte_count) {
  if (dtype == DType::F8E4m3) return illegal("dtype", "f8e4m3 has no sum; f32, bf16, f16 and i8 have");
  const auto element = static_cast<std::size_t>(planner::size_bytes(dtype));
  if (byte_count % element != 0)
    return illegal(
        "data", std::to_string(byte_count) + " bytes are no whole number of " + std::string(planner::to_string(dtype)));
  return {};
}

Result<void> check_parts(std::size_t whole, std::size_t part, int world_size) {
  const auto ranks = static_cast<std::size_t>(world_size);
  if (whole % ranks == 0 && whole / ranks == part) return {}; // a product could wrap
  return illegal("data", std::to_string(whole) + " bytes beside " + std::to_string(part) + "; " +
                             std::to_string(world_size) + " ranks need that many times as many");
}

} // namespace

class NodeCollectives::Impl {
 public:
  Impl(const ProcessPlace& place, int world_size, const NodeCollectivesOptions& options)
      : group_(place, world_size, options.deadline), deadline_(options.deadline) {}

  Result<void> open(int threads, std::optional<int> memory_node) {
    const node::Meeting meeting{.rank = group_.rank(),
                                .world_size = group_.world_size(),
                                .gather = [this](std::int64_t own) { return gather(own); },
                                .share_error = [this](const Result<void>& own) { return group_.share_error(own); }};
    std::vector<int> nodes;
    for (const std::int64_t node : gather(memory_node.value_or(lanes::memory_node())))
      nodes.push_back(static_cast<int>(node));
    threads = static_cast<int>(-group_.maximum(kLoadingProcess.is_inherited() ? -1 : -threads));
    MC2_ASSIGN(heap_, node::NodeHeap::create(meeting, static_cast<std::size_t>(threads) * node::Lane::segment_bytes()));
    const bool have_cores = lanes::allowed_cores().size() >= static_cast<std::size_t>(threads);
    const auto crowded = group_.maximum(
        have_cores && std::thread::hardware_concurrency() >= static_cast<unsigned>(threads * world_size()) ? 0 : 1);
    const int looks = crowded == 0 ? kManyLooks : node::SharedSignal::kFewLooks;
    for (int index = 0; index < threads; ++index)
      lanes_.emplace_back(
          *heap_, group_.rank(), nodes, index, [this](int peer, Clock::time_point since) { pause(peer, since); },
          looks);
    return group_.agree("open collectives"); // no rank uses lanes before all ranks have made theirs
  }

  [[nodiscard]] int rank() const noexcept { return group_.rank(); }
  [[nodiscard]] int world_size() const noexcept { return group_.world_size(); }
  [[nodiscard]] int threads() const noexcept { return static_cast<int>(lanes_.size()); }
  /// Whether this is the copy in a fork()ed child, which is no rank.
  [[nodiscard]] bool is_inherited() const noexcept { return process_.is_inherited(); }

  /// Calls `work(lane, first, count)` on several threads, with shares of the bytes that `call` counts.
  template <typename Work>
  void run(const Call& call, const Work& work) {
    if (is_inherited())
      throw SystemError("collective", EPERM, "the collectives are those of the parent process; open others");
    const std::unique_lock turn(turn_, std::try_to_lock);
    if (!turn) throw SystemError("collective", EBUSY, "another thread is in a call; one at a time");
    if (std::atomic_ref(*group_.abort_word()) != 0) // raised by an earlier call of this rank, or by another rank
      throw SystemError("collective", ECANCELED,
                        group_.failure().value_or("a rank has failed") + "; open the collectives anew");
    const auto wanted = (call.byte_count + kBytesPerThread - 1) / kBytesPerThread;
    const auto count = static_cast<int>(std::clamp<std::size_t>(wanted, 1, lanes_.size()));
    const auto share = [&](int index) {
      const std::size_t first = node::part_start(call.byte_count, index, count);
      const std::size_t end = node::part_start(call.byte_count, index + 1, count);
      guarded([&] { work(lanes_[static_cast<std::size_t>(index)], first, end - first); });
    };
    if (count == 1) {
      share(0);
    } else {
#pragma omp parallel for num_threads(count) schedule(static, 1)
      for (int index = 0; index < count; ++index) share(index);
    }
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::vector<std::int64_t> gather(std::int64_t own) { return group_.gather({&own, 1}); }

  /// Runs `work` and keeps its exception, which must not leave an OpenMP thread. Tells all ranks of it.
  template <typename Work>
  void guarded(const Work& work) noexcept {
    try {
      work();
    } catch (const std::exception& error) {
      group_.fail(error.what());
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
  }

  void pause(int peer, Clock::time_point since) const {
    const auto waited = Clock::now() - since;
    auto reason = group_.failure();
    if (!reason && waited > kDepartureGrace) reason = group_.departure();
    if (reason) throw SystemError("collective", ECANCELED, *reason);
    if (waited > deadline_)
      throw SystemError("collective", ETIMEDOUT,
                        rank_text(peer) + " did not come within " + std::to_string(deadline_.count()) + " ms");
  }

  SharedMemoryGroup group_;
  std::chrono::milliseconds deadline_;
  std::unique_ptr<node::NodeHeap> heap_;
  std::deque<node::Lane> lanes_;
  ProcessMark process_;
  std::mutex turn_;            ///< held during a call
  std::mutex mutex_;           ///< guards failure_
  std::exception_ptr failure_; ///< the first exception of any thread
};

NodeCollectives::NodeCollectives(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NodeCollectives::~NodeCollectives() {
  if (impl_->is_inherited()) static_cast<void>(impl_.release());
}

Result<std::unique_ptr<NodeCollectives>> NodeCollectives::open(const ProcessPlace& place, int world_size,
                                                               const NodeCollectivesOptions& options) {
  constexpr int kMostRanks = static_cast<int>(lanes::kMostPartials);
  if (world_size < 2 || world_size > kMostRanks)
    return illegal("world_size", "is " + std::to_string(world_size) + "; legal: 2 to " + std::to_string(kMostRanks));
  if (place.rank < 0 || place.rank >= world_size)
    return illegal("rank", "is " + std::to_string(place.rank) + "; legal: 0 to " + std::to_string(world_size - 1));
  if (place.key.empty())
    return illegal("key", "is empty; needs a text that the ranks have in common, and no other job");
  if (place.spans_hosts())
    return Error{ErrorCode::Unsupported, "place", "spans hosts; these collectives are for ranks of one machine"};
  if (options.threads < 1 || options.threads > kMostThreads)
    return illegal("threads",
                   "is " + std::to_string(options.threads) + "; legal: 1 to " + std::to_string(kMostThreads));
  if (options.deadline.count() < 1 || options.deadline > kLongestDeadline)
    return illegal("deadline", "is " + std::to_string(options.deadline.count()) + " ms; legal: 1 to " +
                                   std::to_string(kLongestDeadline.count()));
  auto impl = std::make_unique<Impl>(place, world_size, options);
  MC2_TRY(impl->open(options.threads, options.memory_node));
  return std::unique_ptr<NodeCollectives>(new NodeCollectives(std::move(impl)));
}

int NodeCollectives::rank() const noexcept { return impl_->rank(); }
int NodeCollectives::world_size() const noexcept { return impl_->world_size(); }
int NodeCollectives::threads() const noexcept { return impl_->threads(); }

Result<void> NodeCollectives::all_reduce(std::span<std::byte> data, DType dtype) {
  MC2_TRY(check_summed(dtype, data.size()));
  const Call call{.kind = Call::Kind::AllReduce, .dtype = dtype, .byte_count = data.size()};
  impl_->run(call, [&](node::Lane& lane, std::size_t first, std::size_t count) {
    lane.all_reduce(call, data.data(), first, count);
  });
  return {};
}

Result<void> NodeCollectives::reduce_scatter(std::span<const std::byte> data, std::span<std::byte> own, DType dtype) {
  MC2_TRY(check_summed(dtype, own.size()));
  MC2_TRY(check_parts(data.size(), own.size(), world_size()));
  if (overlap(data, own)) return illegal("own", "overlaps the data");
  const Call call{.kind = Call::Kind::ReduceScatter, .dtype = dtype, .byte_count = own.size()};
  impl_->run(call, [&](node::Lane& lane, std::size_t first, std::size_t count) {
    lane.reduce_scatter(call, data.data(), own.data(), first, count);
  });
  return {};
}

Result<void> NodeCollectives::all_gather(std::span<const std::byte> own, std::span<std::byte> all) {
  MC2_TRY(check_parts(all.size(), own.size(), world_size()));
  const auto place = all.subspan(static_cast<std::size_t>(rank()) * own.size(), own.size());
  if (overlap(own, all) && own.data() != place.data())
    return illegal("own", "overlaps the others' parts of what is gathered; it may be its own place there");
  const Call call{.kind = Call::Kind::AllGather, .byte_count = own.size()};
  impl_->run(call, [&](node::Lane& lane, std::size_t first, std::size_t count) {
    lane.all_gather(call, own.data(), all.data(), first, count);
  });
  return {};
}

Result<void> NodeCollectives::all_to_all(std::span<const std::byte> data, std::span<std::byte> received) {
  if (data.size() != received.size() || data.size() % static_cast<std::size_t>(world_size()) != 0)
    return illegal("data", std::to_string(data.size()) + " bytes for " + std::to_string(received.size()) +
                               "; needs as many, that " + std::to_string(world_size()) + " ranks divide");
  if (overlap(data, received)) return illegal("received", "overlaps the data");
  const Call call{.kind = Call::Kind::AllToAll, .byte_count = data.size() / static_cast<std::size_t>(world_size())};
  impl_->run(call, [&](node::Lane& lane, std::size_t first, std::size_t count) {
    lane.all_to_all(call, data.data(), received.data(), first, count);
  });
  return {};
}

} // namespace mc2::executor
