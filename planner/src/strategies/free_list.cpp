#include "strategies/free_list.hpp"

#include <algorithm>
#include <limits>

#include "mc2/planner/text.hpp"
#include "strategies/block_passing.hpp"
#include "strategies/family.hpp"
#include "strategies/objective.hpp"
#include "strategies/path_share.hpp"
#include "strategies/search.hpp"

namespace mc2::planner::strategies {
namespace {

/// Most cut points that the dynamic programme tries: its work grows with their square.
constexpr std::int64_t kMaxFreeUnitCount = 256;

std::int64_t free_step(const Problem& problem) noexcept {
  return coarsened_step(problem.rows, problem.options.alignment, kMaxFreeUnitCount);
}

/// A list of blocks up to a cut point: what later blocks depend on, and where the list came from.
struct State {
  PipelineState paths;
  std::int32_t count = 0;  ///< blocks so far
  std::int32_t point = 0;  ///< cut point before the last block
  std::int32_t parent = 0; ///< index of the state there
};

/// Whether state a makes state b superfluous. With a cap on the number of blocks, a longer list never replaces a
/// shorter one.
bool dominates(const State& a, const State& b, bool is_count_capped) noexcept {
  return a.paths.first_path_us <= b.paths.first_path_us && a.paths.second_path_us <= b.paths.second_path_us &&
         (!is_count_capped || a.count <= b.count);
}

/// The search for one variant and one place of the ragged rest.
class FreeListSearch {
 public:
  FreeListSearch(const Problem& problem, const VariantCost& cost, bool is_rest_first)
      : problem_(problem),
        cost_(cost),
        contention_(problem.slowdown(cost)),
        local_us_(cost.local_us(problem.op)),
        passing_(problem, cost),
        min_block_rows_(passing_.options().min_block_rows) {
    const std::int64_t step = free_step(problem);
    for (std::int64_t at = is_rest_first ? problem.rows % step : 0; at < problem.rows; at += step)
      points_.push_back(at);
    if (points_.empty() || points_.front() != 0) points_.insert(points_.begin(), 0);
    points_.push_back(problem.rows);
  }

  /// The fastest list that takes less than `limit_us`; empty when there is none.
  [[nodiscard]] Cut run(double limit_us) {
    tabulate();
    bound_rests();
    Cut cut = search(limit_us, false);
    // Most searches end with a list within the cap. Only if this one does not, it is repeated with the cap.
    if (static_cast<std::int64_t>(cut.block_rows.size()) > problem_.options.max_block_count)
      cut = search(limit_us, true);
    return cut;
  }
  [[nodiscard]] std::int64_t kept_count() const noexcept { return kept_count_; }
  [[nodiscard]] std::int64_t excluded_count() const noexcept { return excluded_count_; }
  [[nodiscard]] double best_us() const noexcept { return best_us_; }

 private:
  [[nodiscard]] std::size_t last() const noexcept { return points_.size() - 1; }
  [[nodiscard]] double first_us(std::size_t from, std::size_t to) const {
    return first_us_[from * points_.size() + to];
  }
  [[nodiscard]] double second_us(std::size_t from, std::size_t to) const {
    return second_us_[from * points_.size() + to];
  }
  [[nodiscard]] const Slices& slices(std::size_t from, std::size_t to) const {
    return passing_.slices(points_[to] - points_[from]);
  }
  [[nodiscard]] bool is_legal(std::size_t from, std::size_t to) const {
    const std::int64_t rows = points_[to] - points_[from];
    return rows >= min_block_rows_ && rows < problem_.rows;
  }

  /// Tabulates the time of the block between any two cut points. Lengths repeat, so each is computed once.
  void tabulate() {
    const std::size_t count = points_.size();
    first_us_.resize(count * count);
    second_us_.resize(count * count);
    for (std::size_t from = 0; from < count; ++from)
      for (std::size_t to = from + 1; to < count; ++to) {
        const bool is_shifted =
            from > 1 && to < last() && points_[to] - points_[from] == points_[to - 1] - points_[from - 1];
        first_us_[from * count + to] = is_shifted ? first_us(from - 1, to - 1) : price(from, to, true);
        second_us_[from * count + to] = is_shifted ? second_us(from - 1, to - 1) : price(from, to, false);
      }
  }
  [[nodiscard]] double price(std::size_t from, std::size_t to, bool is_first_lane) const {
    return problem_.lane_us(cost_, is_first_lane, points_[to] - points_[from], true);
  }

  /// Computes, for every cut point, the least that any list of blocks behind it adds to a path: to one that changes
  /// lanes in the last block (late_us_), in the next block (early_us_), or has already changed (behind_us_).
  void bound_rests() {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    late_us_.assign(points_.size(), kNever);
    early_us_.assign(points_.size(), kNever);
    behind_us_.assign(points_.size(), kNever);
    behind_us_.back() = 0;
    for (std::size_t from = last(); from-- > 0;)
      for (std::size_t to = from + 1; to <= last(); ++to) {
        if (!is_legal(from, to)) continue;
        const PathShare block(first_us(from, to), second_us(from, to), contention_, slices(from, to));
        behind_us_[from] = std::min(behind_us_[from], block.behind + behind_us_[to]);
        early_us_[from] = std::min(early_us_[from], block.change + behind_us_[to]);
        late_us_[from] = std::min(late_us_[from], to == last() ? block.change : block.before + late_us_[to]);
      }
  }

  /// No continuation ends sooner, because the makespan is the longest of these and other paths. Where overlap gains
  /// nothing, it is the shortest path, and the bound is 0.
  [[nodiscard]] double lower_bound_us(const PipelineState& paths, std::size_t at) const {
    const double stay_us = paths.second_path_us + behind_us_[at];
    const double early_us = paths.first_path_us + early_us_[at], late_us = paths.first_path_us + late_us_[at];
    if (contention_.is_overlap_useful) return std::max({stay_us, early_us, late_us});
    return 0;
  }

  [[nodiscard]] Cut search(double limit_us, bool is_count_capped) {
    best_us_ = limit_us;
    states_.assign(points_.size(), {});
    states_[0].push_back({PipelineState::start(local_us_, contention_, cost_.overhead_us())});
    int best_parent = -1, best_point = -1;
    for (std::size_t at = 0; at < last(); ++at) {
      for (std::size_t i = 0; i < states_[at].size(); ++i) {
        if (problem_.is_stopped()) return {};
        const State state = states_[at][i];
        if (is_count_capped && state.count >= problem_.options.max_block_count) continue;
        for (std::size_t to = at + 1; to <= last(); ++to) {
          if (!is_legal(at, to)) continue;
          State next{state.paths, state.count + 1, static_cast<std::int32_t>(at), static_cast<std::int32_t>(i)};
          next.paths.pass(first_us(at, to), second_us(at, to), contention_, slices(at, to));
          if (to == last()) {
            if (next.paths.second_path_us >= best_us_) continue;
            best_us_ = next.paths.second_path_us;
            best_point = next.point;
            best_parent = next.parent;
          } else {
            keep(next, to, is_count_capped);
          }
        }
      }
    }
    return best_point < 0 ? Cut{} : traced(best_point, best_parent);
  }

  void keep(const State& next, std::size_t to, bool is_count_capped) {
    auto& kept = states_[to];
    const auto is_beaten = [&](const State& other) { return dominates(other, next, is_count_capped); };
    if (lower_bound_us(next.paths, to) >= best_us_ || std::any_of(kept.begin(), kept.end(), is_beaten)) {
      ++excluded_count_;
      return;
    }
    std::erase_if(kept, [&](const State& other) { return dominates(next, other, is_count_capped); });
    kept.push_back(next);
    ++kept_count_;
  }

  /// The blocks that lead to the end from a state.
  [[nodiscard]] Cut traced(std::int32_t point, std::int32_t index) const {
    Cut cut{{problem_.rows - points_[static_cast<std::size_t>(point)]}};
    while (point != 0) {
      const State& state = states_[static_cast<std::size_t>(point)][static_cast<std::size_t>(index)];
      cut.block_rows.push_back(points_[static_cast<std::size_t>(point)] -
                               points_[static_cast<std::size_t>(state.point)]);
      point = state.point;
      index = state.parent;
    }
    std::reverse(cut.block_rows.begin(), cut.block_rows.end());
    return cut;
  }

  const Problem& problem_;
  const VariantCost& cost_;
  Contention contention_;
  double local_us_;
  BlockPassing passing_;
  std::int64_t min_block_rows_;
  std::vector<std::int64_t> points_;         ///< cut points, 0 and the axis' length included
  std::vector<double> first_us_, second_us_; ///< [from, to]
  std::vector<double> late_us_, early_us_, behind_us_;
  std::vector<std::vector<State>> states_; ///< per cut point
  double best_us_ = 0;
  std::int64_t kept_count_ = 0, excluded_count_ = 0;
};

/// Sums of the same times in another order differ by rounding; a list must be faster by more than that.
constexpr double kRounding = 1e-12;

/// The best free list so far, and how many partial lists were kept and excluded to find it.
struct Found {
  Cut cut;
  const VariantCost* cost = nullptr;
  double us = 0;
  std::int64_t kept_count = 0, excluded_count = 0;
};

void search_variant(const Problem& problem, const VariantCost& cost, Found& found) {
  const bool has_rest = problem.rows % free_step(problem) != 0;
  for (const bool is_rest_first : {false, true}) {
    if (is_rest_first && !has_rest) break;
    FreeListSearch search(problem, cost, is_rest_first);
    Cut cut = search.run(found.us);
    found.kept_count += search.kept_count();
    found.excluded_count += search.excluded_count();
    if (cut.block_rows.empty()) continue;
    found.cut = std::move(cut);
    found.cost = &cost;
    found.us = search.best_us();
  }
}

std::string certificate_text(const Certificate& family, const Found& found, const Plan& restricted) {
  std::string text = "every list of blocks covered: " + std::to_string(found.kept_count) + " partial lists kept, " +
                     std::to_string(found.excluded_count) + " excluded by a better one or a lower bound; ";
  if (found.cost == nullptr) return text + "none is faster than the best short/long cut; " + family.text;
  return text + "the best short/long cut, " + restricted.cut.text() + ", takes " +
         percent_text(restricted.makespan.us / found.us - 1) + " longer";
}

/// The free list, the best short/long cut and its runners-up, best first, up to the wanted number; without the plan.
std::vector<RunnerUp> runners_up(const Problem& problem, const Found& found, const Plan& restricted, const Plan& plan) {
  const auto wanted = static_cast<std::size_t>(problem.options.runner_up_count);
  std::vector<RunnerUp> losers;
  const auto add = [&](const VariantCost& cost, const Cut& cut) {
    if (is_choice(plan, cut, cost.variant)) return;
    // Not cutting is shown even when many cuts beat it, as in strategy search.
    const bool is_uncut = plan.is_cut() && cut.block_rows.size() == 1;
    if (is_uncut || losers.size() < wanted) losers.push_back(to_runner_up(problem, plan, cost, cut));
  };
  if (found.cost != nullptr) add(*found.cost, found.cut);
  add(cost_of(problem, restricted.variant), restricted.cut);
  for (const auto& loser : restricted.runners_up) add(cost_of(problem, loser.variant), loser.cut);
  return losers;
}

} // namespace

Plan plan_by_free_list(const Problem& problem) {
  PlanOptions options = problem.options;
  options.require_significant_gain = false; // judged once, at the end
  const Problem family_problem = make_problem(problem.op, problem.model, options, problem.stop_check);
  const Plan restricted = plan_by_search(family_problem);
  Found found{{}, nullptr, restricted.makespan.us * (1 - kRounding)};
  for (const auto& cost : problem.model.variants)
    if (!problem.is_stopped()) search_variant(problem, cost, found);

  Plan plan = restricted;
  if (found.cost != nullptr) {
    plan = predict(problem, *found.cost, found.cut, "free");
    plan.reason = std::string(to_string(plan.bound)) + " bound; free block lengths";
  }
  const double restriction_cost = plan.makespan.us > 0 ? restricted.makespan.us / plan.makespan.us - 1 : 0;
  plan = require_significance(problem, std::move(plan),
                              predict(problem, best_uncut_variant(problem), Cut{{problem.rows}}, "free"));
  plan.runners_up = runners_up(problem, found, restricted, plan);
  plan.strategy = "free";
  Certificate certificate = *restricted.certificate;
  certificate.simulated_count += found.kept_count;
  certificate.bounded_count += found.excluded_count;
  certificate.candidate_count = certificate.simulated_count + certificate.bounded_count;
  certificate.text = certificate_text(*restricted.certificate, found, restricted);
  certificate.restriction_cost = restriction_cost;
  plan.certificate = certificate;
  return plan;
}

} // namespace mc2::planner::strategies
