#include "strategies/range_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mc2::planner::strategies {
namespace {

/// A candidate must not be excluded because rounding alone lifts its bound above the best.
constexpr double kBoundRounding = 1 + 1e-9;
/// Ratio of neighbouring block lengths from which floor_us_per_row() is computed, and a margin for curves that fall
/// between them.
constexpr double kFloorSpacing = 1.03, kFloorMargin = 1.05;

} // namespace

RangeSearch::Candidate::Candidate(const Problem& problem, const VariantCost& variant_cost,
                                  std::pmr::memory_resource& memory)
    : cost(&variant_cost),
      table(problem, variant_cost, 1, &memory),
      score(problem, variant_cost, table),
      options(score.passing().options()),
      shares(&memory),
      before_us_per_row(&memory),
      behind_us_per_row(&memory) {
  const auto length_count = static_cast<std::size_t>(problem.rows) + 1;
  shares.reserve(length_count);
  before_us_per_row.reserve(length_count);
  behind_us_per_row.reserve(length_count);
  double before = std::numeric_limits<double>::infinity(), behind = before;
  for (std::int64_t rows = 0; rows <= problem.rows; ++rows) {
    const PathShare share = score.long_share(rows);
    shares.push_back(share);
    if (rows >= options.min_block_rows) {
      before = std::min(before, share.before / static_cast<double>(rows));
      behind = std::min(behind, share.behind / static_cast<double>(rows));
    }
    before_us_per_row.push_back(before);
    behind_us_per_row.push_back(behind);
  }
}

// No path through a cut is longer than its makespan: neither one that stays on a lane as far as it can, nor one that
// changes lanes in a given block. Before and behind that block, each row takes at least what a row of the best block
// takes.
double RangeSearch::Candidate::least_us_per_row(std::int64_t rows) const {
  if (!score.is_overlap_useful()) return 0;
  return std::min(before_us_per_row[static_cast<std::size_t>(rows)], behind_us_per_row[static_cast<std::size_t>(rows)]);
}

double RangeSearch::Candidate::bound_us(std::int64_t rows) const {
  if (!score.is_overlap_useful()) return 0;
  const auto at = static_cast<std::size_t>(rows);
  return static_cast<double>(rows) * std::max(before_us_per_row[at], behind_us_per_row[at]);
}

CutRule Choice::rule(std::int64_t min_odd_rows) const {
  if (!is_cut()) return {cost->variant, schedule};
  return {cost->variant, schedule, split.long_rows, min_odd_rows, split.is_odd_first};
}

RangeSearch::Case::Case(const RangeSearch& search, std::int64_t m)
    : op(search.longest_), problem((op.m = m, make_problem(op, search.model_, search.options_))) {}

RangeSearch::RangeSearch(const OpSpec& longest, const CostModel& model, const PlanOptions& options,
                         const StopCheck* stop_check, std::pmr::memory_resource& memory)
    : longest_(longest),
      model_(model),
      options_(options),
      stop_check_(stop_check),
      memory_(memory),
      is_expected_(interval_multiple(options.objective_quantile) == 0),
      longest_problem_(make_problem(longest, model, options)),
      candidates_(model.variants.size()) {
  for (const VariantCost& cost : model.variants) passings_.emplace_back(longest_problem_, cost);
  for (const VariantCost& cost : model.variants) floors_us_per_row_.push_back(floor_us_per_row(cost));
}

// A path that stays on a lane passes every block on it. A block between two lengths takes no less than the shorter one.
double RangeSearch::floor_us_per_row(const VariantCost& cost) const {
  const Contention contention(longest_problem_.slowdown(cost));
  if (!contention.is_overlap_useful || !is_expected_) return 0;
  double before = std::numeric_limits<double>::infinity(), behind = before;
  auto rows = static_cast<double>(min_block_rows(cost));
  for (const auto most = static_cast<double>(longest_problem_.rows); rows <= most;) {
    const double longer = std::max(std::floor(rows * kFloorSpacing), rows + 1);
    const PathShare share(longest_problem_.lane_us(cost, true, static_cast<std::int64_t>(rows), true),
                          longest_problem_.lane_us(cost, false, static_cast<std::int64_t>(rows), true), contention,
                          Slices::whole());
    before = std::min(before, share.before / (longer - 1));
    behind = std::min(behind, share.behind / (longer - 1));
    rows = longer;
  }
  return std::max(before, behind) / kFloorMargin;
}

Choice RangeSearch::best(std::int64_t m, const Choice* near) const {
  const Case at(*this, m);
  const Choice uncut = best_uncut(at.problem);
  Choice best = uncut;
  if (near != nullptr && near->is_cut()) {
    const auto here = apply(near->rule(near->odd_length()), *near->cost, m);
    if (here && here->score_us < best.score_us) {
      best = *here;
      // Of equal cuts, the first one that the search visits must win, as it does without `near`, because the test of
      // significance may differ between them. So `near` counts as slightly slower than it is.
      best.score_us = std::nextafter(best.score_us, std::numeric_limits<double>::infinity());
    }
  }
  for (std::size_t i = 0; i < floors_us_per_row_.size(); ++i) {
    offer_halves(at.problem, model_.variants[i], best);
    if (static_cast<double>(at.problem.rows) * floors_us_per_row_[i] > best.score_us) continue;
    if (!candidates_[i] && is_stopped()) break; // tables take long, and the result is thrown away
    offer_cuts(at.problem, candidate_of(model_.variants[i]), best);
  }
  if (!best.is_cut()) return uncut;
  best.schedule = overlapping_schedule(at.op, best.cost->variant, best.split.cut());
  return is_significant(at.problem, best, uncut) ? best : uncut;
}

double RangeSearch::uncut_us(const Problem& problem, const VariantCost& cost) const {
  return uncut_objective_us(problem, cost, passings_[place_of(cost)]);
}

Schedule RangeSearch::uncut_schedule(const Problem& problem, const VariantCost& cost) const {
  if (!overlaps_uncut(problem, cost, passings_[place_of(cost)])) return Schedule::Serial;
  return overlapping_schedule(problem.op, cost.variant, Cut{{problem.rows}});
}

Choice RangeSearch::best_uncut(const Problem& problem) const {
  Choice best{nullptr, Schedule::Serial, {problem.rows, 1}, std::numeric_limits<double>::infinity()};
  for (const VariantCost& cost : model_.variants)
    if (const double us = uncut_us(problem, cost); best.cost == nullptr || us < best.score_us)
      best.cost = &cost, best.score_us = us;
  best.schedule = uncut_schedule(problem, *best.cost);
  return best;
}

void RangeSearch::offer_halves(const Problem& problem, const VariantCost& cost, Choice& best) const {
  const auto halves = passings_[place_of(cost)].halves_of_one(problem.rows);
  if (!halves) return;
  const double score_us = objective_us(problem, cost, halves->cut());
  if (score_us < best.score_us) best = {&cost, Schedule::Pipelined, *halves, score_us};
}

void RangeSearch::offer_cuts(const Problem& problem, const Candidate& candidate, Choice& best) const {
  if (candidate.bound_us(problem.rows) > best.score_us * kBoundRounding) return;
  const double local_us = candidate.cost->local_us(problem.op);
  const auto visit = [&](const BlockSplit& split) {
    const double score_us = candidate.score_us(split, local_us, is_expected_);
    if (score_us < best.score_us) best = {candidate.cost, Schedule::Pipelined, split, score_us};
  };
  // Whether no cut with a block of this length can be faster than the best.
  const double other_us_per_row = candidate.least_us_per_row(problem.rows);
  const auto is_hopeless = [&](std::int64_t block_rows) {
    const double bound_us =
        candidate.share(block_rows).change + static_cast<double>(problem.rows - block_rows) * other_us_per_row;
    return candidate.score.is_overlap_useful() && bound_us > best.score_us * kBoundRounding;
  };
  for_each_member(problem.rows, candidate.options, visit, is_hopeless);
}

bool RangeSearch::is_significant(const Problem& problem, const Choice& cut, const Choice& uncut) const {
  if (!problem.requires_significance) return true;
  const double cut_us = makespan_us(problem, cut);
  const double uncut_us = simulate_cut(problem, *uncut.cost, Cut{{problem.rows}}).makespan_us;
  return uncut_us - cut_us > explained_gain_us(problem, *cut.cost, cut.split.cut(), cut_us, *uncut.cost);
}

double RangeSearch::makespan_us(const Problem& problem, const Choice& cut) const {
  if (passings_[place_of(*cut.cost)].shares_waves(cut.split))
    return simulate_cut(problem, *cut.cost, cut.split.cut()).makespan_us;
  return candidate_of(*cut.cost).score.makespan_us(cut.split, cut.cost->local_us(problem.op));
}

std::optional<Choice> RangeSearch::apply(const CutRule& rule, const VariantCost& cost, std::int64_t m) const {
  OpSpec op = longest_;
  op.m = m;
  const BlockSplit split = rule.split(traits_of(op.kind).cut_axis_length(op));
  if (!rule.is_cut()) {
    const Case at(*this, m);
    if (uncut_schedule(at.problem, cost) != rule.schedule) return std::nullopt;
    return Choice{&cost, rule.schedule, split, uncut_us(at.problem, cost)};
  }
  if (split.block_count() < 2 || split.block_count() > options_.max_block_count) return std::nullopt;
  const double score_us = passings_[place_of(cost)].shares_waves(split)
                              ? objective_us(Case(*this, m).problem, cost, split.cut())
                              : candidate_of(cost).score_us(split, cost.local_us(op), is_expected_);
  return Choice{&cost, rule.schedule, split, score_us};
}

std::int64_t RangeSearch::min_block_rows(const VariantCost& cost) const {
  return passings_[place_of(cost)].options().min_block_rows;
}

const RangeSearch::Candidate& RangeSearch::candidate_of(const VariantCost& cost) const {
  auto& candidate = candidates_[place_of(cost)];
  if (!candidate) candidate.emplace(longest_problem_, cost, memory_);
  return *candidate;
}

} // namespace mc2::planner::strategies
