#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/mpi/waiting.hpp"
#include "backends/mpi/world.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::executor::mpi {

/// FNV-1a of a text: what processes compare before they exchange anything larger.
[[nodiscard]] std::uint64_t digest_of(std::string_view text) noexcept;

/// Small exchanges between all processes around a run, on a channel of their own. One thread at a time.
class Agreement {
 public:
  /// Order: collective. Throws SystemError.
  explicit Agreement(std::chrono::milliseconds deadline);

  /// Whether every process says the same. A barrier, too: nobody returns before everybody has called.
  /// Order: collective; a process that does not come within the deadline ends the job with an error that names it.
  /// Errors: Mismatch, the same on every process, naming the first rank that does not say what rank 0 says, and both
  /// texts. Throws SystemError.
  [[nodiscard]] Result<void> agree(std::string_view text);

  /// The first error that any process has, by rank, on every process. Order: collective, as agree. Throws
  /// SystemError.
  [[nodiscard]] Result<void> share_error(const Result<void>& own);

  /// Every process's numbers, by rank, as many from each. Order: collective, as agree. Throws SystemError.
  [[nodiscard]] std::vector<std::int64_t> gather(std::span<const std::int64_t> own);

  /// Each value's maximum over the processes. Order: collective, as agree. Throws SystemError.
  void maximum(std::span<std::int64_t> values);

  /// Asks every process to answer within half a second, and names those that do not, with `own_progress` of those
  /// that do. For the last words before abort_job.
  [[nodiscard]] std::string roll_call(const std::string& own_progress) noexcept;

 private:
  void wait(std::span<MPI_Request> requests, const char* what);
  [[nodiscard]] std::vector<std::string> gather_texts(std::string_view own);

  Channel channel_, roll_call_channel_;
  std::chrono::milliseconds deadline_;
  std::vector<std::uint64_t> digests_; ///< by rank
};

} // namespace mc2::executor::mpi
