#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mc2/planner/collective.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/profile.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// Where the bytes of a log come from.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Reads up to `into.size()` bytes; 0 at the end. Throws SystemError.
  [[nodiscard]] virtual std::size_t read(std::span<char> into) = 0;
  /// The file behind it, for formats that need to seek; empty where there is none.
  [[nodiscard]] virtual std::filesystem::path path() const { return {}; }
  /// 0 where it is not known.
  [[nodiscard]] virtual std::int64_t total_bytes() const { return 0; }
};

/// Errors: InvalidSpec for a path that is no readable file.
[[nodiscard]] Result<std::unique_ptr<ByteSource>> open_log(const std::filesystem::path& path);
/// Errors: InvalidSpec where two of the files have the same bytes, so that what they tell would count twice.
[[nodiscard]] Result<void> require_different(std::span<const std::string> files);
/// @param bytes  must outlive the source
[[nodiscard]] std::unique_ptr<ByteSource> memory_log(std::string_view bytes);

/// Which timings of nccl-tests are taken.
enum class Buffers : std::uint8_t { OutOfPlace, InPlace, Both };

/// What a log cannot know, as far as the user has said it.
struct ImportAnswers {
  std::optional<planner::Collective> collective{}; ///< of a log that does not name it
  std::optional<planner::DType> dtype{};
  std::optional<int> world_size{};
  std::optional<std::int64_t> message_bytes{}; ///< full array, of communication rows that carry no size
  bool bytes_from_neighbour = false;           ///< those rows' size is the product or the A of the matmul beside them
  std::optional<std::int64_t> m{}, n{}, k{};   ///< of matmul rows that carry no shape (statistics)
  Buffers buffers = Buffers::OutOfPlace;
  std::string blocks{}; ///< that the fused operators of a log ran; empty: they are left out
};

/// One timing of a log. Bytes are normalised to the full array (docs/importing.md).
struct Timing {
  planner::Component component = planner::Component::Collective;
  planner::Collective collective = planner::Collective::AllReduce; ///< of a collective
  std::int64_t message_bytes = 0;                                  ///< of a collective, full array
  std::int64_t m = 0, n = 0, k = 0;                                ///< of a matmul
  std::optional<planner::DType> dtype{};                           ///< of a matmul
  int world_size = 0;                                              ///< of a collective; 0: the log does not say
  std::chrono::nanoseconds time{0};
  /// Names one run of a collective in the logs of all its ranks, each of which may have waited for the others in
  /// `time`; 0: the times of its ranks are one already.
  std::uint64_t event = 0;
  int rank = 0; ///< that timed the event
};

/// What equal timings share.
struct TimingKey {
  planner::Component component = planner::Component::Collective;
  planner::Collective collective = planner::Collective::AllReduce;
  std::int64_t message_bytes = 0, m = 0, n = 0, k = 0;
  std::optional<planner::DType> dtype{};
  int world_size = 0;
  auto operator<=>(const TimingKey&) const = default;
};

/// One run of a fused operator. What the log leaves open is 0; times in us.
struct FusedTiming {
  std::string blocks; ///< as planner::parse_cut reads it, or the digest of a plan
  std::optional<planner::Collective> collective{};
  std::optional<planner::Lane> first_lane{};
  std::int64_t m = 0, n = 0, k = 0; ///< of its matmul, as for planner::OpSpec
  std::int64_t shards = 0;          ///< that the rows of one rank's A or result are of m
  std::optional<planner::DType> dtype{};
  double fused_us = 0;
  double serial_us = 0, compute_us = 0, communication_us = 0; ///< uncut, beside it
  double compute_blocks_us = 0, communication_blocks_us = 0;  ///< its own blocks together
};

struct TimedRound {
  std::chrono::nanoseconds time{0};
  int round = 0;
};

/// One run of a collective, as its ranks timed it.
struct TimedEvent {
  std::uint64_t event = 0;
  TimedRound shortest; ///< of the rank that came last and waited for nobody, if all ranks are there
  std::vector<std::pair<int, std::chrono::nanoseconds>> ranks; ///< that timed it, ascending
  bool is_torn = false; ///< one rank has two times: the logs number their runs differently
  [[nodiscard]] bool is_complete(int world_size) const noexcept;
};

/// All timings of one size: every one counted, at most kMaxTimingsPerSize kept, drawn evenly (reservoir sampling;
/// Vitter, ACM Trans. Math. Software 11, 1985, algorithm R), events by the smallest names, which are the same in the
/// logs of all ranks.
struct TimingGroup {
  std::int64_t count = 0;
  std::vector<TimedRound> kept;
  std::vector<TimedEvent> events; ///< by name
};

inline constexpr std::size_t kMaxTimingsPerSize = 512;
inline constexpr std::size_t kMaxTimingSizes = 4096;
inline constexpr std::size_t kMaxFusedTimings = 65536;

/// Timings of any number of logs in bounded memory.
class TimingSet {
 public:
  /// False when it is of a new size beyond kMaxTimingSizes.
  [[nodiscard]] bool add(const Timing& timing);
  /// False beyond kMaxFusedTimings.
  [[nodiscard]] bool add(FusedTiming timing);
  /// Timings added from now on were taken at another time than those before.
  void next_round() noexcept { ++round_; }
  [[nodiscard]] const std::map<TimingKey, TimingGroup>& groups() const noexcept { return groups_; }
  [[nodiscard]] const std::vector<FusedTiming>& fused() const noexcept { return fused_; }

 private:
  void add_event(TimingGroup& group, const Timing& timing) const;

  std::map<TimingKey, TimingGroup> groups_;
  std::map<TimingKey, TimingGroup>::iterator last_ = groups_.end();
  std::vector<FusedTiming> fused_;
  std::uint64_t draw_ = 0;
  int round_ = 0;
};

enum class Verdict : std::uint8_t { Took, Skipped, Bad };

/// What became of one line of a text, or one row of a database table.
struct LineVerdict {
  std::int64_t line = 0; ///< from 1
  Verdict verdict = Verdict::Skipped;
  std::string_view text; ///< what it was, or why it was not taken; valid during the call
};

/// What an import tells while it runs; each may be empty.
struct ImportHooks {
  std::function<void(const LineVerdict&)> on_line;
  std::function<void(std::int64_t bytes_read, std::int64_t total_bytes)> on_progress; ///< bytes of the file
  std::function<bool()> is_cancelled;
};

/// What one log gave.
struct LogSummary {
  std::string format; ///< an importer's name
  std::int64_t took_count = 0, skipped_count = 0, bad_count = 0;
  std::string first_bad;                    ///< "line 12: why"
  std::int64_t first_bad_line = 0;          ///< 0 when nothing was bad
  std::map<std::string, std::string> facts; ///< for the fingerprint: device, library versions, ...
  std::vector<std::string> questions;       ///< what must be said before more of it can be taken
  std::optional<std::int64_t> rank;         ///< that the log calls itself, where it is of one rank
  std::vector<std::string> notes;           ///< what may be wrong with all of it
};

class LogReader;
class LogSink;

/// One row of the table in src/importers/importer_registry.cpp.
struct Importer {
  std::string_view name;
  std::string_view description;
  /// Whether a log that begins like this is of the format. @param head  up to 64 KiB, decoded
  bool (*detect)(std::string_view head);
  /// Errors: Malformed for what spoils the whole log; single lines are told to the sink.
  Result<void> (*read)(LogReader& reader, const ImportAnswers& answers, LogSink& sink);
};

/// In order of detection.
[[nodiscard]] std::span<const Importer> importer_registry() noexcept;

/// Reads one log, whatever its encoding (UTF-8 or UTF-16, with or without a byte order mark; gzip, xz, zstd), in
/// bounded memory. Bad lines are counted, reported and left out; whether that will do is the caller's decision.
/// @param format  an importer's name, or empty to detect it
/// Errors: UnknownName (format), Malformed (no importer knows it, or the whole log is spoilt), Cancelled.
[[nodiscard]] Result<LogSummary> import_log(ByteSource& source, std::string_view format, const ImportAnswers& answers,
                                            TimingSet& into, const ImportHooks& hooks = {});

/// The operator that timings are imported for, as far as the user has said it.
struct ImportQuestion {
  std::optional<planner::OpKind> kind{};
  std::optional<planner::DType> dtype{};
  std::optional<int> world_size{};
  std::optional<std::int64_t> m{}, n{}, k{};
  std::string device{}; ///< names the machine in the fingerprint; the log's own where empty
};

struct ImportedProfile {
  planner::Profile profile;
  std::vector<planner::CutRuns> cuts; ///< in the order of their first run
  std::vector<std::string> notes;     ///< what was left out and why
};

/// The name that imported samples give their variant: both lanes of a plan may come from different logs.
inline constexpr std::string_view kImportedVariant = "imported";

/// Turns timings into samples of one operator: matmuls of its n, k and element type, and its collective. What the
/// logs say of shapes, type and ranks needs not be asked; nothing is guessed. Outliers of a size are kept and marked.
/// @param facts  of the logs; joined with the device into the fingerprint, which carries backend=imported
/// Errors: InvalidSpec naming everything that must still be said, or what contradicts the logs; CannotFit when
/// nothing is of this operator, and for samples under a published device's name that cannot be of it.
[[nodiscard]] Result<ImportedProfile> assemble_profile(const TimingSet& timings,
                                                       const std::map<std::string, std::string>& facts,
                                                       const ImportQuestion& question);

/// Whether the cuts that were read are of the operator, as far as both are known. Errors: InvalidSpec.
[[nodiscard]] Result<void> check_cuts(const TimingSet& timings, const ImportQuestion& question);

} // namespace mc2::profiler

#pragma GCC visibility pop
