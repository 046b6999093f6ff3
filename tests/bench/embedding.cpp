#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>

#include "benches.hpp"
#include "mc2/embed/plan_finder.hpp"
#include "mc2/planner/text.hpp"
#include "pages/render.hpp"
#include "run_overhead.hpp"
#include "support.hpp"
#include "support/models.hpp"

namespace mc2::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLookupSamples = 101, kLookupsPerSample = 1000, kMisses = 101, kMakings = 3;
constexpr std::int64_t kFirstM = 65, kLastM = 16'384; // fewer rows would be cut along n

std::string in_us(double value) { return number(value, "%.3f us"); }

std::vector<std::string> row(const std::string& what, const std::vector<double>& values) {
  return {what, in_us(median(values)), in_us(profiler::quantile(values, 0.05)),
          in_us(profiler::quantile(values, 0.95))};
}

/// Rows with the difference per block of runs that took turns.
Result<std::vector<std::vector<std::string>>> overhead_rows(int pair_count) {
  std::vector<std::vector<std::string>> rows{
      {"blocks", "by hand", "Prepared::run()", "more, per block", "5 %", "95 %"}};
  for (const int blocks : {1, 4, 16, 64}) {
    MC2_ASSIGN(const auto pairs, executor::time_run_overhead(blocks, pair_count));
    std::vector<double> more;
    for (std::size_t i = 0; i < pairs.first_us.size(); ++i)
      more.push_back((pairs.second_us[i] - pairs.first_us[i]) / blocks);
    rows.push_back({std::to_string(blocks), in_us(median(pairs.first_us)), in_us(median(pairs.second_us)),
                    in_us(median(more)), in_us(profiler::quantile(more, 0.05)), in_us(profiler::quantile(more, 0.95))});
  }
  return rows;
}

/// A model: matmul 20 us + 0.5 us/row, all-reduce 20 us + 0.5 us/KiB. Its numbers do not matter to a lookup.
planner::CostModel model_of(const finder::PlanQuestion& question) {
  planner::CostModel model;
  model.op = question.op;
  model.fingerprint = question.machine;
  model.source = "invented, for mc2-bench embedding";
  model.variants = {{{"direct", {}},
                     {testing::affine(planner::CurveAxis::Rows, 20, 0.5)},
                     {testing::affine(planner::CurveAxis::Bytes, 20, 0.5 / 1024)}}};
  return model;
}

/// Times of one call; each sample is the mean of many calls.
std::vector<double> time_hits(const std::function<void()>& find) {
  std::vector<double> samples;
  for (int sample = 0; sample < kLookupSamples; ++sample) {
    const auto start = Clock::now();
    for (int call = 0; call < kLookupsPerSample; ++call) find();
    samples.push_back(to_us(Clock::now() - start) / kLookupsPerSample);
  }
  return samples;
}

/// Times of calls that each ask for a shape that is not remembered yet.
Result<std::vector<double>> time_misses(const embed::PlanFinder& finder, finder::PlanQuestion question) {
  std::vector<double> samples;
  for (int i = 0; i < kMisses; ++i) {
    question.op.m += 64;
    const auto start = Clock::now();
    const auto found = finder.find(question);
    samples.push_back(to_us(Clock::now() - start));
    if (!found) return found.error();
  }
  return samples;
}

/// Times of lookups with m in an order that a processor cannot predict.
std::vector<double> time_range_lookups(const planner::PlanRanges& ranges) {
  std::int64_t m = 1, sum = 0;
  auto samples = time_hits([&] {
    m = (m * 1'103'515'245 + 12'345) % kLastM; // Knuth's linear congruential generator
    if (const auto* range = ranges.find(std::max(m, kFirstM))) sum += range->rule.split(m).long_count;
  });
  if (sum < 0) std::cerr << sum; // never true; keeps the compiler from removing the lookups
  return samples;
}

std::vector<double> time_making(const embed::PlanFinder& finder, const finder::PlanQuestion& question) {
  std::vector<double> samples;
  for (int i = 0; i < kMakings; ++i) {
    const auto start = Clock::now();
    static_cast<void>(finder.find_ranges(question, kFirstM));
    samples.push_back(to_us(Clock::now() - start));
  }
  return samples;
}

Result<std::vector<std::vector<std::string>>> lookup_rows() {
  const auto* host = executor::find_backend("host").value();
  const finder::PlanQuestion question{.op = bench_op(1024, 1024, 1024), .machine = host->fingerprint({})};
  const ScratchStore scratch;
  MC2_ASSIGN(auto store, scratch.open());
  MC2_TRY(store.put_model(model_of(question), utc_now()));
  embed::FinderOptions options;
  options.store = store.path();
  MC2_ASSIGN(const auto finder, embed::PlanFinder::open(options));
  MC2_TRY(finder.find(question));
  finder::PlanQuestion last_question = question;
  last_question.op.m = kLastM;
  MC2_ASSIGN(const auto misses, time_misses(finder, question));
  MC2_ASSIGN(const auto ranges, finder.find_ranges(last_question, kFirstM));
  const std::string among = std::to_string(ranges.ranges.size()) + " ranges of m";
  return std::vector<std::vector<std::string>>{
      {"lookup", "median", "5 %", "95 %"},
      row("remembered", time_hits([&] { (void)finder.find(question.op, question.machine); })),
      row("a new m, planned from the kept model", misses),
      row("any m among " + among, time_range_lookups(ranges)),
      row("making those, " + std::to_string(ranges.planned_count) + " m", time_making(finder, last_question))};
}

} // namespace

Result<ExitCode> bench_embedding(int pair_count) {
  MC2_ASSIGN(const auto lookups, lookup_rows());
  MC2_ASSIGN(const auto overheads, overhead_rows(pair_count));
  std::cout << "PlanFinder::find(), one thread\n"
            << render::table(lookups, render::kAnyWidth) << "\n"
            << "Prepared::run() of the host backend beside the same calls written by hand: 2 ranks, blocks of 128 x "
               "16 x 16, "
            << pair_count << " pairs in turn\n"
            << render::table(overheads, render::kAnyWidth) << "\n";
  return ExitCode::Success;
}

} // namespace mc2::cli
