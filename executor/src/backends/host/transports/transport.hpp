#pragma once

#include <cstdint>
#include <memory>

#include "lanes/block_exchange.hpp"
#include "lanes/run_control.hpp"
#include "mc2/executor/backend.hpp"

namespace mc2::executor::host {

/// Carries pieces between ranks and combines them (combine.hpp). Threads: each rank's communication lane calls
/// exchange(), concurrently for different ranks; any thread may call abort(); the other functions are called while no
/// lane runs.
class Transport {
 public:
  virtual ~Transport() = default;

  /// True when exchange() needs the pieces of every rank to be ready. False when it needs only the own piece, because
  /// the other ranks' pieces arrive as messages.
  [[nodiscard]] virtual bool reads_peers_directly() const noexcept { return true; }
  /// Bytes per rank to receive pieces of this size that are to be summed or to be spread over rows.
  [[nodiscard]] virtual std::int64_t staging_bytes(std::int64_t /*piece_bytes*/) const noexcept { return 0; }
  virtual void begin_run(lanes::Clock::time_point /*start*/) noexcept {}
  /// Exchanges one block of one rank. Throws RunAborted, and SystemError naming the rank.
  virtual lanes::ExchangeTimes exchange(const lanes::BlockExchange& block, const lanes::RunControl& control) = 0;
  /// Called when every lane has ended, also after a failure. Afterwards nothing may touch the ranks' memory.
  virtual void end_run() noexcept {}
  /// Wakes every lane that is blocked in exchange(). Afterwards the transport cannot be used.
  virtual void abort() noexcept {}
};

/// Bytes of staging memory of one rank for blocks of at most `longest_block` rows or columns. Pieces wait there until
/// all have arrived and are summed, or until they are spread over the rows where they land. 0 where the operator needs
/// neither.
[[nodiscard]] std::int64_t staging_bytes(const planner::OpSpec& op, std::int64_t longest_block,
                                         const Transport& transport) noexcept;

/// Plain loads from the other ranks' memory. An exchange takes just the CPU time of these loads.
[[nodiscard]] std::unique_ptr<Transport> make_shared_memory_transport();

/// Plain loads, then a sleep until a link of this speed would have delivered the data.
/// A rank pulls R-1 pieces through its incoming direction, one after the other, and one block of the plan at a time:
///   start    = max(ready, end of the rank's previous transfer)
///   delivery = start + latency + bytes of the R-1 pieces * 8 / bits_per_s, later where ranks pull from the same peer
///   end      = max(delivery, end of the reduction or copy on the CPU)
/// The outgoing direction of a rank has the same rate and is shared by the ranks that pull from it at the time
/// (PullSchedule). A block that brings the rank nothing takes no time. Times count from the moment when the data became
/// ready, not from when the lane woke up, so that late wake-ups do not add up.
[[nodiscard]] std::unique_ptr<Transport> make_emulated_transport(const LinkSpec& link, int world_size);

/// A mesh of loopback TCP connections. The kernel paces each connection to an equal share of the rank's incoming rate.
/// Throws SystemError.
[[nodiscard]] std::unique_ptr<Transport> make_tcp_transport(const LinkSpec& link, int world_size);

/// The transport that a link asks for. Throws SystemError.
[[nodiscard]] std::unique_ptr<Transport> make_transport(const LinkSpec& link, int world_size);

} // namespace mc2::executor::host
