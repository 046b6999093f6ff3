#include "mc2/profiler/refine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "fit/second_lane.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/profiler/recalibrate.hpp"
#include "mc2/profiler/statistics.hpp"
#include "refine/cut_posterior.hpp"

namespace mc2::profiler {
namespace {

using planner::CostModel;
using planner::Cut;
using planner::kNormal90;
using planner::MeasuredCut;
using planner::Variant;

/// Prior standard deviations of a slow-down's logarithm, and of the fixed cost of a block relative to a block's time.
constexpr double kSlowdownSpread = 0.15, kFixedSpread = 0.03;
constexpr double kRunSpreadUs = 1e-3; ///< so small that run_us stays: the posterior has no factor for it
/// Relative error that recalibration leaves to the process over cuts, besides the measurement's own error.
constexpr double kResidualSpread = 0.015;
/// A factor counts as determined when its deviation has shrunk to this share of the assumed one.
constexpr double kDeterminedShare = 0.7;
/// An expected gain below this share of a measurement's error is not worth a run.
constexpr double kSettledShare = 0.05;
/// The machine had another speed when uncut times beside a cut are off by more than this many errors.
constexpr double kDriftErrors = 4;
/// Relative error of the time of a lane's blocks: it depends on where a profiler lets them begin and end.
constexpr double kBlockTimeSpread = 0.015;
/// A fit replaces another one when its error is at most this share of the other's.
constexpr double kClearlyBetter = 0.5;
/// A cut is set aside when all others together contradict it by more than kOddDeviations and kOddLogRatio; or when the
/// logarithm of its time is kFarBelowLeast below the shortest time that is believed.
constexpr double kFarBelowLeast = 0.1;
/// A contradicted cut is set aside only while there are more than this many believed cuts for each cut that would then
/// be set aside.
constexpr std::size_t kOthersPerSurprise = 3;
constexpr int kMaxNextCount = 64;
constexpr std::size_t kMostForetold = 12;
constexpr std::size_t kMaxCandidateCount = 4096;

Result<void> validate(const MeasuredCut& cut) {
  const auto legal = planner::validate_cut_times(cut);
  if (legal) return {};
  return Error{ErrorCode::CannotFit, "cut", cut.cut.text() + ": " + legal.error().text()};
}

/// Merges two measurements of one cut into one, weighted by the inverse squares of their errors.
MeasuredCut merged(const MeasuredCut& left, const MeasuredCut& right) {
  const double left_weight = 1 / std::pow(left.likely_error(), 2), right_weight = 1 / std::pow(right.likely_error(), 2);
  const double share = left_weight / (left_weight + right_weight);
  const auto mean = [share](double a, double b) {
    return a > 0 && b > 0 ? share * a + (1 - share) * b : std::max(a, b);
  };
  MeasuredCut both = left;
  both.fused_us = mean(left.fused_us, right.fused_us);
  both.serial_us = mean(left.serial_us, right.serial_us);
  both.compute_us = mean(left.compute_us, right.compute_us);
  both.communication_us = mean(left.communication_us, right.communication_us);
  // A measurement without block times is assumed to have the same share of block time as the other one.
  const auto blocks = [&](double MeasuredCut::*us) {
    return both.fused_us * mean(left.*us / left.fused_us, right.*us / right.fused_us);
  };
  both.compute_blocks_us = blocks(&MeasuredCut::compute_blocks_us);
  both.communication_blocks_us = blocks(&MeasuredCut::communication_blocks_us);
  both.relative_error = 1 / std::sqrt(left_weight + right_weight);
  both.run_count = left.run_count + right.run_count;
  return both;
}

/// Leaves out those of three or more measurements of one cut that are far from their median.
void leave_out_odd(std::vector<MeasuredCut>& runs) {
  if (runs.size() < 3) return;
  std::vector<double> times_us;
  for (const MeasuredCut& run : runs) times_us.push_back(run.fused_us);
  const double middle_us = median(times_us);
  std::erase_if(runs, [&](const MeasuredCut& run) {
    const double log_ratio = std::abs(std::log(run.fused_us / middle_us));
    return log_ratio > kOddLogRatio && log_ratio > kOddDeviations * run.likely_error();
  });
}

/// Combines the measurements of one cut. Where they differ by more than their errors explain, the error grows by the
/// ratio of R. T. Birge, The calculation of errors by the method of least squares (Physical Review 40, 1932).
MeasuredCut combined(std::vector<MeasuredCut> runs) {
  leave_out_odd(runs);
  MeasuredCut both = runs.front();
  for (std::size_t i = 1; i < runs.size(); ++i) both = merged(both, runs[i]);
  if (runs.size() == 1) return both;
  double squares = 0;
  for (const MeasuredCut& run : runs) squares += std::pow((run.fused_us / both.fused_us - 1) / run.likely_error(), 2);
  both.relative_error *= std::max(1.0, std::sqrt(squares / static_cast<double>(runs.size() - 1)));
  return both;
}

/// Times of a variant's uncut lanes, each alone and one after the other, predicted by the model.
struct UncutParts {
  double compute_us = 0, communication_us = 0, serial_us = 0;
};

/// Measured over predicted times of the uncut parts, timed beside a cut; 0 where they were not timed.
struct SpeedRatios {
  double compute = 0, communication = 0;
};

/// A measured cut with the numbers that it is compared with.
struct Observed {
  MeasuredCut given;
  UncutParts parts;  ///< predicted by the model
  SpeedRatios drift; ///< ratios of its own uncut parts over the usual ratios; 1 where they differ no more than by noise
  MeasuredCut race;  ///< `given` with its uncut parts at the speed that is assumed
  bool is_believed = true;
};

SpeedRatios speed_ratios(const MeasuredCut& cut, const UncutParts& parts) {
  const double serial = cut.serial_us / parts.serial_us;
  return {cut.compute_us > 0 ? cut.compute_us / parts.compute_us : serial,
          cut.communication_us > 0 ? cut.communication_us / parts.communication_us : serial};
}

/// The model with the times of every lane multiplied by these ratios.
CostModel at_speed(CostModel model, const SpeedRatios& ratios) {
  return planner::scaled(std::move(model), ratios.compute, ratios.communication);
}

Result<UncutParts> uncut_parts(const planner::OpSpec& op, const CostModel& model, const Variant& variant) {
  MC2_ASSIGN(const auto alone, planner::restricted_to(variant, model));
  MC2_ASSIGN(const auto plan, planner::serial_plan(op, alone, variant));
  return UncutParts{plan.compute_us, plan.communication_us, plan.serial_us};
}

/// An uncut time and the time of the lane that it cannot be far below.
struct UncutTime {
  const char* name;
  double us, lane_us;
  std::string lane; ///< what the lane does
};

/// An uncut time is at most this many times shorter, or longer, than the model's.
constexpr double kMostFaster = 10, kMostSlower = 100;

/// Asks for the unit in which the time would be about as long as the lane's.
std::string unit_question(double us, double lane_us) {
  constexpr double kAlikeRatio = 30;
  for (const auto& [unit_us, unit] : {std::pair{1e3, "ms"}, {1e6, "s"}, {1e-3, "ns"}})
    if (const double ratio = unit_us * us / lane_us; ratio < kAlikeRatio && ratio > 1 / kAlikeRatio)
      return std::string("are these ") + unit + "?";
  return "time it again";
}

Result<void> validate_uncut_time(const UncutTime& time) {
  const bool is_alike = kMostFaster * time.us >= time.lane_us && time.us <= kMostSlower * time.lane_us;
  if (!(time.us > 0) || !(time.lane_us > 0) || is_alike) return {};
  return Error{ErrorCode::InvalidSpec, "cut",
               std::string("its ") + time.name + ", " + number_text(time.us) + " us, is far " +
                   (time.us < time.lane_us ? "below" : "above") + " what the " + time.lane + " alone takes, " +
                   number_text(time.lane_us) + " us; " + unit_question(time.us, time.lane_us)};
}

} // namespace

Result<void> validate_fused_time(const planner::OpSpec& op, double fused_us, double matmul_us) {
  const std::string work(to_string(planner::traits_of(op.kind).work));
  return validate_uncut_time({"fused_us", std::min(fused_us, matmul_us), matmul_us, work});
}

Result<void> validate_uncut_times(const planner::OpSpec& op, const CostModel& model, const MeasuredCut& cut) {
  MC2_ASSIGN(const auto parts, uncut_parts(op, model, cut.variant));
  const std::string work(to_string(planner::traits_of(op.kind).work));
  const bool is_compute_longer = parts.compute_us > parts.communication_us;
  const double longer_us = std::max(parts.compute_us, parts.communication_us);
  const std::string longer = is_compute_longer ? work : "collective";
  const bool is_uncut = planner::overlapping_schedule(op, cut.variant, cut.cut) == planner::Schedule::Serial;
  // Blocks may take many times as long as the lanes uncut, but never much less than the longer one.
  const double fused_us = is_uncut ? cut.fused_us : std::min(cut.fused_us, longer_us);
  for (const UncutTime& time :
       {UncutTime{"serial_us", cut.serial_us, longer_us, longer}, UncutTime{"fused_us", fused_us, longer_us, longer},
        UncutTime{"compute_us", cut.compute_us, parts.compute_us, work},
        UncutTime{"communication_us", cut.communication_us, parts.communication_us, "collective"}})
    MC2_TRY(validate_uncut_time(time));
  return {};
}

namespace {

/// One refinement: its steps in order.
class Refiner {
 public:
  Refiner(const planner::OpSpec& op, const CostModel& model, const RefineSettings& settings)
      : op_(op), model_(model), settings_(settings) {}

  [[nodiscard]] Result<Refinement> run(std::span<const MeasuredCut> measured);

 private:
  /// The process over the cuts of one variant: first the measured cuts, then other candidates.
  struct Family {
    Variant variant;
    CutPosterior posterior;
    std::vector<double> profiled_us; ///< prediction for each cut before any was measured
    FactorScale scale;
    std::vector<TimedLane> lanes;   ///< timed lanes of the measured cuts
    std::size_t measured_count = 0; ///< number of measured cuts
  };

  [[nodiscard]] Result<void> take(std::span<const MeasuredCut> measured);
  [[nodiscard]] Result<void> find_speeds();
  [[nodiscard]] Result<void> take_serial(const Variant& variant, double us);
  void take_speed(const SpeedRatios& speed);
  [[nodiscard]] Result<void> recalibrate_model();
  [[nodiscard]] Result<Recalibration> recalibrated(std::span<const Observed> seen) const;
  [[nodiscard]] double foretold_us(std::size_t at) const;
  void find_serial();
  [[nodiscard]] Result<void> add_families();
  [[nodiscard]] Result<Family> family_of(const Variant& variant) const;
  [[nodiscard]] Result<std::vector<Cut>> candidates(const Variant& variant) const;
  [[nodiscard]] std::vector<TimedLane> timed_lanes(const Variant& variant) const;
  [[nodiscard]] FactorScale scale_of(const Variant& variant) const;
  [[nodiscard]] Result<void> observe_all(Family& family) const;
  [[nodiscard]] Result<void> learn();
  bool set_aside();
  void learn_factors(const Family& family);
  [[nodiscard]] CutBelief belief_of(const Family& family, std::size_t cut) const;
  [[nodiscard]] std::size_t index_of(const Variant& variant, const Cut& cut) const;
  [[nodiscard]] const Observed& observed(const Variant& variant, const Cut& cut) const {
    return seen_[index_of(variant, cut)];
  }
  [[nodiscard]] double error_of(const CutBelief& measured) const;
  void judge_measured();
  [[nodiscard]] Result<void> decide();
  [[nodiscard]] Result<void> add_accounts(const CutBelief& best);
  void choose_next();
  /// Time of the best measured cut, or of serial where no cut is faster.
  [[nodiscard]] double best_us() const;
  [[nodiscard]] double expected_gain(const CutPosterior::Belief& belief) const;

  const planner::OpSpec& op_;
  const CostModel& model_; ///< the profiled model
  const RefineSettings& settings_;
  std::vector<Observed> seen_;
  std::vector<double> serial_ratios_; ///< measured serial times over the model's
  std::vector<Family> families_;
  SpeedRatios usual_{1, 1}; ///< median ratios of the measured uncut parts
  CostModel now_;           ///< the profiled model at the measured speed
  const CutBelief* best_ = nullptr;
  Refinement result_;
};

Result<void> Refiner::take(std::span<const MeasuredCut> measured) {
  std::vector<std::vector<MeasuredCut>> runs; // of each cut
  for (const MeasuredCut& cut : measured) {
    MC2_TRY(validate(cut));
    MC2_TRY(planner::validate_measured_cut(op_, cut));
    if (const auto alike = validate_uncut_times(op_, model_, cut); !alike)
      return Error{alike.error().code, alike.error().field, cut.cut.text() + ": " + alike.error().message};
    if (planner::overlapping_schedule(op_, cut.variant, cut.cut) == planner::Schedule::Serial) {
      MC2_TRY(take_serial(cut.variant, cut.fused_us));
      continue;
    }
    const auto known =
        std::ranges::find_if(runs, [&](const auto& other) { return planner::is_same_choice(other.front(), cut); });
    if (known == runs.end() && runs.size() == kMaxMeasuredCuts)
      return Error{ErrorCode::InvalidSpec, "cuts",
                   "are more than " + std::to_string(kMaxMeasuredCuts) + " different ones; leave out the slowest"};
    if (known == runs.end())
      runs.push_back({cut});
    else
      known->push_back(cut);
  }
  for (auto& of_cut : runs) seen_.push_back({combined(std::move(of_cut)), {}, {}, {}});
  return {};
}

/// Finds the usual speed, which is the median over all cuts, and each cut's drift from it. A cut gets a speed of its
/// own only where that differs from the usual one by more than measurement errors explain. Otherwise the error of a
/// single timing of serial would add to the cut's own error.
Result<void> Refiner::find_speeds() {
  std::vector<double> compute = serial_ratios_, communication = serial_ratios_;
  for (Observed& seen : seen_) {
    MC2_ASSIGN(seen.parts, uncut_parts(op_, model_, seen.given.variant));
    const SpeedRatios ratios = speed_ratios(seen.given, seen.parts);
    if (ratios.compute > 0) compute.push_back(ratios.compute);
    if (ratios.communication > 0) communication.push_back(ratios.communication);
  }
  const auto usual = [](const std::vector<double>& ratios) { return ratios.empty() ? 1.0 : quantile(ratios, 0.5); };
  const SpeedRatios usual_ratios{usual(compute), usual(communication)};
  result_.is_serial_measured = !compute.empty() && !communication.empty();
  for (Observed& seen : seen_) {
    const SpeedRatios own = speed_ratios(seen.given, seen.parts);
    const auto drift = [&](double ratio, double usual_ratio) {
      const bool has_drifted =
          ratio > 0 && std::abs(ratio / usual_ratio - 1) > kDriftErrors * seen.given.likely_error();
      return has_drifted ? ratio / usual_ratio : 1.0;
    };
    seen.drift = {drift(own.compute, usual_ratios.compute), drift(own.communication, usual_ratios.communication)};
  }
  usual_ = usual_ratios;
  take_speed(usual_ratios);
  return {};
}

/// Sets the model and each cut's uncut parts to this speed.
void Refiner::take_speed(const SpeedRatios& speed) {
  now_ = at_speed(model_, speed);
  now_.op = op_; // recalibration asks the model about its own operator
  for (Observed& seen : seen_) {
    seen.race = seen.given;
    seen.race.compute_us = seen.drift.compute * speed.compute * seen.parts.compute_us;
    seen.race.communication_us = seen.drift.communication * speed.communication * seen.parts.communication_us;
  }
}

Result<void> Refiner::take_serial(const Variant& variant, double us) {
  MC2_ASSIGN(const auto parts, uncut_parts(op_, model_, variant));
  serial_ratios_.push_back(us / parts.serial_us);
  return {};
}

/// The speeds of a lane to try: that of its measured uncut part and, where it differs, the model's.
std::vector<double> either(double told) {
  constexpr double kSame = 1e-3;
  return std::abs(told - 1) < kSame ? std::vector{told} : std::vector{told, 1.0};
}

/// Recalibrates for each combination of lane speeds and keeps the best. Uncut parts that ran slower than predicted have
/// two explanations: the machine, and so its blocks, are slower; or the curve is wrong at the whole length alone. The
/// fit to the cuts decides for each lane. In doubt, the machine is slower.
Result<void> Refiner::recalibrate_model() {
  if (seen_.empty()) {
    result_.model = now_;
    return {};
  }
  std::optional<Recalibration> best;
  SpeedRatios best_speed;
  for (const double compute : either(usual_.compute))
    for (const double communication : either(usual_.communication)) {
      take_speed({compute, communication});
      MC2_ASSIGN(auto learned, recalibrated(seen_));
      if (best && learned.error_after > kClearlyBetter * best->error_after) continue;
      best = std::move(learned);
      best_speed = {compute, communication};
    }
  take_speed(best_speed);
  result_.model = std::move(best->model);
  result_.text = std::move(best->text);
  return {};
}

Result<Recalibration> Refiner::recalibrated(std::span<const Observed> all) const {
  std::vector<MeasuredCut> races;
  double square_sum = 0;
  for (const Observed& seen : all) {
    if (!seen.is_believed) continue;
    races.push_back(seen.race);
    square_sum += std::pow(seen.given.likely_error(), 2);
  }
  if (races.empty()) return Recalibration{now_, 0, 0, ""};
  const double noise = std::sqrt(square_sum / static_cast<double>(races.size()));
  return recalibrate(now_, races,
                     {.slowdown_spread = kSlowdownSpread,
                      .fixed_spread = kFixedSpread,
                      .run_spread_us = kRunSpreadUs,
                      .measurement_spread = std::hypot(kResidualSpread, noise)});
}

/// Prediction of a cut's time from the cuts before it, at the speed found from all cuts; 0 for indices above
/// kMostForetold.
double Refiner::foretold_us(std::size_t at) const {
  if (at > kMostForetold) return 0;
  const Observed& seen = seen_[at];
  const auto before = recalibrated(std::span(seen_).first(at));
  if (!before) return 0;
  const auto us = planner::predict_makespans(op_, before.value().model, seen.given.variant, {&seen.given.cut, 1});
  return us ? us.value().front() : 0;
}

/// Sets serial_us to that of the fastest variant: the median of the serial times beside its cuts, or else the sum of
/// its predicted parts at the measured speed.
void Refiner::find_serial() {
  double serial_us = 0;
  for (const auto& cost : model_.variants)
    if (const auto parts = uncut_parts(op_, model_, cost.variant)) {
      std::vector<double> timed_us;
      for (const Observed& seen : seen_)
        if (seen.given.variant == cost.variant && seen.given.serial_us > 0) timed_us.push_back(seen.given.serial_us);
      const double us = timed_us.empty() ? usual_.compute * parts.value().compute_us +
                                               usual_.communication * parts.value().communication_us
                                         : quantile(timed_us, 0.5);
      serial_us = serial_us == 0 ? us : std::min(serial_us, us);
    }
  result_.serial_us = serial_us;
}

FactorScale Refiner::scale_of(const Variant& variant) const {
  const auto& cost = *model_.cost_of(variant);
  double sum_us = 0;
  int count = 0;
  for (const Observed& seen : seen_) {
    if (seen.given.variant != variant) continue;
    sum_us += seen.given.fused_us / static_cast<double>(seen.given.cut.block_rows.size());
    ++count;
  }
  constexpr double kUsualBlockCount = 6;
  const double block_us = count > 0 ? sum_us / count : result_.serial_us / kUsualBlockCount;
  return {cost.compute.slowdown, cost.communication.slowdown, second_lane(cost, op_.kind).fixed_us, kSlowdownSpread,
          kFixedSpread * block_us};
}

/// The variant's measured cuts, then other legal cuts, the fastest prediction first.
Result<std::vector<Cut>> Refiner::candidates(const Variant& variant) const {
  std::vector<Cut> result;
  for (const Observed& seen : seen_)
    if (seen.given.variant == variant) result.push_back(seen.given.cut);
  const std::vector<Cut> measured = result;
  MC2_ASSIGN(auto all, planner::enumerate_cuts(op_, settings_.plan));
  std::erase_if(all, [&](const Cut& cut) {
    return cut.block_rows.size() < 2 || std::ranges::find(measured, cut) != measured.end();
  });
  MC2_ASSIGN(const auto us, planner::predict_makespans(op_, result_.model, variant, all));
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return us[i]; });
  order.resize(std::min(order.size(), kMaxCandidateCount));
  for (const std::size_t i : order) result.push_back(std::move(all[i]));
  return result;
}

Result<Refiner::Family> Refiner::family_of(const Variant& variant) const {
  MC2_ASSIGN(auto cuts, candidates(variant));
  MC2_ASSIGN(auto profiled_us, planner::predict_makespans(op_, model_, variant, cuts));
  const FactorScale scale = scale_of(variant);
  const auto lanes = timed_lanes(variant);
  MC2_ASSIGN(auto posterior, CutPosterior::make(op_, result_.model, variant, std::move(cuts), lanes, scale));
  return Family{variant, std::move(posterior), std::move(profiled_us), scale, lanes};
}

double blocks_us(const MeasuredCut& cut, planner::Lane lane) {
  return lane == planner::Lane::Compute ? cut.compute_blocks_us : cut.communication_blocks_us;
}

/// The lanes whose blocks were timed, in the order of candidates().
std::vector<TimedLane> Refiner::timed_lanes(const Variant& variant) const {
  std::vector<TimedLane> lanes;
  std::size_t cut = 0;
  for (const Observed& seen : seen_) {
    if (seen.given.variant != variant) continue;
    for (const auto lane : {planner::Lane::Compute, planner::Lane::Communication})
      if (blocks_us(seen.given, lane) > 0) lanes.push_back({cut, lane});
    ++cut;
  }
  return lanes;
}

/// Gives every believed measurement to the family's process, as a ratio to the prediction of the recalibrated model at
/// the speed of the cut's own uncut parts.
Result<void> Refiner::observe_all(Family& family) const {
  std::vector<CutPosterior::Observation> observed;
  std::size_t lane_count = 0;
  for (const Observed& seen : seen_) {
    if (seen.given.variant != family.variant) continue;
    const std::size_t cut = family.measured_count++;
    const CostModel now = planner::anchored(result_.model, op_, seen.race.compute_us, seen.race.communication_us);
    MC2_ASSIGN(const auto expected, planner::predict_lane_times(op_, now, family.variant, seen.given.cut));
    const double variance = std::pow(seen.given.likely_error(), 2);
    if (seen.is_believed) observed.push_back({cut, std::log(seen.given.fused_us / expected.makespan_us), variance});
    for (const auto lane : {planner::Lane::Compute, planner::Lane::Communication}) {
      const double us = blocks_us(seen.given, lane);
      if (!(us > 0)) continue;
      const std::size_t time = family.posterior.time_of(lane_count++);
      if (seen.is_believed)
        observed.push_back(
            {time, std::log(us / expected.blocks_us(lane)), variance + kBlockTimeSpread * kBlockTimeSpread});
    }
  }
  if (!observed.empty()) family.posterior.observe(observed);
  return {};
}

/// Sets aside all cuts that are faster than undisturbed lanes allow. Where there are none, sets aside the cut that the
/// others of its variant contradict most. Returns whether a cut was set aside.
bool Refiner::set_aside() {
  std::optional<std::size_t> worst;
  double worst_deviations = kOddDeviations;
  bool is_any_too_fast = false;
  for (const Family& family : families_) {
    const auto surprises = family.posterior.surprises();
    const std::size_t aside = family.measured_count - surprises.size();
    const bool has_others = surprises.size() > kOthersPerSurprise * (aside + 1);
    for (const auto& surprise : surprises) {
      const std::size_t at = index_of(family.variant, family.posterior.cuts()[surprise.cut]);
      if (surprise.log_ratio_to_least < -kFarBelowLeast) {
        seen_[at].is_believed = false;
        is_any_too_fast = true;
      } else if (has_others && std::abs(surprise.log_ratio) > kOddLogRatio &&
                 std::abs(surprise.deviations) > worst_deviations) {
        worst = at;
        worst_deviations = std::abs(surprise.deviations);
      }
    }
  }
  if (!is_any_too_fast && worst) seen_[*worst].is_believed = false;
  return is_any_too_fast || worst;
}

/// Learns again after each cut that is set aside, because a wrong measurement would distort the beliefs about all cuts.
Result<void> Refiner::learn() {
  while (true) {
    MC2_TRY(recalibrate_model());
    find_serial();
    families_.clear();
    MC2_TRY(add_families());
    if (!set_aside()) return {};
  }
}

/// Adds a family for every measured variant and for the variant that the model prefers.
Result<void> Refiner::add_families() {
  std::vector<Variant> variants;
  for (const Observed& seen : seen_)
    if (std::ranges::find(variants, seen.given.variant) == variants.end()) variants.push_back(seen.given.variant);
  MC2_ASSIGN(const auto preferred, planner::make_plan(op_, result_.model, settings_.plan));
  if (std::ranges::find(variants, preferred.variant) == variants.end()) variants.push_back(preferred.variant);
  for (const Variant& variant : variants) {
    MC2_ASSIGN(auto family, family_of(variant));
    MC2_TRY(observe_all(family));
    families_.push_back(std::move(family));
  }
  return {};
}

/// Reports the factors before and after. run() asks for those of the variant that was measured first.
void Refiner::learn_factors(const Family& family) {
  const FactorVector after = family.scale.standard(result_.model, family.variant);
  const FactorVector deviations = family.posterior.factor_deviations();
  const auto slowdown = [&](LearnedFactor::What what, double before, double least, int at) {
    const auto value = [&](double standard) {
      return std::max(least, before * std::exp(family.scale.slowdown_spread * standard));
    };
    result_.factors.push_back({what, before, value(-kNormal90), value(kNormal90), value(after[at]),
                               value(after[at] - kNormal90 * deviations[at]),
                               value(after[at] + kNormal90 * deviations[at]), deviations[at] < kDeterminedShare});
  };
  const auto& profiled = *model_.cost_of(family.variant);
  slowdown(LearnedFactor::What::ComputeSlowdown, profiled.compute.slowdown,
           profiled.least_slowdown(planner::Lane::Compute), 0);
  slowdown(LearnedFactor::What::CommunicationSlowdown, profiled.communication.slowdown,
           profiled.least_slowdown(planner::Lane::Communication), 1);
  const auto us = [&](double standard) {
    return std::max(0.0, family.scale.fixed_us + family.scale.fixed_scale_us * standard);
  };
  result_.factors.push_back({LearnedFactor::What::BlockOverhead, us(0), us(-kNormal90), us(kNormal90), us(after[2]),
                             us(after[2] - kNormal90 * deviations[2]), us(after[2] + kNormal90 * deviations[2]),
                             deviations[2] < kDeterminedShare});
}

CutBelief Refiner::belief_of(const Family& family, std::size_t cut) const {
  const CutPosterior::Belief belief = family.posterior.belief(cut);
  const auto us = [&](double multiple) { return std::exp(belief.log_us + multiple * belief.deviation); };
  return {.variant = family.variant,
          .cut = family.posterior.cuts()[cut],
          .profiled_us = family.profiled_us[cut],
          .us = us(0),
          .low_us = us(-kNormal90),
          .high_us = us(kNormal90)};
}

std::size_t Refiner::index_of(const Variant& variant, const Cut& cut) const {
  const auto at =
      std::ranges::find_if(seen_, [&](const Observed& one) { return planner::is_choice(one.given, cut, variant); });
  return static_cast<std::size_t>(at - seen_.begin());
}

double Refiner::error_of(const CutBelief& measured) const {
  return observed(measured.variant, measured.cut).given.likely_error();
}

void Refiner::judge_measured() {
  for (const Family& family : families_)
    for (std::size_t cut = 0; cut < family.measured_count; ++cut) {
      result_.measured.push_back(belief_of(family, cut));
      CutBelief& one = result_.measured.back();
      const std::size_t at = index_of(one.variant, one.cut);
      one.is_believed = seen_[at].is_believed;
      one.measured_us = seen_[at].given.fused_us;
      one.foretold_us = foretold_us(at);
    }
  const auto best = std::ranges::min_element(result_.measured, {}, [](const CutBelief& one) {
    return one.is_believed ? one.us : std::numeric_limits<double>::infinity();
  });
  // A cut must be faster than serial by more than its measurement error.
  if (best != result_.measured.end() && best->is_believed && best->us * (1 + error_of(*best)) < result_.serial_us)
    best_ = &*best;
}

double Refiner::best_us() const { return best_ == nullptr ? result_.serial_us : best_->us; }

double Refiner::expected_gain(const CutPosterior::Belief& belief) const {
  if (belief.deviation <= 0) return 0;
  const double gain = std::log(best_us()) - belief.log_us, z = gain / belief.deviation;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  return gain * std::erfc(-z / std::numbers::sqrt2) / 2 + belief.deviation * density;
}

Result<void> Refiner::add_accounts(const CutBelief& best) {
  const Observed& seen = observed(best.variant, best.cut);
  const CostModel now = planner::anchored(result_.model, op_, seen.race.compute_us, seen.race.communication_us);
  MC2_ASSIGN(const auto plan, planner::predict_cut(op_, now, best.variant, best.cut));
  MC2_ASSIGN(const auto predicted, planner::predict_lane_times(op_, now, best.variant, best.cut));
  const auto& cost = *now.cost_of(best.variant);
  for (const auto lane : {planner::Lane::Compute, planner::Lane::Communication}) {
    const bool is_compute = lane == planner::Lane::Compute;
    const planner::LaneCost& own = is_compute ? cost.compute : cost.communication;
    const double predicted_us = predicted.blocks_us(lane);
    MeasuredAccount account{.lane = lane, .uncut_us = is_compute ? plan.compute_us : plan.communication_us};
    account.overhead_us = own.fixed_us * static_cast<double>(best.cut.block_rows.size());
    account.contention_us = plan.timeline.overlap_us * (1 - 1 / own.contention());
    account.small_block_us = predicted_us - account.uncut_us - account.overhead_us - account.contention_us;
    account.is_timed = blocks_us(seen.given, lane) > 0;
    account.blocks_us = account.is_timed ? blocks_us(seen.given, lane) : predicted_us;
    account.waiting_us = (account.is_timed ? seen.given.fused_us : predicted.makespan_us) - account.blocks_us;
    account.unexplained_us = seen.given.fused_us - predicted_us - account.waiting_us;
    result_.accounts.push_back(account);
  }
  return {};
}

/// Sets the plan: the best measured cut, or "do not cut".
Result<void> Refiner::decide() {
  if (best_ == nullptr) {
    MC2_ASSIGN(const auto preferred, planner::make_plan(op_, result_.model, settings_.plan));
    MC2_ASSIGN(result_.plan, planner::serial_plan(op_, result_.model, preferred.variant));
    result_.plan.reason = result_.has_usable_cut() ? "do not cut: no cut that was measured is faster than serial"
                                                   : "do not cut: nothing usable was measured yet";
    return {};
  }
  result_.noise = error_of(*best_);
  MC2_ASSIGN(result_.plan, planner::predict_cut(op_, result_.model, best_->variant, best_->cut));
  result_.plan.strategy = "refined";
  result_.plan.makespan.us = best_->us;
  result_.plan.makespan.low_us = best_->low_us;
  result_.plan.makespan.high_us = best_->high_us;
  const auto count = std::ranges::count(result_.measured, true, &CutBelief::is_believed);
  result_.plan.reason =
      count == 1 ? "the cut that was measured" : "fastest of " + std::to_string(count) + " cuts that were measured";
  if (result_.is_serial_measured) {
    planner::CutTimes times = observed(best_->variant, best_->cut).given;
    if (!(times.serial_us > 0)) times.serial_us = result_.serial_us;
    result_.plan.validation = planner::validation_of(times);
  }
  return add_accounts(*best_);
}

void Refiner::choose_next() {
  const double noise = result_.noise > 0 ? result_.noise : planner::kUsualError;
  std::vector<std::vector<bool>> is_taken;
  for (const Family& family : families_) is_taken.emplace_back(family.posterior.cuts().size(), false);
  while (std::ssize(result_.next) < settings_.next_count) {
    std::size_t best_family = 0, best_cut = 0;
    double best_gain = 0;
    for (std::size_t f = 0; f < families_.size(); ++f)
      for (std::size_t cut = families_[f].measured_count; cut < families_[f].posterior.cuts().size(); ++cut) {
        if (is_taken[f][cut]) continue;
        const double gain = expected_gain(families_[f].posterior.belief(cut));
        if (gain > best_gain) best_family = f, best_cut = cut, best_gain = gain;
      }
    if (result_.next.empty()) result_.expected_gain = best_gain;
    if (best_gain <= kSettledShare * noise) return;
    Family& family = families_[best_family];
    result_.next.push_back(belief_of(family, best_cut));
    result_.next.back().expected_gain = best_gain;
    is_taken[best_family][best_cut] = true;
    family.posterior.pretend(best_cut, noise * noise);
  }
}

Result<Refinement> Refiner::run(std::span<const MeasuredCut> measured) {
  MC2_TRY(settings_.plan.validate());
  if (settings_.next_count < 0 || settings_.next_count > kMaxNextCount)
    return Error{ErrorCode::InvalidSpec, "next_count",
                 "is " + std::to_string(settings_.next_count) + "; legal: 0 to " + std::to_string(kMaxNextCount)};
  MC2_TRY(take(measured));
  MC2_TRY(find_speeds());
  MC2_TRY(learn());
  if (!seen_.empty()) learn_factors(families_.front());
  judge_measured();
  MC2_TRY(decide());
  choose_next();
  return std::move(result_);
}

} // namespace

std::string_view to_string(LearnedFactor::What what) noexcept {
  switch (what) {
    case LearnedFactor::What::ComputeSlowdown: return "compute_slowdown";
    case LearnedFactor::What::CommunicationSlowdown: return "communication_slowdown";
    case LearnedFactor::What::BlockOverhead: break;
  }
  return "block_overhead_us";
}

Result<Refinement> refine(const planner::OpSpec& op, const CostModel& model, std::span<const MeasuredCut> measured,
                          const RefineSettings& settings) {
  if (!settings.plan.has_assumptions()) return Refiner(op, model, settings).run(measured);
  const planner::Assumed assumed = planner::assume(model, settings.plan);
  const RefineSettings rest{assumed.options, settings.next_count};
  return Refiner(op, assumed.model, rest).run(measured);
}

} // namespace mc2::profiler
