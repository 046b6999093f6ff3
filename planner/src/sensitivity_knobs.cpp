#include "sensitivity_knobs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>

#include "mc2/planner/cutting.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::planner {
namespace {

/// Adds `us` to every time of a curve. False for a family that does not say what a block of size 0 costs.
template <typename Shape>
bool add_latency(Shape& shape, double us) {
  if constexpr (requires { shape.alpha_us; }) {
    shape.alpha_us += us;
  } else if constexpr (requires { shape.q0, shape.l0; }) {
    shape.q0 += us;
    shape.l0 += us;
  } else if constexpr (requires { shape.pieces; }) {
    for (auto& piece : shape.pieces) piece.q0 += us;
  } else if constexpr (requires { shape.knots; }) {
    for (auto& knot : shape.knots) knot.time_us += us;
  } else {
    return false;
  }
  return true;
}

bool has_latency(CostCurve curve) {
  return std::visit([](auto& shape) { return add_latency(shape, 0); }, curve.shape);
}

/// Time of an empty message. It is read at a tiny size, because time_us() counts a size of 0 as no message at all.
double latency_us(const CostCurve& curve) { return curve.time_us(std::numeric_limits<double>::min()); }

const char* subject(Parameter parameter) {
  switch (parameter) {
    case Parameter::ComputeTime: return "compute";
    case Parameter::CommunicationTime: return "communication";
    case Parameter::CommunicationLatency: return "latency of a message";
    case Parameter::ComputeSlowdown: return "compute slow-down";
    case Parameter::CommunicationSlowdown: return "communication slow-down";
    case Parameter::ComputeBlockFixed: return "fixed cost of a block's compute";
    case Parameter::CommunicationBlockFixed: return "fixed cost of a block's communication";
    case Parameter::Rows: return "m";
    case Parameter::Columns: return "n";
    case Parameter::Imbalance: return "imbalance";
  }
  return "";
}

/// "1.32x slower", and below 1 %, which three digits would not show, "0.4 % faster".
std::string factor_text(double factor) {
  const double change = std::max(factor, 1 / factor);
  return (change < 1.01 ? number_text(100 * (change - 1), 2) + " %" : number_text(change, 3) + "x") +
         (factor >= 1 ? " slower" : " faster");
}

bool is_time_factor(Parameter parameter) {
  return parameter == Parameter::ComputeTime || parameter == Parameter::CommunicationTime;
}

bool is_slowdown(Parameter parameter) {
  return parameter == Parameter::ComputeSlowdown || parameter == Parameter::CommunicationSlowdown;
}

void turn_variant(VariantCost& cost, Parameter parameter, double today, double value) {
  const double added = value - today;
  // A factor below 1 is no contention: it says that the other lane does a part of this lane's work.
  const auto slow = [&](LaneCost& lane) {
    if (lane.slowdown >= 1) lane.slowdown = std::max(1.0, lane.slowdown * (value / today));
  };
  const auto fix = [&](LaneCost& lane) { lane.fixed_us = std::max(0.0, lane.fixed_us + added); };
  switch (parameter) {
    case Parameter::ComputeTime: cost = scaled(std::move(cost), value, 1); break;
    case Parameter::CommunicationTime: cost = scaled(std::move(cost), 1, value); break;
    case Parameter::CommunicationLatency: {
      CostCurve& curve = cost.communication.curve;
      const double least = -latency_us(curve);
      std::visit([&](auto& shape) { add_latency(shape, std::max(added, least)); }, curve.shape);
      break;
    }
    case Parameter::ComputeSlowdown: slow(cost.compute); break;
    case Parameter::CommunicationSlowdown: slow(cost.communication); break;
    case Parameter::ComputeBlockFixed: fix(cost.compute); break;
    case Parameter::CommunicationBlockFixed: fix(cost.communication); break;
    case Parameter::Rows:
    case Parameter::Columns:
    case Parameter::Imbalance: break;
  }
}

Knob size_knob(const OpSpec& op, std::int64_t alignment) {
  if (cut_axis(op) == CutAxis::Columns)
    return {Parameter::Columns, static_cast<double>(op.n), 0, alignment, 0, "columns"};
  // If blocks are cut from one rank's shard, m changes by an aligned step of every rank's shard.
  const OpTraits& traits = traits_of(op.kind);
  const std::int64_t axis = std::max<std::int64_t>(1, traits.cut_axis_length(op));
  const std::int64_t step = alignment * std::max<std::int64_t>(1, op.m / axis);
  return {
      Parameter::Rows, static_cast<double>(op.m), 0, step, 0, "rows", static_cast<double>(traits.max_column_cut_m + 1)};
}

} // namespace

double Knob::at(double change, bool is_up) const {
  const double portion = change / (kMaxSensitivityFactor - 1);
  if (is_size(parameter)) {
    const double wanted = is_up ? value * (1 + change) : value / (1 + change);
    const double steps = std::round((wanted - value) / static_cast<double>(step));
    return std::max(value + steps * static_cast<double>(step), least);
  }
  if (is_time_factor(parameter)) return is_up ? value * (1 + change) : value / (1 + change);
  if (is_slowdown(parameter)) return is_up ? value * (1 + change) : value - (value - 1) * portion;
  if (parameter == Parameter::Imbalance && !is_up) return value; // 1 is the least
  return is_up ? value + reach * portion : value * (1 - portion);
}

Result<void> Knob::turn(Question& question, double new_value) const {
  auto& [op, model, counts] = question;
  if (parameter == Parameter::Rows) op.m = static_cast<std::int64_t>(new_value);
  if (parameter == Parameter::Columns) op.n = static_cast<std::int64_t>(new_value);
  if (parameter == Parameter::Imbalance) {
    MC2_ASSIGN(auto routed, with_imbalance(op, new_value));
    op = routed.op;
    counts = std::move(routed.counts);
  }
  for (auto& variant : model.variants) turn_variant(variant, parameter, value, new_value);
  if (parameter == Parameter::ComputeTime && model.serial) model.serial->compute_us *= new_value;
  return {};
}

std::string Knob::value_text(double new_value) const {
  if (is_time_factor(parameter)) return factor_text(new_value / value);
  if (is_size(parameter)) return std::to_string(static_cast<std::int64_t>(new_value));
  return is_slowdown(parameter) || parameter == Parameter::Imbalance ? number_text(new_value) : time_text(new_value);
}

std::string Knob::change_text(double new_value) const {
  const std::string name = subject(parameter);
  if (is_time_factor(parameter)) return name + " " + value_text(new_value);
  if (changes_lengths(parameter)) return name + " = " + value_text(new_value);
  return name + " " + value_text(new_value) + " instead of " + value_text(value);
}

std::vector<Knob> knobs_of(const Plan& plan, const CostModel& model, const PlanOptions& options) {
  const VariantCost* found = model.cost_of(plan.variant);
  MC2_CHECK(found != nullptr, "the plan's variant was predicted by this model");
  const LaneCost& compute = found->compute;
  const LaneCost& communication = found->communication;
  std::vector<Knob> knobs{{Parameter::ComputeTime, 1, 0, 1, compute.curve.relative_interval, "x"},
                          {Parameter::CommunicationTime, 1, 0, 1, communication.curve.relative_interval, "x"}};
  if (has_latency(communication.curve))
    knobs.push_back({Parameter::CommunicationLatency, latency_us(communication.curve), plan.serial_us, 1, 0, "us"});
  if (compute.slowdown >= 1) knobs.push_back({Parameter::ComputeSlowdown, compute.slowdown, 0, 1, 0, "x"});
  if (communication.slowdown >= 1)
    knobs.push_back({Parameter::CommunicationSlowdown, communication.slowdown, 0, 1, 0, "x"});
  knobs.push_back({Parameter::ComputeBlockFixed, compute.fixed_us, plan.serial_us, 1, 0, "us"});
  knobs.push_back({Parameter::CommunicationBlockFixed, communication.fixed_us, plan.serial_us, 1, 0, "us"});
  knobs.push_back(size_knob(plan.op, options.alignment));
  if (traits_of(plan.op.kind).takes_counts && plan.op.world_size <= kMaxCountedRanks &&
      takes_counts(model.fingerprint, plan.op, plan.variant))
    knobs.push_back(
        {Parameter::Imbalance, 1, std::min<double>(plan.op.world_size, kMaxSensitivityFactor) - 1, 1, 0, "x"});
  return knobs;
}

} // namespace mc2::planner
