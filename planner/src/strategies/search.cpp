#include "strategies/search.hpp"

#include <algorithm>
#include <limits>

#include "strategies/family.hpp"
#include "strategies/objective.hpp"
#include "text.hpp"

namespace mc2::planner::strategies {
namespace {

/// Times of every length that a family member can have, so that scoring a candidate reads four numbers.
class CostTable {
 public:
  CostTable(const Problem& problem, const VariantCost& cost) : step_(family_step(problem.rows, problem.options)) {
    const std::int64_t rest = problem.rows % step_;
    for (std::int64_t unit = 0; unit * step_ <= problem.rows; ++unit) {
      add(problem, cost, unit * step_, long_first_us_, long_second_us_);
      add(problem, cost, unit * step_ + rest, odd_first_us_, odd_second_us_);
    }
  }

  [[nodiscard]] double long_first_us(const FamilyMember& m) const { return long_first_us_[index(m.long_rows)]; }
  [[nodiscard]] double long_second_us(const FamilyMember& m) const { return long_second_us_[index(m.long_rows)]; }
  // Odd lengths are rows - count * long, so they share the remainder of rows; dividing drops it.
  [[nodiscard]] double odd_first_us(const FamilyMember& m) const { return odd_first_us_[index(m.odd_rows)]; }
  [[nodiscard]] double odd_second_us(const FamilyMember& m) const { return odd_second_us_[index(m.odd_rows)]; }

 private:
  static void add(const Problem& problem, const VariantCost& cost, std::int64_t rows, std::vector<double>& first,
                  std::vector<double>& second) {
    first.push_back(problem.lane_us(cost, true, rows, true));
    second.push_back(problem.lane_us(cost, false, rows, true));
  }
  [[nodiscard]] std::size_t index(std::int64_t rows) const { return static_cast<std::size_t>(rows / step_); }

  std::int64_t step_;
  std::vector<double> long_first_us_, long_second_us_, odd_first_us_, odd_second_us_;
};

struct Scored {
  double score_us = 0;             ///< the objective: the makespan or its upper quantile
  FamilyMember member;             ///< long_count 0: uncut
  const VariantCost* cost = nullptr;
};

bool is_better(const Scored& a, const Scored& b) {
  if (a.score_us != b.score_us) return a.score_us < b.score_us;
  return a.member.block_count() < b.member.block_count();
}

/// The best few candidates so far; a bound above the worst of them excludes a candidate.
class Podium {
 public:
  explicit Podium(std::size_t size) : size_(size) { entries_.reserve(size); }

  [[nodiscard]] double limit_us() const noexcept {
    return entries_.size() < size_ ? std::numeric_limits<double>::infinity() : entries_.back().score_us;
  }
  void offer(const Scored& scored) {
    if (entries_.size() == size_ && !is_better(scored, entries_.back())) return;
    if (entries_.size() == size_) entries_.pop_back();
    entries_.insert(std::upper_bound(entries_.begin(), entries_.end(), scored, is_better), scored);
  }
  [[nodiscard]] const std::vector<Scored>& entries() const noexcept { return entries_; }

 private:
  std::size_t size_;
  std::vector<Scored> entries_;
};

/// Scores all members of one variant against the podium.
class VariantSearch {
 public:
  VariantSearch(const Problem& problem, const VariantCost& cost, Podium& podium, Certificate& certificate)
      : problem_(problem), cost_(cost), table_(problem, cost), slowdown_(problem.slowdown(cost)),
        objective_(problem, cost), local_us_(cost.local_us(problem.op)), podium_(podium), certificate_(certificate),
        overlap_rate_(1 / slowdown_.first + 1 / slowdown_.second - 1) {}

  void run() {
    const std::size_t promising = bound_all();
    // A good first incumbent excludes most of the rest by their bounds.
    visit([&](std::size_t i, const FamilyMember& member) {
      if (i == promising) score(member);
    });
    visit([&](std::size_t i, const FamilyMember& member) {
      if (i != promising && bounds_us_[i] <= podium_.limit_us()) score(member);
    });
    certificate_.candidate_count += static_cast<std::int64_t>(bounds_us_.size());
  }

 private:
  template <typename Visit>
  void visit(const Visit& visit) const {
    std::size_t i = 0;
    for_each_member(problem_.rows, problem_.options, [&](const FamilyMember& member) { visit(i++, member); });
  }

  /// Every member's lower bound, and which is the smallest.
  std::size_t bound_all() {
    std::size_t promising = 0;
    visit([&](std::size_t i, const FamilyMember& member) {
      bounds_us_.push_back(lower_bound_us(member));
      if (bounds_us_[i] < bounds_us_[promising]) promising = i;
    });
    return promising;
  }

  /// No schedule of these blocks ends sooner. With W the work of a lane, s its slow-down, the first block of lane 1
  /// and the last of lane 2 cannot overlap anything, so the time O during which both lanes are busy is at most
  /// min(s1 (W1 - first), s2 (W2 - last)), and makespan >= W1 + W2 - O (1/s1 + 1/s2 - 1). A local part joins W2, and
  /// the first block can overlap it. docs/cost_model.md §5.
  [[nodiscard]] double lower_bound_us(const FamilyMember& m) const {
    const auto count = static_cast<double>(m.long_count);
    const double long1 = table_.long_first_us(m), long2 = table_.long_second_us(m);
    const double odd1 = m.odd_rows > 0 ? table_.odd_first_us(m) : 0, odd2 = m.odd_rows > 0 ? table_.odd_second_us(m) : 0;
    const double work1 = count * long1 + odd1, work2 = count * long2 + odd2;
    const double head = m.odd_rows > 0 && m.odd_first ? odd1 : long1;
    const double tail = m.odd_rows > 0 && !m.odd_first ? odd2 : long2;
    const double chain_us = std::max(std::max(head, local_us_) + work2, work1 + tail);
    if (overlap_rate_ <= 0) return chain_us;
    const double lone_head = local_us_ > 0 ? 0 : head;
    const double all2 = work2 + local_us_;
    const double overlap_us = std::min(slowdown_.first * (work1 - lone_head), slowdown_.second * (all2 - tail));
    return std::max(chain_us, work1 + all2 - overlap_us * overlap_rate_);
  }

  /// Makespan with every block of a lane stretched.
  [[nodiscard]] double stretched_us(const FamilyMember& m, double first, double second) const noexcept {
    const double long1 = first * table_.long_first_us(m), long2 = second * table_.long_second_us(m);
    Backlog state{0, second * local_us_};
    const auto pass_odd = [&] {
      state.pass(first * table_.odd_first_us(m), second * table_.odd_second_us(m), slowdown_);
    };
    if (m.odd_rows > 0 && m.odd_first) pass_odd();
    for (std::int64_t i = 0; i < m.long_count; ++i) state.pass(long1, long2, slowdown_);
    if (m.odd_rows > 0 && !m.odd_first) pass_odd();
    return state.end_us();
  }

  void score(const FamilyMember& member) {
    ++certificate_.simulated_count;
    const double score_us = objective_.score_us(
        [&](double first, double second) { return stretched_us(member, first, second); });
    podium_.offer({score_us, member, &cost_});
  }

  const Problem& problem_;
  const VariantCost& cost_;
  CostTable table_;
  Slowdown slowdown_;
  Objective objective_;
  double local_us_;
  Podium& podium_;
  Certificate& certificate_;
  double overlap_rate_; ///< work saved per unit of time during which both lanes are busy
  std::vector<double> bounds_us_;
};

Cut cut_of(const Problem& problem, const Scored& scored) {
  return scored.member.long_count == 0 ? Cut{{problem.rows}} : to_cut(scored.member);
}

/// Time before the second lane starts and after the first lane ends: what a cut leaves exposed.
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

std::string choice_reason(const Plan& plan) {
  const Exposure exposed = exposure(plan.timeline);
  if (!plan.is_cut())
    return "do not cut: no cut of the family is predicted faster than matmul then collective";
  return std::string(to_string(plan.bound)) + " bound; exposed: " + time_text(exposed.head_us) + " before and " +
         time_text(exposed.tail_us) + " after the overlap";
}

void add_runners_up(const Problem& problem, const Podium& podium, const VariantCost& uncut, Plan& plan) {
  const auto wanted = static_cast<std::size_t>(problem.options.runner_up_count);
  const auto add = [&](const VariantCost& cost, const Cut& cut) {
    if (cut == plan.cut && cost.variant == plan.variant) return;
    const Timeline timeline = simulate_cut(problem, cost, cut);
    plan.runners_up.push_back({cut, cost.variant, timeline.makespan_us, loss_reason(plan.timeline, timeline)});
  };
  for (const auto& entry : podium.entries())
    if (plan.runners_up.size() < wanted) add(*entry.cost, cut_of(problem, entry));
  const bool has_uncut = std::any_of(plan.runners_up.begin(), plan.runners_up.end(),
                                     [](const RunnerUp& r) { return r.cut.block_rows.size() == 1; });
  // Not cutting is what the user has today, so it is shown even when many cuts beat it.
  if (plan.is_cut() && !has_uncut) add(uncut, Cut{{problem.rows}});
}

std::string certificate_text(const Problem& problem, const Certificate& certificate) {
  const std::int64_t step = family_step(problem.rows, problem.options);
  std::string text = "all " + std::to_string(certificate.candidate_count) + " legal cuts covered: " +
                     std::to_string(certificate.simulated_count) + " simulated, " +
                     std::to_string(certificate.bounded_count) + " excluded by a lower bound";
  if (step != problem.options.alignment)
    text += "; long blocks in steps of " + std::to_string(step) + " rows, coarser than the alignment, because m is large";
  return text;
}

} // namespace

Plan plan_by_search(const Problem& problem) {
  Podium podium(static_cast<std::size_t>(problem.options.runner_up_count) + 1);
  const VariantCost& uncut_cost = best_uncut_variant(problem);
  const Plan uncut = predict(problem, uncut_cost, Cut{{problem.rows}}, "search");
  Certificate certificate;
  certificate.candidate_count = certificate.simulated_count = 1;
  podium.offer({objective_us(problem, uncut), FamilyMember{}, &uncut_cost});
  for (const auto& cost : problem.model.variants) VariantSearch(problem, cost, podium, certificate).run();
  certificate.bounded_count = certificate.candidate_count - certificate.simulated_count;
  certificate.text = certificate_text(problem, certificate);

  const Scored& best = podium.entries().front();
  Plan plan = predict(problem, *best.cost, cut_of(problem, best), "search");
  plan.reason = choice_reason(plan);
  plan = require_significance(problem, std::move(plan), uncut);
  add_runners_up(problem, podium, uncut_cost, plan);
  plan.certificate = certificate;
  return plan;
}

} // namespace mc2::planner::strategies
