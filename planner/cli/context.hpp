#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "mc2/executor/backend.hpp"
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

/// What a program ends with; documented in `mc2 --help`.
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

/// What the command line has of one group of options.
class GivenOptions {
 public:
  /// @param first_option  how many options `app` had before those of the group
  void set(const CLI::App& app, std::size_t first_option);
  /// That none is given beside `field`, a document which names `what`. Errors: InvalidSpec naming `field` and those
  /// that are.
  [[nodiscard]] Result<void> none_beside(const char* field, const char* what) const;
  /// @param name  of one of the group, e.g. "--dtype"
  [[nodiscard]] bool has(const char* name) const;

 private:
  /// "--dtype, --ranks"; empty when none is given.
  [[nodiscard]] std::string text() const;

  std::vector<const CLI::Option*> options_; ///< the app's
};

/// The operator as options name it.
struct OpOptions {
  std::string kind = "matmul_all_reduce";
  std::optional<std::int64_t> m, n, k; ///< unset until given
  std::optional<std::int64_t> first_m; ///< of a range that ends with m; unset: m alone
  std::string dtype = "f32";
  int ranks = 2;
  std::optional<std::int64_t> experts_per_rank;   ///< of all-to-all kinds
  std::optional<std::int64_t> experts, top_k;     ///< of grouped matmuls
  std::optional<std::int64_t> tables, table_rows; ///< of embedding_all_to_all
  std::optional<std::string> pooling;
  planner::Epilogue epilogue = {};
  std::optional<std::string> norm = {}; ///< instead of the epilogue's
  GivenOptions given;

  /// @param is_required  whether --m, --n and --k must be given
  /// @param takes_range  whether --m may be first:last
  void add_to(CLI::App& app, bool is_required, bool takes_range = false);
  [[nodiscard]] bool is_given() const noexcept { return m || n || k; }
  /// What was left out becomes as in `op`.
  void complete_with(const planner::OpSpec& op);
  /// Errors: UnknownName, InvalidSpec.
  [[nodiscard]] Result<planner::OpSpec> spec() const;

 private:
  void add_types_to(CLI::App& app);
  /// Errors: InvalidSpec for tables or experts that are given of a kind without them.
  [[nodiscard]] Result<void> check_kind_takes_them(planner::OpKind of) const;
  /// Errors: UnknownName; InvalidSpec for table options that stand alone.
  [[nodiscard]] Result<std::optional<planner::EmbeddingTables>> embedding_tables() const;
  /// Errors: InvalidSpec for one of the two options alone.
  [[nodiscard]] Result<std::optional<planner::ChosenExperts>> chosen_experts() const;
};

/// The machine as options name it.
struct MachineOptions {
  std::string backend = "host";
  std::string link = "shm";
  std::string virtual_compute;
  bool no_pin = false;
  double deadline_s = 60;
  GivenOptions given;

  void add_to(CLI::App& app);
  /// Errors: UnknownName, InvalidSpec.
  [[nodiscard]] Result<const executor::Backend*> find() const;
  /// Errors: InvalidSpec naming the part that cannot be read.
  [[nodiscard]] Result<executor::CommunicatorOptions> communicator_options(int ranks) const;
  /// Errors: as the two above.
  [[nodiscard]] Result<planner::Fingerprint> fingerprint(int ranks) const;
};

/// Planning options as the command line names them.
struct PlanningOptions {
  planner::PlanOptions values;
  std::optional<std::int64_t> alignment;      ///< the machine's when not given
  std::optional<std::int64_t> min_block_rows; ///< the alignment when not given
  std::optional<std::string> short_block;     ///< the largest when not given
  std::optional<std::string> contention;      ///< as the model has it when not given
  GivenOptions given;

  void add_to(CLI::App& app);
  /// What is asked of the operator; what was not given is as the machine has it. Errors: InvalidSpec, UnknownName.
  [[nodiscard]] Result<store::PlanRequest> request(planner::OpSpec op) const;
  /// Errors: InvalidSpec for --allow-small-gain, which changes nothing where planner::has_analytic_curve().
  [[nodiscard]] Result<void> check_gain_rule(bool is_analytic) const;
};

/// Dates say which model and which run is the newest. Empty where none lies further ahead of `now` than clocks of
/// several machines differ.
[[nodiscard]] std::string note_of_clock(const store::Store& store, const std::string& now);

/// What a command does with the store.
enum class StoreUse : std::uint8_t {
  Write, ///< it is created where it is missing
  Keep,  ///< as Write; where it may not be written, to read it will do
  Read,  ///< as Keep, but none is made: it has to be there
};

struct StoreOptions {
  std::string path;

  void add_to(CLI::App& app);
  /// Where the user's own store lives: $MC2_STORE, else $XDG_DATA_HOME/mc2/store.db, else ~/.local/share/mc2/store.db.
  /// Errors: InvalidSpec when none of them is set.
  [[nodiscard]] static Result<std::filesystem::path> user_path();
  /// System stores that are read when present.
  [[nodiscard]] static std::vector<std::filesystem::path> system_paths();
  /// Errors: as user_path and Layers::open; NotFound for a store that is to be read and missing or nowhere. Notes about
  /// skipped layers go to standard error, each once however often this is called.
  [[nodiscard]] Result<store::Layers> open(StoreUse use) const;
  /// --store, or the user's store. Errors: as user_path.
  [[nodiscard]] Result<std::filesystem::path> writable_path() const;
  /// That store alone. Errors: as user_path and store::Store::open.
  [[nodiscard]] Result<store::Store> open_own(store::OpenMode mode) const;
  [[nodiscard]] bool is_named() const; ///< with --store or MC2_STORE

 private:
  mutable std::set<std::string> told_; ///< notes that were printed
};

/// A seed from the system's random source, for data that should be new in every run.
[[nodiscard]] std::uint64_t fresh_seed();

/// Errors: InvalidSpec naming a file that cannot be read; Malformed above 64 MiB.
[[nodiscard]] Result<std::string> read_file(const std::filesystem::path& path);
/// Whether a name that may be that of something built in is a file's: it has a folder, ends with .json, or is there.
[[nodiscard]] bool names_a_file(const std::string& name);
/// What is wrong with a document, under its file's name: Malformed, whatever the reason.
[[nodiscard]] Error document_error(const std::filesystem::path& path, const Error& error);
/// Before any work: whether the option's file, if one is named, can be written. Digests of kept plans among what is
/// read name no file. Errors: InvalidSpec, naming the option, where the command reads that file. Throws as
/// OutputFile::check().
[[nodiscard]] Result<void> check_output(const char* option, const std::filesystem::path& written,
                                        const std::vector<std::string>& read);
/// As an OutputFile. Throws SystemError.
void write_file(const std::filesystem::path& path, std::span<const std::string> pieces);
void write_file(const std::filesystem::path& path, const std::string& content);
/// As write_file; to standard output where no file is named.
void print_or_write(const std::filesystem::path& path, std::span<const std::string> pieces);
void print_or_write(const std::filesystem::path& path, const std::string& content);

} // namespace mc2::cli
