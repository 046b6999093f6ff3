#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "commands/commands.hpp"
#include "mc2/executor/backend.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/render/text.hpp"
#include "mc2/store/store.hpp"
#include "pages/report.hpp"
#include "pages/text.hpp"

namespace mc2::cli {
namespace {

struct DoctorCommand {
  StoreOptions store;
  bool is_json = false;

  [[nodiscard]] nlohmann::ordered_json examine_backends() const;
  [[nodiscard]] nlohmann::ordered_json examine_store() const;
  [[nodiscard]] Result<ExitCode> run() const;
};

nlohmann::ordered_json examine_dtypes(const executor::Backend& backend, planner::OpKind kind, int world_size) {
  nlohmann::ordered_json result;
  for (const planner::DType dtype : planner::kDTypes) {
    planner::OpSpec op{kind, 1024, 1024, 1024, dtype, world_size};
    if (planner::traits_of(kind).work == planner::Work::Pooling) op.tables = {.table_count = 1, .row_count = 1024};
    if (planner::traits_of(kind).work == planner::Work::GroupedMatmul) op.experts = {.count = 8, .top_k = 2};
    const std::string name(to_string(dtype)), repeated = "is " + name + "; ";
    const auto supported = backend.supports(op);
    std::string why = supported ? "" : supported.error().message;
    if (why.starts_with(repeated)) why.erase(0, repeated.size()); // so that types with one reason have one footnote
    result[name] = supported ? "yes" : "no: " + why;
  }
  return result;
}

nlohmann::ordered_json DoctorCommand::examine_backends() const {
  auto result = nlohmann::ordered_json::array();
  for (const auto* backend : executor::backend_registry()) {
    const auto availability = backend->availability();
    nlohmann::ordered_json entry{{"name", backend->name()},
                                 {"available", availability.is_available},
                                 {"reason", availability.reason},
                                 {"fingerprint", nlohmann::ordered_json::object()},
                                 {"dtypes", nlohmann::ordered_json::object()}};
    if (availability.is_available) {
      executor::CommunicatorOptions options;
      options.world_size = backend->usual_world_size();
      for (const auto& [key, value] : backend->fingerprint(options).fields) entry["fingerprint"][key] = value;
      for (const auto& traits : planner::op_registry())
        entry["dtypes"][std::string(traits.name)] = examine_dtypes(*backend, traits.kind, options.world_size);
    }
    result.push_back(std::move(entry));
  }
  return result;
}

void tell_health(const store::Store& opened, nlohmann::ordered_json& result) {
  const auto report = opened.check();
  const auto stats = opened.stats();
  result["healthy"] = report.is_healthy;
  const std::string clock = note_of_clock(opened, utc_now());
  result["reason"] = report.is_healthy ? "every row matches its checksum" + (clock.empty() ? "" : "; " + clock)
                                       : std::to_string(report.damages.size()) + " damaged rows; run mc2 db check";
  if (!stats) return;
  result["plans"] = stats.value().plan_count;
  result["models"] = stats.value().model_count;
  result["samples"] = stats.value().sample_count;
}

nlohmann::ordered_json DoctorCommand::examine_store() const {
  const auto path = store.writable_path();
  nlohmann::ordered_json result{{"path", path ? path.value().string() : ""},
                                {"healthy", false},
                                {"reason", ""},
                                {"plans", 0},
                                {"models", 0},
                                {"samples", 0}};
  if (!path) {
    result["reason"] = path.error().text();
    return result;
  }
  if (!file_exists(path.value())) {
    result["healthy"] = true;
    result["reason"] = "does not exist yet; the first profile or tune creates it";
    return result;
  }
  auto opened = store::Store::open(path.value(), store::OpenMode::ReadOnly);
  if (!opened) {
    result["reason"] = opened.error().text();
    return result;
  }
  tell_health(opened.value(), result);
  return result;
}

/// A table of operators by element types. A "no" has the number of its reason; each reason is listed once below.
std::string dtype_matrix(const nlohmann::ordered_json& kinds) {
  constexpr int kDtypeColumns = 9;
  std::size_t longest = 0;
  for (const auto& [kind, dtypes] : kinds.items()) longest = std::max(longest, kind.size());
  const int kind_columns = static_cast<int>(longest) + 2;
  const auto end_line = [](std::string& lines) { lines.erase(lines.find_last_not_of(' ') + 1) += '\n'; };
  std::string heading = "  " + render::padded("", kind_columns), rows;
  std::vector<std::string> reasons;
  for (const auto& [kind, dtypes] : kinds.items()) {
    if (rows.empty())
      for (const auto& [dtype, answer] : dtypes.items()) heading += render::padded(dtype, kDtypeColumns);
    rows += "  " + render::padded(kind, kind_columns);
    for (const auto& [dtype, answer] : dtypes.items()) {
      const auto text = answer.get<std::string>();
      if (text == "yes") {
        rows += render::padded(text, kDtypeColumns);
        continue;
      }
      auto known = std::ranges::find(reasons, text);
      if (known == reasons.end()) known = reasons.insert(known, text);
      rows += render::padded("no (" + std::to_string(known - reasons.begin() + 1) + ")", kDtypeColumns);
    }
    end_line(rows);
  }
  end_line(heading);
  std::string page = heading + rows;
  for (std::size_t i = 0; i < reasons.size(); ++i)
    page += render::hanging("  (" + std::to_string(i + 1) + ") ", reasons[i].substr(std::string_view("no: ").size()),
                            kPageColumns);
  return page;
}

/// "cores 2, isa avx512_core_bf16, ..."
std::string facts(const nlohmann::ordered_json& fingerprint) {
  std::vector<std::string> texts;
  for (const auto& [key, value] : fingerprint.items())
    if (key != "backend") texts.push_back(key + " " + value.get<std::string>());
  return list_text(texts);
}

void print_page(const nlohmann::ordered_json& report) {
  std::cout << "mc2 " << report["version"].get<std::string>() << "\n";
  for (const auto& backend : report["backends"]) {
    std::cout << "\n"
              << render::hanging("backend " + backend["name"].get<std::string>() + ": ",
                                 (backend["available"].get<bool>() ? "available, " : "not available, ") +
                                     backend["reason"].get<std::string>(),
                                 kPageColumns);
    if (!backend["fingerprint"].empty())
      std::cout << remark(facts(backend["fingerprint"]), kPageColumns) << dtype_matrix(backend["dtypes"]);
  }
  const auto& store = report["store"];
  std::cout << "\n"
            << render::hanging("store ",
                               store.value("path", "") + ": " +
                                   (store["healthy"].get<bool>() ? "healthy, " : "NOT healthy, ") +
                                   store["reason"].get<std::string>(),
                               kPageColumns);
  for (const char* count : {"plans", "models", "samples"})
    if (store[count] != 0) std::cout << "  " << count << ": " << store[count].get<std::int64_t>() << "\n";
}

Result<ExitCode> DoctorCommand::run() const {
  nlohmann::ordered_json report{{"version", MC2_VERSION}};
  report["backends"] = examine_backends();
  report["store"] = examine_store();
  if (is_json)
    print_report("mc2.doctor/1", report);
  else
    print_page(report);
  return report["store"]["healthy"].get<bool>() ? ExitCode::Success : ExitCode::Negative;
}

} // namespace

Command add_doctor(CLI::App& app) {
  auto command = std::make_shared<DoctorCommand>();
  auto* sub = app.add_subcommand("doctor", "what this machine can run, and the state of the store");
  command->store.add_to(*sub);
  add_json(*sub, command->is_json, "what was found");
  sub->footer("Example:\n  mc2 doctor");
  return {sub, [command] { return command->run(); }};
}

} // namespace mc2::cli
