#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/executor/backend.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::executor {

/// The processes of a world, one rank each, and the messages that they exchange on the host. A waiting rank notices
/// when another has failed, or has ended without leaving. Threads: one at a time; fail(), failure(), departure() and
/// abort_word() may be called by any thread at any time.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int world_size() const noexcept { return world_size_; }

  /// Returns every rank's bytes, by rank. No rank returns before all have called.
  /// Order: *collective*. Throws SystemError naming the rank that failed, ended or did not come within the deadline.
  [[nodiscard]] virtual std::vector<std::string> all_gather(std::string_view own) = 0;
  /// Every rank's numbers, by rank. Order and exceptions as all_gather().
  [[nodiscard]] std::vector<std::int64_t> gather(std::span<const std::int64_t> own);
  /// The largest of the ranks' numbers. Order and exceptions as all_gather().
  [[nodiscard]] std::int64_t maximum(std::int64_t own);
  /// The error of the first rank that has one, the same on every rank. Order and exceptions as all_gather().
  [[nodiscard]] Result<void> share_error(const Result<void>& own);
  /// Checks that all ranks pass the same text. Order and exceptions as all_gather(). Errors: Mismatch, the same on
  /// every rank, naming the first rank whose text is not rank 0's.
  [[nodiscard]] Result<void> agree(std::string_view text);

  /// Tells the others that this rank exchanges no further messages, and waits until all others have told the same, one
  /// has failed, or the deadline has passed. Does nothing for ranks of one host.
  virtual void leave() {}

  /// Tells every rank that this one cannot go on, and raises the abort word. Only the first failure of a group counts.
  virtual void fail(std::string_view why) noexcept = 0;
  /// The reason of the first failure, naming the rank that called fail() or whose process has ended; unset if none has.
  [[nodiscard]] virtual std::optional<std::string> failure() const = 0;
  /// Names a rank that has left without failing; unset if none has.
  [[nodiscard]] virtual std::optional<std::string> departure() const = 0;
  /// A word that is 0 until a rank fails. It is at the start of a page that holds nothing else, so that devices may map
  /// it.
  [[nodiscard]] virtual std::uint32_t* abort_word() const noexcept = 0;
  static constexpr std::size_t kAbortPageBytes = 4096;

 protected:
  ProcessGroup(int rank, int world_size) noexcept : rank_(rank), world_size_(world_size) {}

  /// The number of a group among those that this process opens with one key; the first gets 0. If the ranks do not
  /// meet, keep() is not called and the next attempt has the same number: a rank that comes late finds it.
  class Number {
   public:
    /// Throws SystemError if another thread of this process is meeting others under this key, and notes the rank there.
    Number(std::string key, int rank);
    ~Number();
    Number(const Number&) = delete;
    Number& operator=(const Number&) = delete;
    [[nodiscard]] int value() const noexcept { return value_; }
    /// Another rank that a second thread of this process wanted to open since: it was refused, and will not come.
    [[nodiscard]] std::optional<int> other_rank() const;
    void keep() noexcept;

   private:
    std::string key_; ///< empty after keep()
    int value_ = 0;
  };

 private:
  int rank_;
  int world_size_;
};

/// Checks a place. Errors: InvalidSpec naming an illegal rank, key or address of rank 0.
[[nodiscard]] Result<void> check_meeting(const ProcessPlace& place, int world_size);

/// Opens a group: over shared memory if the place has no address, else over TCP.
/// Order: *collective*; the n-th group with a key in one process meets the n-th group with that key in the others. An
/// attempt at which the ranks did not meet does not count.
/// Throws SystemError naming the ranks that did not come within the deadline, a rank that two processes claim, or ranks
/// that want worlds of different sizes.
[[nodiscard]] std::unique_ptr<ProcessGroup> open_process_group(const ProcessPlace& place, int world_size,
                                                               std::chrono::milliseconds deadline);

} // namespace mc2::executor
