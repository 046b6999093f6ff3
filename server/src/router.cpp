#include "router.hpp"

#include <array>
#include <optional>

#include "routes/routes.hpp"

namespace mc2::server {
namespace {

constexpr std::string_view kCapture = "{id}";

constexpr Needs kUpload{.upload = true};
constexpr Needs kTime{.time = true}; // plans more than once, or from a model that the request brings

constexpr std::array kRoutes{
    Route{"GET", "/", &answer_dashboard, Access::Open},
    Route{"GET", "/assets/{id}", &answer_dashboard_asset, Access::Open},
    Route{"GET", "/livez", &answer_livez, Access::Open},
    Route{"GET", "/readyz", &answer_readyz, Access::Open},
    Route{"GET", "/version", &answer_version, Access::Read},
    Route{"GET", "/metrics", &answer_metrics, Access::Read},
    Route{"GET", "/openapi.yaml", &answer_openapi, Access::Read},
    Route{"GET", "/v1/plan", &answer_plan_get, Access::Read},
    Route{"POST", "/v1/plan", &answer_plan_post, Access::Read},
    Route{"GET", "/v1/plan/ranges", &answer_plan_ranges, Access::Read, kTime},
    Route{"POST", "/v1/plan/batch", &answer_plan_batch, Access::Read, kTime},
    Route{"POST", "/v1/what-if", &answer_what_if, Access::Read, kTime},
    Route{"GET", "/v1/plans", &list_plans, Access::Read},
    Route{"POST", "/v1/plans", &add_plan, Access::Write},
    Route{"GET", "/v1/plans/{id}", &answer_plan, Access::Read},
    Route{"DELETE", "/v1/plans/{id}", &remove_plan, Access::Admin},
    Route{"GET", "/v1/plans/{id}/explanation", &answer_explanation, Access::Read},
    Route{"GET", "/v1/plans/{id}/races", &list_races, Access::Read},
    Route{"GET", "/v1/models", &list_models, Access::Read},
    Route{"POST", "/v1/models", &add_model, Access::Write, kUpload},
    Route{"GET", "/v1/models/{id}", &answer_model, Access::Read},
    Route{"GET", "/v1/models/{id}/curves", &answer_curves, Access::Read},
    Route{"GET", "/v1/models/{id}/exploration", &explore_model, Access::Read},
    Route{"GET", "/v1/models/{id}/drift", &answer_model_drift, Access::Read},
    Route{"GET", "/v1/samples", &list_samples, Access::Read},
    Route{"POST", "/v1/samples", &add_samples, Access::Write, kUpload},
    Route{"GET", "/v1/samples/{id}", &answer_samples, Access::Read},
    Route{"POST", "/v1/imports", &import_log, Access::Write, kUpload},
    Route{"GET", "/v1/measurements", &list_measurements, Access::Read},
    Route{"POST", "/v1/measurements", &add_measurement, Access::Write},
    Route{"GET", "/v1/measurements/{id}", &answer_measurement, Access::Read},
    Route{"GET", "/v1/fingerprints", &list_fingerprints, Access::Read},
};

/// What "{id}" stands for when the path has this form.
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
    if (route.method == method || (method == "HEAD" && route.method == "GET")) return {&route, *id, {}};
    found.allowed +=
        (found.allowed.empty() ? "" : ", ") + std::string(route.method) + (route.method == "GET" ? ", HEAD" : "");
  }
  return found;
}

} // namespace mc2::server
