#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>

#include "commands/commands.hpp"
#include "kept_plan.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"
#include "pages/comparison.hpp"
#include "pages/render.hpp"
#include "pages/report.hpp"

namespace mc2::cli {
namespace {

struct CompareCommand {
  StoreOptions store;
  std::string left, right;
  bool is_json = false;

  [[nodiscard]] Result<std::vector<ComparedRow>> rows() const;
  [[nodiscard]] Result<ExitCode> run() const;
};

constexpr std::string_view kKinds[] = {"mc2.profile/1", "mc2.cost_model/1", "mc2.plan/1"}; ///< of comparable files

/// The error for a document of another version, or of a kind that cannot be compared.
Error unknown_document(const std::string& name, const std::string& content) {
  const std::string kind = store::schema_of(content);
  if (kind.starts_with("mc2.profile/")) return document_error(name, store::decode_profile(content).error());
  if (kind.starts_with("mc2.cost_model/")) return document_error(name, store::decode_model(content).error());
  if (kind.starts_with("mc2.plan/")) return document_error(name, store::decode_plan(content).error());
  if (kind.starts_with("mc2.plan_ranges/"))
    return {ErrorCode::InvalidSpec, name,
            "holds plans of a range of m; profiles, models and plans of one m are compared, not ranges"};
  return {ErrorCode::InvalidSpec, name, "is no profile, model or plan of mc2"};
}

/// Decodes and compares both documents. Errors: Malformed naming the file; those of `compare`.
template <typename T>
Result<std::vector<ComparedRow>> compared(const std::pair<std::string, std::string>& left,
                                          const std::pair<std::string, std::string>& right,
                                          Result<T> (*decode)(std::string_view),
                                          Result<std::vector<ComparedRow>> (*compare)(const T&, const T&)) {
  const auto a = decode(left.second);
  if (!a) return document_error(left.first, a.error());
  const auto b = decode(right.second);
  if (!b) return document_error(right.first, b.error());
  return compare(a.value(), b.value());
}

/// The document in a file, or that of the kept plan with this digest.
/// @param argument  "A" or "B"
Result<std::string> content_of(const std::string& name, const char* argument, const StoreOptions& store) {
  if (file_exists(name)) return read_file(name);
  MC2_ASSIGN(const auto plan, load_plan(name, argument, store));
  return plan.document;
}

Result<std::vector<ComparedRow>> CompareCommand::rows() const {
  MC2_ASSIGN(const auto a, content_of(left, "A", store));
  MC2_ASSIGN(const auto b, content_of(right, "B", store));
  const std::pair first{left, a}, second{right, b};
  const std::string kind = store::schema_of(a);
  const auto is_known = [](const std::string& of) { return std::ranges::find(kKinds, of) != std::end(kKinds); };
  for (const auto& [name, content] : {first, second})
    if (!is_known(store::schema_of(content))) return unknown_document(name, content);
  if (kind != store::schema_of(b))
    return Error{ErrorCode::InvalidSpec, "B",
                 "is of another kind than A ('" + kind.substr(0, 32) + "' and '" + store::schema_of(b).substr(0, 32) +
                     "'); give two profiles, two models or two plans"};
  if (kind == "mc2.profile/1") return compared(first, second, store::decode_profile, compare_profiles);
  if (kind == "mc2.cost_model/1") return compared(first, second, store::decode_model, compare_models);
  return compared(first, second, store::decode_plan, compare_plans);
}

void print_comparison(const std::string& left, const std::string& right, const std::vector<ComparedRow>& found) {
  std::vector<std::vector<std::string>> cells{{"what", "A", "B", "B / A", "90 % interval", "B is"}};
  std::map<Comparison, int> counts;
  for (const ComparedRow& row : found) {
    ++counts[row.verdict];
    cells.push_back({row.what, time_text(row.a_us), time_text(row.b_us), ratio_text(row.ratio),
                     ratio_text(row.low) + " to " + ratio_text(row.high), std::string(to_string(row.verdict))});
  }
  std::cout << "A: " << left << "\nB: " << right << "\n\n"
            << table(cells) << "\n  " << counts[Comparison::Better] << " better, " << counts[Comparison::Worse]
            << " worse, " << counts[Comparison::Indistinguishable] << " indistinguishable\n";
}

nlohmann::json comparison_report(const std::string& left, const std::string& right,
                                 const std::vector<ComparedRow>& found) {
  auto rows = nlohmann::json::array();
  for (const ComparedRow& row : found)
    rows.push_back({{"what", row.what},
                    {"a_us", row.a_us},
                    {"b_us", row.b_us},
                    {"ratio", row.ratio},
                    {"ratio_low", row.low},
                    {"ratio_high", row.high},
                    {"verdict", to_string(row.verdict)}});
  return {{"a", left}, {"b", right}, {"rows", std::move(rows)}};
}

Result<ExitCode> CompareCommand::run() const {
  MC2_ASSIGN(const auto found, rows());
  if (is_json)
    print_report("mc2.comparison/1", comparison_report(left, right, found));
  else
    print_comparison(left, right, found);
  return ExitCode::Success;
}

} // namespace

Command add_compare(CLI::App& app) {
  auto command = std::make_shared<CompareCommand>();
  auto* sub = app.add_subcommand("compare", "two profiles, models or plans side by side");
  sub->add_option("A", command->left, "a profile, model or plan file, or the digest of a kept plan")->required();
  sub->add_option("B", command->right, "the same kind of document, which is compared with A")->required();
  command->store.add_to(*sub);
  add_json(*sub, command->is_json, "the rows");
  sub->footer("Example:\n  mc2 compare yesterday.json today.json");
  return {sub, [command] { return command->run(); }};
}

} // namespace mc2::cli
