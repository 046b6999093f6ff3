#include "context.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <random>
#include <tuple>

#include "mc2/embed/environment.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"
#include "mc2/store/dates.hpp"
#include "options/numbers.hpp"
#include "output_file.hpp"
#include "pages/terminal.hpp"

namespace mc2::cli {
namespace {

/// Errors: InvalidSpec when the size was not given.
Result<void> set_size(const char* field, const std::optional<std::int64_t>& given, std::int64_t& size) {
  if (!given)
    return Error{ErrorCode::InvalidSpec, field, "is missing; legal: 1 to " + std::to_string(planner::kMaxSize)};
  size = *given;
  return {};
}

/// Why nothing is found at the path; no error where something is.
std::error_code look_up_failure(const std::filesystem::path& path) {
  std::error_code failure;
  (void)std::filesystem::status(path, failure);
  return failure;
}

/// Whether nothing exists at the path. False for a path that leads through a file: that is another error.
bool is_missing(const std::filesystem::path& path) {
  return look_up_failure(path) == std::errc::no_such_file_or_directory;
}

} // namespace

ExitCode to_exit_code(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::InvalidSpec:
    case ErrorCode::UnknownName:
    case ErrorCode::Malformed: return ExitCode::Usage;
    case ErrorCode::Infeasible:
    case ErrorCode::OutOfRange:
    case ErrorCode::Stale:
    case ErrorCode::NotFound:
    case ErrorCode::CannotFit: return ExitCode::NoAnswer;
    case ErrorCode::Unsupported: return ExitCode::Unsupported;
    case ErrorCode::Corrupt:
    case ErrorCode::NewerVersion:
    case ErrorCode::ReadOnly:
    case ErrorCode::Unreadable: return ExitCode::Store;
    case ErrorCode::Cancelled: return ExitCode::Interrupted;
    case ErrorCode::Mismatch: return ExitCode::Negative;
  }
  return ExitCode::System;
}

namespace {

std::string legal_kinds() {
  std::string text = "operator kind:";
  for (const auto& traits : planner::op_registry()) text += " " + std::string(traits.name);
  return text;
}

} // namespace

void GivenOptions::set(const CLI::App& app, std::size_t first_option) {
  options_ = app.get_options();
  options_.erase(options_.begin(), options_.begin() + static_cast<std::ptrdiff_t>(first_option));
}

std::string GivenOptions::text() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : options_)
    if (option->count() > 0) names.push_back(option->get_name());
  return list_text(names);
}

Result<void> GivenOptions::none_beside(const char* field, const char* what) const {
  const std::string given = text();
  if (given.empty()) return {};
  return Error{ErrorCode::InvalidSpec, field, "names the " + std::string(what) + "; leave out " + given};
}

bool GivenOptions::has(const char* name) const {
  return std::ranges::any_of(
      options_, [&](const CLI::Option* option) { return option->get_name() == name && option->count() > 0; });
}

void OpOptions::add_to(CLI::App& app, bool is_required, bool takes_range) {
  const std::size_t first_option = app.get_options().size();
  app.add_option("--op", kind, legal_kinds())->capture_default_str();
  const auto add_size = [&](const char* name, std::optional<std::int64_t>& size, const std::string& help) {
    app.add_option(name, size, help)->required(is_required)->check(whole_number(1, planner::kMaxSize));
  };
  const std::string rows = "rows of one rank's product; embedding_all_to_all: samples of the batch";
  if (takes_range)
    app.add_option_function<std::string>(
           "--m",
           [this](const std::string& text) {
             const NumberRange range = read_range(text);
             m = range.last;
             if (text.find(':') != std::string::npos) first_m = range.first;
           },
           rows + "; first:last plans every m from first to last, as ranges")
        ->required(is_required)
        ->check(number_or_range(1, planner::kMaxSize));
  else
    add_size("--m", m, rows);
  add_size("--n", n, "columns of one rank's product; embedding_all_to_all: features of a rank's tables");
  add_size("--k", k, "inner length of one rank's matmul; embedding_all_to_all: mean length of a bag");
  add_types_to(app);
  given.set(app, first_option);
}

void OpOptions::add_types_to(CLI::App& app) {
  app.add_option("--dtype", dtype, "element type of A and B: f32, f16, bf16; i8 or f8e4m3 with scales (bf16 product)")
      ->capture_default_str();
  app.add_option("--ranks", ranks, "ranks that take part")->capture_default_str()->check(rank_count());
  app.add_flag("--bias", epilogue.has_bias, "add a bias, one number per column, to the result");
  app.add_flag("--residual", epilogue.has_residual, "add a residual matrix to the result");
  app.add_option("--norm", norm, "normalise the sum's rows into a second result: none (default) or rms");
  app.add_option("--experts-per-rank", experts_per_rank, "all-to-all kinds: experts that a rank holds (default 1)")
      ->check(whole_number(1, planner::kMaxSize));
  app.add_option("--experts", experts, "grouped matmuls: number of experts; every rank holds a part of each")
      ->check(whole_number(1, planner::kMaxSize));
  app.add_option("--top-k", top_k, "grouped matmuls: experts that each token chooses")
      ->check(whole_number(1, planner::kMaxTopK));
  app.add_option("--tables", tables, "embedding_all_to_all: tables of one rank")
      ->check(whole_number(1, planner::kMaxSize));
  app.add_option("--table-rows", table_rows, "embedding_all_to_all: rows of every table")
      ->check(whole_number(1, planner::kMaxSize));
  app.add_option("--pooling", pooling, "embedding_all_to_all: sum (default) or mean");
}

void OpOptions::complete_with(const planner::OpSpec& op) {
  if (!given.has("--op")) kind = to_string(op.kind);
  m = m.value_or(op.m);
  n = n.value_or(op.n);
  k = k.value_or(op.k);
  if (!given.has("--dtype")) dtype = to_string(op.dtype);
  if (!given.has("--ranks")) ranks = op.world_size;
  if (!given.has("--bias")) epilogue.has_bias = op.epilogue.has_bias;
  if (!given.has("--residual")) epilogue.has_residual = op.epilogue.has_residual;
  if (!norm) norm = to_string(op.epilogue.norm);
  if (kind != to_string(op.kind)) return;
  experts_per_rank = experts_per_rank.value_or(op.experts_per_rank);
  if (op.experts) {
    experts = experts.value_or(op.experts->count);
    top_k = top_k.value_or(op.experts->top_k);
  }
  if (!op.tables) return;
  tables = tables.value_or(op.tables->table_count);
  table_rows = table_rows.value_or(op.tables->row_count);
  pooling = pooling.value_or(std::string(to_string(op.tables->pooling)));
}

Result<void> OpOptions::check_kind_takes_them(planner::OpKind of) const {
  const auto pools = [](const planner::OpTraits& traits) { return traits.work == planner::Work::Pooling; };
  const auto is_grouped = [](const planner::OpTraits& traits) { return traits.work == planner::Work::GroupedMatmul; };
  const std::tuple<bool, const char*, bool (*)(const planner::OpTraits&)> options[]{
      {tables.has_value(), "tables", pools},
      {table_rows.has_value(), "table_rows", pools},
      {pooling.has_value(), "pooling", pools},
      {experts.has_value(), "experts", is_grouped},
      {top_k.has_value(), "top_k", is_grouped}};
  for (const auto& [is_given, field, takes] : options)
    if (is_given && !takes(planner::traits_of(of)))
      return Error{ErrorCode::InvalidSpec, field,
                   "belongs to " + planner::kinds_with(takes) + ", not to " + std::string(to_string(of))};
  return {};
}

Result<std::optional<planner::EmbeddingTables>> OpOptions::embedding_tables() const {
  if (!tables && !table_rows && !pooling) return std::optional<planner::EmbeddingTables>();
  if (!tables || !table_rows)
    return Error{ErrorCode::InvalidSpec, tables ? "table_rows" : "tables",
                 "is missing; --tables and --table-rows together say what a rank of embedding_all_to_all holds"};
  planner::EmbeddingTables result{.table_count = *tables, .row_count = *table_rows};
  if (pooling) {
    MC2_ASSIGN(result.pooling, planner::parse_pooling(*pooling));
  }
  return std::optional(result);
}

Result<std::optional<planner::ChosenExperts>> OpOptions::chosen_experts() const {
  if (!experts && !top_k) return std::optional<planner::ChosenExperts>();
  if (!experts || !top_k)
    return Error{ErrorCode::InvalidSpec, experts ? "top_k" : "experts",
                 "is missing; --experts and --top-k together say which experts the rows of a grouped matmul choose"};
  return std::optional(planner::ChosenExperts{.count = *experts, .top_k = *top_k});
}

Result<planner::OpSpec> OpOptions::spec() const {
  planner::OpSpec op;
  MC2_ASSIGN(const auto parsed_kind, planner::parse_op_kind(kind));
  MC2_ASSIGN(const auto parsed_dtype, planner::parse_dtype(dtype));
  op.kind = parsed_kind;
  op.dtype = parsed_dtype;
  for (const auto& [field, given, size] :
       {std::tuple("m", &m, &op.m), std::tuple("n", &n, &op.n), std::tuple("k", &k, &op.k)})
    MC2_TRY(set_size(field, *given, *size));
  op.world_size = ranks;
  op.experts_per_rank = experts_per_rank.value_or(op.experts_per_rank);
  MC2_TRY(check_kind_takes_them(op.kind));
  if (first_m) {
    const std::int64_t step = planner::m_step(op), last = planner::align_down(op.m, step);
    if (last < *first_m)
      return Error{ErrorCode::InvalidSpec, "m",
                   "none from " + std::to_string(*first_m) + " to " + std::to_string(op.m) + " is a multiple of the " +
                       std::to_string(step) + (op.experts_per_rank > 1 ? " experts" : " ranks") + "; the next is " +
                       std::to_string(last + step)};
    op.m = last;
  }
  MC2_ASSIGN(op.tables, embedding_tables());
  MC2_ASSIGN(op.experts, chosen_experts());
  op.epilogue = epilogue;
  if (norm) {
    MC2_ASSIGN(op.epilogue.norm, planner::parse_norm(*norm));
  }
  MC2_TRY(op.validate());
  return op;
}

void MachineOptions::add_names_to(CLI::App& app) {
  const std::size_t first_option = app.get_options().size();
  app.add_option("--backend", backend, "what runs the plan; `mc2 doctor` lists them")->capture_default_str();
  app.add_option("--link", link, "shm, an emulated link such as 2.5Gbit,20us, or paced loopback tcp:2.5Gbit")
      ->capture_default_str();
  app.add_option("--virtual-compute", virtual_compute,
                 "sleep for a modelled time instead of multiplying, e.g. 90Gflops,10us");
  app.add_flag("--no-pin", no_pin, "do not pin lanes to cores");
  given.set(app, first_option);
}

void MachineOptions::add_to(CLI::App& app) {
  const std::size_t first_option = app.get_options().size();
  add_names_to(app);
  app.add_option("--deadline", deadline_s, "abort a run that takes longer, in seconds")
      ->capture_default_str()
      ->check(real_number(kLeastDeadlineS, kMostDeadlineS));
  given.set(app, first_option);
}

Result<void> MachineOptions::check_deadline(bool runs, const char* option) const {
  if (runs || !given.has("--deadline")) return {};
  return Error{ErrorCode::InvalidSpec, "--deadline", "is for " + std::string(option) + "; add it, or leave this out"};
}

Result<const executor::Backend*> MachineOptions::find() const {
  MC2_ASSIGN(auto found, executor::find_backend(backend));
  const auto availability = found->availability();
  if (!availability.is_available)
    return Error{ErrorCode::Unsupported, "--backend", backend + " is not available: " + availability.reason};
  return found;
}

Result<executor::CommunicatorOptions> MachineOptions::communicator_options(int ranks) const {
  MC2_ASSIGN(const auto* chosen, executor::find_backend(backend));
  MC2_TRY(chosen->check_rank_count(ranks));
  executor::CommunicatorOptions options;
  options.world_size = ranks;
  options.pin_threads = !no_pin;
  options.deadline = planner::to_ms(deadline_s);
  MC2_ASSIGN(options.link, executor::parse_link(link));
  if (!virtual_compute.empty()) {
    MC2_ASSIGN(options.virtual_compute, executor::parse_virtual_compute(virtual_compute));
  }
  MC2_TRY(options.validate());
  MC2_TRY(chosen->check_emulation(options));
  return options;
}

Result<planner::Fingerprint> MachineOptions::fingerprint(int ranks) const {
  MC2_ASSIGN(const auto found, find());
  MC2_ASSIGN(const auto options, communicator_options(ranks));
  return found->fingerprint(options);
}

void PlanningOptions::add_limits(CLI::App& app) {
  app.add_option("--align", alignment, "long blocks are multiples of this many rows (default: the backend's)")
      ->check(whole_number(1, planner::kMaxSize));
  app.add_option("--min-block", min_block_rows, "shortest block of a cut plan, in rows (default: --align)")
      ->check(whole_number(1, planner::kMaxSize));
  app.add_option(
         "--max-blocks", max_block_count,
         "most blocks of a plan (default: the backend's, " + std::to_string(values.max_block_count) + " or less)")
      ->check(whole_number(1, planner::kMaxBlockCount));
  app.add_option("--contention", contention,
                 "how many times longer a lane takes while the other is busy: one factor, or compute,communication "
                 "(default: those of the model; strategy formula: 1.15)");
  app.add_option("--block-overhead", values.block_overhead_us,
                 "fixed cost of every block on each lane, in us (default: those of the model)")
      ->check(real_number(0, planner::kMaxTimeUs));
}

Result<planner::CutLimits> PlanningOptions::limits() const {
  planner::CutLimits result{alignment, min_block_rows, max_block_count, std::nullopt, values.block_overhead_us};
  if (contention) {
    MC2_ASSIGN(result.contention, planner::parse_contention(*contention));
  }
  return result;
}

void PlanningOptions::add_to(CLI::App& app) {
  const std::size_t first_option = app.get_options().size();
  app.add_option("--strategy", values.strategy, "search, free (any block lengths), formula or wave_groups")
      ->capture_default_str();
  add_limits(app);
  app.add_option("--runners-up", values.runner_up_count, "rejected candidates to show")
      ->capture_default_str()
      ->check(whole_number(0, planner::kMaxRunnerUpCount));
  app.add_option("--objective", values.objective_quantile,
                 "quantile of the makespan to minimise: 0.5 for the expected makespan, 0.95 for the one that 5 % of "
                 "runs exceed")
      ->capture_default_str()
      ->check(real_number(planner::kMinObjectiveQuantile, planner::kMaxObjectiveQuantile));
  app.add_flag(
      "!--allow-small-gain", values.require_significant_gain,
      "cut even if the curves' intervals can explain the predicted gain; refused where costs come from a formula, "
      "because gains are not held to this there");
  app.add_option(
      "--short-block", short_block,
      "strategy formula only: the short block is the largest (default) or the smallest of the recipe's three bounds");
  given.set(app, first_option);
}

void PlanningOptions::exclude_choosing(CLI::Option& blocks) {
  for (const char* option : {"--strategy", "--align", "--min-block", "--max-blocks", "--runners-up", "--objective",
                             "--allow-small-gain", "--short-block"})
    blocks.excludes(option);
}

Result<store::PlanRequest> PlanningOptions::request(planner::OpSpec op) const {
  store::PlanRequest request{std::move(op), values, alignment.has_value(), min_block_rows.has_value(),
                             max_block_count.has_value()};
  request.options.alignment = alignment.value_or(values.alignment);
  request.options.min_block_rows = min_block_rows.value_or(request.options.alignment);
  request.options.max_block_count = max_block_count.value_or(values.max_block_count);
  if (short_block) {
    MC2_ASSIGN(request.options.formula_short_block, planner::parse_short_block_rule(*short_block));
    if (values.strategy != "formula")
      return Error{ErrorCode::InvalidSpec, "--short-block",
                   "is of the published recipe alone; add --strategy formula, or leave it out"};
  }
  if (contention) {
    MC2_ASSIGN(request.options.contention, planner::parse_contention(*contention));
  }
  MC2_TRY(request.options.validate());
  return request;
}

Result<planner::PlanOptions> PlanningOptions::options_on(const executor::Backend& backend) const {
  MC2_ASSIGN(const auto asked, request({}));
  return asked.options_with(planner::default_options_on({{{"backend", std::string(backend.name())}}}));
}

Result<void> PlanningOptions::check_gain_rule(bool is_analytic) const {
  if (!is_analytic || values.require_significant_gain) return {};
  return Error{ErrorCode::InvalidSpec, "--allow-small-gain",
               "has no effect: costs that come from a formula are compared by their mean anyway; leave it out"};
}

void StoreOptions::add_to(CLI::App& app) {
  app.add_option("--store", path, "store to read and write (default: MC2_STORE, else $XDG_DATA_HOME/mc2/store.db)");
}

Result<std::filesystem::path> StoreOptions::user_path() {
  if (auto found = embed::store_path(embed::process_variables()); !found.empty()) return found;
  return Error{ErrorCode::InvalidSpec, "--store",
               "none of MC2_STORE, XDG_DATA_HOME and HOME is set; name a store with --store PATH"};
}

Result<std::filesystem::path> StoreOptions::writable_path() const {
  if (!path.empty()) return std::filesystem::path(path);
  return user_path();
}

Result<store::Store> StoreOptions::open_own(store::OpenMode mode) const {
  MC2_ASSIGN(const auto own, writable_path());
  return store::Store::open(own, mode);
}

bool StoreOptions::is_named() const {
  return !path.empty() || !embed::process_variables()("MC2_STORE").value_or("").empty();
}

std::string note_of_clock(const store::Store& store, const std::string& now) {
  constexpr std::int64_t kClocksDiffer_s = 120;
  const auto newest = store.latest_date();
  const bool is_date = newest && !store::later(newest.value(), 0).empty();
  if (!is_date || newest.value() <= store::later(now, kClocksDiffer_s)) return "";
  return "the store " + store.path().string() + " has documents of " + newest.value() +
         ", which is later than this machine's clock says: this clock was set back, or that of the machine that wrote "
         "them is ahead. Until that date they count as the newest";
}

Result<store::Layers> StoreOptions::open(StoreUse use) const {
  const auto own = writable_path();
  if (!own && use == StoreUse::Read) return Error{ErrorCode::NotFound, own.error().field, own.error().message};
  if (!own) return own.error();
  std::filesystem::path writable = own.value();
  auto below = embed::system_stores();
  if (use == StoreUse::Read && is_missing(writable)) {
    // A reader creates no store. Without a store of the user, the system's stores are read.
    std::erase_if(below, is_missing);
    if (is_named() || below.empty())
      return Error{
          ErrorCode::NotFound, writable.string(),
          "there is no such store; name one that is there, or make it with mc2 tune, profile, import or db import"};
    writable.clear();
  }
  store::LayerPaths layers{
      .read_only = std::move(below), .writable = writable, .may_be_read_only = use != StoreUse::Write};
  auto opened = store::Layers::open(layers);
  if (!opened) return opened;
  std::vector<std::string> notes = opened.value().notes();
  notes.push_back(note_of_clock(opened.value().writable(), utc_now()));
  for (const auto& note : notes)
    if (!note.empty() && told_.insert(note).second) std::cerr << "mc2: note: " << note << "\n";
  return opened;
}

std::uint64_t fresh_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

namespace {

/// Reads a file to its end. A pipe may take long to deliver; Ctrl-C ends the wait.
Result<std::string> read_all(int file, const std::filesystem::path& path, std::size_t most_mib) {
  constexpr int kLookMs = 100;
  std::string content;
  char chunk[65536];
  while (true) {
    pollfd waited{file, POLLIN, 0};
    if (poll(&waited, 1, kLookMs) <= 0) {
      if (is_interrupted()) return Error{ErrorCode::Cancelled, path.string(), "interrupted while it was read"};
      continue;
    }
    const ssize_t count = read(file, chunk, sizeof chunk);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0)
      return Error{ErrorCode::InvalidSpec, path.string(), std::string("cannot be read: ") + std::strerror(errno)};
    if (count == 0) return content;
    content.append(chunk, static_cast<std::size_t>(count));
    if (content.size() > most_mib << 20U)
      return Error{ErrorCode::Malformed, path.string(),
                   "is larger than " + std::to_string(most_mib) + " MiB, the limit for such a file"};
  }
}

} // namespace

Result<std::string> read_file(const std::filesystem::path& path, std::size_t most_mib) {
  std::error_code failure;
  const auto status = std::filesystem::status(path, failure);
  if (!std::filesystem::exists(status)) {
    const bool is_nothing = failure == std::errc::no_such_file_or_directory;
    return Error{ErrorCode::InvalidSpec, path.string(),
                 is_nothing ? "no such file" : "cannot be read: " + failure.message()};
  }
  if (std::filesystem::is_directory(status))
    return Error{ErrorCode::InvalidSpec, path.string(), "is a directory, not a file"};
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0)
    return Error{ErrorCode::InvalidSpec, path.string(), std::string("cannot be opened: ") + std::strerror(errno)};
  auto content = read_all(file, path, most_mib);
  close(file);
  return content;
}

bool file_exists(const std::filesystem::path& path) {
  const std::error_code failure = look_up_failure(path);
  return failure != std::errc::no_such_file_or_directory && failure != std::errc::filename_too_long;
}

bool names_a_file(const std::string& name) {
  const std::filesystem::path path(name);
  return path.has_parent_path() || path.extension() == ".json" || file_exists(path);
}

Error document_error(const std::filesystem::path& path, const Error& error) {
  return {ErrorCode::Malformed, path.string(), error.text()};
}

namespace {

/// Whether what is written to one replaces the other. Of devices, such as /dev/null, nothing is replaced.
bool is_same_file(const std::filesystem::path& one, const std::filesystem::path& other) {
  std::error_code missing;
  if (std::filesystem::exists(one, missing) && !std::filesystem::is_regular_file(one, missing)) return false;
  return !other.empty() &&
         std::filesystem::weakly_canonical(one, missing) == std::filesystem::weakly_canonical(other, missing);
}

} // namespace

Result<void> check_output(const char* option, const std::filesystem::path& written,
                          const std::vector<std::string>& read) {
  if (written.empty()) return {};
  std::error_code missing;
  if (std::filesystem::is_regular_file(written, missing))
    for (const auto& file : read)
      if (std::filesystem::equivalent(written, file, missing))
        return Error{ErrorCode::InvalidSpec, option, "would replace " + file + ", which is read; name another file"};
  OutputFile::check(written);
  return {};
}

Result<void> check_outputs(const std::vector<Output>& outputs, const std::vector<std::string>& read) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& [option, path] = outputs[i];
    MC2_TRY(check_output(option, path, read));
    for (std::size_t other = 0; other < i && !path.empty(); ++other)
      if (is_same_file(path, outputs[other].path))
        return Error{ErrorCode::InvalidSpec, option,
                     "is the file of " + std::string(outputs[other].option) + ", too; name another file"};
  }
  return {};
}

void write_file(const std::filesystem::path& path, const std::string& content) {
  write_file(path, std::span(&content, 1));
}

void write_file(const std::filesystem::path& path, std::span<const std::string> pieces) {
  OutputFile file(path);
  for (const auto& piece : pieces) file.write(piece);
  file.keep();
}

void print_or_write(const std::filesystem::path& path, const std::string& content) {
  print_or_write(path, std::span(&content, 1));
}

void print_or_write(const std::filesystem::path& path, std::span<const std::string> pieces) {
  if (!path.empty()) return write_file(path, pieces);
  for (const auto& piece : pieces) std::cout << piece;
}

} // namespace mc2::cli
