#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>

#include "commands/commands.hpp"
#include "imported_store.hpp"
#include "mc2/planner/device_model.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/profiler/fit.hpp"
#include "mc2/profiler/import_report.hpp"
#include "mc2/profiler/import_terms.hpp"
#include "mc2/profiler/statistics.hpp"
#include "mc2/store/codec.hpp"
#include "options/numbers.hpp"
#include "output_file.hpp"
#include "pages/render.hpp"
#include "pages/terminal.hpp"
#include "pages/text.hpp"

namespace mc2::cli {
namespace {

/// Adds the options that describe the logs.
void add_terms(CLI::App& app, profiler::ImportTerms& terms) {
  app.add_option("--op", terms.op, "operator kind that the timings are for, as for mc2 plan");
  const auto add_size = [&](const char* name, std::optional<std::int64_t>& size, const char* help) {
    app.add_option(name, size, help)->check(whole_number(1, planner::kMaxSize));
  };
  add_size("--m", terms.m, "rows of the uncut product (default: the largest in the logs)");
  add_size("--n", terms.n, "columns of the product (default: those of the logs' only matmul)");
  add_size("--k", terms.k, "inner length (default: that of the logs' only matmul)");
  app.add_option("--dtype", terms.dtype, "element type (default: that of the logs' matmuls)");
  app.add_option("--ranks", terms.ranks, "ranks that took part (default: as the logs say)")
      ->check(whole_number(1, planner::kMaxWorldSize));
  app.add_option("--collective", terms.collective,
                 "all_reduce, reduce_scatter, all_gather or all_to_all, where a log does not say");
  app.add_option(
      "--bytes", terms.bytes,
      "bytes of the full array where a communication row names no size: a number, or 'neighbour' to take the size of "
      "the matmul next to it");
  app.add_option("--blocks", terms.blocks, "cut with which the fused operators in msprof logs ran, e.g. 512,4x896");
  app.add_option("--buffers", terms.buffers, "which times of nccl-tests logs to take: out-of-place, in-place or both")
      ->capture_default_str();
  app.add_option("--device", terms.device,
                 "name of the machine, for mc2 fit and plan --device (default: as the logs say)");
}

/// The error of a term, with its option as the field.
Error as_option(const Error& error) { return {error.code, "--" + error.field, error.message}; }

struct ImportCommand {
  profiler::ImportTerms terms;
  StoreOptions store;
  std::vector<std::string> files;
  std::string format, out, report_file;
  bool keeps_good = false;
  bool is_dry = false;

  [[nodiscard]] Result<profiler::LogSummary> read_file(const std::string& file, const profiler::ImportAnswers& answers,
                                                       profiler::TimingSet& timings, OutputFile* every_line) const;
  [[nodiscard]] Result<void> read_files(const profiler::ImportAnswers& answers, profiler::ImportedLogs& imported) const;
  [[nodiscard]] Result<void> keep(const profiler::ImportedProfile& imported) const;
  [[nodiscard]] Result<ExitCode> run() const;
};

std::string run_text(const std::pair<std::int64_t, std::int64_t>& run) {
  return std::to_string(run.first) + (run.first == run.second ? "" : "-" + std::to_string(run.second));
}

std::string lines_text(const profiler::LineGroup& group) {
  const std::string text = list_text(group.runs, run_text);
  return group.last_line > group.runs.back().second ? text + ", ... " + std::to_string(group.last_line) : text;
}

std::string report_text(const profiler::ImportReport& report) {
  std::vector<std::vector<std::string>> rows{{"", "count", "lines", "what"}};
  for (const auto& [key, group] : report.groups())
    rows.push_back({std::string(to_string(key.first)), std::to_string(group.count), lines_text(group), key.second});
  if (report.groups().size() > profiler::ImportReport::kMaxGroups)
    rows.push_back({"", "", "", "--report FILE names each line"});
  return table(rows);
}

/// @param every_line  file for the verdict on each line, or null
profiler::ImportHooks hooks_of(profiler::ImportReport& report, const std::string& file, OutputFile* every_line,
                               ProgressLine& progress) {
  const auto start = std::chrono::steady_clock::now();
  profiler::ImportHooks hooks;
  hooks.on_line = [&report, &file, every_line](const profiler::LineVerdict& verdict) {
    report.add(verdict);
    if (every_line != nullptr)
      every_line->write(file + ":" + std::to_string(verdict.line) + "\t" + std::string(to_string(verdict.verdict)) +
                        "\t" + std::string(verdict.text) + "\n");
  };
  hooks.is_cancelled = is_interrupted;
  hooks.on_progress = [&progress, start](std::int64_t done, std::int64_t total) {
    const double fraction = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
    // No progress for short logs.
    if (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(500) || fraction <= 0) return;
    progress.update(fraction, std::to_string(done >> 20) + " MiB");
  };
  return hooks;
}

Result<profiler::LogSummary> ImportCommand::read_file(const std::string& file, const profiler::ImportAnswers& answers,
                                                      profiler::TimingSet& timings, OutputFile* every_line) const {
  MC2_ASSIGN(const auto source, profiler::open_log(file));
  profiler::ImportReport report;
  Result<profiler::LogSummary> read = Error{};
  {
    ProgressLine progress("import " + file);
    read = profiler::import_log(*source, format, answers, timings, hooks_of(report, file, every_line, progress));
  }
  if (!read)
    return Error{read.error().code, read.error().field.empty() ? file : read.error().field, read.error().message};
  const auto& summary = read.value();
  std::cout << file << ": " << summary.format << (format.empty() ? " (detected)" : "") << ", " << summary.took_count
            << (summary.took_count == 1 ? " timing taken, " : " timings taken, ") << summary.skipped_count
            << (summary.skipped_count == 1 ? " line skipped, " : " lines skipped, ") << summary.bad_count << " bad\n"
            << report_text(report) << "\n";
  return read;
}

Result<void> ImportCommand::read_files(const profiler::ImportAnswers& answers, profiler::ImportedLogs& imported) const {
  std::optional<OutputFile> every_line;
  if (!report_file.empty()) every_line.emplace(report_file);
  MC2_TRY(profiler::require_different(files));
  std::string database, table;
  for (const std::string& file : files) {
    MC2_ASSIGN(const auto summary, read_file(file, answers, imported.timings, every_line ? &*every_line : nullptr));
    const bool is_database = summary.format == "msprof_db";
    if (is_database || summary.format.starts_with("msprof")) (is_database ? database : table) = file;
    MC2_TRY(imported.add(file, summary));
  }
  if (every_line) every_line->keep();
  if (!terms.bytes.empty() && !database.empty() && !table.empty())
    return Error{ErrorCode::InvalidSpec, "--bytes",
                 "would count the collectives of " + table + " beside those of " + database +
                     ", which has their sizes; leave it out, or import runs that are not the same one apart"};
  if (imported.first_bad.empty() || keeps_good) return {};
  return Error{ErrorCode::Malformed, "", imported.first_bad + "; --keep-good takes the good lines"};
}

std::string size_text(const planner::Sample& sample, const planner::OpSpec& op) {
  if (sample.component == planner::Component::Matmul)
    return std::to_string(sample.block_rows) + " " + std::string(to_string(planner::cut_axis(op)));
  return std::to_string(sample.message_bytes) + " B";
}

std::string profile_page(const planner::Profile& profile) {
  const std::string head =
      profile.op.text() + "\n" + render::hanging("", profile.fingerprint.label(), terminal_width()) + "\n";
  if (profile.samples.empty()) return head;
  std::vector<std::vector<std::string>> rows{{"  component", "size", "samples", "median", "outliers"}};
  for (std::size_t i = 0; i < profile.samples.size();) {
    const auto& first = profile.samples[i];
    std::vector<double> times;
    std::int64_t outlier_count = 0;
    for (; i < profile.samples.size(); ++i) {
      const auto& sample = profile.samples[i];
      if (sample.component != first.component || sample.block_rows != first.block_rows ||
          sample.message_bytes != first.message_bytes)
        break;
      times.push_back(sample.time_us());
      outlier_count += sample.is_outlier ? 1 : 0;
    }
    rows.push_back({"  " + std::string(to_string(first.component)), size_text(first, profile.op),
                    std::to_string(times.size()), time_text(profiler::quantile(times, 0.5)),
                    std::to_string(outlier_count)});
  }
  return head + table(rows);
}

/// A table with a row for each cut.
std::string cuts_page(const std::vector<planner::CutRuns>& cuts) {
  if (cuts.empty()) return {};
  std::vector<std::vector<std::string>> rows{
      {"  cut", "runs", "median", "serial", "compute blocks", "communication blocks"}};
  const auto told = [](double us) { return us > 0 ? time_text(us) : "-"; };
  for (const auto& cut : cuts)
    rows.push_back({"  " + cut.blocks, std::to_string(cut.run_count), time_text(cut.fused_us), told(cut.serial_us),
                    told(cut.compute_blocks_us), told(cut.communication_blocks_us)});
  return table(rows);
}

/// The error as it is told: one of a measured cut has the place of its first run where that is known.
Error told(const Error& error, const profiler::ImportedProfile& imported = {}) {
  if (error.field != "blocks") return error;
  for (std::size_t i = 0; i < imported.cuts.size(); ++i)
    if (error.message.starts_with("'" + imported.cuts[i].blocks.substr(0, 64) + "'") && !imported.places[i].empty())
      return {error.code, "", "measured cuts: " + imported.places[i] + ": " + error.message};
  return {error.code, "", "measured cuts: " + error.message};
}

/// The lanes that a profile has no times of; empty where it has both.
std::string missing_parts(const planner::Profile& profile) {
  const auto has = [&](planner::Component component) {
    return std::ranges::find(profile.samples, component, &planner::Sample::component) != profile.samples.end();
  };
  const bool has_matmul = has(planner::Component::Matmul), has_collective = has(planner::Component::Collective);
  if (has_matmul && has_collective) return {};
  const std::string collective(to_string(planner::collective_of(profile.op.kind)));
  return has_matmul ? collective : has_collective ? "matmul" : "matmul and " + collective;
}

/// What to do next with what is kept, of which only what has all that it needs is named.
/// @param all  everything that is kept for the operator on its device
std::string after_import(const planner::Profile& all, const std::string& device, bool has_cuts) {
  const bool is_published = planner::device_model(device, all.op).ok();
  const auto fitted = profiler::fit_cost_model(all);
  const std::string commands = has_cuts ? "mc2 refine" : is_published && !fitted ? "mc2 plan" : "mc2 fit or mc2 plan";
  const std::string missing = missing_parts(all);
  std::string before;
  if (!fitted && !is_published)
    before = missing.empty() ? "import more timings of '" + device + "', as these give no costs (" +
                                   fitted.error().text() + "); then "
                             : "import timings of " + missing + " of '" + device + "', which has " +
                                   (has_cuts ? "cuts but " : "") + "no costs of these; then ";
  return "next: " + before + commands + " with --device '" + device + "' and the operator";
}

Result<void> ImportCommand::keep(const profiler::ImportedProfile& imported) const {
  const planner::Profile& profile = imported.profile;
  MC2_ASSIGN(auto layers, store.open(StoreUse::Write));
  MC2_ASSIGN(const auto machine, find_imported(layers, profile.fingerprint.fields.at("device")));
  store::Store& writable = layers.writable();
  const std::string& device = profile.fingerprint.fields.at("device");
  const auto kept = store::keep_imported(writable, machine, profile, imported.cuts, utc_now());
  if (!kept) return kept.error().field == "device" ? as_option(kept.error()) : told(kept.error(), imported);
  const auto& [samples, measurements] = kept.value();
  if (samples.empty() && measurements.empty()) {
    std::cout << "  note: all of it is kept already; nothing was added\n";
    return {};
  }
  MC2_ASSIGN(const auto joined, find_imported(layers, device));
  const planner::Profile all = joined.profile_for(profile.op);
  std::cout << "  kept in " << writable.path().string() << "\n"
            << remark(after_import(all, device, !measurements.empty()), terminal_width());
  return {};
}

Result<ExitCode> ImportCommand::run() const {
  if (is_dry && !out.empty())
    return Error{ErrorCode::InvalidSpec, "--out",
                 "gets the profile that is kept, and --dry-run keeps none; leave one of them out"};
  MC2_ASSIGN(const auto kept, store.writable_path());
  std::vector<std::string> read = files;
  read.push_back(kept.string());
  MC2_TRY(check_outputs({{"--report", report_file}, {"--out", out}}, read));
  const auto answers = terms.answers();
  if (!answers) return as_option(answers.error());
  const auto question = terms.question();
  if (!question) return as_option(question.error());
  profiler::ImportedLogs imported;
  MC2_TRY(read_files(answers.value(), imported));
  MC2_TRY(imported.require_timings());
  for (const auto& asked : imported.questions) std::cout << "  to take more of it, say " << asked << "\n";
  std::cout << notes_text(imported.notes);
  if (is_dry) {
    const auto fits = profiler::check_import(imported.timings, imported.facts, question.value());
    if (!fits) return told(fits.error());
    return ExitCode::Success;
  }
  const auto assembling = profiler::assemble_profile(imported.timings, imported.facts, question.value());
  if (!assembling) return told(assembling.error());
  const auto& assembled = assembling.value();
  const auto& profile = assembled.profile;
  std::cout << profile_page(profile) << cuts_page(assembled.cuts) << "\n";
  std::cout << notes_text(assembled.notes);
  MC2_TRY(keep(assembled));
  if (!out.empty() && profile.samples.empty())
    std::cerr << "mc2: note: the logs hold measured cuts only, so the profile in " << out << " has no samples\n";
  try { // last: a refused import replaces no file
    if (!out.empty()) write_file(out, store::pretty(store::encode(profile)));
  } catch (const SystemError&) {
    std::cerr << "mc2: note: the timings are kept; only --out is missing\n";
    throw;
  }
  return ExitCode::Success;
}

std::string importer_names() {
  std::string text = "format of the files (default: detected):";
  for (const auto& importer : profiler::importer_registry()) text += " " + std::string(importer.name);
  return text;
}

} // namespace

Command add_import(CLI::App& app) {
  auto command = std::make_shared<ImportCommand>();
  auto* sub = app.add_subcommand("import", "read timings from logs of other tools");
  sub->add_option("FILES", command->files, "logs, also compressed with gzip, xz or zstd")->required();
  add_terms(*sub, command->terms);
  sub->add_option("--format", command->format, importer_names());
  sub->add_flag("--keep-good", command->keeps_good, "keep the good lines of a log although it has bad lines");
  sub->add_flag("--dry-run", command->is_dry, "say what the logs hold and keep nothing");
  sub->add_option("--report", command->report_file,
                  "write the verdict on every line (taken, skipped or bad, and why) to this file");
  sub->add_option("--out", command->out, "also write the profile to this JSON file");
  command->store.add_to(*sub);
  sub->footer(
      "Examples:\n  mc2 import --dry-run all_reduce.log\n"
      "  mc2 import op_summary_0.csv all_reduce_test.log --device ascend-910b \\\n"
      "             --collective all_reduce --op matmul_all_reduce --ranks 8\n"
      "  mc2 plan --device ascend-910b --m 4096 --n 8192 --k 3072 --dtype f16 --ranks 8");
  return {sub, [command] { return command->run(); }};
}

} // namespace mc2::cli
