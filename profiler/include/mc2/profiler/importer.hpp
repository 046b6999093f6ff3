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

/// A source of a log's bytes.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Reads up to `into.size()` bytes; 0 at the end. Throws SystemError.
  [[nodiscard]] virtual std::size_t read(std::span<char> into) = 0;
  /// Path of the file that is read, for formats that need to seek; empty where the source is no file.
  [[nodiscard]] virtual std::filesystem::path path() const { return {}; }
  /// Size of the source in bytes; 0 where unknown.
  [[nodiscard]] virtual std::int64_t total_bytes() const { return 0; }
  /// Waits up to 100 ms until read() has bytes or the end. False where it has neither yet, as in a pipe.
  [[nodiscard]] virtual bool is_ready() { return true; }
  /// Whether the caller wants no more of it. Then read() gives 0.
  [[nodiscard]] virtual bool is_cancelled() { return false; }
};

/// Opens a log. It may be a pipe; one that nobody writes to yet is no error, and is_ready() tells when somebody does.
/// Errors: InvalidSpec for a path that cannot be opened or is a directory.
[[nodiscard]] Result<std::unique_ptr<ByteSource>> open_log(const std::filesystem::path& path);
/// Errors: InvalidSpec where two of the files have the same text, in whatever compression or encoding, because their
/// timings would count twice.
[[nodiscard]] Result<void> require_different(std::span<const std::string> files);
/// A source that reads `bytes`, which must outlive it.
[[nodiscard]] std::unique_ptr<ByteSource> memory_log(std::string_view bytes);

/// Which timings of an nccl-tests row are taken.
enum class Buffers : std::uint8_t { OutOfPlace, InPlace, Both };

/// The user's answers to what a log does not say. An empty member is no answer.
struct ImportAnswers {
  std::optional<planner::Collective> collective{}; ///< for a log that does not name its collective
  std::optional<planner::DType> dtype{};
  std::optional<int> world_size{};
  std::optional<std::int64_t> message_bytes{}; ///< full array, for communication rows without a size
  bool bytes_from_neighbour = false; ///< rows without a size move the product, or the A, of the matmul beside them
  std::optional<std::int64_t> m{}, n{}, k{}; ///< for matmul rows without a shape (statistics)
  Buffers buffers = Buffers::OutOfPlace;
  std::string blocks{}; ///< the cut that the fused operators of a log ran; empty: these operators are left out
  std::optional<planner::OpKind> kind{}; ///< of the operator that the timings are for
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
  /// Name of one run of a collective, equal in the logs of all its ranks. `time` is then one rank's and may include
  /// waiting for the others. 0: `time` already stands for all ranks.
  std::uint64_t event = 0;
  int rank = 0; ///< the rank that timed the event
};

/// The fields of Timing that timings of one group have in common.
struct TimingKey {
  planner::Component component = planner::Component::Collective;
  planner::Collective collective = planner::Collective::AllReduce;
  std::int64_t message_bytes = 0, m = 0, n = 0, k = 0;
  std::optional<planner::DType> dtype{};
  int world_size = 0;
  auto operator<=>(const TimingKey&) const = default;
};

/// One run of a fused operator. Numbers that the log does not state are 0. Times in us.
struct FusedTiming : planner::CutRuns {
  std::optional<planner::Collective> collective{};
  std::optional<planner::Lane> first_lane{};
  std::int64_t m = 0, n = 0, k = 0; ///< as in planner::OpSpec
  std::int64_t shards = 0;          ///< m / the rows of one rank's A or result, whichever has fewer
  std::optional<planner::DType> dtype{};
  std::string log{};     ///< the log's name, for messages; empty: it has none
  std::int64_t line = 0; ///< the line of the log, from 1; 0: unknown

  /// "cuts.csv:2", for messages; empty where the line is unknown.
  [[nodiscard]] std::string place() const;
};

/// One time and the round in which it was taken.
struct TimedRound {
  std::chrono::nanoseconds time{0};
  int round = 0;
};

/// One run of a collective with the times of its ranks.
struct TimedEvent {
  std::uint64_t event = 0;
  TimedRound shortest; ///< shortest time; with all ranks there, that of the rank that came last and did not wait
  std::vector<std::pair<int, std::chrono::nanoseconds>> ranks; ///< ranks and their times, ascending
  bool is_torn = false; ///< one rank has two different times: the logs number their runs differently
  /// Whether all ranks have a time and the event is not torn.
  [[nodiscard]] bool is_complete(int world_size) const noexcept;
};

/// All timings with one key. Each is counted; of timings without an event and of events, at most kMaxTimingsPerSize are
/// kept each. Timings without an event are drawn evenly (reservoir sampling; Vitter, ACM Trans. Math. Software 11,
/// 1985, algorithm R). Of events, those with the smallest names stay, so that the logs of all ranks keep the same ones.
struct TimingGroup {
  std::int64_t count = 0;
  std::vector<TimedRound> kept;
  std::vector<TimedEvent> events; ///< sorted by name
};

inline constexpr std::size_t kMaxTimingsPerSize = 512;
inline constexpr std::size_t kMaxTimingSizes = 4096;
inline constexpr std::size_t kMaxFusedTimings = 65536;

/// Timings of any number of logs in bounded memory.
class TimingSet {
 public:
  /// False when the timing has a new key and there are kMaxTimingSizes already.
  [[nodiscard]] bool add(const Timing& timing);
  /// False when there are kMaxFusedTimings already.
  [[nodiscard]] bool add(FusedTiming timing);
  /// Names the log of the fused runs that were added since the last call.
  void name_log(const std::string& name);
  /// Timings added from now on were taken at another time than those before.
  void next_round() noexcept { ++round_; }
  [[nodiscard]] const std::map<TimingKey, TimingGroup>& groups() const noexcept { return groups_; }
  [[nodiscard]] const std::vector<FusedTiming>& fused() const noexcept { return fused_; }

 private:
  void add_event(TimingGroup& group, const Timing& timing) const;

  std::map<TimingKey, TimingGroup> groups_;
  std::map<TimingKey, TimingGroup>::iterator last_ = groups_.end();
  std::vector<FusedTiming> fused_;
  std::size_t named_count_ = 0; ///< fused runs whose log has been named
  std::uint64_t draw_ = 0;
  int round_ = 0;
};

enum class Verdict : std::uint8_t { Took, Skipped, Bad };

/// What the importer did with one line of a text, or one row of a database table.
struct LineVerdict {
  std::int64_t line = 0; ///< from 1
  Verdict verdict = Verdict::Skipped;
  std::string_view text; ///< what the line is, or why it was not taken; valid during the call
};

/// Callbacks of a running import. Each may be empty.
struct ImportHooks {
  std::function<void(const LineVerdict&)> on_line;
  std::function<void(std::int64_t bytes_read, std::int64_t total_bytes)> on_progress; ///< bytes of the file
  std::function<bool()> is_cancelled; ///< asked for each piece of text, and while a pipe has none
};

/// The result of reading one log, apart from its timings.
struct LogSummary {
  std::string format; ///< an importer's name
  std::int64_t took_count = 0, skipped_count = 0, bad_count = 0;
  std::string first_bad;                    ///< "line 12: why"
  std::int64_t first_bad_line = 0;          ///< 0 when nothing was bad
  std::map<std::string, std::string> facts; ///< for the fingerprint: device, library versions, ...
  std::vector<std::string> questions;       ///< what the user must answer before more of the log can be taken
  std::optional<std::int64_t> rank;         ///< the rank that the log names as its own, where it is of one rank
  std::vector<std::string> notes;           ///< what may be wrong with the whole log
};

class LogReader;
class LogSink;

/// One row of the table in src/importers/importer_registry.cpp.
struct Importer {
  std::string_view name;
  std::string_view description;
  /// Whether a log that begins with `head` has this format. @param head  up to 1 MiB, decoded
  bool (*detect)(std::string_view head);
  /// Reads the log into the sink, bad lines included. Errors: Malformed where the whole log is unusable.
  Result<void> (*read)(LogReader& reader, const ImportAnswers& answers, LogSink& sink);
  /// Whether `detect` also knows a single line, the heading of a table, which may stand behind another tool's table.
  bool knows_heading = false;
};

/// All importers, in order of detection.
[[nodiscard]] std::span<const Importer> importer_registry() noexcept;

/// Reads one log in bounded memory. It may be UTF-8 or UTF-16, with or without a byte order mark, and compressed with
/// gzip, xz or zstd. Bad lines are counted, reported and left out; the caller decides whether to accept the rest.
/// @param format  an importer's name, or empty to detect the format
/// Errors: UnknownName (format), Malformed (no importer recognises the log, or all of it is unusable), Cancelled.
[[nodiscard]] Result<LogSummary> import_log(ByteSource& source, std::string_view format, const ImportAnswers& answers,
                                            TimingSet& into, const ImportHooks& hooks = {});

/// The operator that timings are imported for, as far as the user states it.
struct ImportQuestion {
  std::optional<planner::OpKind> kind{};
  std::optional<planner::DType> dtype{};
  std::optional<int> world_size{};
  std::optional<std::int64_t> m{}, n{}, k{};
  std::string device{}; ///< device name for the fingerprint; empty: the name in the log
};

struct ImportedProfile {
  planner::Profile profile;
  std::vector<planner::CutRuns> cuts; ///< in the order of their first run
  std::vector<std::string> places;    ///< where the first run of each cut stands, e.g. "cuts.csv:2"; "" if unknown
  std::vector<std::string> notes;     ///< what was left out and why
};

/// The variant of all imported samples: the two lanes of a plan may come from different logs.
inline constexpr std::string_view kImportedVariant = "imported";

/// Turns timings into samples of one operator: matmuls of its n, k and element type, and its collective. Shapes,
/// element type and ranks that the question leaves open are taken from the logs where these name only one; nothing is
/// guessed. Outliers of a size are kept and marked.
/// @param facts  facts of the logs; with the device they make the fingerprint, which carries backend=imported
/// Errors: InvalidSpec with all questions that the user must still answer, or with an answer that contradicts the logs.
/// Also InvalidSpec (--device) when the log names a device of another maker than the published one after which it is to
/// be named, and InvalidSpec (blocks), naming the run's place, for a measured cut that cannot be one of the operator,
/// or whose uncut times are in another unit: by those of other runs, or by what is published of the device. CannotFit
/// when no timing is of this operator, or when samples named after a published device cannot be of it.
[[nodiscard]] Result<ImportedProfile> assemble_profile(const TimingSet& timings,
                                                       const std::map<std::string, std::string>& facts,
                                                       const ImportQuestion& question);

/// Checks, for a dry run, what assemble_profile() does. Succeeds where the operator is not known yet, and does not ask
/// for a device. Errors: as assemble_profile.
[[nodiscard]] Result<void> check_import(const TimingSet& timings, const std::map<std::string, std::string>& facts,
                                        const ImportQuestion& question);

} // namespace mc2::profiler

#pragma GCC visibility pop
