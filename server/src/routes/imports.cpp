#include <chrono>
#include <nlohmann/json.hpp>

#include "error_map.hpp"
#include "mc2/profiler/import_report.hpp"
#include "mc2/profiler/import_terms.hpp"
#include "mc2/server/service.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/imported.hpp"
#include "model_check.hpp"
#include "parameters.hpp"
#include "routes/routes.hpp"

namespace mc2::server {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxLines = 10'000; ///< most lines that are listed one by one
/// A log of 64 MiB takes less than a second, but a compressed log may expand without end.
constexpr std::chrono::seconds kMaxTime{20};

/// What a request's parameters say about the log.
struct ImportRequest {
  profiler::ImportTerms terms;
  std::string format;
  bool keeps_good = false, is_dry = false, names_lines = false;
};

/// The verdict on every line, up to kMaxLines.
struct EveryLine {
  json lines = json::array();
  std::int64_t left_out_count = 0;

  void add(const profiler::LineVerdict& verdict) {
    if (lines.size() < kMaxLines)
      lines.push_back({verdict.line, to_string(verdict.verdict), verdict.text});
    else
      ++left_out_count;
  }
};

/// Errors: InvalidSpec naming the parameter.
Result<ImportRequest> read_request(const Query& query) {
  ImportRequest request;
  profiler::ImportTerms& terms = request.terms;
  for (const auto& [name, value] :
       {std::pair{"op", &terms.op}, std::pair{"dtype", &terms.dtype}, std::pair{"collective", &terms.collective},
        std::pair{"bytes", &terms.bytes}, std::pair{"blocks", &terms.blocks}, std::pair{"buffers", &terms.buffers},
        std::pair{"device", &terms.device}, std::pair{"format", &request.format}})
    *value = query.text(name).value_or(*value);
  for (const auto& [name, value] : {std::pair{"m", &terms.m}, std::pair{"n", &terms.n}, std::pair{"k", &terms.k}}) {
    MC2_ASSIGN(*value, query.integer(name, 1, planner::kMaxSize));
  }
  MC2_ASSIGN(terms.ranks, query.integer("ranks", 1, planner::kMaxWorldSize));
  for (const auto& [name, value] : {std::pair{"keep_good", &request.keeps_good}, std::pair{"dry_run", &request.is_dry},
                                    std::pair{"every_line", &request.names_lines}}) {
    MC2_ASSIGN(*value, query.flag(name));
  }
  MC2_TRY(query.require_all_known());
  return request;
}

json groups_of(const profiler::ImportReport& report) {
  json groups = json::array();
  for (const auto& [key, group] : report.groups())
    groups.push_back({{"verdict", to_string(key.first)},
                      {"what", key.second},
                      {"count", group.count},
                      {"runs", group.runs},
                      {"last_line", group.last_line}});
  return groups;
}

json report_of(const profiler::LogSummary& summary, const profiler::ImportReport& report,
               const profiler::ImportedLogs& logs) {
  json questions = json::array();
  for (const auto& question : logs.questions) questions.push_back(as_parameters(question));
  return {{"schema", "mc2.import_report/1"},
          {"format", summary.format},
          {"took_count", summary.took_count},
          {"skipped_count", summary.skipped_count},
          {"bad_count", summary.bad_count},
          {"lines", groups_of(report)},
          {"questions", std::move(questions)},
          {"notes", logs.notes},
          {"drift", nullptr},
          {"samples", nullptr}};
}

std::string text_of(const json& document) {
  // Texts from a log may not be UTF-8.
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// Errors: as store::keep_imported.
Result<store::KeptImport> keep(Context& context, const profiler::ImportedProfile& imported) {
  const planner::Profile& profile = imported.profile;
  const std::string device = profile.fingerprint.fields.at("device");
  return context.store.write([&](store::Store& store) -> Result<store::KeptImport> {
    MC2_ASSIGN(auto profiles, store.list_profiles(store::imported_fields(device)));
    MC2_ASSIGN(const auto machine, store::join_imported(device, std::move(profiles)));
    return store::keep_imported(store, machine, profile, imported.cuts, context.surroundings.utc_now());
  });
}

json kept_of(const planner::Profile& profile, const store::KeptImport& added) {
  return {{"digests", added.samples},
          {"measurements", added.measurements},
          {"op", json::parse(store::encode(profile.op))},
          {"machine", store::digest(profile.fingerprint)},
          {"device", profile.fingerprint.fields.at("device")},
          {"sample_count", profile.samples.size()}};
}

/// Makes samples of the log's timings and keeps them. Returns the status: 201 if something was kept, else 200. Errors:
/// those of its steps.
Result<int> finish(Context& context, const ImportRequest& request, const profiler::ImportedLogs& logs, json& report) {
  if (!logs.first_bad.empty() && !request.keeps_good)
    return Error{ErrorCode::Malformed, "", logs.first_bad + "; keep_good=true takes the good lines"};
  MC2_TRY(logs.require_timings());
  MC2_ASSIGN(const auto question, request.terms.question());
  if (request.is_dry) {
    MC2_TRY(profiler::check_import(logs.timings, logs.facts, question));
    return 200;
  }
  MC2_ASSIGN(const auto assembled, profiler::assemble_profile(logs.timings, logs.facts, question));
  for (const auto& note : assembled.notes) report["notes"].push_back(note);
  const planner::Profile& profile = assembled.profile;
  MC2_ASSIGN(const auto added, keep(context, assembled));
  report["samples"] = kept_of(profile, added);
  if (!added.samples.empty()) report["drift"] = check_against_model(context, profile);
  if (!added.samples.empty() || !added.measurements.empty()) return 201;
  report["notes"].push_back("all of it is kept already; nothing was added");
  return 200;
}

} // namespace

Result<Response> import_log(Context& context, const Call& call) {
  MC2_ASSIGN(const auto request, read_request(call.query));
  MC2_ASSIGN(const auto answers, request.terms.answers());
  const auto source = profiler::memory_log(call.request.body);
  const auto deadline = std::chrono::steady_clock::now() + kMaxTime;
  profiler::ImportReport report;
  EveryLine every_line;
  profiler::ImportHooks hooks;
  hooks.on_line = [&](const profiler::LineVerdict& verdict) {
    report.add(verdict);
    if (request.names_lines) every_line.add(verdict);
  };
  hooks.is_cancelled = [deadline] { return std::chrono::steady_clock::now() > deadline; };
  profiler::ImportedLogs logs;
  const auto read = profiler::import_log(*source, request.format, answers, logs.timings, hooks);
  if (!read && read.error().code == ErrorCode::Cancelled)
    return problem(413, "the log takes longer than 20 s to read; import it in parts", call.request.id);
  if (!read) return as_parameters(read.error());
  if (auto added = logs.add("log", read.value()); !added) return as_parameters(added.error());
  json document = report_of(read.value(), report, logs);
  if (request.names_lines) {
    document["every_line"] = std::move(every_line.lines);
    document["left_out_count"] = every_line.left_out_count;
  }
  const auto finished = finish(context, request, logs, document);
  if (!finished) return problem_of(as_parameters(finished.error()), call.request.id, {"report", text_of(document)});
  return json_response(text_of(document), finished.value());
}

} // namespace mc2::server
