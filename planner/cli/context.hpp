#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "mc2/executor/backend.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/dates.hpp"
#include "mc2/store/layers.hpp"

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace mc2::cli {

using store::utc_now;

/// Exit codes of the programs; documented in `mc2 --help`.
enum class ExitCode : int {
  Success = 0,
  Negative = 1,    ///< a check failed: wrong result, damaged store
  Usage = 2,       ///< an argument or input file is wrong
  NoAnswer = 3,    ///< legal question, but no plan, model or sample answers it
  Unsupported = 4, ///< this build or machine cannot do it
  Store = 5,       ///< the store cannot be read or written
  System = 6,      ///< a library, device or file failed
  Interrupted = 130,
};

[[nodiscard]] ExitCode to_exit_code(ErrorCode code) noexcept;

/// Says which options of a group the command line has.
class GivenOptions {
 public:
  /// @param first_option  number of options that `app` had before the group was added
  void set(const CLI::App& app, std::size_t first_option);
  /// Checks that no option of the group is given together with `field`, a document that names `what` already. Errors:
  /// InvalidSpec naming `field` and the given options.
  [[nodiscard]] Result<void> none_beside(const char* field, const char* what) const;
  /// @param name  of an option of the group, e.g. "--dtype"
  [[nodiscard]] bool has(const char* name) const;

 private:
  /// The given options as "--dtype, --ranks"; empty when none is given.
  [[nodiscard]] std::string text() const;

  std::vector<const CLI::Option*> options_; ///< owned by the app
};

/// The options that name an operator.
struct OpOptions {
  std::string kind = "matmul_all_reduce";
  std::optional<std::int64_t> m, n, k; ///< unset until given
  std::optional<std::int64_t> first_m; ///< first m of a range that ends with m; unset: m alone
  std::string dtype = "f32";
  int ranks = 2;
  std::optional<std::int64_t> experts_per_rank;   ///< of all-to-all kinds
  std::optional<std::int64_t> experts, top_k;     ///< of grouped matmuls
  std::optional<std::int64_t> tables, table_rows; ///< of embedding_all_to_all
  std::optional<std::string> pooling;
  planner::Epilogue epilogue = {};
  std::optional<std::string> norm = {}; ///< overrides the epilogue's
  GivenOptions given;

  /// @param is_required  whether --m, --n and --k must be given
  /// @param takes_range  whether --m may be first:last
  void add_to(CLI::App& app, bool is_required, bool takes_range = false);
  [[nodiscard]] bool is_given() const noexcept { return m || n || k; }
  /// Takes the options that are not given from `op`; those that belong to a kind only if the kind is the same.
  void complete_with(const planner::OpSpec& op);
  /// Errors: UnknownName, InvalidSpec.
  [[nodiscard]] Result<planner::OpSpec> spec() const;

 private:
  void add_types_to(CLI::App& app);
  /// Errors: InvalidSpec for options of tables or experts that the kind does not have.
  [[nodiscard]] Result<void> check_kind_takes_them(planner::OpKind of) const;
  /// Errors: UnknownName; InvalidSpec unless --tables and --table-rows are both given or all table options are left
  /// out.
  [[nodiscard]] Result<std::optional<planner::EmbeddingTables>> embedding_tables() const;
  /// Errors: InvalidSpec for one of --experts and --top-k without the other.
  [[nodiscard]] Result<std::optional<planner::ChosenExperts>> chosen_experts() const;
};

inline constexpr double kLeastDeadlineS = 0.001, kMostDeadlineS = 86'400;

/// The options that name a machine.
struct MachineOptions {
  std::string backend = "host";
  std::string link = "shm";
  std::string virtual_compute;
  bool no_pin = false;
  double deadline_s = 60; ///< kLeastDeadlineS to kMostDeadlineS
  GivenOptions given;

  void add_to(CLI::App& app);
  /// As add_to(), without --deadline: for commands that run nothing on the machine.
  void add_names_to(CLI::App& app);
  /// Errors: InvalidSpec for --deadline where nothing runs.
  /// @param option  the option with which the command runs something
  [[nodiscard]] Result<void> check_deadline(bool runs, const char* option) const;
  /// Errors: UnknownName, InvalidSpec.
  [[nodiscard]] Result<const executor::Backend*> find() const;
  /// Errors: InvalidSpec naming the part that cannot be read.
  [[nodiscard]] Result<executor::CommunicatorOptions> communicator_options(int ranks) const;
  /// Errors: as find and communicator_options.
  [[nodiscard]] Result<planner::Fingerprint> fingerprint(int ranks) const;
};

/// The planning options of the command line.
struct PlanningOptions {
  planner::PlanOptions values;
  std::optional<std::int64_t> alignment;       ///< unset: the machine's default
  std::optional<std::int64_t> min_block_rows;  ///< unset: the alignment
  std::optional<std::int64_t> max_block_count; ///< unset: the machine's default
  std::optional<std::string> short_block;      ///< unset: the largest
  std::optional<std::string> contention;       ///< unset: the model's
  GivenOptions given;

  void add_to(CLI::App& app);
  /// Adds only the options for limits() of a plan.
  void add_limits(CLI::App& app);
  /// Errors: as planner::parse_contention.
  [[nodiscard]] Result<planner::CutLimits> limits() const;
  /// Refuses, beside an option that gives the blocks, those of add_to() that choose among cuts.
  static void exclude_choosing(CLI::Option& blocks);
  /// The request for a plan of the operator. Notes whether --align, --min-block and --max-blocks are given, as the
  /// machine decides about them otherwise. Errors: InvalidSpec, UnknownName.
  [[nodiscard]] Result<store::PlanRequest> request(planner::OpSpec op) const;
  /// These options, and a backend's defaults for those that are not given. Errors: as request().
  [[nodiscard]] Result<planner::PlanOptions> options_on(const executor::Backend& backend) const;
  /// Errors: InvalidSpec for --allow-small-gain if the costs are analytic (planner::has_analytic_curve()), where it
  /// changes nothing.
  [[nodiscard]] Result<void> check_gain_rule(bool is_analytic) const;
};

/// A note about wrong clocks, as dates decide which model and which run is the newest. Empty unless the store has a
/// date more than 2 minutes ahead of `now`, which clocks of several machines may differ by.
[[nodiscard]] std::string note_of_clock(const store::Store& store, const std::string& now);

/// What a command does with the store.
enum class StoreUse : std::uint8_t {
  Write, ///< writes; a missing store is created
  Keep,  ///< as Write, but a store that may not be written is only read
  Read,  ///< reads; the store must exist
};

struct StoreOptions {
  std::string path;

  void add_to(CLI::App& app);
  /// The path of the user's own store: $MC2_STORE, else $XDG_DATA_HOME/mc2/store.db, else ~/.local/share/mc2/store.db.
  /// Errors: InvalidSpec when none of them is set.
  [[nodiscard]] static Result<std::filesystem::path> user_path();
  /// Opens the store and the system's stores below it. Notes about skipped layers and wrong clocks go to standard
  /// error, each only once for this object. Errors: as user_path and Layers::open; NotFound if StoreUse::Read finds no
  /// store.
  [[nodiscard]] Result<store::Layers> open(StoreUse use) const;
  /// The path that --store names, or that of the user's store. Errors: as user_path.
  [[nodiscard]] Result<std::filesystem::path> writable_path() const;
  /// Opens the store of writable_path() alone. Errors: as user_path and store::Store::open.
  [[nodiscard]] Result<store::Store> open_own(store::OpenMode mode) const;
  [[nodiscard]] bool is_named() const; ///< by --store or MC2_STORE

 private:
  mutable std::set<std::string> told_; ///< notes that open() has printed
};

/// A seed from the system's random source, for data that differ in every run.
[[nodiscard]] std::uint64_t fresh_seed();

/// The content of a file. Errors: InvalidSpec naming a file that cannot be read; Malformed above most_mib MiB;
/// Cancelled on an interrupt.
[[nodiscard]] Result<std::string> read_file(const std::filesystem::path& path, std::size_t most_mib = 64);
/// Whether something is, or may be, at the path: also if a folder on the way cannot be entered, as reading then says.
/// Not if the name is too long to be one.
[[nodiscard]] bool file_exists(const std::filesystem::path& path);
/// Whether a name means a file rather than something built in: it has a folder, ends with .json, or such a file exists.
[[nodiscard]] bool names_a_file(const std::string& name);
/// The error of a document that came from a file: always Malformed, with the file as its field.
[[nodiscard]] Error document_error(const std::filesystem::path& path, const Error& error);
/// Checks before any work that an option's output file can be written; without a file it does nothing. Errors:
/// InvalidSpec, naming the option, where the command reads the same file. Throws as OutputFile::check().
/// @param read  files that the command reads; may also hold digests of kept plans
[[nodiscard]] Result<void> check_output(const char* option, const std::filesystem::path& written,
                                        const std::vector<std::string>& read);
/// The value of an option that names an output file; empty: not given.
struct Output {
  const char* option;
  std::filesystem::path path;
};
/// check_output() for each. Errors also: InvalidSpec where two options name one file.
[[nodiscard]] Result<void> check_outputs(const std::vector<Output>& outputs, const std::vector<std::string>& read);
/// Writes the pieces through an OutputFile. Throws SystemError.
void write_file(const std::filesystem::path& path, std::span<const std::string> pieces);
void write_file(const std::filesystem::path& path, const std::string& content);
/// Writes to a file as write_file, or to standard output if the path is empty.
void print_or_write(const std::filesystem::path& path, std::span<const std::string> pieces);
void print_or_write(const std::filesystem::path& path, const std::string& content);

} // namespace mc2::cli
