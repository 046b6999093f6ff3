#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace mc2::profiler {

/// The ranks that nccl-tests lists before a test. The list may lack some: the tool keeps 2 KiB of each process's part,
/// and logs lose their first lines.
class NcclRankList {
 public:
  /// Begins the list of a launch, "nThread 1 nGpus 8 minBytes 8 ...".
  void begin_launch(std::string_view text);
  /// Begins another list of the same launch.
  void clear();
  /// Reads "Rank  3 Group  0 Pid 4175039 on node device  3 [0000:61:00] NVIDIA H100 80GB HBM3".
  /// @return the device's name, empty where it is missing or cut; nothing where the line lists no rank
  std::optional<std::string_view> read(std::string_view text);

  [[nodiscard]] bool is_empty() const noexcept { return ranks_.empty() && !is_cut_; }
  /// Whether two lines list the same rank.
  [[nodiscard]] bool has_twins() const noexcept { return has_twins_; }
  /// The number of groups that run at once, each of some of the ranks; 0 where the list names none.
  [[nodiscard]] std::size_t group_count() const noexcept { return groups_.size(); }
  /// The number of ranks: those of a whole list; else processes times threads times GPUs, where each process lists at
  /// least one of its ranks. 0 where unknown.
  [[nodiscard]] int count() const;
  /// What the list lacks, "rank 0 is not in it".
  [[nodiscard]] std::string gap() const;
  /// The fewest ranks that there can be.
  [[nodiscard]] std::int64_t least_count() const noexcept { return ranks_.empty() ? 0 : *ranks_.rbegin() + 1; }

 private:
  /// Reads one line, which ends with "..." where it is cut.
  std::optional<std::string_view> read_rank(std::string_view text);
  [[nodiscard]] bool is_gapless() const noexcept { return least_count() == std::ssize(ranks_); }
  /// Processes times threads times GPUs; 0 where the ranks do not spread over the processes in this way.
  [[nodiscard]] std::int64_t told_count() const;

  std::int64_t ranks_per_process_ = 0; ///< 0 where unknown
  std::set<std::int64_t> ranks_;
  std::set<std::int64_t> parts_;    ///< ranks divided by ranks_per_process_: the processes that they should be of
  std::set<std::string> processes_; ///< host and number of each process
  std::set<std::string> groups_;
  bool has_twins_ = false;
  bool is_cut_ = false; ///< a line of the list is cut
};

} // namespace mc2::profiler
