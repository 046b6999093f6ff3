#include <bit>
#include <map>
#include <memory>
#include <vector>

#include "backends/mpi/check.hpp"
#include "backends/mpi/leader.hpp"
#include "backends/mpi/message.hpp"
#include "backends/mpi/mpi_communicator.hpp"
#include "backends/mpi/orders.hpp"
#include "backends/mpi/world.hpp"
#include "lanes/symmetric_heap.hpp"
#include "operands.hpp"
#include "time_numbers.hpp"

namespace mc2::executor::mpi {
namespace {

/// A process that rank 0 directs. Holds the objects it has made so far, under the ids that the leader chose.
class Follower {
 public:
  void serve() {
    while (true) {
      Message order = Message::receive(0, order_channel());
      const auto command = static_cast<Command>(order.number());
      if (command == Command::Quit) return;
      obey(command, order);
    }
  }

 private:
  void obey(Command command, Message& order) {
    const std::int64_t id = order.number();
    switch (command) {
      case Command::Open: return open(id, order);
      case Command::Close: communicators_.erase(id); return;
      case Command::Allocate:
        memory_[id] = std::make_unique<lanes::SymmetricHeap>(1, static_cast<std::size_t>(order.number()));
        return;
      case Command::Free: memory_.erase(id); return;
      case Command::Upload: return receive_bytes(first_bytes(id, order), 0, order_channel(), kNoDeadline);
      case Command::Download: return send_bytes(first_bytes(id, order), 0, order_channel(), kNoDeadline);
      case Command::Prepare: return prepare(id, order);
      case Command::Run: return run(id, order);
      case Command::Drop: prepared_.erase(id); return;
      case Command::Quit: break;
    }
    MC2_CHECK(false, "an order that no process knows");
  }

  void open(std::int64_t id, Message& order) {
    CommunicatorOptions options;
    options.world_size = static_cast<int>(order.number());
    options.pin_threads = order.number() != 0;
    options.deadline = std::chrono::milliseconds{order.number()};
    auto opened = MpiCommunicator::open(options);
    if (opened) communicators_[id] = std::move(opened).value(); // on failure rank 0 gets the same error
  }

  [[nodiscard]] std::span<std::byte> first_bytes(std::int64_t id, Message& order) const {
    return memory_.at(id)->segment(0).first(static_cast<std::size_t>(order.number()));
  }

  [[nodiscard]] std::span<std::byte> place(Message& order) const {
    const std::int64_t id = order.number();
    const auto offset = static_cast<std::size_t>(order.number());
    const auto byte_count = static_cast<std::size_t>(order.number());
    if (byte_count == 0) return {}; // the operator has no such operand
    return memory_.at(id)->segment(0).subspan(offset, byte_count);
  }

  /// Reads all operands except the send and receive counts: those are views, and the caller owns the numbers.
  [[nodiscard]] RankBuffers operands(Message& order) const {
    RankBuffers own;
    visit_operands(own, [&](auto& operand, const char*, OperandUse) { operand = place(order); });
    own.bags.type = static_cast<IndexType>(order.number());
    own.choices.type = static_cast<IndexType>(order.number());
    own.norm_epsilon = std::bit_cast<float>(static_cast<std::int32_t>(order.number()));
    return own;
  }

  void prepare(std::int64_t id, Message& order) {
    MpiCommunicator& communicator = *communicators_.at(order.number());
    const PrepareRequest request = get_request(order);
    RankBuffers own = operands(order);
    const auto send_counts = get_numbers(order), receive_counts = get_numbers(order);
    own.send_counts = send_counts;
    own.receive_counts = receive_counts;
    auto prepared = communicator.prepare_stages(request.stages, request.variant, {&own, 1}, request.options);
    if (prepared) prepared_[id] = std::move(prepared).value(); // on failure rank 0 gets the same error
  }

  void run(std::int64_t id, Message& order) {
    const auto mode = static_cast<RunMode>(order.number());
    const RankTimes& times = prepared_.at(id)->run(mode, static_cast<RunDetail>(order.number())).ranks.front();
    pack_times(times, numbers_);
    send_bytes(std::as_bytes(std::span(numbers_)), 0, order_channel(), kNoDeadline);
  }

  std::map<std::int64_t, std::unique_ptr<lanes::SymmetricHeap>> memory_;
  std::map<std::int64_t, std::unique_ptr<MpiCommunicator>> communicators_;
  std::map<std::int64_t, std::unique_ptr<Prepared>> prepared_; ///< last: destroyed before the communicators
  std::vector<std::int64_t> numbers_;
};

} // namespace

void follow() noexcept {
  try {
    Follower().serve();
  } catch (const std::exception& error) {
    abort_job(error.what());
  }
}

} // namespace mc2::executor::mpi
