#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/executor/backend.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::executor {

/// The processes of a world, one rank each, and what they tell one another beside their devices. A rank that has
/// failed, and one whose process has ended without leaving, is noticed by all that wait. Threads: one at a time, but
/// for fail(), failure(), departure() and abort_word().
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int world_size() const noexcept { return world_size_; }

  /// Every rank's bytes, by rank. Nobody returns before everybody has called.
  /// Order: *collective*. Throws SystemError naming the rank that failed, ended or did not come within the deadline.
  [[nodiscard]] virtual std::vector<std::string> all_gather(std::string_view own) = 0;
  /// The largest of every rank's numbers. As all_gather.
  [[nodiscard]] std::int64_t maximum(std::int64_t own);
  /// The first error by rank, the same on every rank. As all_gather.
  [[nodiscard]] Result<void> share_error(const Result<void>& own);
  /// Whether all say the same. As all_gather. Errors: Mismatch, the same on every rank, naming the first that says
  /// something else than rank 0.
  [[nodiscard]] Result<void> agree(std::string_view text);

  /// Says that this rank takes part in nothing any more, and waits until every other one has said so, one has failed,
  /// or the deadline has passed. Ranks of one host leave without waiting.
  virtual void leave() {}

  /// Tells every rank that this one cannot go on, unless one has told so before, and raises the abort word.
  virtual void fail(std::string_view why) noexcept = 0;
  /// What the first rank that cannot go on has told, or that its process has ended; names it.
  [[nodiscard]] virtual std::optional<std::string> failure() const = 0;
  /// Names a rank that has left without failing: it takes part in nothing any more.
  [[nodiscard]] virtual std::optional<std::string> departure() const = 0;
  /// 0 until a rank fails; at the start of a page of its own, which devices may map.
  [[nodiscard]] virtual std::uint32_t* abort_word() const noexcept = 0;
  static constexpr std::size_t kAbortPageBytes = 4096;

 protected:
  ProcessGroup(int rank, int world_size) noexcept : rank_(rank), world_size_(world_size) {}
  /// Which group of this key it is in this process, from 0.
  [[nodiscard]] static int next_number(const std::string& key);

 private:
  int rank_;
  int world_size_;
};

/// Errors: InvalidSpec naming the rank, the key or the address of rank 0 that is not legal.
[[nodiscard]] Result<void> check_meeting(const ProcessPlace& place, int world_size);

/// By memory where all are on one host, by TCP where rank 0 has an address.
/// Order: *collective*; the n-th group with a key in one process meets the n-th in the others.
/// Throws SystemError naming the ranks that did not come within the deadline, or a rank that is there twice.
[[nodiscard]] std::unique_ptr<ProcessGroup> open_process_group(const ProcessPlace& place, int world_size,
                                                               std::chrono::milliseconds deadline);

} // namespace mc2::executor
