#include "strategies/length_sweep.hpp"

#include <map>

#include "strategies/block_passing.hpp"
#include "strategies/family.hpp"

namespace mc2::planner::strategies {
namespace {

struct Candidate {
  Cut cut;
  const VariantCost* cost = nullptr;
  double makespan_us = 0;
};

/// The fastest candidate of every length.
class Fastest {
 public:
  explicit Fastest(const Problem& problem) : problem_(problem) {}

  void offer(std::int64_t long_rows, const VariantCost& cost, Cut cut) {
    const double us = simulate_cut(problem_, cost, cut).makespan_us;
    const auto [place, is_new] = by_length_.try_emplace(long_rows);
    if (is_new || us < place->second.makespan_us) place->second = {std::move(cut), &cost, us};
  }
  [[nodiscard]] const std::map<std::int64_t, Candidate>& by_length() const noexcept { return by_length_; }

 private:
  const Problem& problem_;
  std::map<std::int64_t, Candidate> by_length_;
};

/// Whether the long blocks take at least half of the axis.
bool is_named_by_length(const BlockSplit& member) { return member.long_count * member.long_rows >= member.odd_rows; }

Plan predict_choice(const Problem& problem, std::int64_t long_rows, const Candidate& candidate) {
  Plan plan = predict(problem, *candidate.cost, candidate.cut, "given");
  plan.reason = plan.is_cut() ? "the best cut into blocks of " + std::to_string(long_rows) + " " +
                                    std::string(to_string(cut_axis(problem.op)))
                              : "uncut";
  return plan;
}

} // namespace

std::vector<LengthChoice> sweep_lengths(const Problem& problem) {
  Fastest fastest(problem);
  for (const VariantCost& cost : problem.model.variants) {
    if (problem.is_stopped()) break;
    fastest.offer(problem.rows, cost, Cut{{problem.rows}});
    const BlockPassing passing(problem, cost);
    PlanOptions options = passing.options();
    // The steps are multiples of the search's, so that no length here beats the search's plan.
    options.alignment = coarsened_step(problem.rows, family_step(problem.rows, options), kMaxLengthCount);
    for_each_member(problem.rows, options, [&](const BlockSplit& member) {
      if (is_named_by_length(member)) fastest.offer(member.long_rows, cost, member.cut());
    });
    if (const auto halves = passing.halves_of_one(problem.rows)) fastest.offer(halves->long_rows, cost, halves->cut());
  }
  std::vector<LengthChoice> choices;
  for (const auto& [long_rows, candidate] : fastest.by_length()) {
    if (problem.is_stopped()) break;
    choices.push_back({long_rows, predict_choice(problem, long_rows, candidate)});
  }
  return choices;
}

} // namespace mc2::planner::strategies
