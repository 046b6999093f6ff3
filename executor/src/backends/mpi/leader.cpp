#include "backends/mpi/leader.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "backends/mpi/check.hpp"
#include "backends/mpi/message.hpp"
#include "backends/mpi/mpi_checks.hpp"
#include "backends/mpi/mpi_communicator.hpp"
#include "backends/mpi/orders.hpp"
#include "backends/mpi/remote_memory.hpp"
#include "backends/mpi/variants.hpp"
#include "backends/mpi/world.hpp"
#include "checks.hpp"

namespace mc2::executor::mpi {
namespace {

using planner::Result;

std::int64_t next_id() {
  static std::int64_t last = 0; // rank 0 directs with one thread
  return ++last;
}

void tell(int rank, const Message& message) { message.send(rank, order_channel()); }

void tell_all(const Message& message) {
  for (int rank = 1; rank < World::get().size(); ++rank) tell(rank, message);
}

/// Of another process.
class RemoteMemory final : public RankMemory {
 public:
  RemoteMemory(AddressBook& book, int rank, std::size_t byte_count)
      : book_(book), rank_(rank), id_(book.add(rank, byte_count)) {
    tell(rank_, Message(Command::Allocate).put(id_).put(static_cast<std::int64_t>(byte_count)));
  }
  ~RemoteMemory() override {
    book_.remove(id_);
    try {
      tell(rank_, Message(Command::Free).put(id_));
    } catch (const std::exception& error) {
      abort_job(error.what());
    }
  }

  [[nodiscard]] std::span<std::byte> bytes() noexcept override { return book_.bytes(id_); }
  void upload(std::span<const std::byte> from) override {
    tell(rank_, Message(Command::Upload).put(id_).put(static_cast<std::int64_t>(from.size())));
    send_bytes(from, rank_, order_channel());
  }
  void download(std::span<std::byte> to) const override {
    tell(rank_, Message(Command::Download).put(id_).put(static_cast<std::int64_t>(to.size())));
    receive_bytes(to, rank_, order_channel());
  }

 private:
  AddressBook& book_;
  int rank_;
  std::int64_t id_;
};

/// Every rank's part of a plan: here the own one, elsewhere under the same number.
class LeaderPrepared final : public Prepared {
 public:
  LeaderPrepared(std::unique_ptr<Prepared> own, std::int64_t id, std::size_t stage_count)
      : own_(std::move(own)), id_(id), times_(time_count(stage_count)) {
    for (int rank = 0; rank < World::get().size(); ++rank)
      record_.ranks.push_back({rank, std::vector<StageTime>(stage_count), std::vector<StageTime>(stage_count), {}});
  }
  ~LeaderPrepared() override {
    try {
      tell_all(Message(Command::Drop).put(id_));
    } catch (const std::exception& error) {
      abort_job(error.what());
    }
  }

  using Prepared::run;
  const RunRecord& run(RunMode mode, RunDetail detail) override {
    tell_all(Message(Command::Run).put(id_).put(static_cast<std::int64_t>(mode)).put(static_cast<std::int64_t>(detail)));
    const RunRecord& own = own_->run(mode, detail);
    record_.makespan = own.makespan;
    record_.wall = own.wall;
    record_.ranks.front() = own.ranks.front();
    for (int rank = 1; rank < World::get().size(); ++rank) {
      receive_bytes(std::as_writable_bytes(std::span(times_)), rank, order_channel());
      unpack_times(times_, record_.ranks[static_cast<std::size_t>(rank)]);
    }
    return record_;
  }

 private:
  std::unique_ptr<Prepared> own_;
  std::int64_t id_;
  std::vector<std::int64_t> times_;
  RunRecord record_;
};

class LeaderCommunicator final : public Communicator {
 public:
  LeaderCommunicator(std::unique_ptr<MpiCommunicator> own, std::int64_t id)
      : own_(std::move(own)), id_(id), ranks_(static_cast<std::size_t>(own_->world_size())) {
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }
  ~LeaderCommunicator() override {
    try {
      tell_all(Message(Command::Close).put(id_)); // freeing channels is collective
    } catch (const std::exception& error) {
      abort_job(error.what());
    }
  }

  [[nodiscard]] int world_size() const noexcept override { return own_->world_size(); }
  [[nodiscard]] std::span<const int> local_ranks() const noexcept override { return ranks_; }
  [[nodiscard]] const planner::Fingerprint& fingerprint() const noexcept override { return own_->fingerprint(); }
  [[nodiscard]] bool uses_host_memory() const noexcept override { return false; }
  [[nodiscard]] std::unique_ptr<RankMemory> allocate(int rank, std::size_t byte_count) override {
    if (rank == 0) return own_->allocate(rank, byte_count);
    return std::make_unique<RemoteMemory>(book_, rank, byte_count);
  }
  [[nodiscard]] Result<std::unique_ptr<Prepared>> prepare(const StageList& stages, const planner::Variant& variant,
                                                          std::span<const RankBuffers> buffers,
                                                          const PrepareOptions& options) override;

 private:
  [[nodiscard]] Result<void> check_request(const StageList& stages, const planner::Variant& variant,
                                           std::span<const RankBuffers> buffers) const;

  AddressBook book_;
  std::unique_ptr<MpiCommunicator> own_;
  std::int64_t id_;
  std::vector<int> ranks_;
};

Result<void> LeaderCommunicator::check_request(const StageList& stages, const planner::Variant& variant,
                                               std::span<const RankBuffers> buffers) const {
  if (auto legal = check_operator(stages.op); !legal) return legal.error();
  if (auto legal = check_world(stages, world_size()); !legal) return legal.error();
  if (auto legal = read_variant(variant); !legal) return legal.error();
  if (auto legal = check_stages(stages); !legal) return legal.error();
  return check_buffers(stages.op, buffers);
}

Result<std::unique_ptr<Prepared>> LeaderCommunicator::prepare(const StageList& stages, const planner::Variant& variant,
                                                              std::span<const RankBuffers> buffers,
                                                              const PrepareOptions& options) {
  if (auto legal = check_request(stages, variant, buffers); !legal) return legal.error();
  const std::int64_t id = next_id();
  std::vector<Message> orders;
  for (int rank = 1; rank < world_size(); ++rank) {
    Message& order = orders.emplace_back(Command::Prepare);
    order.put(id).put(id_);
    put_request(order, {stages, variant, options});
    const RankBuffers& own = buffers[static_cast<std::size_t>(rank)];
    for (const auto& [bytes, name] :
         {std::pair{own.a, "A"}, {own.b, "B"}, {std::span<const std::byte>(own.c), "C"}}) {
      const auto place = book_.find(rank, bytes, name);
      if (!place) return place.error();
      order.put(place.value().id).put(place.value().offset).put(place.value().byte_count);
    }
  }
  for (int rank = 1; rank < world_size(); ++rank) tell(rank, orders[static_cast<std::size_t>(rank) - 1]);
  auto own = own_->prepare(stages, variant, buffers.first(1), options);
  if (!own) return own.error();
  return std::unique_ptr<Prepared>(
      std::make_unique<LeaderPrepared>(std::move(own).value(), id, stages.stages.size()));
}

} // namespace

Result<std::unique_ptr<Communicator>> open_as_leader(const CommunicatorOptions& options) {
  const std::int64_t id = next_id();
  tell_all(Message(Command::Open)
               .put(id)
               .put(options.world_size)
               .put(options.pin_threads ? 1 : 0)
               .put(static_cast<std::int64_t>(options.deadline.count())));
  auto own = MpiCommunicator::open(options);
  if (!own) return own.error();
  return std::unique_ptr<Communicator>(std::make_unique<LeaderCommunicator>(std::move(own).value(), id));
}

void dismiss_followers() { tell_all(Message(Command::Quit)); }

} // namespace mc2::executor::mpi
