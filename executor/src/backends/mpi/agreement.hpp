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
#include "mc2/planner/fingerprint.hpp"

namespace mc2::executor::mpi {

/// FNV-1a hash of a text. Processes compare digests before they exchange anything larger.
[[nodiscard]] std::uint64_t digest_of(std::string_view text) noexcept;

/// Small exchanges between all processes around a run, on a communicator of their own. Used by one thread at a time.
class Agreement {
 public:
  /// Order: collective. Throws SystemError.
  explicit Agreement(std::chrono::milliseconds deadline);

  /// Checks that every process passes the same `text`. Acts as a barrier: nobody returns before everybody has called.
  /// Order: collective. If a process does not call within the deadline, the job ends with an error that names the
  /// process.
  /// Errors: Mismatch, the same on every process, naming the first rank whose text differs from rank 0's, and both
  /// texts. Throws SystemError.
  [[nodiscard]] Result<void> agree(std::string_view text);

  /// Checks that the machine of every process is the same, as a plan is of one machine. Order: collective, as agree.
  /// Errors: Unsupported, the same on every process, naming the first rank whose machine is not rank 0's, and what
  /// differs. Throws SystemError.
  [[nodiscard]] Result<void> agree_on_machine(const planner::Fingerprint& own);

  /// Returns the same result on every process: the error of the lowest rank that has one. Order: collective, as agree.
  /// Throws SystemError.
  [[nodiscard]] Result<void> share_error(const Result<void>& own);

  /// The numbers of every process, by rank; every process passes equally many. Order: collective, as agree. Throws
  /// SystemError.
  [[nodiscard]] std::vector<std::int64_t> gather(std::span<const std::int64_t> own);

  /// Replaces each value by its maximum over the processes. Order: collective, as agree. Throws SystemError.
  void maximum(std::span<std::int64_t> values);

  /// Swaps `own_progress` with the processes that also call this within half a second. The text names each other
  /// process with its progress, or says that it does not answer. Called just before abort_job.
  [[nodiscard]] std::string roll_call(const std::string& own_progress) noexcept;

 private:
  void wait(std::span<MPI_Request> requests, const char* what);
  [[nodiscard]] std::vector<std::string> gather_texts(std::string_view own);
  /// The texts of every process, by rank; none if they are all the same.
  [[nodiscard]] std::vector<std::string> gather_unless_same(std::string_view own);

  Channel channel_, roll_call_channel_;
  std::chrono::milliseconds deadline_;
  std::vector<std::uint64_t> digests_; ///< by rank
};

} // namespace mc2::executor::mpi
