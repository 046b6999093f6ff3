#include "rule_sources.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

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

Result<Rules> of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file.rdbuf()), {});
  if (!file.is_open() || file.bad()) return Error{ErrorCode::NotFound, path, "cannot be read"};
  if (text.size() > kMostFileBytes)
    return Error{ErrorCode::Malformed, path, "is longer than 16 MiB; rules of NCCL's tuner are some lines"};
  auto rules = store::read_nccl_rules(text);
  if (!rules) return Error{rules.error().code, path + ", " + rules.error().field, rules.error().message};
  return Rules{std::move(rules).value(), path};
}

Result<Rules> of_store(const std::string& path) {
  const std::string model = gpu_model();
  if (model.empty())
    return Error{
        ErrorCode::NotFound, "MC2_GPU_MODEL",
        "is not set, and no GPU is seen in /proc/driver/nvidia; name the GPU whose plans to take from " + path};
  MC2_ASSIGN(const auto opened, store::Store::open(path, store::OpenMode::ReadOnly));
  MC2_ASSIGN(auto plans, opened.list_plans());
  std::ranges::stable_sort(plans, std::greater(), &store::StoredPlan::created_at);
  Rules found{{}, path + ", plans of " + model};
  for (const store::StoredPlan& kept : plans) {
    const auto& fields = kept.plan.fingerprint.fields;
    const auto gpu = fields.find("gpu_model");
    if (gpu == fields.end() || gpu->second != model) continue;
    std::ranges::copy(store::nccl_rules(kept.plan), std::back_inserter(found.rules));
  }
  return found;
}

} // namespace

Result<Rules> rules_of_environment() {
  if (const auto file = variable("NCCL_TUNER_CONFIG_FILE"); !file.empty()) return of_file(file);
  if (const auto path = variable("MC2_STORE"); !path.empty()) return of_store(path);
  return Rules{};
}

} // namespace mc2::nccl_tuner
