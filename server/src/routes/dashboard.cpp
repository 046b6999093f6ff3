#include "dashboard.hpp"

#include <algorithm>
#include <map>

#include "mc2/server/service.hpp"
#include "routes/routes.hpp"

namespace mc2::server {
namespace {

using Body = std::shared_ptr<const std::string>;

/// The files by name. All answers share them, so that each is compressed once.
const std::map<std::string_view, Body>& bodies() {
  static const auto all = [] {
    std::map<std::string_view, Body> result;
    for (const DashboardFile& file : dashboard_files())
      result.emplace(file.name, std::make_shared<const std::string>(file.bytes.begin(), file.bytes.end()));
    return result;
  }();
  return all;
}

/// Lets the page load its own files and ask this service, and nothing else.
constexpr std::string_view kContentPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

Response to_response(const DashboardFile& file, std::string_view caching) {
  return {.content_type = std::string(file.content_type),
          .body = bodies().at(file.name),
          .etag = "\"" + std::string(file.digest) + "\"",
          .headers = {{"Cache-Control", std::string(caching)},
                      {"Content-Security-Policy", std::string(kContentPolicy)},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"Referrer-Policy", "no-referrer"},
                      {"X-Content-Type-Options", "nosniff"}}};
}

const DashboardFile* find_file(std::string_view name) {
  const auto files = dashboard_files();
  const auto found = std::ranges::find(files, name, &DashboardFile::name);
  return found == files.end() ? nullptr : &*found;
}

constexpr std::string_view kIndex = "index.html";

} // namespace

Result<Response> answer_dashboard(Context&, const Call& call) {
  const DashboardFile* index = find_file(kIndex);
  if (index == nullptr)
    return problem(
        404,
        "this mc2 was built without the dashboard: " MC2_DASHBOARD_MISSING
        "; './dev build' builds it where node 18 or later, npm and its registry are there; GET /openapi.yaml "
        "lists the resources",
        call.request.id);
  return to_response(*index, "no-cache");
}

Result<Response> answer_dashboard_asset(Context&, const Call& call) {
  const DashboardFile* file = find_file(call.id);
  if (file == nullptr || file->name == kIndex)
    return problem(404, "the dashboard has no such file; GET / names those that it has", call.request.id);
  return to_response(*file, "public, max-age=31536000, immutable"); // immutable, because the name contains the hash
}

} // namespace mc2::server
