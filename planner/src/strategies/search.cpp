#include "strategies/search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "strategies/family.hpp"
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
  double makespan_us = 0;
  FamilyMember member;             ///< long_count 0: uncut
  const VariantCost* cost = nullptr;
};

bool is_better(const Scored& a, const Scored& b) {
  if (a.makespan_us != b.makespan_us) return a.makespan_us < b.makespan_us;
  return a.member.block_count() < b.member.block_count();
}

/// The best few candidates so far; a bound above the worst of them excludes a candidate.
class Podium {
 public:
  explicit Podium(std::size_t size) : size_(size) {}

  [[nodiscard]] double limit_us() const noexcept {
    return entries_.size() < size_ ? std::numeric_limits<double>::infinity() : entries_.back().makespan_us;
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
      : problem_(problem), cost_(cost), table_(problem, cost), slowdown_(problem.slowdown(cost)), podium_(podium),
        certificate_(certificate), overlap_rate_(1 / slowdown_.first + 1 / slowdown_.second - 1) {
    const auto most = static_cast<std::size_t>(problem.options.max_block_count);
    first_us_.resize(most);
    second_us_.resize(most);
  }

  void run() {
    score_most_promising();
    for_each_member(problem_.rows, problem_.options, [this](const FamilyMember& member) {
      ++certificate_.candidate_count;
      if (is_same(member, most_promising_)) return;
      if (lower_bound_us(member) > podium_.limit_us())
        ++certificate_.bounded_count;
      else
        score(member);
    });
  }

 private:
  static bool is_same(const FamilyMember& a, const FamilyMember& b) {
    return a.long_rows == b.long_rows && a.long_count == b.long_count && a.odd_first == b.odd_first;
  }

  /// A good first incumbent excludes most of the rest by their bounds.
  void score_most_promising() {
    double best_bound_us = std::numeric_limits<double>::infinity();
    for_each_member(problem_.rows, problem_.options, [&](const FamilyMember& member) {
      const double bound_us = lower_bound_us(member);
      if (bound_us >= best_bound_us) return;
      best_bound_us = bound_us;
      most_promising_ = member;
    });
    if (most_promising_.long_count > 0) score(most_promising_);
  }

  /// No schedule of these blocks ends sooner. With W the work of a lane, s its slow-down, the first block of lane 1
  /// and the last of lane 2 cannot overlap anything, so the time O during which both lanes are busy is at most
  /// min(s1 (W1 - first), s2 (W2 - last)), and makespan >= W1 + W2 - O (1/s1 + 1/s2 - 1). docs/cost_model.md §5.
  [[nodiscard]] double lower_bound_us(const FamilyMember& m) const {
    const auto count = static_cast<double>(m.long_count);
    const double long1 = table_.long_first_us(m), long2 = table_.long_second_us(m);
    const double odd1 = m.odd_rows > 0 ? table_.odd_first_us(m) : 0, odd2 = m.odd_rows > 0 ? table_.odd_second_us(m) : 0;
    const double work1 = count * long1 + odd1, work2 = count * long2 + odd2;
    const double head = m.odd_rows > 0 && m.odd_first ? odd1 : long1;
    const double tail = m.odd_rows > 0 && !m.odd_first ? odd2 : long2;
    const double chain_us = std::max(head + work2, work1 + tail);
    if (overlap_rate_ <= 0) return chain_us;
    const double overlap_us = std::min(slowdown_.first * (work1 - head), slowdown_.second * (work2 - tail));
    return std::max(chain_us, work1 + work2 - overlap_us * overlap_rate_);
  }

  void score(const FamilyMember& member) {
    ++certificate_.simulated_count;
    const auto count = static_cast<std::size_t>(member.block_count());
    const std::span<double> first(first_us_.data(), count), second(second_us_.data(), count);
    std::fill(first.begin(), first.end(), table_.long_first_us(member));
    std::fill(second.begin(), second.end(), table_.long_second_us(member));
    if (member.odd_rows > 0) {
      (member.odd_first ? first.front() : first.back()) = table_.odd_first_us(member);
      (member.odd_first ? second.front() : second.back()) = table_.odd_second_us(member);
    }
    podium_.offer({makespan_us(first, second, slowdown_), member, &cost_});
  }

  const Problem& problem_;
  const VariantCost& cost_;
  CostTable table_;
  Slowdown slowdown_;
  Podium& podium_;
  Certificate& certificate_;
  double overlap_rate_; ///< work saved per unit of time during which both lanes are busy
  FamilyMember most_promising_;
  std::vector<double> first_us_, second_us_;
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
  if (loser.makespan_us <= winner.makespan_us) return has_more_blocks ? "as fast, with more blocks" : "as fast";
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

void add_runners_up(const Problem& problem, const Podium& podium, const VariantCost& serial, Plan& plan) {
  const auto add = [&](const VariantCost& cost, const Cut& cut) {
    const Timeline timeline = simulate_cut(problem, cost, cut);
    plan.runners_up.push_back({cut, cost.variant, timeline.makespan_us, loss_reason(plan.timeline, timeline)});
  };
  const auto wanted = static_cast<std::size_t>(problem.options.runner_up_count);
  for (std::size_t i = 1; i < podium.entries().size() && plan.runners_up.size() < wanted; ++i)
    add(*podium.entries()[i].cost, cut_of(problem, podium.entries()[i]));
  const bool has_uncut = std::any_of(plan.runners_up.begin(), plan.runners_up.end(),
                                     [](const RunnerUp& r) { return r.cut.block_rows.size() == 1; });
  // Not cutting is what the user has today, so it is shown even when many cuts beat it.
  if (plan.is_cut() && !has_uncut) add(serial, Cut{{problem.rows}});
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
  Certificate certificate;
  const VariantCost& serial = best_serial_variant(problem);
  certificate.candidate_count = certificate.simulated_count = 1;
  podium.offer({problem.compute_us(serial, problem.rows) + problem.communication_us(serial, problem.rows),
                FamilyMember{}, &serial});
  for (const auto& cost : problem.model.variants) VariantSearch(problem, cost, podium, certificate).run();

  const Scored& best = podium.entries().front();
  Plan plan = predict(problem, *best.cost, cut_of(problem, best), "search");
  plan.reason = choice_reason(plan);
  add_runners_up(problem, podium, serial, plan);
  certificate.text = certificate_text(problem, certificate);
  plan.certificate = certificate;
  return plan;
}

} // namespace mc2::planner::strategies
