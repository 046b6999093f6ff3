#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "active/plans.hpp"
#include "active/value.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/profiler/active.hpp"
#include "mc2/profiler/statistics.hpp"
#include "mc2/profiler/sweep.hpp"

namespace mc2::profiler {
namespace {

using planner::Component;
using planner::Context;
using planner::Sample;

/// The recipe's contention factor and how far measured ones lie from it, before any co-run is timed.
constexpr active::SlowdownBelief kUnmeasuredSlowdown{1.15, 0.15};
/// Lengths that were best in some draw and are not of the sweep's grid.
constexpr std::size_t kMaxExtraSizeCount = 12;
/// Below this part of the regret a value is rounding.
constexpr double kNegligibleValue = 1e-3;

bool counts(const Sample& sample, const std::string& variant) {
  return !sample.is_outlier && sample.variant == variant && sample.block_rows > 0 && sample.time.count() > 0;
}

/// The samples that count, as the beliefs want them.
struct Evidence {
  std::vector<active::Observation> matmul, collective;
  std::vector<double> matmul_slowdowns, collective_slowdowns; ///< co-run / alone of one size and round
};

Evidence gather(const ActiveQuestion& question, std::span<const Sample> samples) {
  Evidence evidence;
  std::map<std::tuple<Component, std::int64_t, int>, double> alone;
  for (const Sample& sample : samples) {
    if (!counts(sample, question.variant) || sample.context != Context::Alone) continue;
    alone[{sample.component, sample.block_rows, sample.round}] = sample.time_us();
    auto& lane = sample.component == Component::Matmul ? evidence.matmul : evidence.collective;
    lane.push_back({static_cast<double>(sample.block_rows), sample.time_us(), sample.round});
  }
  for (const Sample& sample : samples) {
    if (!counts(sample, question.variant) || sample.context != Context::CoRun) continue;
    const auto pair = alone.find({sample.component, sample.block_rows, sample.round});
    if (pair == alone.end()) continue;
    auto& ratios = sample.component == Component::Matmul ? evidence.matmul_slowdowns : evidence.collective_slowdowns;
    ratios.push_back(sample.time_us() / pair->second);
  }
  return evidence;
}

/// Conjugate normal with known noise: each ratio is of two timings.
active::SlowdownBelief slowdown_belief(const std::vector<double>& ratios, double noise_ratio) {
  if (ratios.empty()) return kUnmeasuredSlowdown;
  const double observed = quantile(ratios, 0.5);
  const double prior_precision = 1 / (kUnmeasuredSlowdown.deviation * kUnmeasuredSlowdown.deviation);
  const double noise = std::max(std::sqrt(2.0) * noise_ratio * observed, 1e-4);
  const double precision = static_cast<double>(ratios.size()) / (noise * noise);
  const double mean =
      (prior_precision * kUnmeasuredSlowdown.mean + precision * observed) / (prior_precision + precision);
  return {mean, 1 / std::sqrt(prior_precision + precision)};
}

std::int64_t axis_rows(const ActiveQuestion& question) {
  return planner::traits_of(question.op.kind).cut_axis_length(question.op);
}

/// The grid's length nearest to `rows` by ratio.
std::int64_t nearest(const std::vector<std::int64_t>& grid, double rows) {
  const auto far = [rows](std::int64_t length) { return std::abs(std::log(static_cast<double>(length) / rows)); };
  return *std::min_element(grid.begin(), grid.end(), [&](auto a, auto b) { return far(a) < far(b); });
}

/// The sizes of the first round, the middle one last. All sizes where the axis has no more than three.
struct Design {
  std::set<std::int64_t> sizes;
  std::int64_t pair_rows = 0; ///< at which both lanes are timed together; 0 for an axis of one row
};

Design design_of(std::int64_t rows, std::int64_t alignment) {
  std::vector<std::int64_t> grid = sweep_block_rows(rows, alignment);
  Design design;
  design.sizes.insert(rows);
  for (const double parts : {4.0, 16.0}) {
    grid.erase(std::remove_if(grid.begin(), grid.end(), [&](auto length) { return design.sizes.contains(length); }),
               grid.end());
    if (grid.empty()) break;
    const std::int64_t length = nearest(grid, static_cast<double>(rows) / parts);
    design.sizes.insert(length);
    if (design.pair_rows == 0) design.pair_rows = length;
  }
  return design;
}

/// What of the design has not been measured yet. A pair is timed in one round with its lanes alone.
std::vector<ActiveCase> missing_design(const ActiveQuestion& question, const Evidence& evidence) {
  const Design design = design_of(axis_rows(question), question.sweep_alignment);
  const auto has = [](const std::vector<active::Observation>& lane, std::int64_t rows) {
    return std::any_of(lane.begin(), lane.end(), [&](const auto& o) { return o.rows == static_cast<double>(rows); });
  };
  const bool has_pair =
      design.pair_rows == 0 || (!evidence.matmul_slowdowns.empty() && !evidence.collective_slowdowns.empty());
  // Any three sizes serve a fit: earlier work need not have timed these.
  const auto is_rich = [&](const std::vector<active::Observation>& lane) {
    std::set<double> sizes;
    for (const auto& o : lane) sizes.insert(o.rows);
    return sizes.size() >= std::max<std::size_t>(design.sizes.size(), 3);
  };
  std::vector<ActiveCase> missing;
  for (const std::int64_t rows : design.sizes) {
    const bool is_pair = !has_pair && rows == design.pair_rows;
    if (is_pair || (!is_rich(evidence.matmul) && !has(evidence.matmul, rows)))
      missing.push_back({ActiveTarget::Matmul, rows});
    if (is_pair || (!is_rich(evidence.collective) && !has(evidence.collective, rows)))
      missing.push_back({ActiveTarget::Collective, rows});
    if (is_pair) missing.push_back({ActiveTarget::BothLanes, rows});
  }
  return missing;
}

/// Chooses the cases of the next round, given what is believed.
class Chooser {
 public:
  Chooser(const ActiveQuestion& question, const active::Beliefs& beliefs)
      : question_(question),
        rows_(axis_rows(question)),
        cuts_(active::plausible_cuts(question, beliefs)),
        grid_(sweep_block_rows(rows_, question.sweep_alignment)),
        ledger_(active::draw_makespans(question, beliefs, cuts_, grid_), incumbent()),
        random_(question.seed + 1) {}

  [[nodiscard]] ActiveAdvice choose();

 private:
  [[nodiscard]] Eigen::Index incumbent() const {
    if (!question_.incumbent) return -1;
    return std::find(cuts_.begin(), cuts_.end(), *question_.incumbent) - cuts_.begin();
  }
  [[nodiscard]] std::vector<std::int64_t> candidate_sizes() const;
  [[nodiscard]] std::vector<active::Signal> signals(const ActiveCase& candidate) const;
  [[nodiscard]] double score(const ActiveCase& candidate) const;
  [[nodiscard]] std::optional<ActiveCase> best_of(const std::vector<ActiveCase>& candidates);
  void take(const ActiveCase& chosen);
  void fill_round(ActiveAdvice& advice, const std::vector<ActiveCase>& candidates);

  const ActiveQuestion& question_;
  std::int64_t rows_;
  std::vector<planner::Cut> cuts_;
  std::vector<std::int64_t> grid_;
  active::RegretLedger ledger_;
  std::mt19937_64 random_;
  bool ranks_by_narrowing_ = false;
};

/// The sweep's grid and the block lengths of plans that may be the best.
std::vector<std::int64_t> Chooser::candidate_sizes() const {
  std::set<std::int64_t> sizes(grid_.begin(), grid_.end());
  std::vector<std::size_t> order(cuts_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto share = [&](std::size_t p) { return ledger_.best_shares()(static_cast<Eigen::Index>(p)); };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return share(a) > share(b); });
  const std::size_t limit = sizes.size() + kMaxExtraSizeCount;
  for (const std::size_t p : order) {
    if (share(p) <= 0 || sizes.size() >= limit) break;
    sizes.insert(cuts_[p].block_rows.begin(), cuts_[p].block_rows.end());
  }
  return {sizes.begin(), sizes.end()};
}

/// What a case's one or two outcomes would show.
std::vector<active::Signal> Chooser::signals(const ActiveCase& candidate) const {
  if (candidate.target != ActiveTarget::BothLanes) return {ledger_.time_signal(candidate.target, candidate.block_rows)};
  return {ledger_.slowdown_signal(ActiveTarget::Matmul), ledger_.slowdown_signal(ActiveTarget::Collective)};
}

/// Per visit: a pair takes three, together and each lane alone.
double Chooser::score(const ActiveCase& candidate) const {
  double sum = 0;
  for (const active::Signal& signal : signals(candidate))
    sum += ranks_by_narrowing_ ? ledger_.narrowing_us(signal) : ledger_.value_us(signal);
  return candidate.target == ActiveTarget::BothLanes ? sum / 3 : sum;
}

/// Empty when no candidate would show anything.
std::optional<ActiveCase> Chooser::best_of(const std::vector<ActiveCase>& candidates) {
  for (ranks_by_narrowing_ = false;; ranks_by_narrowing_ = true) {
    double best_score = ranks_by_narrowing_ ? 0 : kNegligibleValue * ledger_.regret_us();
    std::optional<ActiveCase> best;
    for (const ActiveCase& candidate : candidates) {
      const double candidate_score = score(candidate);
      if (!(candidate_score > best_score)) continue;
      best = candidate;
      best_score = candidate_score;
    }
    if (best || ranks_by_narrowing_) return best;
  }
}

void Chooser::take(const ActiveCase& chosen) {
  for (const active::Signal& signal : signals(chosen)) ledger_.assume(signal, random_);
}

/// The rest of a round: more sizes of the same lane, or a pair's lanes alone.
void Chooser::fill_round(ActiveAdvice& advice, const std::vector<ActiveCase>& candidates) {
  const ActiveCase first = advice.cases.front();
  if (first.target == ActiveTarget::BothLanes) {
    for (const ActiveTarget lane : {ActiveTarget::Matmul, ActiveTarget::Collective}) {
      advice.cases.push_back({lane, first.block_rows});
      take(advice.cases.back());
    }
    return;
  }
  std::vector<ActiveCase> rest;
  std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(rest),
               [&](const ActiveCase& candidate) { return candidate.target == first.target; });
  while (static_cast<int>(advice.cases.size()) < question_.round_case_count) {
    std::erase(rest, advice.cases.back());
    const auto next = best_of(rest);
    if (!next) return;
    advice.cases.push_back(*next);
    take(*next);
  }
}

ActiveAdvice Chooser::choose() {
  ActiveAdvice advice;
  const Eigen::Index best = ledger_.best();
  const auto used = incumbent() < 0 ? best : incumbent();
  advice.best = cuts_[static_cast<std::size_t>(best)];
  advice.makespan_us = ledger_.expected_us(used);
  advice.regret_us = advice.regret_after_us = ledger_.regret_us();
  const double relative = advice.regret_us / advice.makespan_us;
  if (relative <= question_.tolerated_regret) {
    advice.stop = ActiveStop::RegretTolerated;
    advice.reason = "the plan is expected to lose " + percent_text(relative) + " to the best one, no more than the " +
                    percent_text(question_.tolerated_regret) + " tolerated";
    return advice;
  }
  std::vector<ActiveCase> candidates;
  for (const std::int64_t rows : candidate_sizes()) {
    candidates.push_back({ActiveTarget::Matmul, rows});
    candidates.push_back({ActiveTarget::Collective, rows});
  }
  if (const std::int64_t rows = design_of(rows_, question_.sweep_alignment).pair_rows; rows > 0)
    candidates.push_back({ActiveTarget::BothLanes, rows});
  const auto first = best_of(candidates);
  if (!first) {
    advice.stop = ActiveStop::NothingToLearn;
    advice.reason = "no measurement would tell the remaining plans apart; expected regret " + percent_text(relative);
    return advice;
  }
  advice.cases.push_back(*first);
  take(*first);
  fill_round(advice, candidates);
  advice.regret_after_us = std::min(ledger_.regret_after_us(), advice.regret_us);
  advice.reason = first->text(cut_axis(question_.op)) + " tells most: expected regret " + percent_text(relative) +
                  ", " + percent_text(advice.regret_after_us / advice.makespan_us) + " once this round is measured";
  return advice;
}

Error range_error(const char* field, const std::string& legal) {
  return {ErrorCode::InvalidSpec, field, "must be " + legal};
}

} // namespace

std::string ActiveCase::text(planner::CutAxis axis) const {
  constexpr std::string_view kNames[] = {"compute", "collective", "both lanes"};
  return std::string(kNames[static_cast<std::size_t>(target) - 1]) + " " + std::to_string(block_rows) + " " +
         std::string(to_string(axis));
}

Result<void> ActiveQuestion::validate() const {
  MC2_TRY(op.validate());
  MC2_TRY(plan.validate());
  if (variant.empty()) return range_error("variant", "named");
  if (sweep_alignment < 1) return range_error("sweep_alignment", "1 or more");
  if (!(tolerated_regret >= 0) || !std::isfinite(tolerated_regret)) return range_error("tolerated_regret", "0 or more");
  if (round_case_count < 1 || round_case_count > 64) return range_error("round_case_count", "1 to 64");
  if (draw_count < 16 || draw_count > 4096) return range_error("draw_count", "16 to 4096");
  if (!incumbent) return {};
  std::int64_t left = planner::traits_of(op.kind).cut_axis_length(op);
  for (const std::int64_t rows : incumbent->block_rows) {
    if (rows < 1 || rows > left) return range_error("incumbent", "positive blocks that sum to the cut axis");
    left -= rows;
  }
  return left == 0 ? Result<void>() : range_error("incumbent", "positive blocks that sum to the cut axis");
}

Result<ActiveAdvice> advise(const ActiveQuestion& question, std::span<const Sample> samples) {
  MC2_TRY(question.validate());
  const std::int64_t rows = axis_rows(question);
  const Evidence evidence = gather(question, samples);
  ActiveAdvice advice;
  advice.cases = missing_design(question, evidence);
  if (!advice.cases.empty()) {
    advice.is_design = true;
    advice.reason = "the sizes that a fit needs come first";
    return advice;
  }
  MC2_ASSIGN(const auto cuts, planner::enumerate_cuts(question.op, question.plan));
  if (cuts.size() == 1) {
    advice.stop = ActiveStop::NothingToDecide;
    advice.best = cuts.front();
    advice.reason = "the only legal plan is not to cut";
    return advice;
  }
  const active::LaneBelief matmul(evidence.matmul, static_cast<double>(rows));
  const active::LaneBelief collective(evidence.collective, static_cast<double>(rows));
  const active::Beliefs beliefs{matmul, collective, slowdown_belief(evidence.matmul_slowdowns, matmul.noise_ratio()),
                                slowdown_belief(evidence.collective_slowdowns, collective.noise_ratio())};
  return Chooser(question, beliefs).choose();
}

int measurement_count(std::span<const Sample> samples, const std::string& variant) {
  std::set<std::tuple<ActiveTarget, std::int64_t, int>> visits;
  int count = 0;
  for (const Sample& sample : samples) {
    if (sample.variant != variant) continue;
    if (sample.context == Context::Alone)
      ++count;
    else
      visits.insert({ActiveTarget::BothLanes, sample.block_rows, sample.round});
  }
  return count + static_cast<int>(visits.size());
}

} // namespace mc2::profiler
