#include "mc2/planner/device_model.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "mc2/planner/collective.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::planner {
namespace {

// Sources: ops-transformer, commit 3a280bc, mc2/common/op_host/op_tiling (T below): hccl_performance.cpp,
// hccl_performance_arch35.cpp, matmul_performance.{h,cpp}; cores of a chip from CANN's runtime, commit 681ef76,
// src/platform/platform_config. A rate is 2 operations x products per cycle and core x cycles x cores x utilisation.

/// Half-width of 90 % intervals where nothing published was compared with a measurement.
constexpr double kUnconfirmed = 0.3;
// For the 910B: a matmul published with 803 us is computed as 669 us, a collective with 1071 us as 931 us by the fit.
constexpr double kAscend910bMatmulInterval = 0.25, kAscend910bCollectiveInterval = 0.2;
constexpr double kLeastRows = 128; ///< fewer rows of product cost as much as these

/// Time in us over MiB of the full array, up to each knot and beyond the last.
struct CollectiveFit {
  std::vector<double> knots_mib;
  std::vector<CurvePiece> pieces; ///< {q2, q1, q0}
};

struct PublishedCollective {
  Collective collective;
  std::vector<int> ranks;
  CollectiveFit fit;
  double (*factor)(int ranks); ///< on the fit's time
  double interval;
  std::string_view reason;
};

struct PublishedMatmul {
  double tflop_per_s;
  double fixed_us;
  double (*utilisation)(std::int64_t k);
  double interval;
  std::string_view reason;
};

struct DeviceTable {
  PublishedDevice device;
  std::vector<DType> dtypes;
  PublishedMatmul matmul;
  std::vector<PublishedCollective> collectives;
  std::string_view ranks_note; ///< ends messages about numbers of ranks that have no fit
};

double one(int) { return 1; }
double fully(std::int64_t) { return 1; }
/// T/hccl_performance.cpp 56-62.
double by_quarter(int ranks) { return 4.0 / ranks; }
/// Converts the fit of a ring over eight dies to `ranks` dies, in both directions at once (T/hccl_performance.cpp).
/// That code also multiplies by 0.6 and does not say why; 0.8 is midway between 0.6 and no factor.
double by_double_ring(int ranks) { return 0.8 * 0.5 * (ranks - 1) / ranks / (7.0 / 8); }
/// T/matmul_performance.h 22, 37-40.
double of_310p(std::int64_t k) { return (k % 128 == 0 ? 1 : 0.8) / (1.5 + 0.5 * 1024 / static_cast<double>(k)); }

const std::vector<int>& two_to_eight() {
  static const std::vector<int> kRanks{2, 3, 4, 5, 6, 7, 8};
  return kRanks;
}

/// The recipe's all-reduce fit, and 18 us below 1/16 MiB. docs/cost_model.md §2.
const CollectiveFit& ascend_910b_fit() {
  static const CollectiveFit kFit{{1.0 / 16, 8},
                                  {{0, 0, 18}, {-0.9698202, 27.0622573, 14.769}, {0, 13.58491263, 61.508333}}};
  return kFit;
}

/// @param is_compared  whether the device was compared with published cases
DeviceTable ascend_910b(std::string_view name, std::string_view confidence, double tflop_per_s,
                        std::string_view rate_reason, bool is_compared) {
  const double matmul_interval = is_compared ? kAscend910bMatmulInterval : kUnconfirmed;
  const double collective_interval = is_compared ? kAscend910bCollectiveInterval : kUnconfirmed;
  const std::string_view all_reduce_reason =
      is_compared
          ? "fit of the published MC2 recipe; confidence good on 8 ranks: two published cases within 4 %; else fair"
          : "fit of the published MC2 recipe for another 910B; confidence low: compared with no measurement";
  constexpr std::string_view kScaled =
      "published all-reduce fit / (ranks / 4), CANN ops library; confidence low: compared with no measurement";
  return {{name, "the published Ascend MC2 tiling recipe and the cost constants of the CANN ops library, 2026-07",
           confidence},
          {DType::F16, DType::Bf16},
          {tflop_per_s, 0, fully, matmul_interval, rate_reason},
          {{Collective::AllReduce, two_to_eight(), ascend_910b_fit(), one, collective_interval, all_reduce_reason},
           {Collective::ReduceScatter, two_to_eight(), ascend_910b_fit(), by_quarter, collective_interval, kScaled},
           {Collective::AllGather, two_to_eight(), ascend_910b_fit(), by_quarter, collective_interval, kScaled}},
          " of one server; describe others by a topology"};
}

constexpr std::string_view kOpsLibrary = "the cost constants of the CANN ops library (ops-transformer, 2026-07)";
constexpr std::string_view kUnmeasured = "low: constants that nobody compared with measurements here";

DeviceTable ascend_910_93() {
  const CollectiveFit ring{{2}, {{0, 0, 250}, {0, 11.38154641, 248.151561}}};
  constexpr std::string_view kRing =
      "double-ring fit of 8 dies, CANN ops library, whose unexplained factor of 0.6 is taken as 0.8; confidence low: "
      "compared with no measurement";
  return {{"ascend-910-93", kOpsLibrary, kUnmeasured},
          {DType::F16, DType::Bf16},
          {308.03, 0, fully, kUnconfirmed, "308.03 Tflop/s, of the 910B, whose constants CANN takes for it"},
          {{Collective::AllGather, {2, 4, 8, 16, 32}, ring, by_double_ring, kUnconfirmed, kRing},
           {Collective::ReduceScatter, {2, 4, 8, 16, 32}, ring, by_double_ring, kUnconfirmed, kRing},
           {Collective::AllToAll,
            {2, 4, 8, 16},
            ring,
            one,
            0.35,
            "fit of 8 dies, CANN ops library, which adds up to 35 % for contention; confidence low: compared with no "
            "measurement"}},
          ", of which each is a die"};
}

/// T/hccl_performance_arch35.cpp 21-35: straight lines over MiB.
PublishedCollective ascend_950_line(Collective collective, int ranks, double us_per_mib, double fixed_us) {
  return {collective, {ranks},      {{}, {{0, us_per_mib, fixed_us}}},
          one,        kUnconfirmed, "fit of the CANN ops library; confidence low: compared with no measurement"};
}

/// @param cores  cores of the chip whose peak its makers state for these servers
DeviceTable ascend_950(std::string_view name, double cores, std::vector<PublishedCollective> collectives) {
  // us = 0.1792226 m k n / (cores 2^20) + 15.095 (allto_all_matmul_fit_balance_tiling.cpp 26-33).
  const double tflop_per_s = 2 * cores * 1048576 / 0.1792226 / 1e6;
  return {{name, kOpsLibrary, kUnmeasured},
          {DType::F16, DType::Bf16},
          {tflop_per_s, 15.095, fully, kUnconfirmed,
           "straight fit of the CANN ops library's all-to-all matmul; which chip it is of is inferred"},
          std::move(collectives),
          ""};
}

DeviceTable ascend_310p() {
  constexpr std::string_view kFit = "fit of the CANN ops library; confidence low: compared with no measurement";
  return {
      {"ascend-310p3", kOpsLibrary, kUnmeasured},
      {DType::F16},
      {72.48, 0, of_310p, kUnconfirmed, "72.48 Tflop/s of 8 cores by CANN's utilisation at this k"},
      {{Collective::AllReduce, {2}, {{1.0 / 16}, {{0, 0, 10}, {0, 72.04417474, 6.693209}}}, one, kUnconfirmed, kFit},
       {Collective::AllReduce,
        {4},
        {{1.0 / 32, 1.506, 1.85621},
         {{0, 0, 42.8674248}, {-89.115824, 268.473025, 34.564670}, {0, 0, 236.767}, {0, 153.555534, -48.264442}}},
        one,
        kUnconfirmed,
        "fit of the CANN ops library, level where it falls (1.5 to 1.8 MiB); confidence low: compared with no "
        "measurement"}},
      ""};
}

const std::vector<DeviceTable>& tables() {
  using enum Collective;
  static const std::vector<DeviceTable> kAll{
      ascend_910b("ascend-910b",
                  "all-reduce on 8 ranks: two published cases within 4 %; else constants that nobody compared with "
                  "measurements here",
                  308.03,
                  "308.03 Tflop/s of 24 cores, CANN ops library; published cases are 1 % faster and 20 % slower", true),
      ascend_910b("ascend-910b3", kUnmeasured, 256.69,
                  "256.69 Tflop/s of 20 cores, CANN ops library; compared with no measurement", false),
      ascend_910_93(),
      ascend_950("ascend-950-4p", 28,
                 {ascend_950_line(AllGather, 4, 5.841842, 8.590666), ascend_950_line(ReduceScatter, 4, 5.8087, 5.6810),
                  ascend_950_line(AllReduce, 4, 13.3265, 36.1964), ascend_950_line(AllToAll, 4, 5.8416, 5.8148)}),
      ascend_950("ascend-950-8p", 32,
                 {{AllGather,
                   {8},
                   {{0.032, 1.371}, {{0, 0, 5.6997}, {0, 2.86702, 5.608}, {0, 2.59568, 5.8887}}},
                   one,
                   kUnconfirmed,
                   "general fit of the CANN ops library; confidence low: compared with no measurement"},
                  ascend_950_line(ReduceScatter, 8, 2.642023, 7.700559),
                  ascend_950_line(AllReduce, 8, 6.1588, 34.8712),
                  ascend_950_line(AllToAll, 8, 2.5386, 7.6265)}),
      ascend_310p()};
  return kAll;
}

CostCurve published(CurveAxis axis, CostCurve::Shape shape, double interval, std::string_view reason) {
  CostCurve curve;
  curve.axis = axis;
  curve.shape = std::move(shape);
  curve.is_analytic = true;
  curve.relative_interval = interval;
  curve.valid_min_x = 1;
  curve.valid_max_x = 1e15;
  curve.quality.reason = std::string(reason);
  return curve;
}

/// max(128, rows of product) 2 n k / rate, plus the cost of a launch.
CostCurve matmul_curve(const PublishedMatmul& matmul, const OpSpec& op) {
  const OpTraits& traits = traits_of(op.kind);
  // A block of b rows of the cut axis takes b rows of every shard; with a local part, b rows of every other rank's.
  const double shards = traits.has_row_shards ? op.world_size - (traits.has_local_part ? 1 : 0) : 1;
  const double us_per_row = 2.0 * static_cast<double>(op.n) * static_cast<double>(op.k) /
                            (matmul.tflop_per_s * matmul.utilisation(op.k) * 1e6);
  const PiecewiseCurve shape{
      kLeastRows / shards, 1, 0, 0, kLeastRows * us_per_row + matmul.fixed_us, us_per_row * shards, matmul.fixed_us};
  return published(CurveAxis::Rows, shape, matmul.interval, matmul.reason);
}

CostCurve collective_curve(const PublishedCollective& from, int ranks) {
  SegmentsCurve shape;
  shape.scale_x = kBytesPerMib;
  for (const double knot : from.fit.knots_mib) shape.knots_x.push_back(knot * kBytesPerMib);
  const double factor = from.factor(ranks);
  for (const CurvePiece& piece : from.fit.pieces)
    shape.pieces.push_back({piece.q2 * factor, piece.q1 * factor, piece.q0 * factor});
  return published(CurveAxis::Bytes, shape, from.interval, from.reason);
}

std::string ranks_text(const std::vector<int>& ranks) {
  const bool is_run = ranks.size() > 1 && ranks.back() - ranks.front() + 1 == std::ssize(ranks);
  if (is_run) return std::to_string(ranks.front()) + " to " + std::to_string(ranks.back());
  return list_text(ranks);
}

/// Errors: Infeasible for a collective or ranks without a fit.
Result<const PublishedCollective*> find_collective(const DeviceTable& table, const OpSpec& op) {
  const Collective wanted = collective_of(op.kind);
  std::vector<std::string> others, ranks;
  for (const PublishedCollective& known : table.collectives) {
    if (known.collective != wanted) {
      const std::string_view other = to_string(known.collective);
      if (std::ranges::find(others, other) == others.end()) others.emplace_back(other);
      continue;
    }
    if (std::ranges::find(known.ranks, op.world_size) != known.ranks.end()) return &known;
    ranks.push_back(ranks_text(known.ranks));
  }
  const std::string name(table.device.name);
  if (!ranks.empty())
    return Error{
        ErrorCode::Infeasible, "ranks",
        "costs on " + name + " are published for " + list_text(ranks) + " ranks" + std::string(table.ranks_note)};
  return Error{ErrorCode::Infeasible, "op",
               "nothing is published for " + std::string(to_string(wanted)) + " on " + name +
                   "; published: " + list_text(others) + std::string(table.ranks_note)};
}

Result<CostModel> model_of(const DeviceTable& table, const OpSpec& op) {
  const std::string name(table.device.name);
  if (std::ranges::find(table.dtypes, op.dtype) == table.dtypes.end()) {
    return Error{ErrorCode::Infeasible, "dtype",
                 "nothing is published for " + std::string(to_string(op.dtype)) + " on " + name +
                     "; legal: " + list_text(table.dtypes, [](DType dtype) { return to_string(dtype); })};
  }
  MC2_ASSIGN(const auto collective, find_collective(table, op));
  if (const Work work = traits_of(op.kind).work; work != Work::Matmul)
    return Error{
        ErrorCode::Infeasible, "op",
        "nothing is published for the " + std::string(to_string(work)) + " of " + std::string(to_string(op.kind))};
  if (op.experts_per_rank > 1)
    return Error{ErrorCode::Infeasible, "experts_per_rank",
                 "is " + std::to_string(op.experts_per_rank) + "; nothing is published for several experts on a rank"};
  if (cut_axis(op) != CutAxis::Rows)
    return Error{ErrorCode::Infeasible, "m", "nothing is published for so few rows, which are cut along n"};
  CostModel model;
  model.op = op;
  model.source = std::string(table.device.source);
  // The recipe uses its factor of 1.15 to choose block lengths, but its own cases take the fit's times, not stretched
  // ones. So the expected slow-down is 1, and 1.15 is within its interval.
  const auto lane = [](CostCurve curve) { return LaneCost{std::move(curve), 0, 1, kContentionInterval}; };
  model.variants.push_back(
      {{"published", {}}, lane(matmul_curve(table.matmul, op)), lane(collective_curve(*collective, op.world_size))});
  return model;
}

} // namespace

std::span<const PublishedDevice> published_devices() noexcept {
  static const std::vector<PublishedDevice> kDevices = [] {
    std::vector<PublishedDevice> devices;
    for (const DeviceTable& table : tables()) devices.push_back(table.device);
    return devices;
  }();
  return kDevices;
}

Result<CostModel> device_model(std::string_view device, const OpSpec& op) {
  const auto name_of_table = [](const DeviceTable& each) { return each.device.name; };
  MC2_ASSIGN(const auto* const table, find_named(tables(), device, name_of_table, "device", "device"));
  MC2_TRY(op.validate());
  MC2_ASSIGN(auto model, model_of(*table, op));
  model.fingerprint.fields = {{"backend", "published"}, {"device", std::string(device)}, {"link", "HCCS"}};
  return model;
}

} // namespace mc2::planner
