#include "mc2/client/plan_source.hpp"
#include "mc2/store/codec.hpp"

#include <fstream>
#include <iterator>
#include <utility>

namespace mc2::client {
namespace {

using planner::Error;
using planner::ErrorCode;
using planner::Result;

/// Whether the next source may stand in for one that failed like this.
bool is_miss(ErrorCode code) {
  switch (code) {
    case ErrorCode::Corrupt:
    case ErrorCode::NewerVersion:
    case ErrorCode::Unreadable:
    case ErrorCode::Cancelled:
    case ErrorCode::InvalidSpec: return false;
    default: return true;
  }
}

std::string joined(const std::vector<std::string>& reasons) {
  std::string text;
  for (const auto& reason : reasons) text += (text.empty() ? "" : "; ") + reason;
  return text;
}

} // namespace

store::StoredPlan unkept(planner::Plan plan) {
  store::StoredPlan stored;
  stored.document = store::encode(plan);
  stored.digest = store::digest(stored.document);
  stored.plan = std::move(plan);
  return stored;
}

Result<FoundPlan> find_plan(std::span<const PlanSource> sources, const PlanQuestion& question) {
  std::vector<std::string> misses;
  ErrorCode last = ErrorCode::NotFound;
  for (const PlanSource& source : sources) {
    auto found = source.find(question);
    if (found) {
      misses.insert(misses.end(), found.value().misses.begin(), found.value().misses.end());
      found.value().misses = std::move(misses);
      return found;
    }
    if (!is_miss(found.error().code)) return found;
    last = found.error().code;
    misses.push_back(source.name + ": " + found.error().text());
  }
  return Error{last, "", misses.empty() ? "there is no source of plans" : joined(misses)};
}

Result<PlanSource> plan_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{ErrorCode::NotFound, path.string(), "cannot be opened"};
  const std::string json{std::istreambuf_iterator<char>(file), {}};
  auto plan = store::decode_plan(json);
  if (!plan) return Error{plan.error().code, path.string(), plan.error().text()};
  return PlanSource{
      "file " + path.string(),
      [stored = unkept(std::move(plan).value()), path](const PlanQuestion& question) -> Result<FoundPlan> {
        if (stored.plan.op != question.op) return Error{ErrorCode::NotFound, "", "is for " + stored.plan.op.text()};
        if (stored.plan.fingerprint != question.machine)
          return Error{
              ErrorCode::Stale, "",
              "is for another machine (" + question.machine.differences(stored.plan.fingerprint).front() + ")"};
        return FoundPlan{stored, "file " + path.string(), {}};
      }};
}

PlanSource kept_plans(SharedLayers& layers, std::string purpose) {
  const std::string name = "kept plans";
  return {name, [&layers, name, purpose = std::move(purpose)](const PlanQuestion& question) -> Result<FoundPlan> {
            if (question.options) return Error{ErrorCode::NotFound, "", "are of default options only"};
            auto kept = layers.use([&](store::Layers& stores) {
              return stores.find_plan({question.op, store::digest(question.machine.canonical_text()), purpose});
            });
            if (!kept) return kept.error();
            return FoundPlan{std::move(kept).value(), name, {}};
          }};
}

PlanSource own_planner(Planning planning) {
  const std::string name = "own planner";
  return {name, [planning = std::move(planning), name](const PlanQuestion& question) -> Result<FoundPlan> {
            const auto model = planning.find_model(question);
            if (!model) return model.error();
            auto plan = planner::make_plan(question.op, model.value(),
                                           question.options ? *question.options : planning.default_options(question));
            if (!plan) return plan.error();
            return FoundPlan{unkept(std::move(plan).value()), name, {}};
          }};
}

} // namespace mc2::client
