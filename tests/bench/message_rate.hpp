#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mc2::executor {

/// How a message gets from one rank of the host backend to another. The ranks share memory.
enum class MessagePath : std::uint8_t {
  Pull,        ///< the receiver copies the message out of the sender's memory and then signals the sender
  Push,        ///< the sender copies the message into the receiver's memory and raises a signal
  PushByProxy, ///< as Push, but a proxy thread of the sender does the work
};

[[nodiscard]] std::string_view to_string(MessagePath path) noexcept;

/// Time per message, in us.
struct MessageTimes {
  double lane_us = 0;       ///< time that the sender's own thread spends on sending, waiting for room included
  double throughput_us = 0; ///< of many messages in a row, until the receiver has the last
  double latency_us = 0;    ///< half a round trip: each side sends when it has received
};

/// Sends messages between two threads, each on a core of its own where there are two. Uses the primitives of the
/// backend's exchanges: signals, credits for eight messages under way, proxy threads. Blocks until done.
/// @param byte_count, message_count  at least 1
/// Throws SystemError after a minute, and when a thread cannot be pinned or memory mapped.
[[nodiscard]] MessageTimes time_messages(MessagePath path, std::size_t byte_count, int message_count);

} // namespace mc2::executor
