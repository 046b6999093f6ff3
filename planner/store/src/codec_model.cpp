#include <string>
#include <tuple>
#include <type_traits>
#include <variant>

#include "codec_parts.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::store {
namespace {

using planner::CostCurve;

template <typename Value>
concept HasParameters = requires {
  Value::parameters();
};

/// Writes the family's name of a curve. read() does nothing: the name has already chosen the family.
template <typename Family>
struct FamilyName {
  [[nodiscard]] Json write(const Family&) const { return Family::kFamily; }
  void read(const Node&, Family&) const {}
};

} // namespace

/// The fields of curves and their pieces are the parameters that these types list themselves.
template <HasParameters Value>
inline constexpr auto kFields<Value> = std::apply(
    [](const auto&... parameter) {
      const std::tuple parameters(field(parameter.first, parameter.second)...);
      if constexpr (requires { Value::kFamily; })
        return std::tuple_cat(parameters, std::tuple(field("family", std::identity{}, FamilyName<Value>{})));
      else
        return parameters;
    },
    Value::parameters());

namespace {

/// Reads a curve of the named family, one of the alternatives of `shape`.
template <typename... Families>
void read_family(const Node& node, const Node& family, std::variant<Families...>& shape) {
  const std::string name = family.text();
  const auto is_read = [&]<typename Family>(std::type_identity<Family>) {
    if (name != Family::kFamily) return false;
    read_value(node, shape.template emplace<Family>(), CutAxis::Rows);
    return true;
  };
  if ((is_read(std::type_identity<Families>()) || ...)) return;
  family.fail(ErrorCode::UnknownName,
              "unknown name " + in_quotes(name) + "; legal: " + list_text(std::array{Families::kFamily...}));
}

struct ShapeByFamily {
  [[nodiscard]] Json write(const CostCurve::Shape& shape) const {
    return std::visit([](const auto& curve) { return write_value(curve, CutAxis::Rows); }, shape);
  }
  void read(const Node& node, CostCurve::Shape& shape) const {
    if (node.require(node.json().is_object() && node.json().contains("family"), "an object with a key 'family'"))
      read_family(node, node.member("family", node.json()["family"]), shape);
  }
};

} // namespace

template <>
inline constexpr auto kFields<planner::FitQuality> =
    std::tuple(field("point_count", &planner::FitQuality::point_count, at_least(0)),
               field("relative_rms", &planner::FitQuality::relative_rms),
               field("relative_worst", &planner::FitQuality::relative_worst),
               field("cross_validated_rms", &planner::FitQuality::cross_validated_rms),
               field("reason", &planner::FitQuality::reason));

template <>
inline constexpr auto kFields<CostCurve> = std::tuple(field("axis", &CostCurve::axis, &planner::parse_curve_axis),
                                                      field("shape", &CostCurve::shape, ShapeByFamily{}),
                                                      field("valid_min_x", &CostCurve::valid_min_x),
                                                      field("valid_max_x", &CostCurve::valid_max_x),
                                                      field("relative_interval", &CostCurve::relative_interval),
                                                      field("is_analytic", &CostCurve::is_analytic),
                                                      field("quality", &CostCurve::quality));

template <>
inline constexpr auto kFields<planner::LaneCost> =
    std::tuple(field("curve", &planner::LaneCost::curve), field("fixed_us", &planner::LaneCost::fixed_us),
               field("slowdown", &planner::LaneCost::slowdown),
               field_if_set("slowdown_interval", &planner::LaneCost::slowdown_interval),
               field_if_set("start_us", &planner::LaneCost::start_us),
               field_if_set("start_interval", &planner::LaneCost::start_interval));

template <>
inline constexpr auto kFields<planner::CostStep> =
    std::tuple(field("compute_slowdown", &planner::CostStep::compute_slowdown),
               field("communication_slowdown", &planner::CostStep::communication_slowdown),
               field("fixed_us", &planner::CostStep::fixed_us), field("run_us", &planner::CostStep::run_us));

template <>
inline constexpr auto kFields<planner::VariantCost> = std::tuple(
    field("variant", &planner::VariantCost::variant), field("compute", &planner::VariantCost::compute),
    field("communication", &planner::VariantCost::communication),
    field("local_compute", &planner::VariantCost::local_compute), field_if_set("run_us", &planner::VariantCost::run_us),
    field_if_set("open_steps", &planner::VariantCost::open_steps));

template <>
inline constexpr auto kFields<planner::SerialRun> = std::tuple(field("variant", &planner::SerialRun::variant),
                                                               field("compute_us", &planner::SerialRun::compute_us));

template <>
inline constexpr auto kFields<planner::CostModel> = std::tuple(
    document("cost_model"), field("op", &planner::CostModel::op),
    field("fingerprint", &planner::CostModel::fingerprint, Texts{}), field("variants", &planner::CostModel::variants),
    field("source", &planner::CostModel::source), field("anchored_interval", &planner::CostModel::anchored_interval),
    field("serial", &planner::CostModel::serial),
    checked([](const planner::CostModel& model) -> Result<void> { return model.validate(); }));

std::string encode(const planner::CostModel& model) { return dump(write_described(model)); }

template <>
planner::CostModel read_document(const Node& node) {
  return read_described<planner::CostModel>(node);
}

} // namespace mc2::store
