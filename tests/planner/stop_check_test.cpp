#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "mc2/planner/block_lengths.hpp"
#include "mc2/planner/explanation.hpp"
#include "mc2/planner/plan_ranges.hpp"
#include "mc2/planner/planner.hpp"
#include "support/models.hpp"

namespace mc2::planner::stop_check_test {
namespace {

/// A model of several variants, so that a strategy can be stopped between two of them.
CostModel model_of_variants() {
  CostModel model = testing::worked_example_model();
  for (const char* name : {"ring", "tree"}) {
    model.variants.push_back(model.variants.front());
    model.variants.back().variant.name = name;
  }
  return model;
}

/// A check that passes `count` times and then says stop.
StopCheck after(int count) {
  return [count]() mutable { return count-- <= 0; };
}

using Question = std::function<std::optional<Error>(const StopCheck&)>;

template <typename T>
std::optional<Error> error_of(const Result<T>& result) {
  return result ? std::nullopt : std::optional(result.error());
}

/// Stops the question after more and more passed checks. The answer is Cancelled every time, until the question ends
/// before its check says stop.
void expect_stoppable(const std::string& name, const Question& ask) {
  EXPECT_EQ(ask({}), std::nullopt) << name;
  constexpr int kMostChecks = 1'000'000;
  int stopped_count = 0;
  for (int count = 0; count < kMostChecks; count = 2 * count + 1) {
    const auto error = ask(after(count));
    if (!error) break;
    EXPECT_EQ(error->code, ErrorCode::Cancelled) << name << " stopped at " << count;
    ++stopped_count;
  }
  EXPECT_GT(stopped_count, 0) << name;
  EXPECT_EQ(ask(after(kMostChecks)), std::nullopt) << name;
}

TEST(StopCheck, EveryStrategyGivesUpWhenItSaysSo) {
  const CostModel model = model_of_variants();
  for (const auto strategy : strategy_names()) {
    PlanOptions options;
    options.strategy = strategy;
    expect_stoppable(options.strategy, [&](const StopCheck& is_stopped) {
      return error_of(make_plan(model.op, model, options, is_stopped));
    });
  }
}

TEST(StopCheck, WhatMakesManyPlansGivesUpToo) {
  const CostModel model = model_of_variants();
  const PlanOptions options;
  const Plan plan = make_plan(model.op, model, options).value();
  expect_stoppable("ranges", [&](const StopCheck& is_stopped) {
    return error_of(plan_ranges(model.op, 1, 4096, model, options, nullptr, is_stopped));
  });
  expect_stoppable("lengths", [&](const StopCheck& is_stopped) {
    return error_of(compare_lengths(model.op, model, options, is_stopped));
  });
  expect_stoppable("explanation",
                   [&](const StopCheck& is_stopped) { return error_of(explain(plan, &model, options, is_stopped)); });
}

TEST(StopCheck, AnAnswerDoesNotDependOnIt) {
  const CostModel model = model_of_variants();
  EXPECT_EQ(make_plan(model.op, model, {}, [] { return false; }).value(), make_plan(model.op, model, {}).value());
}

TEST(StopCheck, AModelHasABoundedNumberOfVariants) {
  CostModel model = testing::worked_example_model();
  model.variants.resize(kMaxVariantCount, model.variants.front());
  for (std::size_t i = 0; i < kMaxVariantCount; ++i) model.variants[i].variant.fields["number"] = std::to_string(i);
  EXPECT_TRUE(model.validate());
  model.variants.push_back(model.variants.front());
  EXPECT_EQ(model.validate().error().field, "variants");
}

} // namespace
} // namespace mc2::planner::stop_check_test
