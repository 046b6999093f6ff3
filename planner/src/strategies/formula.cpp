#include "strategies/formula.hpp"

#include <algorithm>
#include <cmath>

#include "mc2/planner/text.hpp"

namespace mc2::planner::strategies {
namespace {

constexpr std::int64_t kMinFlopProduct = 4LL * 1024 * 1024 * 1024; ///< a * k * n
constexpr double kMinTraffic = 6.0 * 1024 * 1024;                  ///< b * k * n / 1024 + b * n
constexpr std::int64_t kMinRows = 3 * 128;                         ///< c
constexpr std::int64_t kRecipeAlignment = 128;

/// Collects the numbers of the recipe as they are computed: the trace that people check by hand.
struct Recipe {
  std::vector<RecipeStep> steps;
  void add(const char* name, double value, const char* unit, std::string text) {
    steps.push_back({name, value, unit, std::move(text)});
  }
};

Error infeasible(const std::string& message) { return {ErrorCode::Infeasible, "strategy formula", message}; }

std::int64_t short_block_rows(const Problem& problem, Recipe& recipe) {
  const auto n = static_cast<double>(problem.op.n), k = static_cast<double>(problem.op.k);
  const auto a = static_cast<std::int64_t>(std::ceil(static_cast<double>(kMinFlopProduct) / (k * n)));
  const auto b = static_cast<std::int64_t>(std::ceil(kMinTraffic / (k * n / 1024 + n)));
  recipe.add("a", static_cast<double>(a), "rows", "smallest a with a k n >= 4 * 1024^3: enough work for the matmul");
  recipe.add("b", static_cast<double>(b), "rows", "smallest b with b k n / 1024 + b n >= 6 * 1024^2: enough traffic");
  recipe.add("c", static_cast<double>(kMinRows), "rows", "3 * 128: enough rows for the cores");
  const bool largest = problem.options.formula_short_block == ShortBlockRule::Largest;
  const std::int64_t rows = largest ? std::max({a, b, kMinRows}) : std::min({a, b, kMinRows});
  recipe.add("m0", static_cast<double>(rows), "rows",
             largest ? "largest of a, b, c, as in the published example" : "smallest of a, b, c, as the text says");
  return rows;
}

/// Rows of a long block: what the other lane finishes in the time that the short block takes on the bound lane.
Result<std::int64_t> balanced_rows(const Problem& problem, const VariantCost& cost, Bound bound,
                                   std::int64_t short_rows, Recipe& recipe) {
  const bool is_comm_bound = bound == Bound::Communication;
  const double cost_us =
      is_comm_bound ? problem.communication_us(cost, short_rows) : problem.compute_us(cost, short_rows);
  recipe.add("cost(m0)", cost_us, "us", "cost of m0 on the " + std::string(to_string(bound)) + " lane");
  const double t_us = cost_us * problem.options.formula_contention;
  recipe.add("t", t_us, "us", "x " + number_text(problem.options.formula_contention) + " for bandwidth contention");
  const CostCurve& other = is_comm_bound ? cost.compute.curve : cost.communication.curve;
  const double x_per_row = is_comm_bound ? 1.0 : problem.message_bytes_per_unit;
  const auto x = other.inverse(t_us, static_cast<double>(problem.rows) * x_per_row);
  // When even the whole axis is cheaper on the other lane, one long block takes all that is left.
  const auto rows = x ? static_cast<std::int64_t>(x.value() / x_per_row) : problem.rows;
  const std::int64_t aligned = align_down(std::min(rows, problem.rows), kRecipeAlignment);
  recipe.add("m1", static_cast<double>(aligned), "rows", "the other lane's block of cost t, aligned down to 128");
  if (aligned < kRecipeAlignment)
    return infeasible("the other lane does not finish 128 rows within t = " + number_text(t_us) +
                      " us, so there is no long block; use strategy search");
  return aligned;
}

/// The recipe itself has no such limits, but a plan must keep them.
Result<void> check_limits(const PlanOptions& options, std::int64_t block_count, std::int64_t shortest_rows,
                          std::int64_t long_rows) {
  if (long_rows % options.alignment != 0)
    return infeasible("cuts long blocks of " + std::to_string(long_rows) + " rows, and alignment is " +
                      std::to_string(options.alignment) + "; ask for one that divides them, or use strategy search");
  if (block_count > options.max_block_count)
    return infeasible("cuts into " + std::to_string(block_count) + " blocks, and max_block_count is " +
                      std::to_string(options.max_block_count) + "; allow more, or use strategy search");
  if (shortest_rows < options.min_block_rows)
    return infeasible("cuts a block of " + std::to_string(shortest_rows) + " rows, and min_block_rows is " +
                      std::to_string(options.min_block_rows) + "; allow shorter ones, or use strategy search");
  return {};
}

/// Step 4: how many long blocks, and their final length.
Result<Cut> divide(const Problem& problem, Bound bound, std::int64_t short_rows, std::int64_t long_rows,
                   Recipe& recipe) {
  // If m1 is longer than m - m0, floor((m - m0) / m1) is 0. The recipe has no answer then; here it is one long block.
  const std::int64_t count = std::max<std::int64_t>(1, (problem.rows - short_rows) / long_rows);
  recipe.add("count", static_cast<double>(count), "blocks", "floor((m - m0) / m1), at least 1");
  const std::int64_t final_long = align_down((problem.rows - short_rows) / count, kRecipeAlignment);
  if (final_long < kRecipeAlignment)
    return infeasible("only " + std::to_string(problem.rows - short_rows) + " of " + std::to_string(problem.rows) +
                      " rows are left beside the short block of " + std::to_string(short_rows) +
                      ", less than one long block of 128; use strategy search");
  const std::int64_t final_short = problem.rows - final_long * count;
  recipe.add("m1 final", static_cast<double>(final_long), "rows", "(m - m0) / count, aligned down to 128");
  recipe.add("m0 final", static_cast<double>(final_short), "rows", "m - m1 * count");
  MC2_TRY(check_limits(problem.options, count + 1, std::min(final_long, final_short), final_long));
  Cut cut{std::vector<std::int64_t>(static_cast<std::size_t>(count), final_long)};
  cut.block_rows.insert(bound == Bound::Communication ? cut.block_rows.begin() : cut.block_rows.end(), final_short);
  return cut;
}

} // namespace

Result<Plan> plan_by_formula(const Problem& problem) {
  if (problem.traits.work != Work::Matmul)
    return infeasible("is a recipe for plain matmuls, and " + std::string(problem.traits.name) + " does " +
                      std::string(to_string(problem.traits.work)) + "; use strategy search");
  if (cut_axis(problem.op) != CutAxis::Rows)
    return infeasible("it cuts m only, and m = " + std::to_string(problem.op.m) +
                      " is cut along n; use strategy search");
  const VariantCost& cost = best_serial_variant(problem);
  const Bound bound = problem.communication_us(cost, problem.rows) > problem.compute_us(cost, problem.rows)
                          ? Bound::Communication
                          : Bound::Compute;
  Recipe recipe;
  const std::int64_t short_rows = short_block_rows(problem, recipe);
  if (short_rows >= problem.rows)
    return infeasible("the short block m0 = " + std::to_string(short_rows) + " rows is not shorter than m = " +
                      std::to_string(problem.rows) + "; too small to cut by this recipe");
  MC2_ASSIGN(const auto long_rows, balanced_rows(problem, cost, bound, short_rows, recipe));
  MC2_ASSIGN(const auto cut, divide(problem, bound, short_rows, long_rows, recipe));
  Plan plan = predict(problem, cost, cut, "formula");
  plan.recipe = std::move(recipe.steps);
  plan.reason = std::string(to_string(bound)) + " bound, so the short block runs " +
                (bound == Bound::Communication ? "first" : "last") + "; lengths from the published recipe";
  return plan;
}

} // namespace mc2::planner::strategies
