#include "router.hpp"

#include <array>
#include <optional>

#include "routes/listing.hpp"
#include "routes/routes.hpp"

namespace mc2::server {
namespace {

using store::Store;
using store::StoredMeasurement;
using store::StoredModel;
using store::StoredPlan;
using store::StoredSamples;

constexpr std::string_view kCapture = "{id}";

constexpr Needs kReads{Work::Read};
constexpr Needs kPlans{Work::Plan};
constexpr Needs kWrites{Work::Write};
constexpr Needs kWritesOwn{.work = Work::Write, .own = true};
constexpr Needs kCopies{Work::Copy};
constexpr Needs kUploads{Work::Write, true};
constexpr Needs kLogs{Work::Write, true, true};

constexpr std::array kRoutes{
    Route{"GET", "/", &answer_dashboard, Access::Open},
    Route{"GET", "/assets/{id}", &answer_dashboard_asset, Access::Open},
    Route{"GET", "/livez", &answer_livez, Access::Open},
    Route{"GET", "/readyz", &answer_readyz, Access::Open},
    Route{"GET", "/version", &answer_version, Access::Read},
    Route{"GET", "/metrics", &answer_metrics, Access::Read, kReads},
    Route{"GET", "/openapi.yaml", &answer_openapi, Access::Read},
    Route{"GET", "/v1/plan", &answer_plan_get, Access::Read, kPlans, &known_plan},
    Route{"POST", "/v1/plan", &answer_plan_post, Access::Read, kPlans, &known_plan},
    Route{"GET", "/v1/plan/ranges", &answer_plan_ranges, Access::Read, kPlans},
    Route{"POST", "/v1/plan/batch", &answer_plan_batch, Access::Read, kPlans},
    Route{"POST", "/v1/what-if", &answer_what_if, Access::Read, kPlans},
    Route{"GET", "/v1/llms", &list_llms, Access::Read, kReads},
    Route{"GET", "/v1/llms/{id}/plan", &answer_llm_plan, Access::Read, kPlans},
    Route{"POST", "/v1/llms/plan", &answer_llm_plan_post, Access::Read, kPlans},
    Route{"GET", "/v1/plans", &list_plans, Access::Read, kReads},
    Route{"POST", "/v1/plans", &add_plan, Access::Write, kWrites},
    Route{"GET", "/v1/plans/{id}", &answer_plan, Access::Read, kReads},
    Route{"DELETE", "/v1/plans/{id}", &remove_kept<StoredPlan, &Store::find_plan, &Store::remove_plan>, Access::Admin,
          kWrites},
    Route{"GET", "/v1/plans/{id}/explanation", &answer_explanation, Access::Read, kPlans},
    Route{"GET", "/v1/plans/{id}/races", &list_races, Access::Read, kReads},
    Route{"GET", "/v1/models", &list_models, Access::Read, kReads},
    Route{"POST", "/v1/models", &add_model, Access::Write, kUploads},
    Route{"GET", "/v1/models/{id}", &answer_kept<StoredModel, &Store::find_model>, Access::Read, kReads},
    Route{"DELETE", "/v1/models/{id}", &remove_model, Access::Admin, kWrites},
    Route{"GET", "/v1/models/{id}/curves", &answer_curves, Access::Read, kReads},
    Route{"GET", "/v1/models/{id}/exploration", &explore_model, Access::Read, kPlans},
    Route{"GET", "/v1/models/{id}/drift", &answer_model_drift, Access::Read, kReads},
    Route{"GET", "/v1/samples", &list_samples, Access::Read, kReads},
    Route{"POST", "/v1/samples", &add_samples, Access::Write, kUploads},
    Route{"GET", "/v1/samples/{id}", &answer_kept<StoredSamples, &Store::find_samples>, Access::Read, kReads},
    Route{"DELETE", "/v1/samples/{id}", &remove_kept<StoredSamples, &Store::find_samples, &Store::remove_batch>,
          Access::Admin, kWrites},
    Route{"POST", "/v1/imports", &import_log, Access::Write, kLogs},
    Route{"GET", "/v1/measurements", &list_measurements, Access::Read, kReads},
    Route{"POST", "/v1/measurements", &add_measurement, Access::Write, kWrites},
    Route{"GET", "/v1/measurements/{id}", &answer_kept<StoredMeasurement, &Store::find_measurement>, Access::Read,
          kReads},
    Route{"DELETE", "/v1/measurements/{id}",
          &remove_kept<StoredMeasurement, &Store::find_measurement, &Store::remove_measurement>, Access::Admin,
          kWrites},
    Route{"GET", "/v1/changes", &answer_changes, Access::Read, kReads},
    Route{"GET", "/v1/history", &answer_history, Access::Read, kReads},
    Route{"GET", "/v1/tokens", &list_tokens, Access::Admin, kReads},
    Route{"POST", "/v1/tokens", &add_token, Access::Admin, kWritesOwn},
    Route{"DELETE", "/v1/tokens/{id}", &revoke_token, Access::Admin, kWritesOwn},
    Route{"GET", "/v1/backup", &answer_backup, Access::Admin, kCopies},
    Route{"GET", "/v1/snapshot", &answer_snapshot, Access::Read, kCopies},
    Route{"GET", "/v1/fingerprints", &list_fingerprints, Access::Read, kReads},
};

/// The text in place of "{id}" if the path has this pattern; none if it has not.
std::optional<std::string> match(std::string_view pattern, std::string_view path) {
  const std::size_t at = pattern.find(kCapture);
  if (at == std::string_view::npos) return pattern == path ? std::optional<std::string>("") : std::nullopt;
  const std::string_view before = pattern.substr(0, at), after = pattern.substr(at + kCapture.size());
  if (path.size() <= before.size() + after.size() || !path.starts_with(before) || !path.ends_with(after))
    return std::nullopt;
  const std::string_view id = path.substr(before.size(), path.size() - before.size() - after.size());
  return id.find('/') == std::string_view::npos ? std::optional<std::string>(id) : std::nullopt;
}

} // namespace

std::span<const Route> routes() noexcept { return kRoutes; }

Match find_route(std::string_view method, std::string_view path) {
  Match found;
  for (const Route& route : kRoutes) {
    const auto id = match(route.pattern, path);
    if (!id) continue;
    if (route.method == method || (method == "HEAD" && route.method == "GET")) return {&route, route.needs, *id, {}};
    found.allowed +=
        (found.allowed.empty() ? "" : ", ") + std::string(route.method) + (route.method == "GET" ? ", HEAD" : "");
  }
  return found;
}

Match route_of(std::string_view method, std::string_view target) {
  const auto path = decoded_path(target);
  return path ? find_route(method, path.value()) : Match{};
}

} // namespace mc2::server
