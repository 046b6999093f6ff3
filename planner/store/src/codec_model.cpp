#include <array>
#include <variant>

#include "codec_parts.hpp"
#include "mc2/store/text.hpp"

namespace mc2::store {
namespace {

using planner::AffineCurve;
using planner::CostCurve;
using planner::CurveKnot;
using planner::CurvePiece;
using planner::InterpolatedCurve;
using planner::PiecewiseCurve;
using planner::SegmentsCurve;
using planner::StaircaseCurve;

Json write_shape(const AffineCurve& curve) {
  return {{"alpha_us", finite(curve.alpha_us)}, {"beta_us_per_x", finite(curve.beta_us_per_x)}, {"family", "affine"}};
}

Json write_shape(const PiecewiseCurve& curve) {
  return {{"family", "piecewise"},  {"knot_x", finite(curve.knot_x)},  {"l0", finite(curve.l0)},
          {"l1", finite(curve.l1)}, {"q0", finite(curve.q0)},          {"q1", finite(curve.q1)},
          {"q2", finite(curve.q2)}, {"scale_x", finite(curve.scale_x)}};
}

Json write_shape(const SegmentsCurve& curve) {
  Json knots = Json::array(), pieces = Json::array();
  for (const double knot_x : curve.knots_x) knots.push_back(finite(knot_x));
  for (const CurvePiece& piece : curve.pieces)
    pieces.push_back({{"q0", finite(piece.q0)}, {"q1", finite(piece.q1)}, {"q2", finite(piece.q2)}});
  return {{"family", "segments"}, {"knots_x", knots}, {"pieces", pieces}, {"scale_x", finite(curve.scale_x)}};
}

Json write_shape(const StaircaseCurve& curve) {
  return {{"alpha_us", finite(curve.alpha_us)},
          {"beta_us_per_x", finite(curve.beta_us_per_x)},
          {"family", "staircase"},
          {"period_source", curve.period_source},
          {"period_x", finite(curve.period_x)},
          {"step_us", finite(curve.step_us)}};
}

Json write_shape(const InterpolatedCurve& curve) {
  Json knots = Json::array();
  for (const CurveKnot& knot : curve.knots) knots.push_back({{"time_us", finite(knot.time_us)}, {"x", finite(knot.x)}});
  return {{"family", "interpolated"}, {"knots", knots}};
}

CostCurve::Shape read_affine(const Node& node) {
  const Fields fields(node, {"alpha_us", "beta_us_per_x", "family"});
  return AffineCurve{fields["alpha_us"].number(), fields["beta_us_per_x"].number()};
}

CostCurve::Shape read_piecewise(const Node& node) {
  const Fields fields(node, {"family", "knot_x", "l0", "l1", "q0", "q1", "q2", "scale_x"});
  return PiecewiseCurve{fields["knot_x"].number(), fields["scale_x"].number(), fields["q2"].number(),
                        fields["q1"].number(),     fields["q0"].number(),      fields["l1"].number(),
                        fields["l0"].number()};
}

CostCurve::Shape read_segments(const Node& node) {
  const Fields fields(node, {"family", "knots_x", "pieces", "scale_x"});
  SegmentsCurve curve;
  curve.scale_x = fields["scale_x"].number();
  curve.knots_x = fields["knots_x"].list([](const Node& knot) { return knot.number(); });
  curve.pieces = fields["pieces"].list([](const Node& piece) {
    const Fields coefficients(piece, {"q0", "q1", "q2"});
    return CurvePiece{coefficients["q2"].number(), coefficients["q1"].number(), coefficients["q0"].number()};
  });
  return curve;
}

CostCurve::Shape read_staircase(const Node& node) {
  const Fields fields(node, {"alpha_us", "beta_us_per_x", "family", "period_source", "period_x", "step_us"});
  return StaircaseCurve{fields["alpha_us"].number(), fields["beta_us_per_x"].number(), fields["step_us"].number(),
                        fields["period_x"].number(), fields["period_source"].text()};
}

CostCurve::Shape read_interpolated(const Node& node) {
  const Fields fields(node, {"family", "knots"});
  return InterpolatedCurve{fields["knots"].list([](const Node& knot) {
    const Fields values(knot, {"time_us", "x"});
    return CurveKnot{values["x"].number(), values["time_us"].number()};
  })};
}

struct CurveFamily {
  std::string_view name;
  CostCurve::Shape (*read)(const Node&);
};

/// Every family that a document may name, in the order in which messages list them.
constexpr std::array kCurveFamilies{CurveFamily{"affine", read_affine}, CurveFamily{"piecewise", read_piecewise},
                                    CurveFamily{"segments", read_segments}, CurveFamily{"staircase", read_staircase},
                                    CurveFamily{"interpolated", read_interpolated}};

CostCurve::Shape read_shape(const Node& node) {
  if (!node.require(node.json().is_object() && node.json().contains("family"), "an object with a key 'family'"))
    return {};
  const Node family = node.member("family", node.json()["family"]);
  const std::string name = family.text();
  std::string legal;
  for (const CurveFamily& each : kCurveFamilies) {
    if (each.name == name) return each.read(node);
    legal += (legal.empty() ? "" : ", ") + std::string(each.name);
  }
  family.fail(planner::ErrorCode::UnknownName, "unknown name " + in_quotes(name) + "; legal: " + legal);
  return {};
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
          {"shape", std::visit([](const auto& shape) { return write_shape(shape); }, curve.shape)},
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
