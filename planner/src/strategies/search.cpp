#include "strategies/search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "mc2/planner/cutting.hpp"
#include "mc2/planner/text.hpp"
#include "strategies/family.hpp"
#include "strategies/member_score.hpp"
#include "strategies/objective.hpp"

namespace mc2::planner::strategies {
namespace {

struct Scored {
  double score_us = 0; ///< the objective: the makespan or its upper quantile
  BlockSplit member;   ///< long_count 0: uncut
  const VariantCost* cost = nullptr;
};

bool is_better(const Scored& a, const Scored& b) {
  if (a.score_us != b.score_us) return a.score_us < b.score_us;
  return a.member.block_count() < b.member.block_count();
}

/// The best few candidates so far, at most one of each variant and number of blocks: candidates that differ in a few
/// rows would tell the reader nothing.
class Shortlist {
 public:
  explicit Shortlist(std::size_t size) : size_(size) { entries_.reserve(size); }

  void offer(const Scored& scored) {
    const bool is_full = entries_.size() == size_;
    if (is_full && !is_better(scored, entries_.back())) return;
    const auto alike = std::ranges::find_if(entries_, [&](const Scored& entry) {
      return entry.cost == scored.cost && entry.member.block_count() == scored.member.block_count();
    });
    if (alike != entries_.end()) {
      if (!is_better(scored, *alike)) return;
      entries_.erase(alike);
    } else if (is_full)
      entries_.pop_back();
    entries_.insert(std::upper_bound(entries_.begin(), entries_.end(), scored, is_better), scored);
  }
  [[nodiscard]] const std::vector<Scored>& entries() const noexcept { return entries_; }

 private:
  std::size_t size_;
  std::vector<Scored> entries_;
};

/// search_variant() for a problem with counts, where blocks of equal length may take different times.
std::int64_t search_routed(const Problem& problem, const VariantCost& cost, Shortlist& shortlist) {
  std::int64_t count = 0;
  for_each_member(problem.rows, BlockPassing(problem, cost).options(), [&](const BlockSplit& member) {
    ++count;
    if (!problem.is_stopped()) shortlist.offer({objective_us(problem, cost, member.cut()), member, &cost});
  });
  return count;
}

/// Offers all members of one variant to the shortlist. Returns how many there are.
std::int64_t search_variant(const Problem& problem, const VariantCost& cost, Shortlist& shortlist) {
  if (problem.routed) return search_routed(problem, cost, shortlist);
  const CostTable table(problem, cost, family_step(problem.rows, problem.options));
  const MemberScore scores(problem, cost, table);
  const double local_us = cost.local_us(problem.op);
  std::int64_t count = 0;
  for_each_member(problem.rows, scores.passing().options(), [&](const BlockSplit& member) {
    ++count;
    shortlist.offer({scores.score_us(member, local_us), member, &cost});
  });
  if (const auto halves = scores.passing().halves_of_one(problem.rows)) {
    ++count;
    shortlist.offer({objective_us(problem, cost, halves->cut()), *halves, &cost});
  }
  return count;
}

Cut cut_of(const Problem& problem, const Scored& scored) {
  return scored.member.long_count == 0 ? Cut{{problem.rows}} : scored.member.cut();
}

/// The exposed time of a plan: before the second lane starts, and after the first lane ends.
struct Exposure {
  double head_us, tail_us;
};
Exposure exposure(const Timeline& timeline) {
  return {timeline.second.front().start_us, timeline.makespan_us - timeline.first.back().end_us};
}

std::string loss_reason(const Timeline& winner, const Timeline& loser) {
  const bool has_more_blocks = loser.first.size() > winner.first.size();
  if (loser.makespan_us == winner.makespan_us) return has_more_blocks ? "as fast, with more blocks" : "as fast";
  if (loser.makespan_us < winner.makespan_us)
    return percent_text(1 - loser.makespan_us / winner.makespan_us) +
           " faster by the curves, but its advantage is less certain than the choice's";
  const Exposure ours = exposure(winner), theirs = exposure(loser);
  std::string reason = percent_text(loser.makespan_us / winner.makespan_us - 1) + " slower: ";
  if (loser.first.size() == 1) return reason + "nothing overlaps";
  const double head = theirs.head_us - ours.head_us, tail = theirs.tail_us - ours.tail_us;
  const double stall = (loser.makespan_us - winner.makespan_us) - std::max(head, tail);
  if (std::max(head, tail) <= 0 || stall > std::max(head, tail))
    return reason + (has_more_blocks ? "more blocks, each with its fixed cost" : "the lanes wait for each other");
  return reason + (head >= tail ? time_text(head) + " more before the second lane can start"
                                : time_text(tail) + " more after the first lane has ended");
}

/// @param compared_count  cuts that were compared, uncut included
std::string choice_reason(const Plan& plan, const PlanOptions& options, std::int64_t compared_count) {
  const std::string work(to_string(traits_of(plan.op.kind).work));
  const Exposure exposed = exposure(plan.timeline);
  if (!plan.is_cut() && plan.timeline.overlap_us > 0)
    return "uncut: the lanes overlap as it is, and no cut is predicted faster";
  if (!plan.is_cut() && compared_count == 1) return "do not cut: " + no_legal_cut_text(plan.op, options);
  if (!plan.is_cut()) return "do not cut: no cut is predicted faster than " + work + " then collective";
  return std::string(to_string(plan.bound)) + " bound; exposed: " + time_text(exposed.head_us) + " before and " +
         time_text(exposed.tail_us) + " after the overlap";
}

void add_runners_up(const Problem& problem, const Shortlist& shortlist, const VariantCost& uncut, Plan& plan) {
  const auto wanted = static_cast<std::size_t>(problem.options.runner_up_count);
  const auto add = [&](const VariantCost& cost, const Cut& cut) {
    if (is_choice(plan, cut, cost.variant)) return;
    plan.runners_up.push_back(to_runner_up(problem, plan, cost, cut));
  };
  for (const auto& entry : shortlist.entries())
    if (plan.runners_up.size() < wanted) add(*entry.cost, cut_of(problem, entry));
  const bool has_uncut = std::any_of(plan.runners_up.begin(), plan.runners_up.end(),
                                     [](const RunnerUp& r) { return r.cut.block_rows.size() == 1; });
  // Not cutting is what the user has today, so it is shown even when many cuts beat it.
  if (plan.is_cut() && !has_uncut) add(uncut, Cut{{problem.rows}});
}

Certificate certify(const Problem& problem, std::int64_t candidate_count) {
  const std::int64_t step = family_step(problem.rows, problem.options);
  std::string text = "all " + std::to_string(candidate_count) + " cuts into equal blocks and one odd one compared";
  if (step != problem.options.alignment)
    text += "; long blocks in steps of " + std::to_string(step) + " " + std::string(to_string(cut_axis(problem.op))) +
            ", coarser than the alignment, because the cut axis is long";
  return {candidate_count, candidate_count, 0, std::move(text)};
}

/// The mean at quantile 0.5, otherwise the quantile.
double combined_us(std::vector<double> makespans_us, double quantile) {
  const auto count = static_cast<double>(makespans_us.size());
  if (quantile == kMinObjectiveQuantile) return std::reduce(makespans_us.begin(), makespans_us.end()) / count;
  constexpr double kRounding = 1e-9; // 0.55 * 100 is a little more than 55
  const auto place = makespans_us.begin() + static_cast<std::ptrdiff_t>(std::ceil(quantile * count - kRounding)) - 1;
  std::ranges::nth_element(makespans_us, place);
  return *place;
}

template <typename Makespan>
std::vector<double> of_each(std::span<const Problem> tables, const Makespan& makespan_us) {
  std::vector<double> result;
  for (const Problem& table : tables) result.push_back(makespan_us(table));
  return result;
}

std::string tables_reason(const std::vector<double>& makespans_us, double combined, double quantile,
                          std::size_t shown) {
  const auto [least, most] = std::ranges::minmax(makespans_us);
  return "; in the " + (quantile == kMinObjectiveQuantile ? "mean" : number_text(quantile) + " quantile") + " of " +
         std::to_string(makespans_us.size()) + " tables of counts it takes " + time_text(combined) + " (" +
         time_interval_text(least, most) + "); what is said here is of table " + std::to_string(shown + 1) +
         ", the nearest to that";
}

} // namespace

RunnerUp to_runner_up(const Problem& problem, const Plan& plan, const VariantCost& cost, const Cut& cut) {
  const Timeline timeline = simulate_cut(problem, cost, cut);
  return {cut, cost.variant, timeline.makespan_us, loss_reason(plan.timeline, timeline)};
}

Plan plan_over_tables(std::span<const Problem> tables, double quantile) {
  const Problem& first = tables.front();
  const auto combined_of = [&](const auto& us) { return combined_us(of_each(tables, us), quantile); };
  Scored uncut{std::numeric_limits<double>::infinity(), BlockSplit{}, nullptr};
  for (const VariantCost& cost : first.model.variants) {
    const BlockPassing passing(first, cost);
    const double us = combined_of([&](const Problem& table) { return uncut_objective_us(table, cost, passing); });
    if (uncut.cost == nullptr || us < uncut.score_us) uncut = {us, BlockSplit{}, &cost};
  }
  Shortlist shortlist(static_cast<std::size_t>(first.options.runner_up_count) + 1);
  shortlist.offer(uncut);
  std::int64_t candidate_count = 1;
  for (const VariantCost& cost : first.model.variants)
    for_each_member(first.rows, BlockPassing(first, cost).options(), [&](const BlockSplit& member) {
      ++candidate_count;
      const Cut cut = member.cut();
      const auto us = [&](const Problem& table) { return table.is_stopped() ? 0 : objective_us(table, cost, cut); };
      if (!first.is_stopped()) shortlist.offer({combined_of(us), member, &cost});
    });

  const Scored best = shortlist.entries().front();
  const Cut cut = cut_of(first, best);
  const double gain_us = uncut.score_us - best.score_us;
  const double explained_us = combined_of([&](const Problem& table) {
    return explained_gain_us(table, *best.cost, cut, objective_us(table, *best.cost, cut), *uncut.cost);
  });
  const bool is_sure = !first.requires_significance || cut.block_rows.size() == 1 || gain_us > explained_us;
  const Scored& chosen = is_sure ? best : uncut;
  const Cut chosen_cut = cut_of(first, chosen);
  const auto makespans_us =
      of_each(tables, [&](const Problem& table) { return objective_us(table, *chosen.cost, chosen_cut); });
  const auto distance_us = [&](double us) { return std::abs(us - chosen.score_us); };
  const auto shown =
      static_cast<std::size_t>(std::ranges::min_element(makespans_us, {}, distance_us) - makespans_us.begin());
  Plan plan = predict(tables[shown], *chosen.cost, chosen_cut, "search");
  plan.reason = is_sure ? choice_reason(plan, first.options, candidate_count)
                        : unsure_reason(plan, cut, gain_us / uncut.score_us, explained_us / uncut.score_us);
  plan.reason += tables_reason(makespans_us, chosen.score_us, quantile, shown);
  add_runners_up(tables[shown], shortlist, *uncut.cost, plan);
  plan.certificate = certify(first, candidate_count);
  return plan;
}

Plan plan_by_search(const Problem& problem) {
  Shortlist shortlist(static_cast<std::size_t>(problem.options.runner_up_count) + 1);
  const VariantCost& uncut_cost = best_uncut_variant(problem);
  const Plan uncut = predict(problem, uncut_cost, Cut{{problem.rows}}, "search");
  shortlist.offer({objective_us(problem, uncut), BlockSplit{}, &uncut_cost});
  std::int64_t candidate_count = 1;
  for (const auto& cost : problem.model.variants)
    if (!problem.is_stopped()) candidate_count += search_variant(problem, cost, shortlist);

  const Scored& best = shortlist.entries().front();
  Plan plan = predict(problem, *best.cost, cut_of(problem, best), "search");
  plan.reason = choice_reason(plan, problem.options, candidate_count);
  plan = require_significance(problem, std::move(plan), uncut);
  add_runners_up(problem, shortlist, uncut_cost, plan);
  plan.certificate = certify(problem, candidate_count);
  return plan;
}

} // namespace mc2::planner::strategies
