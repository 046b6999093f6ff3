#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <thread>

#include "commands/commands.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/backup.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/dates.hpp"
#include "mc2/store/store.hpp"
#include "options/numbers.hpp"
#include "pages/render.hpp"
#include "pages/report.hpp"
#include "pages/terminal.hpp"

namespace mc2::cli {
namespace {

struct DbCommand {
  StoreOptions store;
  std::string file;
  std::optional<std::int64_t> since;
  std::string samples_age, models_age, measurements_age; ///< removes older documents, e.g. "180d"; empty: none
  bool is_json = false;
  Action action; ///< of the subcommand that was parsed

  [[nodiscard]] Result<ExitCode> check() const;
  [[nodiscard]] Result<ExitCode> stats() const;
  [[nodiscard]] Result<ExitCode> list() const;
  [[nodiscard]] Result<ExitCode> export_to() const;
  [[nodiscard]] Result<ExitCode> import_from() const;
  [[nodiscard]] Result<ExitCode> merge_from() const;
  [[nodiscard]] Result<ExitCode> back_up_to() const;
  [[nodiscard]] Result<ExitCode> watch() const;
  [[nodiscard]] Result<ExitCode> prune() const;
  [[nodiscard]] Result<ExitCode> report_merge(const Result<store::MergeReport>& merged) const;
};

void print_check(const std::filesystem::path& path, const store::CheckReport& report) {
  std::cout << path.string() << ": " << (report.is_healthy ? "healthy" : "DAMAGED") << ", " << report.row_count
            << " rows, database " << report.database_check << "\n";
  for (const auto& damage : report.damages)
    std::cout << "  " << damage.table << " row " << damage.row_id << ": " << damage.what << "\n";
}

nlohmann::json check_report(const std::filesystem::path& path, const store::CheckReport& report) {
  auto damages = nlohmann::json::array();
  for (const auto& damage : report.damages)
    damages.push_back({{"table", damage.table}, {"row", damage.row_id}, {"what", damage.what}});
  return {{"path", path.string()},
          {"healthy", report.is_healthy},
          {"row_count", report.row_count},
          {"database", report.database_check},
          {"damages", std::move(damages)}};
}

Result<ExitCode> DbCommand::check() const {
  MC2_ASSIGN(auto opened, store.open_own(store::OpenMode::ReadOnly));
  const auto report = opened.check();
  if (is_json)
    print_report("mc2.store_check/1", check_report(opened.path(), report));
  else
    print_check(opened.path(), report);
  return report.is_healthy ? ExitCode::Success : ExitCode::Negative;
}

Result<ExitCode> DbCommand::stats() const {
  MC2_ASSIGN(auto opened, store.open_own(store::OpenMode::ReadOnly));
  MC2_ASSIGN(const store::StoreStats stats, opened.stats());
  const std::vector<std::pair<std::string, std::int64_t>> counts{{"schema", stats.schema_version},
                                                                 {"bytes", stats.file_bytes},
                                                                 {"fingerprints", stats.fingerprint_count},
                                                                 {"samples", stats.sample_count},
                                                                 {"models", stats.model_count},
                                                                 {"plans", stats.plan_count},
                                                                 {"measurements", stats.measurement_count}};
  nlohmann::json report{{"path", stats.path.string()}};
  std::vector<std::vector<std::string>> rows(2);
  for (const auto& [name, count] : counts) {
    report[name == "schema" ? "schema_version" : name] = count;
    rows[0].push_back(name);
    rows[1].push_back(std::to_string(count));
  }
  if (is_json)
    print_report("mc2.store_stats/1", report);
  else
    std::cout << stats.path.string() << "\n" << table(rows);
  return ExitCode::Success;
}

/// Prints plans by machine, in the order in which the machines appear.
void print_plans(const std::vector<store::StoredPlan>& plans) {
  constexpr std::size_t kPurposeBytes = 80;
  using Rows = std::vector<std::vector<std::string>>;
  std::vector<std::pair<std::string, Rows>> machines;
  for (const auto& stored : plans) {
    const auto& plan = stored.plan;
    const std::string label = plan.fingerprint.label();
    auto machine = std::ranges::find(machines, label, &std::pair<std::string, Rows>::first);
    if (machine == machines.end())
      machine = machines.insert(machine, {label, {{"plan", "operator", "cut", "benefit", "kept"}}});
    const std::string benefit = plan.validation ? percent_text(plan.validation->benefit) + " measured"
                                                : percent_text(plan.benefit()) + " predicted";
    const std::string& purpose = stored.key.purpose;
    const bool is_best_of_all = purpose == store::PlanKey{}.purpose;
    const std::string what = plan.op.text() + (is_best_of_all ? "" : ", " + one_line(purpose, kPurposeBytes));
    machine->second.push_back({stored.digest.substr(0, 12), what, plan.cut.text(), benefit,
                               stored.created_at.substr(0, std::string_view("2026-01-31").size())});
  }
  for (const auto& [label, rows] : machines)
    std::cout << (&label == &machines.front().first ? "" : "\n") << label << "\n" << table(rows);
}

nlohmann::json plans_report(const std::vector<store::StoredPlan>& plans) {
  auto items = nlohmann::json::array();
  for (const auto& stored : plans)
    items.push_back({{"created_at", stored.created_at},
                     {"digest", stored.digest},
                     {"plan", nlohmann::json::parse(stored.document)}});
  return {{"items", std::move(items)}};
}

Result<ExitCode> DbCommand::list() const {
  MC2_ASSIGN(auto opened, store.open_own(store::OpenMode::ReadOnly));
  MC2_ASSIGN(const auto plans, opened.list_plans());
  MC2_ASSIGN(const auto stats, opened.stats());
  if (is_json)
    print_report("mc2.kept_plans/1", plans_report(plans));
  else
    print_plans(plans);
  const auto damaged_count = stats.plan_count - std::ssize(plans);
  if (damaged_count > 0)
    std::cerr << "mc2: note: damaged plans not listed: " << damaged_count << "; mc2 db check says what is wrong\n";
  return ExitCode::Success;
}

Result<ExitCode> DbCommand::export_to() const {
  MC2_ASSIGN(auto opened, store.open_own(store::OpenMode::Salvage));
  MC2_ASSIGN(const auto exported, opened.export_all());
  print_or_write(file, exported.json + "\n");
  if (exported.json.size() > store::kMaxExportBytes)
    std::cerr << "mc2: note: is larger than mc2 db import takes (" << (store::kMaxExportBytes >> 20U)
              << " MiB); mc2 db backup and mc2 db merge have no limit\n";
  for (const auto& damaged : exported.damaged) std::cerr << "mc2: note: not exported: " << damaged << "\n";
  return exported.damaged.empty() ? ExitCode::Success : ExitCode::Negative;
}

void print_merge(const store::MergeReport& merged) {
  std::cout << merged.added_count << " added, " << merged.same_count << " already there, " << merged.conflicts.size()
            << " conflicts (ours kept)";
  const auto left_out_count = merged.damaged.size() + merged.refused.size();
  if (left_out_count > 0) std::cout << ", " << left_out_count << " not taken";
  std::cout << "\n";
  for (const auto& conflict : merged.conflicts) std::cout << "  " << conflict << "\n";
  for (const auto& damaged : merged.damaged) std::cout << "  damaged, not taken: " << damaged << "\n";
  for (const auto& refused : merged.refused) std::cout << "  refused: " << refused << "\n";
}

Result<ExitCode> DbCommand::report_merge(const Result<store::MergeReport>& merged) const {
  if (!merged) return merged.error();
  const auto& [added_count, same_count, conflicts, damaged, refused] = merged.value();
  if (is_json)
    print_report("mc2.merge/1", {{"added_count", added_count},
                                 {"same_count", same_count},
                                 {"conflicts", conflicts},
                                 {"damaged", damaged},
                                 {"refused", refused}});
  else
    print_merge(merged.value());
  return damaged.empty() && refused.empty() ? ExitCode::Success : ExitCode::Negative;
}

Result<ExitCode> DbCommand::import_from() const {
  MC2_ASSIGN(const auto content, read_file(file, store::kMaxExportBytes >> 20U));
  if (content.starts_with("SQLite format 3"))
    return Error{ErrorCode::Malformed, file, "is a store, not an exported file; add its content with mc2 db merge"};
  MC2_ASSIGN(const auto path, store.writable_path());
  if (std::error_code none; !std::filesystem::exists(path, none)) // so that a refusal leaves no empty store behind
    if (const auto read = store::plans_of_export(content); !read) return document_error(file, read.error());
  MC2_ASSIGN(auto opened, store.open_own(store::OpenMode::ReadWrite));
  const auto merged = opened.import_json(content);
  const bool is_store_at_fault =
      !merged && to_exit_code(merged.error().code) == ExitCode::Store && merged.error().code != ErrorCode::NewerVersion;
  if (!merged && !is_store_at_fault) return document_error(file, merged.error());
  return report_merge(merged);
}

Result<ExitCode> DbCommand::merge_from() const {
  auto other = store::Store::open(file, store::OpenMode::ReadOnly);
  if (!other && other.error().code == ErrorCode::Corrupt && std::ifstream(file).peek() == '{')
    return Error{ErrorCode::Malformed, file, "is no store but JSON; add the content of an export with mc2 db import"};
  if (!other) return other.error();
  MC2_ASSIGN(auto opened, store.open_own(store::OpenMode::ReadWrite));
  return report_merge(opened.merge(other.value()));
}

Result<ExitCode> DbCommand::back_up_to() const {
  MC2_ASSIGN(const auto path, store.writable_path());
  MC2_TRY(store::back_up(path, file));
  MC2_ASSIGN(const auto copy, store::Store::open(file, store::OpenMode::ReadOnly));
  const auto report = copy.check();
  if (is_json)
    print_report("mc2.store_check/1", check_report(file, report));
  else
    std::cout << file << ": a copy of " << path.string() << ", "
              << (report.is_healthy ? "healthy" : "DAMAGED, as that store is") << ", " << report.row_count << " rows\n";
  return report.is_healthy ? ExitCode::Success : ExitCode::Negative;
}

/// Prints a change and flushes, so that a program that reads the output gets it at once.
void print_change(const store::Change& change, bool is_json) {
  if (is_json) {
    std::cout << store::encode(change) << std::endl;
    return;
  }
  std::string what = change.document;
  what.resize(std::string_view("measurement").size(), ' ');
  std::cout << change.revision << "  " << what << (change.is_removal ? "  removed  " : "  kept     ")
            << change.digest.substr(0, 12) << "  " << change.op.text()
            << (change.purpose.empty() ? "" : "  " + one_line(change.purpose, 24)) << std::endl;
}

/// The inode of a file; 0 if there is none.
ino_t inode_of(const std::filesystem::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

Result<ExitCode> DbCommand::watch() const {
  constexpr int kMostAtOnce = 1000;
  constexpr std::chrono::milliseconds kPause{50};
  MC2_ASSIGN(auto opened, store.open_own(store::OpenMode::ReadOnly));
  MC2_ASSIGN(const auto now, opened.revision());
  const auto inode = inode_of(opened.path());
  std::int64_t told = since.value_or(now);
  for (bool is_first = true; !is_interrupted() && std::cout; is_first = false) {
    const auto changes = opened.changes_since(told, kMostAtOnce);
    if (!changes && changes.error().field == "since")
      return Error{changes.error().code, "--since", changes.error().message};
    if (!changes) return changes.error();
    if (is_first && !since)
      std::cerr << "mc2: changes of " << opened.path().string() << " after epoch " << told << "; Ctrl-C ends\n";
    for (const store::Change& change : changes.value().changes) print_change(change, is_json);
    told = changes.value().revision;
    if (inode_of(opened.path()) != inode)
      return Error{ErrorCode::NotFound, opened.path().string(), "was deleted, moved or replaced while it was watched"};
    if (changes.value().changes.empty()) std::this_thread::sleep_for(kPause);
  }
  return is_interrupted() ? ExitCode::Interrupted : ExitCode::Success;
}

struct Pruned {
  const std::string& age;
  const char *name, *what;
  Result<std::int64_t> (store::Store::*remove_before)(const std::string&);
};

Result<ExitCode> DbCommand::prune() const {
  const std::array kinds{
      Pruned{samples_age, "samples", "batches of samples", &store::Store::remove_batches_before},
      Pruned{models_age, "models", "models", &store::Store::remove_models_before},
      Pruned{measurements_age, "measurements", "measurements", &store::Store::remove_measurements_before}};
  if (std::ranges::all_of(kinds, [](const Pruned& kind) { return kind.age.empty(); }))
    return Error{ErrorCode::InvalidSpec, "--samples", "is missing: say what to remove, e.g. --samples 180d"};
  std::vector<std::pair<const Pruned*, std::string>> moments; // first, so that a wrong age removes nothing
  for (const Pruned& kind : kinds) {
    if (kind.age.empty()) continue;
    MC2_ASSIGN(const auto age_s, store::parse_duration_s(kind.age, std::string("--") + kind.name));
    moments.emplace_back(&kind, store::later(utc_now(), -age_s));
  }
  MC2_ASSIGN(const auto path, store.writable_path());
  if (!file_exists(path)) MC2_TRY(store.open_own(store::OpenMode::ReadOnly)); // a store that is missing is not made
  MC2_ASSIGN(auto opened, store.open_own(store::OpenMode::ReadWrite));
  nlohmann::json report = nlohmann::json::object();
  for (const auto& [kind, moment] : moments) {
    std::int64_t count = 0, last = store::kMostRemoved;
    for (; last == store::kMostRemoved && !is_interrupted(); count += last) {
      MC2_ASSIGN(last, (opened.*kind->remove_before)(moment));
    }
    report[kind->name] = {{"before", moment}, {"removed_count", count}};
    if (!is_json) std::cout << "removed " << count << " " << kind->what << " of before " << moment << "\n";
  }
  if (is_json) print_report("mc2.pruned/1", report);
  if (is_interrupted())
    return Error{ErrorCode::Cancelled, "", "interrupted; the same command removes what is left of it"};
  return ExitCode::Success;
}

CLI::App* add(CLI::App& db, const std::shared_ptr<DbCommand>& command, const char* name, const char* help,
              const std::string& example, Result<ExitCode> (DbCommand::*member)() const) {
  auto* sub = add_part(db, command, name, help, example, member);
  const char* const printed = member == &DbCommand::watch ? "each change as a line" : "what was found";
  if (member != &DbCommand::export_to) add_json(*sub, command->is_json, printed); // an export is JSON anyway
  return sub;
}

} // namespace

Command add_db(CLI::App& app) {
  auto command = std::make_shared<DbCommand>();
  auto* db = app.add_subcommand("db", "check, list, copy, merge and prune the store");
  db->require_subcommand(1);
  add(*db, command, "check", "verify the database and every document's checksum", "check", &DbCommand::check);
  add(*db, command, "stats", "count what the store holds", "stats", &DbCommand::stats);
  add(*db, command, "list", "list the kept plans", "list", &DbCommand::list);
  add(*db, command, "export", "write the whole store as JSON", "export plans.json", &DbCommand::export_to)
      ->add_option("FILE", command->file, "where to write; standard output when omitted");
  add(*db, command, "import", "add the content of an exported JSON file", "import plans.json", &DbCommand::import_from)
      ->add_option("FILE", command->file, "the exported file")
      ->required();
  add(*db, command, "merge", "add the content of another store", "merge colleague.db", &DbCommand::merge_from)
      ->add_option("FILE", command->file, "the other store")
      ->required();
  add(*db, command, "backup", "copy the store while others use it", "backup plans-monday.db", &DbCommand::back_up_to)
      ->add_option("FILE", command->file, "the copy, which must not exist yet")
      ->required();
  add(*db, command, "watch", "print every change of the store as it happens", "watch --since 120", &DbCommand::watch)
      ->add_option("--since", command->since, "start with the changes after this epoch; default: with the next change")
      ->check(whole_number(1, std::numeric_limits<std::int64_t>::max())); // 1 is the epoch of an empty store
  auto* prune = add(*db, command, "prune", "remove old documents", "prune --samples 180d", &DbCommand::prune);
  prune->add_option("--samples", command->samples_age, "remove batches of samples older than this, e.g. 180d");
  prune->add_option("--models", command->models_age, "remove models older than this, even those in use");
  prune->add_option("--measurements", command->measurements_age, "remove results of races and runs older than this");
  db->footer("Examples:\n  mc2 db check\n  mc2 db export plans.json\n  mc2 db merge colleague.db");
  return {db, [command] { return command->action(); }};
}

} // namespace mc2::cli
