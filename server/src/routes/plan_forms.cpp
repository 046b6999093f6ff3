#include <algorithm>
#include <array>

#include "error_map.hpp"
#include "http/media.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/planner/explanation.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/render/plan_page.hpp"
#include "mc2/render/timeline_chart.hpp"
#include "mc2/render/trace.hpp"
#include "mc2/server/service.hpp"
#include "routes/listing.hpp"
#include "routes/plan_forms.hpp"

namespace mc2::server {
namespace {

constexpr int kTextWidth = 80; ///< columns, as when the program writes to a file

/// Errors: for a plan that contradicts itself, or has nothing to draw.
using Draw = Result<std::string> (*)(const planner::Plan& plan);

Result<std::string> draw_svg(const planner::Plan& plan) {
  MC2_ASSIGN(const auto explained, planner::explain(plan, nullptr, planner::likely_limits(plan)));
  return render::plan_drawing(explained, {});
}
/// Also draws a plan that was raced without a model, which has no predictions.
Result<std::string> draw_text(const planner::Plan& plan) {
  MC2_TRY(plan.validate());
  return render::plan_page(plan, kTextWidth, false);
}
Result<std::string> draw_trace(const planner::Plan& plan) {
  MC2_TRY(planner::explain(plan, nullptr, planner::likely_limits(plan)));
  return render::chrome_trace(plan, {}, plan.fingerprint);
}

/// The first form is the default.
constexpr std::array kForms{Form{"json", "application/json"}, Form{"svg", "image/svg+xml"}, Form{"text", "text/plain"},
                            Form{"trace", "application/vnd.mc2.trace+json"}};
constexpr std::array<Draw, kForms.size()> kDraws{nullptr, &draw_svg, &draw_text, &draw_trace};

Result<Response> draw(const store::StoredPlan& stored, const Form& form) {
  const Draw draw_form = kDraws[static_cast<std::size_t>(&form - kForms.data())];
  const auto drawn = draw_form(stored.plan);
  if (!drawn) return Error{ErrorCode::Infeasible, drawn.error().field, drawn.error().message};
  Response response = document_response(drawn.value(), stored.digest + "-" + std::string(form.name));
  response.content_type = std::string(form.media_type) + (form.name == "text" ? "; charset=utf-8" : "");
  // A drawing that a browser opens must not run or load anything.
  response.headers.emplace_back("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'");
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  return response;
}

} // namespace

Result<Response> plan_in_form(const store::StoredPlan& stored, const std::optional<std::string>& name,
                              const Request& request) {
  const Form* form = nullptr;
  if (name) {
    MC2_ASSIGN(form, find_named(kForms, *name, &Form::name, "format", "format"));
  } else {
    form = choose_form(request.accept, kForms);
    if (form == nullptr)
      return problem(406, "there is no such form of a plan; there are " + list_text(kForms, &Form::name), request.id);
  }
  const bool is_document = form == kForms.data();
  auto response =
      is_document ? Result<Response>(document_response(stored.document, stored.digest)) : draw(stored, *form);
  if (response) response.value().headers.emplace_back("Vary", "Accept");
  return response;
}

} // namespace mc2::server
