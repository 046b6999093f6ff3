#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mc2::executor {

/// How a message gets from one rank to another of the host backend, which share memory.
enum class MessagePath : std::uint8_t {
  Pull,        ///< the receiver copies it out of the sender's memory, where it already lies, and says so
  Push,        ///< the sender copies it into the receiver's memory and raises a signal
  PushByProxy, ///< likewise, by a thread of the sender's that it hands the message to
};

[[nodiscard]] std::string_view to_string(MessagePath path) noexcept;

/// Time per message, in us.
struct MessageTimes {
  double lane_us = 0;       ///< that the sender's own thread is busy with sending, waits for room included
  double throughput_us = 0; ///< of many, one after the other, until the receiver has the last
  double latency_us = 0;    ///< half a round trip: each side sends when it has received
};

/// Sends messages between two threads, each on a core of its own where there are two, with the primitives that the
/// backend's exchanges use: signals, credits for eight messages under way, proxy threads. Blocks until done.
/// @param byte_count, message_count  at least 1
/// Throws SystemError after a minute, and when a thread cannot be pinned or memory mapped.
[[nodiscard]] MessageTimes time_messages(MessagePath path, std::size_t byte_count, int message_count);

} // namespace mc2::executor
