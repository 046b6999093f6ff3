#include "backends/mpi/leader.hpp"

#include <algorithm>
#include <bit>
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
#include "lanes/lane_checks.hpp"
#include "operands.hpp"
#include "time_numbers.hpp"

namespace mc2::executor::mpi {
namespace {

constexpr std::chrono::seconds kDismissalDeadline{60};

std::int64_t next_id() {
  static std::int64_t last = 0; // not atomic: rank 0 directs with one thread
  return ++last;
}

/// Sends rank 0's orders to the processes that it directs.
class Orders {
 public:
  explicit Orders(std::chrono::milliseconds deadline) : deadline_(deadline) {}

  void tell(int rank, const Message& message) const { message.send(rank, order_channel(), deadline_); }
  void tell_all(const Message& message) const {
    for (int rank = 1; rank < World::get().size(); ++rank) tell(rank, message);
  }
  /// Calls `tell` from a destructor, which may not throw: an error ends the job.
  template <typename Tell>
  void tell_last(Tell&& tell) const noexcept {
    try {
      tell(*this);
    } catch (const std::exception& error) {
      abort_job(error.what());
    }
  }
  void send(std::span<const std::byte> bytes, int rank) const { send_bytes(bytes, rank, order_channel(), deadline_); }
  void receive(std::span<std::byte> bytes, int rank) const { receive_bytes(bytes, rank, order_channel(), deadline_); }

 private:
  std::chrono::milliseconds deadline_; ///< for one message
};

/// Memory of another process.
class RemoteMemory final : public RankMemory {
 public:
  RemoteMemory(const Orders& orders, AddressBook& book, int rank, std::size_t byte_count)
      : orders_(orders), book_(book), rank_(rank), id_(book.add(rank, byte_count)) {
    orders_.tell(rank_, Message(Command::Allocate).put(id_).put(static_cast<std::int64_t>(byte_count)));
  }
  ~RemoteMemory() override {
    book_.remove(id_);
    orders_.tell_last([this](const Orders& orders) { orders.tell(rank_, Message(Command::Free).put(id_)); });
  }

  [[nodiscard]] std::span<std::byte> bytes() noexcept override { return book_.bytes(id_); }
  void upload(std::span<const std::byte> from) override {
    orders_.tell(rank_, Message(Command::Upload).put(id_).put(static_cast<std::int64_t>(from.size())));
    orders_.send(from, rank_);
  }
  void download(std::span<std::byte> to) const override {
    orders_.tell(rank_, Message(Command::Download).put(id_).put(static_cast<std::int64_t>(to.size())));
    orders_.receive(to, rank_);
  }

 private:
  const Orders& orders_;
  AddressBook& book_;
  int rank_;
  std::int64_t id_;
};

/// The prepared plan on every rank: rank 0's own, and one under the same id in every other process.
class LeaderPrepared final : public Prepared {
 public:
  LeaderPrepared(const Orders& orders, std::unique_ptr<Prepared> own, std::int64_t id, std::size_t stage_count)
      : orders_(orders), own_(std::move(own)), id_(id), times_(time_count(stage_count)) {
    for (int rank = 0; rank < World::get().size(); ++rank)
      record_.ranks.push_back({rank, std::vector<StageTime>(stage_count), std::vector<StageTime>(stage_count), {}});
  }
  ~LeaderPrepared() override {
    orders_.tell_last([this](const Orders& orders) { orders.tell_all(Message(Command::Drop).put(id_)); });
  }

  using Prepared::run;
  const RunRecord& run(RunMode mode, RunDetail detail) override {
    orders_.tell_all(
        Message(Command::Run).put(id_).put(static_cast<std::int64_t>(mode)).put(static_cast<std::int64_t>(detail)));
    const RunRecord& own = own_->run(mode, detail);
    record_.makespan = own.makespan;
    record_.wall = own.wall;
    record_.ranks.front() = own.ranks.front();
    for (int rank = 1; rank < World::get().size(); ++rank) {
      orders_.receive(std::as_writable_bytes(std::span(times_)), rank);
      unpack_times(times_, record_.ranks[static_cast<std::size_t>(rank)]);
    }
    return record_;
  }

 private:
  const Orders& orders_;
  std::unique_ptr<Prepared> own_;
  std::int64_t id_;
  std::vector<std::int64_t> times_;
  RunRecord record_;
};

class LeaderCommunicator final : public Communicator {
 public:
  LeaderCommunicator(const Orders& orders, std::unique_ptr<MpiCommunicator> own, std::int64_t id)
      : orders_(orders), own_(std::move(own)), id_(id), ranks_(static_cast<std::size_t>(own_->world_size())) {
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }
  ~LeaderCommunicator() override {
    // Tells the others before own_ is destroyed, because freeing channels is collective.
    orders_.tell_last([this](const Orders& orders) { orders.tell_all(Message(Command::Close).put(id_)); });
  }

  [[nodiscard]] int world_size() const noexcept override { return own_->world_size(); }
  [[nodiscard]] std::span<const int> local_ranks() const noexcept override { return ranks_; }
  [[nodiscard]] const planner::Fingerprint& fingerprint() const noexcept override { return own_->fingerprint(); }
  [[nodiscard]] bool uses_host_memory() const noexcept override { return false; }
  [[nodiscard]] std::unique_ptr<RankMemory> allocate(int rank, std::size_t byte_count) override {
    if (rank == 0) return own_->allocate(rank, byte_count);
    return std::make_unique<RemoteMemory>(orders_, book_, rank, byte_count);
  }
  [[nodiscard]] Result<std::unique_ptr<Prepared>> prepare_stages(const StageList& stages,
                                                                 const planner::Variant& variant,
                                                                 std::span<const RankBuffers> buffers,
                                                                 const PrepareOptions& options) override;

 private:
  [[nodiscard]] Result<void> check_request(const StageList& stages, const planner::Variant& variant,
                                           std::span<const RankBuffers> buffers) const;

  Orders orders_;
  AddressBook book_;
  std::unique_ptr<MpiCommunicator> own_;
  std::int64_t id_;
  std::vector<int> ranks_;
};

/// Puts the places of a rank's operands in its memory into an order. Errors: as AddressBook::find.
Result<void> put_operands(Message& order, const AddressBook& book, int rank, const RankBuffers& own) {
  MC2_TRY(try_operands(own, [&](std::span<const std::byte> bytes, const char* name) -> Result<void> {
    MC2_ASSIGN(const auto place, bytes.empty() ? Result<Place>(Place{}) : book.find(rank, bytes, name));
    order.put(place.id).put(place.offset).put(place.byte_count);
    return {};
  }));
  order.put(static_cast<std::int64_t>(own.bags.type));
  order.put(static_cast<std::int64_t>(own.choices.type));
  order.put(std::bit_cast<std::int32_t>(own.norm_epsilon));
  put_numbers(order, own.send_counts);
  put_numbers(order, own.receive_counts);
  return {};
}

Result<void> LeaderCommunicator::check_request(const StageList& stages, const planner::Variant& variant,
                                               std::span<const RankBuffers> buffers) const {
  MC2_TRY(lanes::check_operator(stages.op));
  MC2_TRY(check_world(stages, world_size()));
  MC2_TRY(read_variant(stages.op, variant));
  return check_buffers(stages.op, buffers);
}

Result<std::unique_ptr<Prepared>> LeaderCommunicator::prepare_stages(const StageList& stages,
                                                                     const planner::Variant& variant,
                                                                     std::span<const RankBuffers> buffers,
                                                                     const PrepareOptions& options) {
  MC2_TRY(check_request(stages, variant, buffers));
  const std::int64_t id = next_id();
  std::vector<Message> orders;
  for (int rank = 1; rank < world_size(); ++rank) {
    Message& order = orders.emplace_back(Command::Prepare);
    order.put(id).put(id_);
    put_request(order, {stages, variant, options});
    MC2_TRY(put_operands(order, book_, rank, buffers[static_cast<std::size_t>(rank)]));
  }
  for (int rank = 1; rank < world_size(); ++rank) orders_.tell(rank, orders[static_cast<std::size_t>(rank) - 1]);
  MC2_ASSIGN(auto own, own_->prepare_stages(stages, variant, buffers.first(1), options));
  return std::unique_ptr<Prepared>(std::make_unique<LeaderPrepared>(orders_, std::move(own), id, stages.stages.size()));
}

} // namespace

Result<std::unique_ptr<Communicator>> open_as_leader(const CommunicatorOptions& options) {
  const std::int64_t id = next_id();
  const Orders orders(options.deadline);
  orders.tell_all(Message(Command::Open)
                      .put(id)
                      .put(options.world_size)
                      .put(options.pin_threads ? 1 : 0)
                      .put(static_cast<std::int64_t>(options.deadline.count())));
  MC2_ASSIGN(auto own, MpiCommunicator::open(options));
  return std::unique_ptr<Communicator>(std::make_unique<LeaderCommunicator>(orders, std::move(own), id));
}

void dismiss_followers() { Orders(kDismissalDeadline).tell_all(Message(Command::Quit)); }

} // namespace mc2::executor::mpi
