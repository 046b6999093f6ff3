#include "pages/render.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mc2::cli::render_test {
namespace {

TEST(SweepPage, SaysNoNoiseOfASingleSample) {
  profiler::SweepSummary summary;
  summary.cases.push_back({.name = "one", .sample_count = 1, .median_us = 5, .p95_us = 5, .stop_reason = {}});
  summary.cases.push_back({.name = "with an outlier", .sample_count = 2, .outlier_count = 1, .stop_reason = {}});
  EXPECT_THAT(sweep_page(summary, false), ::testing::Not(::testing::HasSubstr("%")));
  summary.cases.push_back({.name = "steady", .sample_count = 2, .noise_ratio = 0, .stop_reason = {}});
  EXPECT_THAT(sweep_page(summary, false), ::testing::HasSubstr("0.0 %"));
}

} // namespace
} // namespace mc2::cli::render_test
