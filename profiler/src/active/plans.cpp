#include "active/plans.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "mc2/planner/cost_model.hpp"

namespace mc2::profiler::active {
namespace {

using planner::Cut;

constexpr std::size_t kMaxCutCount = 96;
/// Cuts of one number and order of blocks that are kept for variety, before the shortest of all fill up.
constexpr std::size_t kCutsPerKind = 2;
/// A cut this much longer by the mean is not plausibly the best.
constexpr double kPlausibleMargin = 1.5;

/// Times of both lanes by size, and how blocks pass them.
struct Times {
  std::span<const std::int64_t> sizes; ///< ascending
  std::span<const double> matmul_us;
  std::span<const double> collective_us;
  double matmul_slowdown = 1;
  double collective_slowdown = 1;
};

/// Makespans of cuts; keeps its room between calls.
class Simulator {
 public:
  explicit Simulator(const ActiveQuestion& question)
      : is_matmul_first_(planner::traits_of(question.op.kind).first_lane == planner::Lane::Compute),
        slices_(planner::slices_of(planner::parse_variant(question.variant))) {}

  [[nodiscard]] double makespan_us(const Cut& cut, const Times& times) {
    matmul_us_.clear();
    collective_us_.clear();
    for (const std::int64_t rows : cut.block_rows) {
      const auto at = std::lower_bound(times.sizes.begin(), times.sizes.end(), rows) - times.sizes.begin();
      matmul_us_.push_back(times.matmul_us[static_cast<std::size_t>(at)]);
      collective_us_.push_back(times.collective_us[static_cast<std::size_t>(at)]);
    }
    if (is_matmul_first_)
      return planner::makespan_us(matmul_us_, collective_us_, {times.matmul_slowdown, times.collective_slowdown},
                                  slices_);
    return planner::makespan_us(collective_us_, matmul_us_, {times.collective_slowdown, times.matmul_slowdown},
                                slices_);
  }

 private:
  bool is_matmul_first_;
  planner::Slices slices_;
  std::vector<double> matmul_us_, collective_us_;
};

std::vector<std::int64_t> sizes_of(std::span<const Cut> cuts, std::span<const std::int64_t> others) {
  std::set<std::int64_t> sizes(others.begin(), others.end());
  for (const Cut& cut : cuts) sizes.insert(cut.block_rows.begin(), cut.block_rows.end());
  return {sizes.begin(), sizes.end()};
}

std::vector<double> mean_makespans_us(const ActiveQuestion& question, const Beliefs& beliefs,
                                      std::span<const Cut> cuts) {
  const std::vector<std::int64_t> sizes = sizes_of(cuts, {});
  const std::vector<double> matmul_us = beliefs.matmul.mean_us(sizes);
  const std::vector<double> collective_us = beliefs.collective.mean_us(sizes);
  const Times times{sizes, matmul_us, collective_us, std::max(beliefs.matmul_slowdown.mean, 1.0),
                    std::max(beliefs.collective_slowdown.mean, 1.0)};
  Simulator simulator(question);
  std::vector<double> result;
  for (const Cut& cut : cuts) result.push_back(simulator.makespan_us(cut, times));
  return result;
}

Eigen::VectorXd draw_slowdowns(const SlowdownBelief& belief, int count, std::mt19937_64& random) {
  Eigen::VectorXd result(count);
  for (Eigen::Index i = 0; i < count; ++i)
    result(i) = std::max(belief.mean + belief.deviation * draw_normal(random), 1.0);
  return result;
}

} // namespace

std::vector<Cut> plausible_cuts(const ActiveQuestion& question, const Beliefs& beliefs) {
  const std::vector<Cut> cuts = planner::enumerate_cuts(question.op, question.plan).value();
  const std::vector<double> makespans_us = mean_makespans_us(question, beliefs, cuts);
  std::vector<std::size_t> order(cuts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return makespans_us[a] < makespans_us[b]; });
  std::set<std::size_t> chosen{0}; // enumerate_cuts names uncut first
  std::map<std::pair<std::size_t, planner::BlockOrder>, std::size_t> kinds;
  for (const std::size_t i : order) {
    if (chosen.size() == kMaxCutCount || makespans_us[i] > kPlausibleMargin * makespans_us[order.front()]) break;
    if (++kinds[{cuts[i].block_rows.size(), cuts[i].order()}] <= kCutsPerKind) chosen.insert(i);
  }
  for (const std::size_t i : order) {
    if (chosen.size() >= kMaxCutCount / 2) break;
    chosen.insert(i);
  }
  std::vector<Cut> result;
  for (const std::size_t i : order)
    if (chosen.contains(i)) result.push_back(cuts[i]);
  if (question.incumbent && std::find(result.begin(), result.end(), *question.incumbent) == result.end())
    result.push_back(*question.incumbent);
  return result;
}

Draws draw_makespans(const ActiveQuestion& question, const Beliefs& beliefs, std::span<const Cut> cuts,
                     std::span<const std::int64_t> other_sizes) {
  std::mt19937_64 random(question.seed);
  const std::vector<std::int64_t> sizes = sizes_of(cuts, other_sizes);
  const int count = question.draw_count;
  Draws draws{beliefs.matmul.draw(sizes, count, random), beliefs.collective.draw(sizes, count, random),
              draw_slowdowns(beliefs.matmul_slowdown, count, random),
              draw_slowdowns(beliefs.collective_slowdown, count, random),
              Eigen::MatrixXd(count, static_cast<Eigen::Index>(cuts.size()))};
  Simulator simulator(question);
  std::vector<double> matmul_us(sizes.size()), collective_us(sizes.size());
  for (Eigen::Index d = 0; d < count; ++d) {
    for (std::size_t j = 0; j < sizes.size(); ++j) {
      matmul_us[j] = draws.matmul.times_us(d, static_cast<Eigen::Index>(j));
      collective_us[j] = draws.collective.times_us(d, static_cast<Eigen::Index>(j));
    }
    const Times times{sizes, matmul_us, collective_us, draws.matmul_slowdown(d), draws.collective_slowdown(d)};
    for (std::size_t p = 0; p < cuts.size(); ++p)
      draws.makespans_us(d, static_cast<Eigen::Index>(p)) = simulator.makespan_us(cuts[p], times);
  }
  return draws;
}

} // namespace mc2::profiler::active
