#include "first_clients.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "mc2/store/codec.hpp"

namespace mc2::server {
namespace {

using nlohmann::json;

bool has_schema(const json& document, std::string_view name) {
  return document.is_object() && document.contains("schema") && document["schema"] == name;
}

void shorten_plan(json& plan) {
  plan.erase("benefit_interval");
  if (!plan.contains("validation")) return;
  for (const char* key : {"measured_at", "spread"}) plan["validation"].erase(key);
}

/// Whether the document held a plan.
bool shorten(json& document) {
  if (has_schema(document, "mc2.plan/1")) {
    shorten_plan(document);
    return true;
  }
  if (has_schema(document, "mc2.answer/1")) {
    shorten_plan(document["plan"]);
    document["digest"] = store::digest(document["plan"].dump());
    return true;
  }
  if (!has_schema(document, "mc2.batch_answer/1")) return false;
  for (json& entry : document["answers"])
    if (entry.contains("answer")) shorten(entry["answer"]);
  return true;
}

} // namespace

bool is_first_client(const Request& request) noexcept { return request.user_agent.starts_with("cpprestsdk/"); }

Response as_first_clients_read(Response response) {
  if (response.status != 200 || response.body == nullptr || response.content_type != "application/json")
    return response;
  json document = json::parse(*response.body, nullptr, false);
  if (!shorten(document)) return response;
  response.body = std::make_shared<const std::string>(document.dump());
  if (!response.etag.empty()) response.etag.insert(response.etag.size() - 1, "-first");
  return response;
}

} // namespace mc2::server
