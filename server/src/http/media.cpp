#include "http/media.hpp"

#include "http/header_list.hpp"

namespace mc2::server {
namespace {

/// How precisely a range of Accept names a type: 3 the type, 2 its group, 1 any type, 0 not at all.
int closeness(std::string_view range, std::string_view type) {
  if (equals_ignoring_case(range, type)) return 3;
  if (range == "*/*") return 1;
  const bool is_group = range.size() > 2 && range.ends_with("/*");
  return is_group && equals_ignoring_case(range.substr(0, range.size() - 1), type.substr(0, range.size() - 1)) ? 2 : 0;
}

/// How much a client wants a type: the weight of the range that names it most precisely.
double wanted(std::string_view accept, std::string_view type) {
  int closest = 0;
  double weight = 0;
  while (!accept.empty()) {
    std::string_view range = take_part(accept, ',');
    const std::string_view name = take_part(range, ';');
    const int close = closeness(name, type);
    if (close <= closest) continue;
    closest = close;
    weight = weight_of(range);
  }
  return weight;
}

} // namespace

bool may_be_json(std::string_view content_type) noexcept {
  const std::string_view type = take_part(content_type, ';');
  constexpr std::string_view kSuffix = "+json"; // RFC 6839
  return type.empty() || equals_ignoring_case(type, "application/json") || equals_ignoring_case(type, "text/json") ||
         equals_ignoring_case(type, "application/x-www-form-urlencoded") ||
         (type.size() > kSuffix.size() && equals_ignoring_case(type.substr(type.size() - kSuffix.size()), kSuffix));
}

const Form* choose_form(std::string_view accept, std::span<const Form> forms) noexcept {
  if (accept.find_first_not_of(" \t") == std::string_view::npos) return &forms.front();
  const Form* best = nullptr;
  double best_weight = 0;
  for (const Form& form : forms) {
    const double weight = wanted(accept, form.media_type);
    if (weight <= best_weight) continue;
    best_weight = weight;
    best = &form;
  }
  return best;
}

} // namespace mc2::server
