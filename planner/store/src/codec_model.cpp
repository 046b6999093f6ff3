#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "codec_parts.hpp"
#include "mc2/store/text.hpp"

namespace mc2::store {
namespace {

using planner::CostCurve;

template <typename Value>
concept HasParameters = requires {
  Value::parameters();
};

template <typename Value>
Json write_value(const std::vector<Value>& values);
template <typename Value>
void read_value(const Node& node, std::vector<Value>& values);

/// The keys of a value's document in the order of the alphabet, a curve's family among them.
template <HasParameters Value>
auto keys_of() {
  constexpr bool is_family = requires { Value::kFamily; };
  return std::apply(
      [](const auto&... parameter) {
        std::array<std::string_view, sizeof...(parameter) + (is_family ? 1 : 0)> keys{parameter.first...};
        if constexpr (is_family) keys.back() = "family";
        std::ranges::sort(keys);
        return keys;
      },
      Value::parameters());
}

Json write_value(double value) { return finite(value); }
Json write_value(const std::string& value) { return value; }

template <HasParameters Value>
Json write_value(const Value& value) {
  Json result = Json::object();
  const auto write = [&](const auto& parameter) { result[parameter.first] = write_value(value.*parameter.second); };
  std::apply([&](const auto&... parameter) { (write(parameter), ...); }, Value::parameters());
  if constexpr (requires { Value::kFamily; }) result["family"] = Value::kFamily;
  return result;
}

template <typename Value>
Json write_value(const std::vector<Value>& values) {
  Json result = Json::array();
  for (const Value& value : values) result.push_back(write_value(value));
  return result;
}

void read_value(const Node& node, double& value) { value = node.number(); }
void read_value(const Node& node, std::string& value) { value = node.text(); }

template <HasParameters Value>
void read_value(const Node& node, Value& value) {
  const auto keys = keys_of<Value>();
  const Fields fields(node, keys);
  const auto read = [&](const auto& parameter) { read_value(fields[parameter.first], value.*parameter.second); };
  std::apply([&](const auto&... parameter) { (read(parameter), ...); }, Value::parameters());
}

template <typename Value>
void read_value(const Node& node, std::vector<Value>& values) {
  values = node.list([](const Node& element) {
    Value value{};
    read_value(element, value);
    return value;
  });
}

/// The family of that name among the alternatives of a shape.
template <typename... Families>
void read_family(const Node& node, const Node& family, std::variant<Families...>& shape) {
  const std::string name = family.text();
  std::string legal;
  const auto is_read = [&]<typename Family>(std::type_identity<Family>) {
    legal += (legal.empty() ? "" : ", ") + std::string(Family::kFamily);
    if (name != Family::kFamily) return false;
    read_value(node, shape.template emplace<Family>());
    return true;
  };
  if ((is_read(std::type_identity<Families>()) || ...)) return;
  family.fail(ErrorCode::UnknownName, "unknown name " + in_quotes(name) + "; legal: " + legal);
}

CostCurve::Shape read_shape(const Node& node) {
  CostCurve::Shape shape;
  if (node.require(node.json().is_object() && node.json().contains("family"), "an object with a key 'family'"))
    read_family(node, node.member("family", node.json()["family"]), shape);
  return shape;
}

Json write_quality(const planner::FitQuality& quality) {
  return {{"cross_validated_rms", finite(quality.cross_validated_rms)},
          {"point_count", quality.point_count},
          {"reason", quality.reason},
          {"relative_rms", finite(quality.relative_rms)},
          {"relative_worst", finite(quality.relative_worst)}};
}

planner::FitQuality read_quality(const Node& node) {
  const Fields fields(node, {"cross_validated_rms", "point_count", "reason", "relative_rms", "relative_worst"});
  return {fields["point_count"].small_integer(0), fields["relative_rms"].number(), fields["relative_worst"].number(),
          fields["cross_validated_rms"].number(), fields["reason"].text()};
}

Json write_curve(const CostCurve& curve) {
  return {{"axis", to_string(curve.axis)},
          {"is_analytic", curve.is_analytic},
          {"quality", write_quality(curve.quality)},
          {"relative_interval", finite(curve.relative_interval)},
          {"shape", std::visit([](const auto& shape) { return write_value(shape); }, curve.shape)},
          {"valid_max_x", finite(curve.valid_max_x)},
          {"valid_min_x", finite(curve.valid_min_x)}};
}

CostCurve read_curve(const Node& node) {
  const Fields fields(node,
                      {"axis", "is_analytic", "quality", "relative_interval", "shape", "valid_max_x", "valid_min_x"});
  CostCurve curve;
  curve.axis = fields["axis"].name(planner::parse_curve_axis);
  curve.shape = read_shape(fields["shape"]);
  curve.valid_min_x = fields["valid_min_x"].number();
  curve.valid_max_x = fields["valid_max_x"].number();
  curve.relative_interval = fields["relative_interval"].number();
  curve.is_analytic = fields["is_analytic"].boolean();
  curve.quality = read_quality(fields["quality"]);
  return curve;
}

Json write_lane(const planner::LaneCost& lane) {
  return {{"curve", write_curve(lane.curve)}, {"fixed_us", finite(lane.fixed_us)}, {"slowdown", finite(lane.slowdown)}};
}

planner::LaneCost read_lane(const Node& node) {
  const Fields fields(node, {"curve", "fixed_us", "slowdown"});
  return {read_curve(fields["curve"]), fields["fixed_us"].number(), fields["slowdown"].number()};
}

Json write_variant_cost(const planner::VariantCost& cost) {
  Json result = {{"communication", write_lane(cost.communication)},
                 {"compute", write_lane(cost.compute)},
                 {"variant", write_variant(cost.variant)}};
  if (cost.local_compute) result["local_compute"] = write_curve(*cost.local_compute);
  return result;
}

planner::VariantCost read_variant_cost(const Node& node) {
  const Fields fields(node, {"communication", "compute", "variant"}, {"local_compute"});
  planner::VariantCost cost{read_variant(fields["variant"]), read_lane(fields["compute"]),
                            read_lane(fields["communication"])};
  if (fields.has("local_compute")) cost.local_compute = read_curve(fields["local_compute"]);
  return cost;
}

} // namespace

Json write_model(const planner::CostModel& model) {
  Json variants = Json::array();
  for (const planner::VariantCost& cost : model.variants) variants.push_back(write_variant_cost(cost));
  Json result = {{"fingerprint", write_fingerprint(model.fingerprint)},
                 {"op", write_op(model.op)},
                 {"schema", schema_name("cost_model")},
                 {"source", model.source},
                 {"variants", variants}};
  if (model.anchored_interval) result["anchored_interval"] = finite(*model.anchored_interval);
  return result;
}

template <>
planner::CostModel read_document<planner::CostModel>(const Node& node) {
  check_schema(node, "cost_model");
  const Fields fields(node, {"fingerprint", "op", "schema", "source", "variants"}, {"anchored_interval"});
  planner::CostModel model;
  model.op = read_op(fields["op"]);
  model.fingerprint = read_fingerprint(fields["fingerprint"]);
  model.variants = fields["variants"].list(read_variant_cost);
  model.source = fields["source"].text();
  if (fields.has("anchored_interval")) model.anchored_interval = fields["anchored_interval"].number();
  if (node.is_ok()) node.check(model.validate());
  return model;
}

} // namespace mc2::store
