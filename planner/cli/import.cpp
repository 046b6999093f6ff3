#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "commands.hpp"
#include "import_report.hpp"
#include "imported.hpp"
#include "mc2/profiler/importer.hpp"
#include "mc2/profiler/statistics.hpp"
#include "mc2/store/codec.hpp"
#include "numbers.hpp"
#include "render.hpp"
#include "terminal.hpp"

namespace mc2::cli {
namespace {

constexpr std::int64_t kMaxMessageBytes = std::int64_t{1} << 50;

/// What the user says of a log, as options name it.
struct ImportOptions {
  std::string kind, dtype, collective, bytes, buffers = "out-of-place", device;
  std::optional<std::int64_t> m, n, k;
  std::optional<int> ranks;

  void add_to(CLI::App& app);
  /// Errors: UnknownName, InvalidSpec.
  [[nodiscard]] Result<profiler::ImportAnswers> answers() const;
  [[nodiscard]] Result<profiler::ImportQuestion> question() const;
};

void ImportOptions::add_to(CLI::App& app) {
  app.add_option("--op", kind, "operator kind that the timings are for, as for mc2 plan");
  const auto add_size = [&](const char* name, std::optional<std::int64_t>& size, const char* help) {
    app.add_option(name, size, help)->check(whole_number(1, planner::kMaxSize));
  };
  add_size("--m", m, "rows of the uncut product (default: the largest in the logs)");
  add_size("--n", n, "columns of the product (default: those of the logs' only matmul)");
  add_size("--k", k, "inner length (default: that of the logs' only matmul)");
  app.add_option("--dtype", dtype, "element type (default: that of the logs' matmuls)");
  app.add_option("--ranks", ranks, "ranks that took part (default: as the logs say)")
      ->check(whole_number(1, planner::kMaxWorldSize));
  app.add_option("--collective", collective,
                 "all_reduce, reduce_scatter, all_gather or all_to_all, where a log does not say");
  app.add_option(
      "--bytes", bytes,
      "full array of communication rows without a size: a number, or 'neighbour' for that of the matmul beside");
  app.add_option("--buffers", buffers, "of nccl-tests: out-of-place, in-place or both")->capture_default_str();
  app.add_option("--device", device, "name of the machine, for mc2 fit and plan --device (default: as the logs say)");
}

Result<profiler::ImportAnswers> ImportOptions::answers() const {
  profiler::ImportAnswers answers{.world_size = ranks, .m = m, .n = n, .k = k};
  if (!collective.empty()) {
    const auto parsed = planner::parse_collective(collective);
    if (!parsed) return Error{parsed.error().code, "--collective", parsed.error().message};
    answers.collective = parsed.value();
  }
  if (!dtype.empty()) {
    const auto parsed = planner::parse_dtype(dtype);
    if (!parsed) return parsed.error();
    answers.dtype = parsed.value();
  }
  if (buffers != "out-of-place" && buffers != "in-place" && buffers != "both")
    return Error{ErrorCode::UnknownName, "--buffers",
                 "unknown name '" + buffers.substr(0, 32) + "'; legal: out-of-place, in-place, both"};
  answers.buffers = buffers == "both"       ? profiler::Buffers::Both
                    : buffers == "in-place" ? profiler::Buffers::InPlace
                                            : profiler::Buffers::OutOfPlace;
  answers.bytes_from_neighbour = bytes == "neighbour" || bytes == "neighbor";
  if (bytes.empty() || answers.bytes_from_neighbour) return answers;
  std::int64_t size = 0;
  const auto [end, failure] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), size);
  if (failure != std::errc() || end != bytes.data() + bytes.size() || size < 1 || size > kMaxMessageBytes)
    return Error{ErrorCode::InvalidSpec, "--bytes",
                 "'" + bytes.substr(0, 32) + "' is neither a number of bytes from 1 to 2^50 nor 'neighbour'"};
  answers.message_bytes = size;
  return answers;
}

Result<profiler::ImportQuestion> ImportOptions::question() const {
  profiler::ImportQuestion question{.world_size = ranks, .m = m, .n = n, .k = k, .device = device};
  if (!kind.empty()) {
    const auto parsed = planner::parse_op_kind(kind);
    if (!parsed) return parsed.error();
    question.kind = parsed.value();
  }
  if (dtype.empty()) return question;
  const auto parsed = planner::parse_dtype(dtype);
  if (!parsed) return parsed.error();
  question.dtype = parsed.value();
  return question;
}

struct ImportCommand {
  ImportOptions options;
  StoreOptions store;
  std::vector<std::string> files;
  std::string format, out, report_file;
  bool keeps_good = false;
  bool is_dry = false;

  /// Everything that the logs gave, and what they still ask.
  struct Imported {
    profiler::TimingSet timings;
    std::map<std::string, std::string> facts;
    std::vector<std::string> questions;
    std::int64_t took_count = 0;
  };

  [[nodiscard]] Result<profiler::LogSummary> read_file(const std::string& file,
                                                       const profiler::ImportAnswers& answers, Imported& imported,
                                                       std::ofstream* every_line) const;
  /// What another log says of its machine. Errors: InvalidSpec where the logs contradict each other.
  [[nodiscard]] Result<void> add_facts(const std::map<std::string, std::string>& facts,
                                       std::map<std::string, std::string>& all) const;
  [[nodiscard]] Result<void> read_files(const profiler::ImportAnswers& answers, Imported& imported) const;
  [[nodiscard]] Result<void> keep(const planner::Profile& profile) const;
  [[nodiscard]] Result<ExitCode> run() const;
};

profiler::ImportHooks hooks_of(ImportReport& report, ProgressLine& progress) {
  const auto start = std::chrono::steady_clock::now();
  profiler::ImportHooks hooks;
  hooks.on_line = [&report](const profiler::LineVerdict& verdict) { report.add(verdict); };
  hooks.is_cancelled = is_interrupted;
  hooks.on_progress = [&progress, start](std::int64_t done, std::int64_t total) {
    const double fraction = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
    const auto elapsed =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
    // Short logs are read before anyone could look.
    if (elapsed.count() < 500 || fraction <= 0) return;
    const auto remaining = std::chrono::milliseconds(
        static_cast<std::int64_t>(static_cast<double>(elapsed.count()) * (1 - fraction) / fraction));
    progress.update(fraction, remaining, std::to_string(done >> 20) + " MiB");
  };
  return hooks;
}

Result<profiler::LogSummary> ImportCommand::read_file(const std::string& file, const profiler::ImportAnswers& answers,
                                                      Imported& imported, std::ofstream* every_line) const {
  const auto source = profiler::open_log(file);
  if (!source) return source.error();
  ImportReport report(file, every_line);
  Result<profiler::LogSummary> read = Error{};
  {
    ProgressLine progress("import " + file);
    read = profiler::import_log(*source.value(), format, answers, imported.timings, hooks_of(report, progress));
  }
  if (!read)
    return Error{read.error().code, read.error().field.empty() ? file : read.error().field, read.error().message};
  const auto& summary = read.value();
  std::cout << file << ": " << summary.format << (format.empty() ? " (detected)" : "") << ", " << summary.took_count
            << " timings taken, " << summary.skipped_count << " lines skipped, " << summary.bad_count << " bad\n"
            << report.text() << "\n";
  return read;
}

Result<void> ImportCommand::add_facts(const std::map<std::string, std::string>& facts,
                                      std::map<std::string, std::string>& all) const {
  for (const auto& [key, value] : facts) {
    const auto [known, is_new] = all.try_emplace(key, value);
    const bool is_named = key == "device" && !options.device.empty(); // the user says which machine they stand for
    if (is_new || known->second == value || is_named) continue;
    return Error{ErrorCode::InvalidSpec, "files",
                 "the logs disagree in " + key + ": '" + known->second + "' and '" + value +
                     "'; import them apart, under different --device names"};
  }
  return {};
}

Result<void> ImportCommand::read_files(const profiler::ImportAnswers& answers, Imported& imported) const {
  std::ofstream every_line;
  if (!report_file.empty()) every_line.open(report_file, std::ios::trunc);
  std::string refusal;
  for (const std::string& file : files) {
    const auto summary = read_file(file, answers, imported, report_file.empty() ? nullptr : &every_line);
    if (!summary) return summary.error();
    const auto& read = summary.value();
    imported.took_count += read.took_count;
    if (auto added = add_facts(read.facts, imported.facts); !added) return added.error();
    for (const auto& question : read.questions)
      if (std::find(imported.questions.begin(), imported.questions.end(), question) == imported.questions.end())
        imported.questions.push_back(question);
    if (read.bad_count > 0 && refusal.empty())
      refusal = file + ":" + std::to_string(read.first_bad_line) + ": " + read.first_bad +
                (read.bad_count > 1 ? " (and " + std::to_string(read.bad_count - 1) + " more)" : "");
  }
  if (!report_file.empty() && !every_line.flush())
    throw planner::SystemError("write " + report_file, errno, "the report is not complete");
  if (refusal.empty() || keeps_good) return {};
  return Error{ErrorCode::Malformed, "", refusal + "; --keep-good takes the good lines"};
}

std::string size_text(const planner::Sample& sample, const planner::OpSpec& op) {
  if (sample.component == planner::Component::Matmul)
    return std::to_string(sample.block_rows) + " " + std::string(to_string(planner::cut_axis(op)));
  return std::to_string(sample.message_bytes) + " B";
}

std::string profile_page(const planner::Profile& profile) {
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
      times.push_back(static_cast<double>(sample.time.count()) / planner::kNsPerUs);
      outlier_count += sample.is_outlier ? 1 : 0;
    }
    rows.push_back({"  " + std::string(to_string(first.component)), size_text(first, profile.op),
                    std::to_string(times.size()), time_text(profiler::quantile(times, 0.5)),
                    std::to_string(outlier_count)});
  }
  return profile.op.text() + "\n" + profile.fingerprint.label() + "\n\n" + table(rows);
}

/// Whether every sample is kept already: the same log, imported again.
bool is_known(const planner::Profile& kept, const planner::Profile& fresh) {
  const auto key = [](const planner::Sample& sample) {
    return std::tuple(sample.component, sample.block_rows, sample.message_bytes, sample.time);
  };
  std::multiset<decltype(key(kept.samples.front()))> known;
  for (const auto& sample : kept.samples) known.insert(key(sample));
  return std::all_of(fresh.samples.begin(), fresh.samples.end(), [&](const planner::Sample& sample) {
    const auto found = known.find(key(sample));
    if (found == known.end()) return false;
    known.erase(found);
    return true;
  });
}

Result<void> ImportCommand::keep(const planner::Profile& profile) const {
  auto layers = store.open();
  if (!layers) return layers.error();
  const auto machine = find_imported(layers.value(), profile.fingerprint.fields.at("device"));
  if (!machine) return machine.error();
  if (auto both = joined(machine.value().fingerprint, profile.fingerprint); !both) return both.error();
  store::Store& writable = layers.value().writable();
  if (is_known(machine.value().profile_for(profile.op), profile)) {
    std::cout << "  note: every one of these samples is kept already; nothing was added\n";
    return {};
  }
  if (auto kept = writable.append_samples(profile.op, profile.fingerprint, profile.samples, utc_now()); !kept)
    return kept.error();
  std::cout << "  kept in " << writable.path().string() << "; next: mc2 fit or mc2 plan with --device '"
            << profile.fingerprint.fields.at("device") << "' and the operator\n";
  return {};
}

Error ask(const std::vector<std::string>& questions) {
  std::string text;
  for (const auto& question : questions) text += (text.empty() ? "" : "; ") + question;
  return {ErrorCode::InvalidSpec, "", "no timing was taken; say " + text};
}

Result<ExitCode> ImportCommand::run() const {
  const auto answers = options.answers();
  if (!answers) return answers.error();
  const auto question = options.question();
  if (!question) return question.error();
  Imported imported;
  if (auto read = read_files(answers.value(), imported); !read) return read.error();
  if (imported.took_count == 0 && !imported.questions.empty()) return ask(imported.questions);
  if (imported.took_count == 0)
    return Error{ErrorCode::CannotFit, "", "no line of the logs is a timing that mc2 can use"};
  for (const auto& asked : imported.questions) std::cout << "  to take more of it, say " << asked << "\n";
  if (is_dry) return ExitCode::Success;
  const auto assembled = profiler::assemble_profile(imported.timings, imported.facts, question.value());
  if (!assembled) return assembled.error();
  const auto& profile = assembled.value().profile;
  std::cout << profile_page(profile) << "\n";
  for (const auto& note : assembled.value().notes) std::cout << "  note: " << note << "\n";
  if (!out.empty()) write_file(out, store::pretty(store::encode(profile)));
  if (auto kept = keep(profile); !kept) return kept.error();
  return ExitCode::Success;
}

std::string format_names() {
  std::string text = "format of the files (default: detected):";
  for (const auto& importer : profiler::importer_registry()) text += " " + std::string(importer.name);
  return text;
}

} // namespace

Command add_import(CLI::App& app) {
  auto command = std::make_shared<ImportCommand>();
  auto* sub =
      app.add_subcommand("import", "take timings from logs of msprof, nccl-tests, rccl-tests, hccl_test and OSU");
  sub->add_option("files", command->files, "logs, also compressed with gzip")->required();
  command->options.add_to(*sub);
  sub->add_option("--format", command->format, format_names());
  sub->add_flag("--keep-good", command->keeps_good, "take the good lines of a log that has bad ones");
  sub->add_flag("--dry-run", command->is_dry, "say what the logs hold and keep nothing");
  sub->add_option("--report", command->report_file, "write what became of every line to this file");
  sub->add_option("--out", command->out, "also write the profile to this JSON file");
  command->store.add_to(*sub);
  sub->footer(
      "Examples:\n  mc2 import --dry-run all_reduce.log\n"
      "  mc2 import op_summary_0.csv all_reduce_test.log --collective all_reduce --op matmul_all_reduce --ranks 8 "
      "\\\n"
      "             --device ascend-910b\n"
      "  mc2 plan --device ascend-910b --m 4096 --n 8192 --k 3072 --dtype f16 --ranks 8");
  return {sub, [command] { return command->run(); }};
}

} // namespace mc2::cli
