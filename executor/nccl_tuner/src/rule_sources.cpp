#include "rule_sources.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "mc2/store/codec.hpp"
#include "mc2/store/store.hpp"

namespace mc2::nccl_tuner {
namespace {

constexpr std::size_t kMostFileBytes = std::size_t{16} << 20;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// As NVIDIA's driver names the first one, or as MC2_GPU_MODEL says where that is hidden; empty: neither.
std::string gpu_model() {
  if (auto named = variable("MC2_GPU_MODEL"); !named.empty()) return named;
  std::error_code failed;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", failed)) {
    std::ifstream facts(gpu.path() / "information");
    for (std::string line; std::getline(facts, line);) {
      if (!line.starts_with("Model:")) continue;
      const std::size_t first = line.find_first_not_of(" \t", 6);
      if (first != std::string::npos) return line.substr(first);
    }
  }
  return "";
}

/// Of the plans for this machine's GPU: the best of all first, then those of one variant or of options of their own,
/// each the newest first. Errors: NotFound where the GPU is not known.
Result<Rules> of_plans(std::vector<store::StoredPlan> plans, const std::string& path) {
  const std::string model = gpu_model();
  if (model.empty())
    return Error{
        ErrorCode::NotFound, "MC2_GPU_MODEL",
        "is not set, and no GPU is seen in /proc/driver/nvidia; name the GPU whose plans to take from " + path};
  std::ranges::stable_sort(plans, std::greater(), &store::StoredPlan::created_at);
  std::ranges::stable_partition(
      plans, [](const store::StoredPlan& kept) { return kept.key.purpose == store::PlanKey{}.purpose; });
  Rules found{{}, path + ", plans of " + model};
  for (const store::StoredPlan& kept : plans) {
    if (kept.plan.fingerprint.field("gpu_model") != model) continue;
    std::ranges::copy(store::nccl_rules(kept.plan), std::back_inserter(found.rules));
  }
  return found;
}

Result<Rules> of_plan(const std::string& text, const std::string& path) {
  MC2_ASSIGN(const auto plan, store::decode_plan(text));
  Rules found{store::nccl_rules(plan), path};
  if (!found.rules.empty()) return found;
  return Error{ErrorCode::Infeasible, "variant",
               "is " + plan.variant.text() + ", which sets no channels of NCCL's; those of nccl(ctas=N) do"};
}

/// Lines of NCCL's example plugin, a plan, or a store's export.
Result<Rules> rules_in(const std::string& text, const std::string& path) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '{') {
    MC2_ASSIGN(auto rules, store::read_nccl_rules(text));
    return Rules{std::move(rules), path};
  }
  if (text.find("\"schema\":\"mc2.store/") == std::string::npos) return of_plan(text, path);
  MC2_ASSIGN(auto plans, store::plans_of_export(text));
  return of_plans(std::move(plans), path);
}

Result<Rules> of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file.rdbuf()), {});
  if (!file.is_open() || file.bad()) return Error{ErrorCode::NotFound, path, "cannot be read"};
  if (text.size() > kMostFileBytes)
    return Error{ErrorCode::Malformed, path, "is longer than 16 MiB; rules of NCCL's tuner are some lines"};
  auto rules = rules_in(text, path);
  if (rules) return rules;
  const auto& [code, field, message] = rules.error();
  return Error{code, field.empty() || field == path ? path : path + ", " + field, message};
}

Result<Rules> of_store(const std::string& path) {
  MC2_ASSIGN(const auto opened, store::Store::open(path, store::OpenMode::ReadOnly));
  MC2_ASSIGN(auto plans, opened.list_plans());
  return of_plans(std::move(plans), path);
}

} // namespace

Result<Rules> rules_of_environment() {
  if (const auto file = variable("NCCL_TUNER_CONFIG_FILE"); !file.empty()) return of_file(file);
  if (const auto path = variable("MC2_STORE"); !path.empty()) return of_store(path);
  return Rules{};
}

} // namespace mc2::nccl_tuner
