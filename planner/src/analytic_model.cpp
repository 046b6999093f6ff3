#include "mc2/planner/analytic_model.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "mc2/planner/text.hpp"

namespace mc2::planner {
namespace {

/// Between two samples a straight line is within 1 % of a collective's time.
constexpr int kSamplesPerOctave = 5;
constexpr int kOctaveCount = 46;
static_assert((std::int64_t{1} << kOctaveCount) == kMaxOperandBytes);
static_assert(kSamplesPerOctave * kOctaveCount + 1 <= static_cast<int>(kMaxCurveKnots));

/// A curve has one interval for all sizes, so that a model answers for every m: that of a block of this many rows.
constexpr double kBlockRows = 1024;

double sample_bytes(int index) { return std::exp2(static_cast<double>(index) / kSamplesPerOctave); }

std::string basis(const Topology& topology) {
  return topology.calibration.empty() ? "published constants" : "constants calibrated: " + topology.calibration;
}

/// Straight lines through the samples; the first and the last go on beyond them.
SegmentsCurve joined(const std::vector<CurveKnot>& samples) {
  SegmentsCurve curve;
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const double slope =
        std::max(0.0, (samples[i].time_us - samples[i - 1].time_us) / (samples[i].x - samples[i - 1].x));
    const double start_us = samples[i - 1].time_us - slope * samples[i - 1].x;
    // The first piece starts at 0 bytes, where rounding could make its cost negative.
    curve.pieces.push_back({0, slope, i == 1 ? std::max(start_us, 0.0) : start_us});
    if (i + 1 < samples.size()) curve.knots_x.push_back(samples[i].x);
  }
  return curve;
}

/// @param interval as CostCurve::relative_interval
CostCurve communication_curve(const Topology& topology, Algorithm algorithm, const std::vector<CurveKnot>& samples,
                              double interval) {
  CostCurve curve;
  curve.axis = CurveAxis::Bytes;
  curve.shape = joined(samples);
  curve.valid_min_x = samples.front().x;
  curve.valid_max_x = samples.back().x;
  curve.relative_interval = interval;
  curve.is_analytic = true;
  curve.quality.reason = std::string(to_string(algorithm)) + " on topology " + topology.name + ", " + basis(topology);
  return curve;
}

/// Samples of every algorithm that the topology offers for the collective.
Result<std::map<Algorithm, std::vector<CurveKnot>>> sample_times(const Topology& topology, Collective collective,
                                                                 int world_size) {
  std::map<Algorithm, std::vector<CurveKnot>> samples;
  for (int i = 0; i <= kSamplesPerOctave * kOctaveCount; ++i) {
    const double bytes = sample_bytes(i);
    MC2_ASSIGN(const auto times, collective_times(topology, {collective, bytes, world_size}));
    for (const CollectiveTime& time : times) samples[time.algorithm].push_back({bytes, time.us});
  }
  return samples;
}

/// 2 m n k flops at the topology's rate, in proportion to the rows, without a rank's own shard if that is a local part.
CostCurve compute_curve(const Topology& topology, const OpSpec& op) {
  const ComputeRate& rate = topology.compute;
  const double peak = op.dtype == DType::F32 ? rate.peak_tflop_per_s_f32 : rate.peak_tflop_per_s_16bit;
  const OpTraits& traits = traits_of(op.kind);
  const auto rows = static_cast<double>(traits.cut_axis_length(op));
  const double share = traits.has_local_part ? 1 - 1.0 / op.world_size : 1;
  CostCurve curve;
  curve.axis = compute_axis(op);
  curve.shape = AffineCurve{rate.launch_us, share * op.flop_count() / rows / (peak * rate.efficiency * 1e6)};
  curve.valid_min_x = 1;
  curve.valid_max_x = static_cast<double>(kMaxSize);
  curve.is_analytic = true;
  curve.quality.reason =
      number_text(peak) + " Tflop/s at efficiency " + number_text(rate.efficiency) + " on topology " + topology.name;
  return curve;
}

} // namespace

Fingerprint analytic_fingerprint(const Topology& topology, int world_size) {
  return {{{"backend", "analytic"},
           {"device", topology.name},
           {"link", std::string(to_string(topology.transport))},
           {"ranks", std::to_string(world_size)},
           {"constants", topology.calibration.empty() ? "published" : "calibrated"}}};
}

Result<void> check_topology_tells(const OpSpec& op) {
  const Work work = traits_of(op.kind).work;
  if (work != Work::Matmul)
    return Error{ErrorCode::Infeasible, "op",
                 "a topology tells how fast its ranks multiply, not their " + std::string(to_string(work)) +
                     "; give a model of " + std::string(to_string(op.kind)) + " whose compute lane was measured"};
  if (has_scales(op.dtype))
    return Error{ErrorCode::Infeasible, "dtype",
                 "is " + std::string(to_string(op.dtype)) +
                     ", and no topology gives its rate; only a model of its measured matmul tells it"};
  if (op.m / op.experts_per_rank <= kFewRows)
    return Error{ErrorCode::Infeasible, "m",
                 "is " + std::to_string(op.m) + (op.experts_per_rank > 1 ? " rows of all experts of a rank" : "") +
                     "; a matmul of up to " + std::to_string(kFewRows) +
                     " rows is bound by memory, which no topology describes; only a model of its measured matmul "
                     "tells it"};
  return {};
}

Result<CostCurve> measured_matmul(const CostModel& model, const OpSpec& op) {
  OpSpec same = model.op;
  same.m = op.m;
  same.world_size = op.world_size;
  if (same != op)
    return Error{
        ErrorCode::OutOfRange, "model",
        "describes " + model.op.text() + "; its matmul answers for other m and ranks only, not for " + op.text()};
  const auto rows = static_cast<double>(cut_axis_length(op));
  const auto whole_us = [&](const VariantCost& cost) { return cost.compute.curve.time_us(rows); };
  return std::ranges::min_element(model.variants, {}, whole_us)->compute.curve;
}

Result<CostModel> analytic_model(const Topology& topology, const OpSpec& op, const std::optional<CostCurve>& compute) {
  MC2_TRY(op.validate());
  if (!compute) MC2_TRY(check_topology_tells(op));
  const Collective collective = collective_of(op.kind);
  MC2_ASSIGN(const auto samples, sample_times(topology, collective, op.world_size));
  const LaneCost matmul{compute.value_or(compute_curve(topology, op)), 0, topology.compute_slowdown};
  CostModel model;
  model.op = op;
  model.fingerprint = analytic_fingerprint(topology, op.world_size);
  model.source = "topology " + topology.name + ": " + topology.source + "; " + basis(topology);
  const OpTraits& traits = traits_of(op.kind);
  const std::int64_t message_bytes = traits.cut_axis_length(op) * traits.message_bytes_per_unit(op);
  const double row_bytes = static_cast<double>(message_bytes) / static_cast<double>(op.m); // the same for every m
  for (const Algorithm algorithm : topology.algorithms.at(collective)) {
    const std::string name(to_string(algorithm));
    MC2_ASSIGN(const double interval,
               collective_interval(topology, {collective, kBlockRows * row_bytes, op.world_size}, algorithm));
    model.variants.push_back({{name, {{"algorithm", name}, {"topology", topology.name}}},
                              matmul,
                              {communication_curve(topology, algorithm, samples.at(algorithm), interval), 0,
                               topology.communication_slowdown}});
  }
  MC2_TRY(model.validate());
  return model;
}

} // namespace mc2::planner
