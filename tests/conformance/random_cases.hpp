#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conformance/backend_conformance.hpp"
#include "support/counts.hpp"

/// Random cases: every kind with random sizes, types, epilogues, routings, variants, schedules and cuts, checked
/// against the naive oracle and the tighter one of verify. A failure names the number of its case. To repeat case 1234
/// on the same machine, set MC2_RANDOM_FIRST=1234 MC2_RANDOM_CASES=1.
namespace mc2::testing {

class Dice {
 public:
  explicit Dice(std::uint64_t number) : random_(static_cast<std::mt19937::result_type>(number)) {}

  [[nodiscard]] std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random_()) % (most - least + 1);
  }
  [[nodiscard]] bool happens_once_in(int times) { return random_() % static_cast<unsigned>(times) == 0; }

  /// A random size from 1 to `most`. Every order of magnitude is about equally likely. Of sizes from 8 on, half are
  /// rounded down to a multiple of 8.
  [[nodiscard]] std::int64_t size(std::int64_t most) {
    const std::int64_t below =
        std::min(most, std::int64_t{1} << between(0, 1 + std::bit_width(static_cast<std::uint64_t>(most))));
    const std::int64_t size = between(1, below);
    return size >= 8 && happens_once_in(2) ? size / 8 * 8 : size;
  }

  template <class Choices>
  [[nodiscard]] auto pick(const Choices& choices) {
    return *std::next(std::begin(choices), between(0, static_cast<std::int64_t>(std::size(choices)) - 1));
  }

  [[nodiscard]] std::mt19937& engine() { return random_; }

 private:
  std::mt19937 random_;
};

struct RandomCase {
  planner::Plan plan;
  std::vector<std::int64_t> counts{}; ///< RankBuffers::send_counts of all ranks; empty: equal splits
  Routing choices = Routing::Random;
  bool wants_gathered_a = false;

  [[nodiscard]] std::string text() const {
    std::string all = plan.op.text() + " as " + plan.cut.text() + " with " + plan.variant.text();
    if (!counts.empty()) all += ", counts " + ::testing::PrintToString(counts);
    if (plan.schedule == planner::Schedule::Serial) all += ", serial";
    return all;
  }
};

class RandomConformance : public BackendConformance {
 protected:
  static constexpr std::int64_t kMostOfADimension = 130;
  static constexpr int kUsualCaseCount = 40; ///< per kind and link: more than a thousand in all on the host

  static std::uint64_t from_environment(const char* name, std::uint64_t usual) {
    const char* given = std::getenv(name);
    if (given == nullptr) return usual;
    const std::string_view text(given);
    std::uint64_t number = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (fault != std::errc() || end != text.data() + text.size())
      throw std::invalid_argument(std::string(name) + ": is \"" + given + "\", needs a whole number");
    return number;
  }

  static OpSpec draw_operator(Dice& dice, int world_size) {
    constexpr std::array kTypes{DType::F32, DType::Bf16, DType::F16, DType::I8, DType::F8E4m3};
    const auto& traits = planner::traits_of(GetParam().kind);
    const std::int64_t length = dice.size(kMostOfADimension), other = dice.size(kMostOfADimension);
    const std::int64_t k = dice.size(kMostOfADimension);
    // Operators with at most so many rows are cut along n.
    const std::int64_t fewest = GetParam().axis == CutAxis::Rows ? traits.max_column_cut_m : 0;
    OpSpec spec = op_of(fewest + length, other, k, world_size, dice.pick(kTypes));
    if (traits.work == planner::Work::Pooling) return spec;
    spec.epilogue = {.has_bias = dice.happens_once_in(2),
                     .has_residual = dice.happens_once_in(2) && takes_residual(spec)};
    if (traits.sums() && dice.happens_once_in(3)) spec.epilogue.norm = planner::Norm::Rms;
    if (traits.takes_counts) {
      spec.experts_per_rank = dice.between(1, 5);
      spec.m *= spec.experts_per_rank;
    }
    if (spec.experts) {
      const std::int64_t count = dice.size(40);
      spec.experts = {.count = count, .top_k = dice.between(1, std::min<std::int64_t>(count, 8))};
    }
    return spec;
  }

  /// A cut of one to six blocks of random lengths.
  static Cut draw_cut(Dice& dice, std::int64_t length) {
    std::set<std::int64_t> ends{length};
    for (std::int64_t i = dice.between(0, 5); i > 0; --i) ends.insert(dice.between(1, length));
    Cut cut;
    std::int64_t start = 0;
    for (const std::int64_t end : ends) cut.block_rows.push_back(end - std::exchange(start, end));
    return cut;
  }

  static RandomCase draw(Dice& dice, const OpSpec& spec, const Communicator& communicator) {
    const auto& traits = planner::traits_of(spec.kind);
    RandomCase one{.plan = plan(spec, draw_cut(dice, traits.cut_axis_length(spec)), communicator)};
    one.plan.variant = dice.pick(backend().variants(spec, options_for(spec.world_size)));
    if (one.plan.cut.block_rows.size() == 1 && dice.happens_once_in(3)) one.plan.schedule = planner::Schedule::Serial;
    one.wants_gathered_a = traits.gathers_a && dice.happens_once_in(2);
    one.choices = dice.pick(std::array{Routing::Equal, Routing::Zipf, Routing::OneTakesAll, Routing::Random});
    if (traits.takes_counts && !dice.happens_once_in(5))
      one.counts = expert_counts(dice.pick(kRoutings), spec, dice.engine());
    return one;
  }

  /// Sets the choices to those of a routing: Equal, Zipf, or otherwise all to the last expert.
  static void route(OwnChoices& own, const OpSpec& spec, Routing routing) {
    for (auto& experts : own.experts)
      for (std::size_t i = 0; i < experts.size(); ++i) {
        const auto place = static_cast<std::int64_t>(i);
        experts[i] = routing == Routing::Equal  ? place % spec.experts->count
                     : routing == Routing::Zipf ? spec.experts->count / (1 + place % spec.experts->count) - 1
                                                : spec.experts->count - 1;
      }
    own.bring();
  }

  /// Runs and checks a case twice, because a second run must not depend on what the first one left behind.
  /// @return whether the case ran: not all backends take counts with every type and variant
  static bool is_run_twice(const RandomCase& one, std::uint64_t seed, Communicator& communicator) {
    const OpSpec& spec = one.plan.op;
    ResidentProblem problem(spec, seed, communicator, {.counts = one.counts, .wants_gathered_a = one.wants_gathered_a});
    std::optional<OwnChoices> own;
    if (spec.experts && one.choices != Routing::Random)
      route(own.emplace(spec, problem, communicator), spec, one.choices);
    auto prepared = executor::prepare(one.plan, own ? own->buffers : problem.buffers(), communicator);
    if (!prepared) {
      EXPECT_TRUE(prepared.error().code == ErrorCode::Unsupported && !one.counts.empty()) << prepared.error().text();
      return false;
    }
    for (const std::uint64_t turn : {0, 1}) {
      problem.refill_a(seed + turn);
      problem.poison();
      prepared.value()->run(RunMode::Fused);
      problem.fetch_results();
      const auto host = own ? own->as_read_by(problem)
                            : std::vector(problem.host().buffers().begin(), problem.host().buffers().end());
      expect_right(spec, host);
      const auto found = executor::verify_result(spec, host, one.plan.cut, 1);
      EXPECT_TRUE(found.ok()) << found.error().text();
    }
    return true;
  }
};

TEST_P(RandomConformance, EveryCaseIsTheDefinition) {
  std::map<int, std::unique_ptr<Communicator>> communicators;
  for (const int world_size : {2, 3, 4, 8})
    if (runs(world_size)) communicators.emplace(world_size, open(world_size));
  const std::uint64_t first = from_environment("MC2_RANDOM_FIRST", 1);
  const std::uint64_t case_count = from_environment("MC2_RANDOM_CASES", kUsualCaseCount);
  std::uint64_t run_count = 0;
  for (std::uint64_t number = first; number < first + case_count && !HasFatalFailure(); ++number) {
    Dice dice(number);
    auto& [world_size, communicator] =
        *std::next(communicators.begin(), dice.between(0, std::ssize(communicators) - 1));
    OpSpec spec = draw_operator(dice, world_size);
    for (int again = 0; again < 50 && !backend().supports(spec); ++again) spec = draw_operator(dice, world_size);
    if (!backend().supports(spec)) continue;
    const RandomCase one = draw(dice, spec, *communicator);
    if (case_count == 1) std::printf("case %s\n", one.text().c_str()), std::fflush(stdout); // before it may crash
    SCOPED_TRACE("case " + std::to_string(number) + ": " + one.text());
    run_count += is_run_twice(one, number, *communicator) ? 1 : 0;
  }
  if (case_count >= kUsualCaseCount) {
    EXPECT_GT(2 * run_count, case_count) << "most cases are refused";
  }
  std::printf("%s of %s cases ran\n", std::to_string(run_count).c_str(), std::to_string(case_count).c_str());
}

#define MC2_INSTANTIATE_RANDOM_CASES(prefix, backends) \
  MC2_INSTANTIATE_SUITE(prefix, RandomConformance, with_kinds(&is_any, backends))

} // namespace mc2::testing
