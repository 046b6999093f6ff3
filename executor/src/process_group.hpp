#pragma once

#include <atomic>
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

/// The processes of a world on one machine, one rank each, and what they tell one another beside their devices: through
/// memory that they share, which has no name any more once all have come. A rank that has failed, and one whose process
/// has ended without leaving, is noticed by all that wait. Threads: one at a time, but for fail(), failure(),
/// departure() and abort_word().
class ProcessGroup {
 public:
  /// Order: *collective*; the n-th group with a key in one process meets the n-th in the others.
  /// Throws SystemError naming the ranks that did not come within the deadline, or a rank that is there twice.
  ProcessGroup(const ProcessPlace& place, int world_size, std::chrono::milliseconds deadline);
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int world_size() const noexcept { return world_size_; }

  /// Every rank's bytes, by rank. Nobody returns before everybody has called.
  /// Order: *collective*. Throws SystemError naming the rank that failed, ended or did not come within the deadline.
  [[nodiscard]] std::vector<std::string> all_gather(std::string_view own);
  /// The largest of every rank's numbers. As all_gather.
  [[nodiscard]] std::int64_t maximum(std::int64_t own);
  /// The first error by rank, the same on every rank. As all_gather.
  [[nodiscard]] Result<void> share_error(const Result<void>& own);
  /// Whether all say the same. As all_gather. Errors: Mismatch, the same on every rank, naming the first that says
  /// something else than rank 0.
  [[nodiscard]] Result<void> agree(std::string_view text);

  /// Tells every rank that this one cannot go on, unless one has told so before, and raises the abort word.
  void fail(std::string_view why) noexcept;
  /// What the first rank that cannot go on has told, or that its process has ended; names it.
  [[nodiscard]] std::optional<std::string> failure() const;
  /// Names a rank that has left without failing: it takes part in nothing any more.
  [[nodiscard]] std::optional<std::string> departure() const;
  /// 0 until a rank fails; at the start of a page of its own, which devices may map.
  [[nodiscard]] std::uint32_t* abort_word() const noexcept;
  static constexpr std::size_t kAbortPageBytes = 4096;

 private:
  struct Shared;

  void create(const std::string& name);
  void join(const std::string& name, std::chrono::steady_clock::time_point end);
  void sign_in();
  void wait_for_all(std::chrono::steady_clock::time_point end) const;
  void exchange_round(std::string_view own, std::vector<std::string>& all);
  void wait_for_round(int rank, std::uint64_t round) const;
  [[nodiscard]] bool has_ended(int rank) const;
  void tell(std::string_view what) const noexcept;

  int rank_;
  int world_size_;
  std::chrono::milliseconds deadline_;
  std::uint64_t round_ = 0;
  Shared* shared_ = nullptr;
};

} // namespace mc2::executor
