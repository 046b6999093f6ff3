#include "mc2/planner/device_model.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "mc2/planner/collective.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::planner {
namespace {

// Production cost constants of the CANN ops library (ops-transformer, 2026-07): data/ascend_910b_cases.csv.
constexpr double kAscendTflopPerS = 308.03;
constexpr double kAscendLeastRows = 128; ///< fewer rows of product cost as much
constexpr int kAscendMaxRanks = 8;       ///< of one server
// Half-widths of 90 % intervals: 803 us published where 669 us are computed; 1071 us where the fit gives 931 us.
constexpr double kAscendMatmulInterval = 0.25;
constexpr double kAscendCollectiveInterval = 0.2;

constexpr std::array kDevices{PublishedDevice{
    "ascend-910b", "the published Ascend MC2 tiling recipe and the cost constants of the CANN ops library, 2026-07",
    "all-reduce on 8 ranks: two published cases within 4 %; else constants that nobody compared with measurements "
    "here"}};

CostCurve published(CurveAxis axis, CostCurve::Shape shape, double interval, std::string reason) {
  CostCurve curve;
  curve.axis = axis;
  curve.shape = std::move(shape);
  curve.is_analytic = true;
  curve.relative_interval = interval;
  curve.valid_min_x = 1;
  curve.valid_max_x = 1e15;
  curve.quality.reason = std::move(reason);
  return curve;
}

/// max(128, rows of product) 2 n k / rate.
CostCurve ascend_matmul(const OpSpec& op) {
  const OpTraits& traits = traits_of(op.kind);
  // A block of the cut axis takes as many rows of every shard; with a local part, of every other rank's.
  const double shards = traits.has_row_shards ? op.world_size - (traits.has_local_part ? 1 : 0) : 1;
  const double us_per_row = 2.0 * static_cast<double>(op.n) * static_cast<double>(op.k) / (kAscendTflopPerS * 1e6);
  const PiecewiseCurve shape{kAscendLeastRows / shards, 1, 0, 0, kAscendLeastRows * us_per_row, us_per_row * shards, 0};
  return published(
      CurveAxis::Rows, shape, kAscendMatmulInterval,
      number_text(kAscendTflopPerS) + " Tflop/s, CANN ops library; published cases are 1 % faster and 20 % slower");
}

/// How many times faster a collective is than the published all-reduce of as many bytes.
Result<double> ascend_speed(const OpSpec& op) {
  switch (collective_of(op.kind)) {
    case Collective::AllReduce: return 1.0;
    case Collective::ReduceScatter:
    case Collective::AllGather: return op.world_size / 4.0;
    case Collective::AllToAll: break;
  }
  return Error{ErrorCode::Infeasible, "op",
               "nothing is published for all-to-all on ascend-910b; use --topology data/topologies/ascend_910b.json"};
}

/// The recipe's all-reduce fit over MiB, and 18 us below 1/16 MiB. docs/cost_model.md §2.
CostCurve ascend_collective(double speed, const std::string& reason) {
  const auto piece = [speed](double q2, double q1, double q0) {
    return CurvePiece{q2 / speed, q1 / speed, q0 / speed};
  };
  const SegmentsCurve shape{kBytesPerMib,
                            {kBytesPerMib / 16, 8 * kBytesPerMib},
                            {piece(0, 0, 18), piece(-0.9698202, 27.0622573, 14.769), piece(0, 13.58491263, 61.508333)}};
  return published(CurveAxis::Bytes, shape, kAscendCollectiveInterval, reason);
}

Result<CostModel> ascend_910b(const OpSpec& op) {
  if (op.dtype != DType::F16 && op.dtype != DType::Bf16)
    return Error{ErrorCode::Infeasible, "dtype",
                 "nothing is published for " + std::string(to_string(op.dtype)) + " on ascend-910b; legal: f16, bf16"};
  if (op.world_size > kAscendMaxRanks)
    return Error{ErrorCode::Infeasible, "world_size",
                 "costs on ascend-910b are published for 2 to 8 ranks of one server; use --topology "
                 "data/topologies/ascend_910b.json"};
  if (cut_axis(op) != CutAxis::Rows)
    return Error{ErrorCode::Infeasible, "m", "nothing is published for so few rows, which are cut along n"};
  MC2_ASSIGN(const auto speed, ascend_speed(op));
  const bool is_all_reduce = collective_of(op.kind) == Collective::AllReduce;
  const bool is_compared = is_all_reduce && op.world_size == kAscendMaxRanks;
  const std::string reason =
      speed == 1.0 && is_all_reduce
          ? "fit of the published MC2 recipe; confidence " +
                std::string(is_compared ? "good: two published cases within 4 %" : "fair: published for 8 ranks")
          : "published all-reduce fit / " + number_text(speed) +
                ", CANN ops library; confidence low: compared with no measurement";
  CostModel model;
  model.op = op;
  model.source = std::string(kDevices[0].source);
  // The recipe's factor of 1.15 chooses block lengths; its own cases take the fit's times, not stretched ones. So it is
  // what a slow-down may be, not what is expected.
  const auto lane = [](CostCurve curve) { return LaneCost{std::move(curve), 0, 1, kContentionInterval}; };
  model.variants.push_back({{"published", {}}, lane(ascend_matmul(op)), lane(ascend_collective(speed, reason))});
  return model;
}

} // namespace

std::span<const PublishedDevice> published_devices() noexcept { return kDevices; }

Result<CostModel> device_model(std::string_view device, const OpSpec& op) {
  std::string names;
  for (const PublishedDevice& known : kDevices) names += (names.empty() ? "" : ", ") + std::string(known.name);
  if (device != kDevices[0].name)
    return Error{ErrorCode::UnknownName, "--device",
                 "'" + std::string(device.substr(0, 64)) + "' is no device with published costs; legal: " + names};
  MC2_TRY(op.validate());
  MC2_ASSIGN(auto model, ascend_910b(op));
  model.fingerprint.fields = {{"backend", "published"}, {"device", std::string(device)}, {"link", "HCCS"}};
  return model;
}

} // namespace mc2::planner
