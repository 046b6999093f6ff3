#include "strategies/prediction.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "mc2/planner/text.hpp"
#include "strategies/block_passing.hpp"

namespace mc2::planner::strategies {
namespace {

/// Both lanes' undisturbed times of the blocks that pass.
struct BlockTimes {
  std::vector<std::int64_t> rows;
  std::vector<double> first_us; ///< one more than there are blocks if the local part is block 0
  std::vector<double> second_us;
  std::vector<Slices> slices;           ///< one entry for each block
  Schedule schedule = Schedule::Serial; ///< LocalFirst: the local part is block 0
  double overhead_us = 0;               ///< time of the run besides its blocks

  /// Makespan with every block of a lane stretched by the lane's factor.
  [[nodiscard]] double stretched_us(double first, double second, const Slowdown& slowdown) const noexcept {
    const Contention contention(slowdown);
    PipelineState state = PipelineState::start(0, contention, overhead_us);
    for (std::size_t i = 0; i < first_us.size(); ++i)
      state.pass(std::max(0.0, first) * first_us[i], std::max(0.0, second) * second_us[i], contention, slices[i]);
    return state.second_path_us;
  }
};

/// Block times of each rank if the ranks send each other unequal numbers of rows. For kinds that compute first, a block
/// is ready for the exchange when its slowest sender has computed it.
class RoutedBlocks {
 public:
  /// @param hands_over for each block, as in Problem::lane_us
  /// @param slices      of each block if all pairs were full, behind those of a local part
  RoutedBlocks(const Problem& problem, const VariantCost& cost, const std::vector<std::int64_t>& rows,
               const std::vector<bool>& hands_over, std::vector<Slices> slices)
      : problem_(problem), cost_(cost), rows_(rows), hands_over_(hands_over), slices_(std::move(slices)) {
    for_each_block([&](std::size_t block, std::int64_t first) {
      most_sent_rows_.push_back(problem.routed->most_sent_rows(first, rows[block]));
    });
    if (problem.traits.communicates_first()) return;
    std::vector<double> made_us(static_cast<std::size_t>(problem.routed->rank_count()));
    for_each_block([&](std::size_t block, std::int64_t first) {
      const double before_us = std::ranges::max(made_us);
      for (int rank = 0; rank < problem.routed->rank_count(); ++rank)
        made_us[static_cast<std::size_t>(rank)] += compute_us(rank, block, first);
      made_us_.push_back(std::ranges::max(made_us) - before_us);
    });
  }

  /// Replaces the times of a rank's blocks, which begin at index `local_count`, and of the local part before them.
  void fill(int rank, std::size_t local_count, BlockTimes& times) const {
    if (local_count > 0) times.second_us.front() = problem_.local_us(cost_, rank);
    for_each_block([&](std::size_t block, std::int64_t first) {
      const std::int64_t length = rows_[block];
      const double exchanged = problem_.routed->exchange_rows(rank, first, length, most_sent_rows_[block]);
      const double exchange_us = lane_us(block, exchanged, false);
      const bool computes_first = !problem_.traits.communicates_first();
      times.first_us[local_count + block] = computes_first ? made_us_[block] : exchange_us;
      times.second_us[local_count + block] = computes_first ? exchange_us : compute_us(rank, block, first);
      const Slices& full = slices_[local_count + block];
      const int pieces = problem_.routed->piece_count(rank, first, length, full.count());
      times.slices[local_count + block] = pieces < full.count() ? Slices::equal(pieces) : full;
    });
  }

 private:
  template <typename Visit>
  void for_each_block(const Visit& visit) const {
    std::int64_t first = 0;
    for (std::size_t block = 0; block < rows_.size(); first += rows_[block++]) visit(block, first);
  }
  [[nodiscard]] double lane_us(std::size_t block, double rows, bool is_compute) const {
    if (rows == 0) return 0;
    return problem_.lane_us(cost_, is_compute != problem_.traits.communicates_first(), rows, hands_over_[block]);
  }
  [[nodiscard]] double compute_us(int rank, std::size_t block, std::int64_t first) const {
    return lane_us(block, problem_.routed->compute_rows(rank, first, rows_[block]), true);
  }

  const Problem& problem_;
  const VariantCost& cost_;
  const std::vector<std::int64_t>& rows_;
  const std::vector<bool>& hands_over_;
  std::vector<Slices> slices_;
  std::vector<double> most_sent_rows_; ///< by block
  std::vector<double> made_us_;        ///< by block: how much later than the block before it is computed
};

/// Replaces the times by those of the rank that takes longest.
void fill_slowest(const Problem& problem, const VariantCost& cost, const std::vector<bool>& hands_over,
                  BlockTimes& times) {
  const RoutedBlocks blocks(problem, cost, times.rows, hands_over, times.slices);
  const std::size_t local_count = times.first_us.size() - times.rows.size();
  BlockTimes slowest = times;
  double most_us = -1;
  for (int rank = 0; rank < problem.routed->rank_count(); ++rank) {
    blocks.fill(rank, local_count, times);
    const double us = times.stretched_us(1, 1, problem.slowdown(cost));
    if (us <= most_us) continue;
    most_us = us;
    slowest = times;
  }
  times = std::move(slowest);
}

BlockTimes block_times(const Problem& problem, const VariantCost& cost, const BlockPassing& passing, const Cut& cut) {
  const bool overlaps = cut.block_rows.size() > 1 || overlaps_uncut(problem, cost, passing);
  BlockTimes times;
  times.rows = passing.passing_rows(cut);
  if (overlaps) {
    times.schedule = overlapping_schedule(problem.op, cost.variant, cut);
    times.overhead_us = cost.overhead_us();
  }
  const bool is_local_first = times.schedule == Schedule::LocalFirst;
  if (is_local_first) {
    times.first_us.push_back(0);
    times.second_us.push_back(cost.local_us(problem.op));
    times.slices.push_back(passing.slices(problem.rows));
  }
  std::vector<bool> hands_over;
  for (const auto rows : times.rows) {
    times.slices.push_back(overlaps ? passing.slices(rows) : Slices::whole());
    hands_over.push_back(cut.block_rows.size() > 1 || times.slices.back().count() > 1);
    times.first_us.push_back(problem.lane_us(cost, true, rows, hands_over.back()));
    times.second_us.push_back(problem.lane_us(cost, false, rows, hands_over.back()));
  }
  if (!overlaps) { // all rows at once, a local part's included
    const SerialParts parts = problem.serial_parts(cost);
    const Slowdown lanes = problem.in_lane_order(parts.compute_us, parts.communication_us);
    times.first_us.front() = lanes.first, times.second_us.front() = lanes.second;
  } else if (problem.routed)
    fill_slowest(problem, cost, hands_over, times);
  return times;
}

BlockTimes block_times(const Problem& problem, const VariantCost& cost, const Cut& cut) {
  return block_times(problem, cost, BlockPassing(problem, cost), cut);
}

/// Lengthens the first lane's first block by that lane's start, and the second lane's last block by the other's: each
/// lane is then busy for what a run of it alone takes.
/// @param local_count  1 if block 0 is the local part, else 0
void add_starts(const Slowdown& starts_us, std::size_t local_count, Timeline& timeline) {
  for (auto* lane : {&timeline.first, &timeline.second})
    for (Span& block : *lane) {
      block.start_us += starts_us.first;
      block.end_us += starts_us.first;
    }
  if (local_count > 0) timeline.first.front() = {0, 0}; // the local part is none of the first lane's
  timeline.first[local_count].start_us = 0;
  timeline.second.back().end_us += starts_us.second;
}

/// When each of the cut's blocks is on each lane, also of blocks that pass together.
Timeline timeline_of(const Problem& problem, const VariantCost& cost, const BlockPassing& passing,
                     const BlockTimes& times, const Cut& cut) {
  Timeline timeline = simulate(times.first_us, times.second_us, problem.slowdown(cost), times.slices);
  timeline.makespan_us += times.overhead_us;
  if (times.overhead_us > 0)
    add_starts(problem.in_lane_order(cost.compute.start_us, cost.communication.start_us),
               times.first_us.size() - times.rows.size(), timeline);
  if (times.rows.size() == cut.block_rows.size()) return timeline;
  timeline.first = passing.spans_of_blocks(cut, timeline.first);
  timeline.second = passing.spans_of_blocks(cut, timeline.second);
  return timeline;
}

/// How far the makespan moves when each lane is off by `interval`.
/// @param sign +1 for slower lanes, -1 for faster ones
double effect_us(const Problem& problem, const VariantCost& cost, const BlockTimes& times, const Slowdown& interval,
                 double sign) {
  const auto stretched_us = [&, slowdown = problem.slowdown(cost)](double first, double second) {
    return times.stretched_us(first, second, slowdown);
  };
  return stretch_effect_us(stretched_us, stretched_us(1, 1), interval, sign);
}

/// How far the makespan moves when both assumed slow-downs are off by their intervals at once.
double contention_effect_us(const Problem& problem, const VariantCost& cost, const BlockTimes& times, double sign) {
  const auto moved = [sign](const LaneCost& lane) {
    return std::max(1.0, lane.slowdown * (1 + sign * lane.slowdown_interval));
  };
  if (cost.compute.slowdown_interval == 0 && cost.communication.slowdown_interval == 0) return 0;
  const double us = times.stretched_us(1, 1, problem.slowdown(cost));
  return times.stretched_us(1, 1, problem.in_lane_order(moved(cost.compute), moved(cost.communication))) - us;
}

double half_width_us(const Problem& problem, const VariantCost& cost, const BlockTimes& times, double sign) {
  const auto stretched_us = [&, slowdown = problem.slowdown(cost)](double first, double second) {
    return times.stretched_us(first, second, slowdown);
  };
  return HalfWidth(problem, cost, times.schedule != Schedule::Serial)(
      stretched_us, stretched_us(1, 1), contention_effect_us(problem, cost, times, sign), sign);
}

/// Smallest and largest length at which a lane's curve is read, without lengths that take a small part of its time.
struct ReadLengths {
  double smallest = std::numeric_limits<double>::infinity(), largest = 0;
  void add(double rows, double least_rows) {
    if (rows == 0 || rows < least_rows) return;
    smallest = std::min(smallest, rows);
    largest = std::max(largest, rows);
  }
};

struct LaneLengths {
  ReadLengths compute, communication;
};

/// From the rows of each rank in each block.
LaneLengths routed_lengths(const RoutedRows& routed, const Cut& cut) {
  constexpr double kSmallPart = 0.02;
  std::vector<double> computed, exchanged;
  std::int64_t first = 0;
  for (const std::int64_t length : cut.block_rows) {
    const double most_sent = routed.most_sent_rows(first, length);
    for (int rank = 0; rank < routed.rank_count(); ++rank) {
      computed.push_back(routed.compute_rows(rank, first, length));
      exchanged.push_back(routed.exchange_rows(rank, first, length, most_sent));
    }
    first += length;
  }
  const double all_sent = routed.most_sent_rows(0, first);
  double all_computed = 0, all_exchanged = 0; // the most of one rank
  for (int rank = 0; rank < routed.rank_count(); ++rank) {
    all_computed = std::max(all_computed, routed.compute_rows(rank, 0, first));
    all_exchanged = std::max(all_exchanged, routed.exchange_rows(rank, 0, first, all_sent));
  }
  const auto read = [](const std::vector<double>& rows, double all) {
    const double least = std::min(kSmallPart * all, *std::ranges::max_element(rows));
    ReadLengths lengths;
    for (const double of_block : rows) lengths.add(of_block, least);
    return lengths;
  };
  return {read(computed, all_computed), read(exchanged, all_exchanged)};
}

LaneLengths read_lengths(const Problem& problem, const Cut& cut) {
  if (problem.routed) return routed_lengths(*problem.routed, cut);
  ReadLengths lengths;
  for (const std::int64_t length : cut.block_rows) lengths.add(static_cast<double>(length), 0);
  return {lengths, lengths};
}

/// Relative widening of an interval for each doubling of a length beyond those that were measured. An assumption,
/// docs/cost_model.md §14.
constexpr double kBeyondSpread = 0.03;

/// By how many doublings the lengths lie outside those that a curve was measured for; 0 if they lie within.
double doublings_beyond(const CostCurve& curve, const ReadLengths& lengths, double unit) {
  if (curve.is_analytic || !(curve.valid_max_x > 0) || lengths.largest == 0) return 0;
  return std::max({0.0, std::log2(curve.valid_min_x / (unit * lengths.smallest)),
                   std::log2(unit * lengths.largest / curve.valid_max_x)});
}

/// How much wider a relative interval is because of lengths outside the measured ones.
double beyond_spread(const Problem& problem, const VariantCost& cost, const LaneLengths& lengths) {
  return kBeyondSpread *
         std::max(doublings_beyond(cost.compute.curve, lengths.compute, 1),
                  doublings_beyond(cost.communication.curve, lengths.communication, problem.message_bytes_per_unit));
}

/// The lengths at which serial's curves are read. Its matmul is read at none if it was measured itself.
LaneLengths serial_lengths(const Problem& problem, const VariantCost& serial) {
  LaneLengths lengths = read_lengths(problem, Cut{{problem.rows}});
  const bool is_measured = &serial == problem.serial_cost && !problem.routed;
  if (is_measured)
    lengths.compute = {};
  else if (!problem.routed && problem.multiplies_at_once && !serial.local_compute)
    lengths.compute.smallest = lengths.compute.largest = problem.all_rows();
  return lengths;
}

/// By how much a run of both lanes may take longer or shorter because of what it does besides its blocks.
double start_half_width_us(const VariantCost& cost) {
  const auto of_lane = [](const LaneCost& lane) { return lane.start_interval * lane.start_us; };
  return std::hypot(of_lane(cost.compute), of_lane(cost.communication));
}

/// @param beyond beyond_spread() of the cut
void fill_interval(const Problem& problem, const VariantCost& cost, const BlockTimes& times, double beyond,
                   Estimate& estimate) {
  const auto width_us = [&](double sign) {
    return std::hypot(half_width_us(problem, cost, times, sign), beyond * estimate.us, start_half_width_us(cost));
  };
  estimate.low_us = std::max(0.0, estimate.us - width_us(-1));
  estimate.high_us = estimate.us + width_us(+1);
}

/// Makespan of the uncut plan with overlapped lanes if the problem has counts: that of the rank that takes longest.
double routed_overlapped_us(const Problem& problem, const VariantCost& cost, const Slices& slices) {
  const bool has_local_part = problem.traits.has_local_part;
  BlockTimes times;
  times.rows = {problem.rows};
  times.overhead_us = cost.overhead_us();
  times.first_us.resize(has_local_part ? 2 : 1);
  times.second_us.resize(times.first_us.size());
  times.slices.assign(times.first_us.size(), slices);
  fill_slowest(problem, cost, {slices.count() > 1}, times);
  return times.stretched_us(1, 1, problem.slowdown(cost));
}

/// Makespan of the uncut plan with overlapped lanes; infinite if nothing can overlap.
double overlapped_us(const Problem& problem, const VariantCost& cost, const BlockPassing& passing) {
  const Slices& slices = passing.slices(problem.rows);
  if (!problem.traits.has_local_part && slices.count() == 1) return std::numeric_limits<double>::infinity();
  const Contention contention(problem.slowdown(cost));
  if (problem.routed) return routed_overlapped_us(problem, cost, slices);
  PipelineState state = PipelineState::start(cost.local_us(problem.op), contention, cost.overhead_us());
  const bool hands_over = slices.count() > 1;
  state.pass(problem.lane_us(cost, true, problem.rows, hands_over),
             problem.lane_us(cost, false, problem.rows, hands_over), contention, slices);
  return state.second_path_us;
}

/// The part of a lane's interval beyond the curve's own error: noise, and changes of the machine's speed.
double speed_part(const CostCurve& curve) {
  const double curve_part = curve.curve_interval();
  return std::sqrt(std::max(0.0, curve.relative_interval * curve.relative_interval - curve_part * curve_part));
}

/// A lane that has become slower makes serial slower, too, so its effect on the ratio counts. The curves' errors at the
/// lengths of the blocks do not change serial; they count in full. docs/cost_model.md §4.
/// @param beyond beyond_spread() of the cut and of serial together
BenefitInterval benefit_interval_of(const Problem& problem, const VariantCost& cost, const BlockTimes& times,
                                    const VariantCost& serial, double beyond, const Plan& plan) {
  const bool computes_first = problem.traits.first_lane == Lane::Compute;
  const double first_us = computes_first ? plan.compute_us : plan.communication_us;
  const double second_us = computes_first ? plan.communication_us : plan.compute_us;
  const auto ratio = [&](double first, double second) {
    return times.stretched_us(first, second, problem.slowdown(cost)) / (first * first_us + second * second_us);
  };
  const Slowdown speed = problem.in_lane_order(speed_part(cost.compute.curve), speed_part(cost.communication.curve));
  const double expected = ratio(1, 1);
  const double by_speed = std::hypot(ratio(1 + speed.first, 1) - expected, ratio(1, 1 + speed.second) - expected);
  double half_width = by_speed;
  if (plan.schedule != Schedule::Serial) {
    const double by_shape = explained_gain_us(problem, cost, plan.cut, plan.makespan.us, serial) / plan.serial_us;
    half_width = std::hypot(by_speed, by_shape, std::hypot(problem.spread(cost).overlap, beyond) * expected);
  }
  // Two lanes at once save at most the time of the shorter one, i.e. half, unless serial's work is not the cut's.
  const bool is_other_work = &cost != &serial || &cost == problem.serial_cost || cost.local_compute ||
                             problem.multiplies_at_once || cost.compute.slowdown < 1 || cost.communication.slowdown < 1;
  const double most = is_other_work || 1 - expected >= kMostHidden ? 1.0 : kMostHidden;
  return {1 - expected - half_width, std::min(most, 1 - expected + half_width)};
}

constexpr int kLengthDigits = 9; ///< so many that no row is rounded away

std::string range_text(const CostCurve& curve) {
  return number_text(curve.valid_min_x, kLengthDigits) + ".." + number_text(curve.valid_max_x, kLengthDigits) + " " +
         std::string(to_string(curve.axis));
}

/// The weaker of two provenances wins. The enumeration is ordered from strong to weak.
void weaken(Estimate& estimate, Provenance provenance, const std::string& reason) {
  if (provenance <= estimate.provenance) return;
  estimate.provenance = provenance;
  estimate.reason = reason;
}

std::string analytic_basis(const CostCurve& curve) {
  if (curve.quality.reason.empty()) return " comes from published constants, not from measurements";
  return " is analytic, not measured: " + curve.quality.reason;
}

/// If both lanes are analytic, the estimate gives the reasons of both.
void weaken_to_analytic(Estimate& estimate, const std::string& reason) {
  const bool is_known = estimate.reason.find(reason) != std::string::npos;
  if (estimate.provenance == Provenance::Analytic && !is_known) estimate.reason += "; " + reason;
  weaken(estimate, Provenance::Analytic, reason);
}

void judge_lane(Estimate& estimate, const CostCurve& curve, const char* lane, double smallest_x, double largest_x) {
  for (const double x : {smallest_x, largest_x}) {
    const Provenance provenance = curve.provenance(x);
    const std::string subject = std::string(lane) + " curve";
    if (provenance == Provenance::Analytic)
      weaken_to_analytic(estimate, subject + analytic_basis(curve));
    else if (provenance == Provenance::Extrapolated)
      weaken(estimate, provenance,
             "a block of " + number_text(x, kLengthDigits) + " " + std::string(to_string(curve.axis)) +
                 " is outside the " + subject + "'s measured range " + range_text(curve));
    else
      weaken(estimate, provenance, "every block lies inside the measured range");
  }
}

Estimate judged_estimate(const Problem& problem, const VariantCost& cost, const LaneLengths& lengths) {
  const auto& [compute, communication] = lengths;
  Estimate estimate;
  estimate.provenance = Provenance::Measured;
  if (compute.largest > 0) judge_lane(estimate, cost.compute.curve, "compute", compute.smallest, compute.largest);
  if (communication.largest > 0)
    judge_lane(estimate, cost.communication.curve, "communication",
               communication.smallest * problem.message_bytes_per_unit,
               communication.largest * problem.message_bytes_per_unit);
  if (cost.local_compute) {
    const auto rows = static_cast<double>(problem.rows);
    judge_lane(estimate, *cost.local_compute, "local compute", rows, rows);
  } else if (compute.largest == 0 && communication.largest == 0) { // all rows stay on their ranks
    double most = 1;
    for (int rank = 0; problem.routed && rank < problem.routed->rank_count(); ++rank)
      most = std::max(most, problem.routed->local_rows(rank));
    judge_lane(estimate, cost.compute.curve, "compute", most, most);
  }
  return estimate;
}

/// Says which uncut part lies outside what was measured, where the plan itself does not.
void tell_of_serial(const Problem& problem, const VariantCost& serial, const LaneLengths& lengths, Estimate& estimate) {
  if (estimate.provenance > Provenance::Interpolated) return;
  const auto tell = [&](const CostCurve& curve, const char* lane, double x) {
    if (x == 0 || curve.provenance(x) != Provenance::Extrapolated) return;
    estimate.reason += "; " + std::string(kSerialExtrapolated) + ": " + number_text(x, kLengthDigits) + " " +
                       std::string(to_string(curve.axis)) + " is outside the " + lane + " curve's " + range_text(curve);
  };
  tell(serial.compute.curve, "compute", lengths.compute.largest);
  tell(serial.communication.curve, "communication", lengths.communication.largest * problem.message_bytes_per_unit);
}

/// A model answers for every length of its operator's cut axis, but for no other operator.
Result<void> match(const OpSpec& op, const OpSpec& model) {
  if (has_same_block_costs(model, op)) return {};
  const CutAxis axis = cut_axis(model);
  return Error{ErrorCode::OutOfRange, "model",
               "describes " + model.text() + " and answers only for other " + (axis == CutAxis::Rows ? "m" : "n") +
                   " of it that is cut into " + std::string(to_string(axis)) + ", not for " + op.text() +
                   "; profile that operator"};
}

} // namespace

Result<void> check_question(const OpSpec& op, const CostModel& model) {
  MC2_TRY(op.validate());
  if (auto valid = model.validate(); !valid)
    return Error{valid.error().code, "model." + valid.error().field, valid.error().message};
  return match(op, model.op);
}

Problem make_problem(const OpSpec& op, const CostModel& model, const PlanOptions& options,
                     const StopCheck* stop_check) {
  const OpTraits& traits = traits_of(op.kind);
  const auto message_bytes = static_cast<double>(traits.message_bytes_per_unit(op));
  const auto serial = serial_run(model, op);
  return {op,
          model,
          options,
          traits,
          traits.cut_axis_length(op),
          message_bytes,
          stop_check,
          serial_compute_ratio(op, model.fingerprint),
          serial ? model.cost_of(serial->variant) : nullptr,
          serial ? serial->compute_us : 0,
          traits.has_local_part && model.fingerprint.is_elsewhere(),
          options.require_significant_gain && !has_analytic_curve(model),
          options.counts.empty() ? nullptr : std::make_shared<const RoutedRows>(op, options.counts)};
}

double Problem::local_us(const VariantCost& cost, int rank) const {
  const double local_rows = routed->local_rows(rank);
  if (local_rows == 0) return 0;
  return cost.local_compute ? cost.local_compute->time_us(local_rows)
                            : compute_us(cost, local_rows / (op.world_size - 1));
}

SerialParts Problem::routed_serial_parts(const VariantCost& cost) const {
  // A serial run was measured with equal splits. Its time with unequal splits changes in proportion to the curves.
  const double known_ratio = full_compute_us(cost) / (cost.local_us(op) + compute_us(cost, rows));
  SerialParts slowest;
  double made_us = 0;
  const auto part_us = [&](int rank) {
    const double computed = routed->compute_rows(rank, 0, rows);
    return known_ratio *
           ((traits.has_local_part ? local_us(cost, rank) : 0) + (computed > 0 ? compute_us(cost, computed) : 0));
  };
  for (int rank = 0; rank < routed->rank_count(); ++rank) made_us = std::max(made_us, part_us(rank));
  const double most_sent = routed->most_sent_rows(0, rows);
  for (int rank = 0; rank < routed->rank_count(); ++rank) {
    const double exchanged = routed->exchange_rows(rank, 0, rows, most_sent);
    const SerialParts parts{traits.communicates_first() ? part_us(rank) : made_us,
                            exchanged > 0 ? communication_us(cost, exchanged) : 0};
    if (parts.compute_us + parts.communication_us > slowest.compute_us + slowest.communication_us) slowest = parts;
  }
  return slowest;
}

Error stopped_error() { return {ErrorCode::Cancelled, "", "planning was stopped before it had ended"}; }

double Problem::lane_us(const VariantCost& cost, bool is_first_lane, double block_rows,
                        bool hands_over) const noexcept {
  const bool is_compute = is_first_lane == (traits.first_lane == Lane::Compute);
  const double fixed_us = is_compute ? cost.compute.fixed_us : cost.communication.fixed_us;
  const double block_us = is_compute ? compute_us(cost, block_rows) : communication_us(cost, block_rows);
  if (!hands_over) return block_us;
  return (is_compute ? cost.compute : cost.communication).block_factor() * block_us + fixed_us;
}

Slowdown Problem::slowdown(const VariantCost& cost) const noexcept {
  return in_lane_order(cost.compute.contention(), cost.communication.contention());
}

Slowdown Problem::relative_intervals(const VariantCost& cost) const noexcept {
  return in_lane_order(cost.compute.curve.relative_interval, cost.communication.curve.relative_interval);
}

Slowdown Problem::own_intervals(const VariantCost& cost) const noexcept {
  const auto own = [](const CostCurve& curve, double spread) {
    if (curve.is_analytic) return curve.relative_interval;
    return std::sqrt(std::max(0.0, curve.relative_interval * curve.relative_interval - spread * spread));
  };
  return in_lane_order(own(cost.compute.curve, model.spread.compute),
                       own(cost.communication.curve, model.spread.communication));
}

const VariantCost& best_serial_variant(const Problem& problem) noexcept {
  return *std::ranges::min_element(problem.model.variants, {}, [&](const VariantCost& cost) {
    return problem.may_be_serial(cost) ? problem.serial_us(cost) : std::numeric_limits<double>::infinity();
  });
}

const VariantCost& cost_of(const Problem& problem, const Variant& variant) {
  return *std::ranges::find(problem.model.variants, variant, &VariantCost::variant);
}

double upper_half_width_us(const Problem& problem, const VariantCost& cost, const Cut& cut) {
  return half_width_us(problem, cost, block_times(problem, cost, cut), +1);
}

double curve_half_width_us(const Problem& problem, const VariantCost& cost, const Cut& cut) {
  const Slowdown interval =
      problem.in_lane_order(cost.compute.curve.curve_interval(), cost.communication.curve.curve_interval());
  return effect_us(problem, cost, block_times(problem, cost, cut), interval, +1);
}

double explained_gain_us(const Problem& problem, const VariantCost& cost, const Cut& cut, double makespan_us,
                         const VariantCost& uncut) {
  if (const auto& interval = problem.model.anchored_interval) return *interval * makespan_us;
  const double by_contention_us = contention_effect_us(problem, cost, block_times(problem, cost, cut), +1);
  return std::hypot(curve_half_width_us(problem, cost, cut), curve_half_width_us(problem, uncut, Cut{{problem.rows}}),
                    by_contention_us);
}

bool overlaps_uncut(const Problem& problem, const VariantCost& cost, const BlockPassing& passing) {
  return overlapped_us(problem, cost, passing) < problem.serial_us(cost);
}

double uncut_makespan_us(const Problem& problem, const VariantCost& cost, const BlockPassing& passing) {
  return std::min(overlapped_us(problem, cost, passing), problem.serial_us(cost));
}

std::vector<LengthSensitivity> length_sensitivities(const Problem& problem, const VariantCost& cost, const Cut& cut) {
  constexpr double kStretch = 0.01;
  const BlockTimes times = block_times(problem, cost, cut);
  const Slowdown slowdown = problem.slowdown(cost);
  const double us = times.stretched_us(1, 1, slowdown);
  const std::size_t local_count = times.first_us.size() - times.rows.size(); // the local part is block 0
  const Lane second_lane = other(problem.traits.first_lane);
  std::vector<LengthSensitivity> result;
  for (const std::int64_t rows : std::set(times.rows.begin(), times.rows.end()))
    for (const bool is_first : {true, false}) {
      BlockTimes changed = times;
      auto& lane_us = is_first ? changed.first_us : changed.second_us;
      double all_us = 0, own_us = 0;
      for (const double block_us : lane_us) all_us += block_us;
      for (std::size_t i = 0; i < times.rows.size(); ++i) {
        if (times.rows[i] != rows) continue;
        own_us += lane_us[local_count + i];
        lane_us[local_count + i] *= 1 + kStretch;
      }
      result.push_back({rows, is_first ? problem.traits.first_lane : second_lane,
                        (changed.stretched_us(1, 1, slowdown) / us - 1) / kStretch, all_us > 0 ? own_us / all_us : 0});
    }
  return result;
}

LaneTimes lane_times(const Problem& problem, const VariantCost& cost, const Cut& cut) {
  const BlockPassing passing(problem, cost);
  const BlockTimes times = block_times(problem, cost, passing, cut);
  const Slowdown slowdown = problem.slowdown(cost);
  const Timeline timeline = timeline_of(problem, cost, passing, times, cut);
  // A lane that is s times slower during the overlap O takes O (1 - 1/s) longer. Spans do not tell busy times, because
  // slices of a block may lie apart.
  const auto busy_us = [&](const std::vector<double>& blocks_us, double factor) {
    return std::accumulate(blocks_us.begin(), blocks_us.end(), timeline.overlap_us * (1 - 1 / factor));
  };
  const double first_us = busy_us(times.first_us, slowdown.first),
               second_us = busy_us(times.second_us, slowdown.second);
  const bool computes_first = problem.traits.first_lane == Lane::Compute;
  return {timeline.makespan_us, computes_first ? first_us : second_us, computes_first ? second_us : first_us};
}

Timeline simulate_cut(const Problem& problem, const VariantCost& cost, const Cut& cut) {
  const BlockPassing passing(problem, cost);
  return timeline_of(problem, cost, passing, block_times(problem, cost, passing, cut), cut);
}

Plan predict(const Problem& problem, const VariantCost& cost, const Cut& cut, std::string strategy) {
  const VariantCost& serial = best_serial_variant(problem);
  const BlockPassing passing(problem, cost);
  const BlockTimes times = block_times(problem, cost, passing, cut);
  Plan plan;
  plan.op = problem.op;
  plan.fingerprint = problem.model.fingerprint;
  plan.strategy = std::move(strategy);
  plan.variant = cost.variant;
  plan.cut = cut;
  plan.schedule = times.schedule;
  plan.slowdown = problem.slowdown(cost);
  const SerialParts parts = problem.serial_parts(serial);
  plan.counts = problem.options.counts;
  plan.compute_us = parts.compute_us;
  plan.communication_us = parts.communication_us;
  plan.serial_us = plan.compute_us + plan.communication_us;
  plan.ideal_us = std::max(plan.compute_us, plan.communication_us);
  plan.bound = plan.communication_us > plan.compute_us ? Bound::Communication : Bound::Compute;
  plan.timeline = timeline_of(problem, cost, passing, times, cut);
  const LaneLengths lengths = read_lengths(problem, cut), of_serial = serial_lengths(problem, serial);
  plan.makespan = judged_estimate(problem, cost, lengths);
  tell_of_serial(problem, serial, of_serial, plan.makespan);
  plan.makespan.us = plan.timeline.makespan_us;
  const double beyond = beyond_spread(problem, cost, lengths);
  fill_interval(problem, cost, times, beyond, plan.makespan);
  if (plan.serial_us > 0) {
    const double of_both = std::hypot(beyond, beyond_spread(problem, serial, of_serial));
    plan.benefit_interval = benefit_interval_of(problem, cost, times, serial, of_both, plan);
  }
  return plan;
}

double interval_multiple(double quantile) noexcept {
  const auto normal_quantile = [](double probability) {
    double low = 0, high = 10; // erf has no inverse in the standard library
    for (int step = 0; step < 60; ++step) {
      const double middle = (low + high) / 2;
      (std::erfc(-middle / std::sqrt(2.0)) / 2 < probability ? low : high) = middle;
    }
    return low;
  };
  return quantile <= 0.5 ? 0.0 : normal_quantile(quantile) / normal_quantile(0.95);
}

} // namespace mc2::planner::strategies
