#include <CLI/CLI.hpp>
#include <iostream>
#include <iterator>
#include <memory>

#include "commands.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/backup.hpp"
#include "mc2/store/store.hpp"
#include "render.hpp"

namespace mc2::cli {
namespace {

struct DbCommand {
  StoreOptions store;
  std::string file;
  Action action; ///< of the subcommand that was parsed

  [[nodiscard]] Result<store::Store> open(store::OpenMode mode) const;
  [[nodiscard]] Result<ExitCode> check() const;
  [[nodiscard]] Result<ExitCode> stats() const;
  [[nodiscard]] Result<ExitCode> list() const;
  [[nodiscard]] Result<ExitCode> export_to() const;
  [[nodiscard]] Result<ExitCode> import_from() const;
  [[nodiscard]] Result<ExitCode> merge_from() const;
  [[nodiscard]] Result<ExitCode> back_up_to() const;
};

Result<store::Store> DbCommand::open(store::OpenMode mode) const {
  MC2_ASSIGN(const auto path, store.writable_path());
  return store::Store::open(path, mode);
}

Result<ExitCode> DbCommand::check() const {
  MC2_ASSIGN(auto opened, open(store::OpenMode::ReadOnly));
  const auto report = opened.check();
  std::cout << opened.path().string() << ": " << (report.is_healthy ? "healthy" : "DAMAGED") << ", " << report.row_count
            << " rows, database " << report.database_check << "\n";
  for (const auto& damage : report.damages)
    std::cout << "  " << damage.table << " row " << damage.row_id << ": " << damage.what << "\n";
  return report.is_healthy ? ExitCode::Success : ExitCode::Negative;
}

Result<ExitCode> DbCommand::stats() const {
  MC2_ASSIGN(auto opened, open(store::OpenMode::ReadOnly));
  MC2_ASSIGN(const store::StoreStats stats, opened.stats());
  std::cout << stats.path.string() << "\n"
            << table({{"schema", "bytes", "fingerprints", "samples", "models", "plans", "measurements"},
                      {std::to_string(stats.schema_version), std::to_string(stats.file_bytes),
                       std::to_string(stats.fingerprint_count), std::to_string(stats.sample_count),
                       std::to_string(stats.model_count), std::to_string(stats.plan_count),
                       std::to_string(stats.measurement_count)}});
  return ExitCode::Success;
}

Result<ExitCode> DbCommand::list() const {
  MC2_ASSIGN(auto opened, open(store::OpenMode::ReadOnly));
  MC2_ASSIGN(const auto plans, opened.list_plans());
  std::vector<std::vector<std::string>> rows{{"plan", "operator", "cut", "benefit", "machine", "kept"}};
  for (const auto& stored : plans) {
    const auto& plan = stored.plan;
    const std::string benefit = plan.validation ? percent_text(plan.validation->benefit) + " measured"
                                                : percent_text(plan.benefit()) + " predicted";
    rows.push_back({stored.digest.substr(0, 12), plan.op.text(), plan.cut.text(), benefit, plan.fingerprint.label(),
                    stored.created_at});
  }
  MC2_ASSIGN(const auto stats, opened.stats());
  std::cout << table(rows);
  const auto damaged_count = stats.plan_count - std::ssize(plans);
  if (damaged_count > 0)
    std::cerr << "mc2: note: damaged plans not listed: " << damaged_count << "; mc2 db check says what is wrong\n";
  return ExitCode::Success;
}

Result<ExitCode> DbCommand::export_to() const {
  MC2_ASSIGN(auto opened, open(store::OpenMode::Salvage));
  MC2_ASSIGN(const auto exported, opened.export_all());
  if (file.empty())
    std::cout << exported.json << "\n";
  else
    write_file(file, exported.json + "\n");
  for (const auto& damaged : exported.damaged) std::cerr << "mc2: note: not exported: " << damaged << "\n";
  return exported.damaged.empty() ? ExitCode::Success : ExitCode::Negative;
}

Result<ExitCode> report_merge(const Result<store::MergeReport>& merged) {
  if (!merged) return merged.error();
  std::cout << merged.value().added_count << " added, " << merged.value().same_count << " already there, "
            << merged.value().conflicts.size() << " conflicts (ours kept)";
  const auto left_out_count = merged.value().damaged.size() + merged.value().refused.size();
  if (left_out_count > 0) std::cout << ", " << left_out_count << " not taken";
  std::cout << "\n";
  for (const auto& conflict : merged.value().conflicts) std::cout << "  " << conflict << "\n";
  for (const auto& damaged : merged.value().damaged) std::cout << "  damaged, not taken: " << damaged << "\n";
  for (const auto& refused : merged.value().refused) std::cout << "  refused: " << refused << "\n";
  return left_out_count == 0 ? ExitCode::Success : ExitCode::Negative;
}

Result<ExitCode> DbCommand::import_from() const {
  MC2_ASSIGN(const auto content, read_file(file));
  MC2_ASSIGN(auto opened, open(store::OpenMode::ReadWrite));
  const auto merged = opened.import_json(content);
  const bool is_store_at_fault =
      !merged && to_exit_code(merged.error().code) == ExitCode::Store && merged.error().code != ErrorCode::NewerVersion;
  if (!merged && !is_store_at_fault) return document_error(file, merged.error());
  return report_merge(merged);
}

Result<ExitCode> DbCommand::merge_from() const {
  MC2_ASSIGN(auto other, store::Store::open(file, store::OpenMode::ReadOnly));
  MC2_ASSIGN(auto opened, open(store::OpenMode::ReadWrite));
  return report_merge(opened.merge(other));
}

Result<ExitCode> DbCommand::back_up_to() const {
  MC2_ASSIGN(const auto path, store.writable_path());
  MC2_TRY(store::back_up(path, file));
  MC2_ASSIGN(const auto copy, store::Store::open(file, store::OpenMode::ReadOnly));
  const auto report = copy.check();
  std::cout << file << ": a copy of " << path.string() << ", " << (report.is_healthy ? "healthy" : "DAMAGED as that is")
            << ", " << report.row_count << " rows\n";
  return report.is_healthy ? ExitCode::Success : ExitCode::Negative;
}

using Member = Result<ExitCode> (DbCommand::*)() const;

CLI::App* add(CLI::App& db, const std::shared_ptr<DbCommand>& command, const char* name, const char* help,
              const std::string& example, Member member) {
  auto* sub = db.add_subcommand(name, help);
  sub->footer("Example:\n  mc2 db " + example);
  sub->callback([raw = command.get(), member] { raw->action = [raw, member] { return (raw->*member)(); }; });
  command->store.add_to(*sub);
  return sub;
}

} // namespace

Command add_db(CLI::App& app) {
  auto command = std::make_shared<DbCommand>();
  auto* db = app.add_subcommand("db", "look after the store");
  db->require_subcommand(1);
  add(*db, command, "check", "verify the database and every document's checksum", "check", &DbCommand::check);
  add(*db, command, "stats", "count what the store holds", "stats", &DbCommand::stats);
  add(*db, command, "list", "list the kept plans", "list", &DbCommand::list);
  add(*db, command, "export", "write the whole store as JSON", "export plans.json", &DbCommand::export_to)
      ->add_option("file", command->file, "where to write; standard output when omitted");
  add(*db, command, "import", "add the content of an exported JSON file", "import plans.json", &DbCommand::import_from)
      ->add_option("file", command->file, "the exported file")
      ->required();
  add(*db, command, "merge", "add the content of another store", "merge colleague.db", &DbCommand::merge_from)
      ->add_option("file", command->file, "the other store")
      ->required();
  add(*db, command, "backup", "copy the store while others use it", "backup plans-monday.db", &DbCommand::back_up_to)
      ->add_option("file", command->file, "the copy, which must not exist yet")
      ->required();
  db->footer("Examples:\n  mc2 db check\n  mc2 db export plans.json\n  mc2 db merge colleague.db");
  return {db, [command] { return command->action(); }};
}

} // namespace mc2::cli
