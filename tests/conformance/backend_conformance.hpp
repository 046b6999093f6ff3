#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mc2/executor/backend.hpp"
#include "mc2/executor/executor.hpp"
#include "mc2/executor/resident_problem.hpp"
#include "mc2/executor/verify.hpp"
#include "support/operators.hpp"
#include "support/oracle.hpp"

/// Tests of what every backend must do, checked against the naive oracle. A backend's test file includes this header
/// and instantiates the suites; it contains no other test of these properties.
namespace mc2::testing {

using executor::Communicator;
using executor::CommunicatorOptions;
using executor::ExecuteOptions;
using executor::Prepared;
using executor::RandomProblem;
using executor::RankBuffers;
using executor::ResidentProblem;
using executor::RunMode;
using planner::Cut;
using planner::CutAxis;
using planner::DType;
using planner::OpKind;
using planner::OpSpec;

struct BackendUnderTest {
  std::string name;
  const executor::Backend* backend = nullptr;
  CommunicatorOptions options; ///< world_size is set by each test
};

/// One backend with one operator kind, cut into rows or columns.
struct ConformanceCase {
  BackendUnderTest under_test;
  OpKind kind = OpKind::MatmulAllReduce;
  CutAxis axis = CutAxis::Rows;

  [[nodiscard]] std::string name() const {
    return under_test.name + "_" + std::string(planner::to_string(kind)) + (axis == CutAxis::Columns ? "_columns" : "");
  }
};

inline void PrintTo(const ConformanceCase& one, std::ostream* out) { *out << one.name(); }

inline bool is_any(const planner::OpTraits& /*traits*/) { return true; }
inline bool is_product(const planner::OpTraits& traits) { return traits.work != planner::Work::Pooling; }
inline bool chooses_experts(const planner::OpTraits& traits) { return traits.work == planner::Work::GroupedMatmul; }
inline bool has_local_part(const planner::OpTraits& traits) { return traits.has_local_part; }
inline bool has_row_shards(const planner::OpTraits& traits) { return traits.has_row_shards; }

/// Each of the backends with each operator kind for which `is_so` holds, cut into rows and, where the kind allows it,
/// into columns.
inline std::vector<ConformanceCase> with_kinds(bool (*is_so)(const planner::OpTraits&),
                                               const std::vector<BackendUnderTest>& backends) {
  std::vector<ConformanceCase> cases;
  for (const BackendUnderTest& backend : backends) {
    for (const auto& traits : planner::op_registry()) {
      if (!is_so(traits)) continue;
      cases.push_back({backend, traits.kind, CutAxis::Rows});
      const OpSpec few_rows{.kind = traits.kind, .m = 8, .n = 8, .k = 8, .dtype = DType::F32, .world_size = 2};
      if (planner::cut_axis(few_rows) == CutAxis::Columns) cases.push_back({backend, traits.kind, CutAxis::Columns});
    }
  }
  return cases;
}

/// A communicator with a problem and a plan bound to it.
struct Bound {
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<ResidentProblem> problem;
  std::unique_ptr<Prepared> prepared; ///< last, so that it is destroyed before the members it was made from
};

class BackendConformance : public ::testing::TestWithParam<ConformanceCase> {
 protected:
  static const executor::Backend& backend() { return *GetParam().under_test.backend; }
  static bool has_shards() { return planner::traits_of(GetParam().kind).has_row_shards; }

  /// @param length  of the cut axis. For rows of kinds without shards this is m, and must be above the most rows that
  ///                are cut along n
  /// @param other  columns where rows are cut; rows where columns are cut, lowered to the most that are cut along n
  static OpSpec op_of(std::int64_t length, std::int64_t other, std::int64_t k, int world_size, DType dtype) {
    if (GetParam().axis == CutAxis::Columns)
      return {.kind = GetParam().kind,
              .m = std::min<std::int64_t>(other, planner::traits_of(GetParam().kind).max_column_cut_m),
              .n = length,
              .k = k,
              .dtype = dtype,
              .world_size = world_size};
    OpSpec spec{.kind = GetParam().kind,
                .m = has_shards() ? length * world_size : length,
                .n = other,
                .k = k,
                .dtype = dtype,
                .world_size = world_size};
    if (planner::traits_of(spec.kind).work == planner::Work::Pooling) spec.tables = tables_of(other, k);
    if (planner::traits_of(spec.kind).work == planner::Work::GroupedMatmul) spec.experts = experts_of(other);
    return spec;
  }

  /// 4 tables where 4 divides the columns; else as many as columns where these are few, or one.
  static planner::EmbeddingTables tables_of(std::int64_t n, std::int64_t k) {
    return {.table_count = n % 4 == 0 ? 4
                           : n < 20   ? n
                                      : 1,
            .row_count = 37,
            .pooling = k % 2 == 0 ? planner::Pooling::Sum : planner::Pooling::Mean};
  }

  /// 1 to 7 experts, of which each row chooses 1 to 3.
  static planner::ChosenExperts experts_of(std::int64_t n) {
    return {.count = 1 + n % 7, .top_k = 1 + n % std::min<std::int64_t>(1 + n % 7, 3)};
  }

  /// Whether the backend runs the kind on so many ranks in one of the types of first_dtype().
  static bool runs(int world_size) { return first_dtype(8, 8, 8, world_size).has_value(); }

  /// The first type in which the backend runs this shape. @param reasons  why it does not run the types before
  static std::optional<DType> first_dtype(std::int64_t length, std::int64_t other, std::int64_t k, int world_size,
                                          std::string* reasons = nullptr) {
    for (const DType dtype : {DType::F32, DType::Bf16, DType::F16}) {
      const auto supported = backend().supports(op_of(length, other, k, world_size, dtype));
      if (supported) return dtype;
      if (reasons != nullptr) *reasons += supported.error().text() + "; ";
    }
    return std::nullopt;
  }

  /// An operator in the first type that the backend supports; f32 where it supports none, which SetUp excludes for
  /// ordinary shapes.
  static OpSpec op(std::int64_t length, std::int64_t other, std::int64_t k, int world_size) {
    return op_of(length, other, k, world_size, first_dtype(length, other, k, world_size).value_or(DType::F32));
  }

  /// The operator, or a similar one where rows choose experts and the backend does not support it: kernels for such
  /// operators need not support f32 or every n and k.
  static OpSpec next_to(OpSpec spec) {
    if (!spec.experts || backend().supports(spec)) return spec;
    if (spec.dtype == DType::F32) spec.dtype = DType::Bf16;
    constexpr std::int64_t kMultiple = 8;
    spec.n = planner::ceil_div(spec.n, kMultiple) * kMultiple;
    spec.k = planner::ceil_div(spec.k, kMultiple) * kMultiple;
    return spec;
  }

  void SetUp() override {
    if (const auto found = backend().availability(); !found.is_available) GTEST_SKIP() << found.reason;
    std::string reasons;
    for (const int world_size : {2, 3, 4, 8}) {
      if (first_dtype(8, 8, 8, world_size, &reasons)) return;
    }
    GTEST_SKIP() << reasons;
  }

  static CommunicatorOptions options_for(int world_size) {
    CommunicatorOptions options = GetParam().under_test.options;
    options.world_size = world_size;
    return options;
  }

  static planner::Variant default_variant(const OpSpec& spec) {
    return backend().variants(spec, options_for(spec.world_size)).front();
  }

  static std::unique_ptr<Communicator> open(int world_size) {
    auto communicator = backend().open(options_for(world_size));
    EXPECT_TRUE(communicator.ok()) << communicator.error().text();
    return std::move(communicator).value();
  }

  static planner::Plan plan(const OpSpec& spec, const Cut& cut, const Communicator& communicator) {
    planner::Plan made;
    made.op = spec;
    made.cut = cut;
    made.variant = default_variant(spec);
    made.schedule =
        planner::traits_of(spec.kind).has_local_part ? planner::Schedule::LocalFirst : planner::Schedule::Pipelined;
    made.fingerprint = communicator.fingerprint();
    return made;
  }

  static std::unique_ptr<Prepared> prepare(const planner::Plan& made, const ResidentProblem& problem,
                                           Communicator& communicator) {
    const ExecuteOptions options{.accept_other_fingerprint = false, .prepare = {.allow_independent = true}};
    auto prepared = executor::prepare(made, problem.buffers(), communicator, options);
    EXPECT_TRUE(prepared.ok()) << prepared.error().text();
    return std::move(prepared).value();
  }

  static Bound bind(const OpSpec& spec, const Cut& cut, const executor::ProblemExtras& extras = {}) {
    Bound bound;
    bound.communicator = open(spec.world_size);
    bound.problem = std::make_unique<ResidentProblem>(spec, 42, *bound.communicator, extras);
    bound.prepared = prepare(plan(spec, cut, *bound.communicator), *bound.problem, *bound.communicator);
    return bound;
  }

  /// Expects every element of every rank near the naive oracle, and equal bits on ranks that get the same result.
  /// Poison is NaN and never near the oracle.
  static void expect_right(const OpSpec& spec, ResidentProblem& problem) {
    problem.fetch_results();
    expect_right(spec, problem.host().buffers());
  }

  static void expect_right(const OpSpec& spec, std::span<const RankBuffers> buffers) {
    const auto expected = naive_results(spec, buffers);
    const double allowed = allowed_error(spec);
    const auto gathered = everybodys_a(buffers);
    for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
      ASSERT_TRUE(buffers[rank].gathered_a.empty() || are_same_bytes(buffers[rank].gathered_a, gathered))
          << "rank " << rank;
      const auto got = elements(planner::product_type(spec), buffers[rank].c);
      ASSERT_EQ(got.size(), expected[rank].size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (std::abs(got[i] - expected[rank][i]) <= allowed) continue; // false for NaN
        FAIL() << "rank " << rank << ", row " << i / static_cast<std::size_t>(spec.n) << ", column "
               << i % static_cast<std::size_t>(spec.n) << " is " << got[i] << ", should be " << expected[rank][i]
               << " within " << allowed;
      }
      ASSERT_LE(norm_error_ratio(spec, buffers[rank], expected[rank], allowed), 1) << "rank " << rank;
      if (planner::traits_of(spec.kind).collective != planner::Collective::AllReduce) continue;
      ASSERT_TRUE(are_same_bytes(buffers[rank].c, buffers.front().c)) << "ranks differ";
      ASSERT_TRUE(are_same_bytes(buffers[rank].normed, buffers.front().normed)) << "ranks differ";
    }
  }

  void expect_no_norm() {
    OpSpec spec = op(96, 24, 16, 2);
    spec.epilogue.norm = planner::Norm::Rms;
    const auto refused = backend().supports(spec);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().field, "norm");
  }

  static bool is_poisoned(const OpSpec& spec, ResidentProblem& problem) {
    problem.fetch_results();
    for (const RankBuffers& rank : problem.host().buffers()) {
      for (const double value : elements(planner::product_type(spec), rank.c)) {
        if (!std::isnan(value)) return false;
      }
    }
    return true;
  }

  static void run_and_check(const planner::Plan& made, Communicator& communicator) {
    SCOPED_TRACE(made.op.text() + " as " + made.cut.text() + " with " + made.variant.text());
    ResidentProblem problem(made.op, 7, communicator, with_gathered_a(made.op));
    auto prepared = prepare(made, problem, communicator);
    prepared->run(RunMode::Fused);
    expect_right(made.op, problem);
  }

  static void expect_refused(const OpSpec& spec, std::span<const RankBuffers> buffers, Communicator& communicator,
                             ErrorCode code, const std::string& text, const planner::Variant* variant = nullptr) {
    auto made = plan(spec, {{planner::traits_of(spec.kind).cut_axis_length(spec)}}, communicator);
    if (variant != nullptr) made.variant = *variant;
    const auto refused = executor::prepare(made, buffers, communicator);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, code);
    EXPECT_THAT(refused.error().text(), ::testing::HasSubstr(text));
  }
};

/// Cuts of the operator: uncut, equal blocks, short first, short last, and a free list with single rows.
inline std::vector<Cut> cuts_of(const OpSpec& op) {
  const std::int64_t m = planner::traits_of(op.kind).cut_axis_length(op);
  std::vector<Cut> cuts{{{m}}};
  if (m % 2 == 0) cuts.push_back({{m / 2, m / 2}});
  if (m >= 7) {
    const std::int64_t third = m / 3;
    cuts.push_back({{m - 2 * third, third, third}});
    const std::int64_t longer = third + 1;
    if (m - 2 * longer >= 1) cuts.push_back({{longer, longer, m - 2 * longer}});
    cuts.push_back({{1, 2, m - 4, 1}});
  }
  return cuts;
}

/// Suites for properties that only some kinds have.
class ProductConformance : public BackendConformance {};
class LocalPartConformance : public BackendConformance {};
class ChoiceConformance : public BackendConformance {};
class ShardConformance : public BackendConformance {};
/// Suite for backends with virtual compute, which alone have intermediates.
class IntermediatesConformance : public BackendConformance {};

TEST_P(BackendConformance, FusedResultIsTheDefinitionForEveryCutAndRankCount) {
  // Ragged and prime sizes, one element, one row, one column, one inner step, and round shapes: the cut axis first.
  const std::vector<std::vector<std::int64_t>> shapes{{1, 1, 1},    {7, 5, 3},     {1, 67, 31},
                                                      {64, 1, 9},   {65, 3, 1},    {31, 17, 1},
                                                      {64, 48, 32}, {97, 53, 101}, {128, 48, 32}};
  int run_count = 0;
  for (const int world_size : {2, 3, 4, 8}) {
    if (!runs(world_size)) continue;
    auto communicator = open(world_size);
    for (const auto& shape : shapes) {
      const auto dtype = first_dtype(shape[0], shape[1], shape[2], world_size);
      if (!dtype) continue; // an odd shape that the backend refuses
      const OpSpec spec = op_of(shape[0], shape[1], shape[2], world_size, *dtype);
      for (const Cut& cut : cuts_of(spec)) {
        run_and_check(plan(spec, cut, *communicator), *communicator);
        ++run_count;
      }
    }
  }
  EXPECT_GT(run_count, 0);
}

TEST_P(BackendConformance, EveryVariantGivesTheDefinitionOnRaggedShapes) {
  for (const int world_size : {2, 3, 4, 8}) {
    if (!runs(world_size)) continue;
    auto communicator = open(world_size);
    for (const auto& shape :
         {std::array<std::int64_t, 3>{1, 1, 1}, {7, 5, 3}, {64, 48, 32}, {65, 1, 3}, {97, 53, 101}}) {
      const auto dtype = first_dtype(shape[0], shape[1], shape[2], world_size);
      if (!dtype) continue; // an odd shape that the backend refuses
      const OpSpec spec = op_of(shape[0], shape[1], shape[2], world_size, *dtype);
      for (const planner::Variant& variant : backend().variants(spec, options_for(world_size))) {
        const auto cuts = cuts_of(spec);
        for (const Cut& cut : {cuts.front(), cuts.back()}) {
          auto made = plan(spec, cut, *communicator);
          made.variant = variant;
          run_and_check(made, *communicator);
        }
      }
    }
  }
}

TEST_P(BackendConformance, ShortTypesAccumulateInF32) {
  std::string reasons;
  int run_count = 0;
  for (const DType dtype : {DType::Bf16, DType::F16, DType::I8, DType::F8E4m3}) {
    for (const int world_size : {2, 3}) {
      if (const auto supported = backend().supports(op_of(96, 32, 512, world_size, dtype)); !supported) {
        reasons += supported.error().text() + "; ";
        continue;
      }
      auto communicator = open(world_size);
      for (const std::int64_t k : {8, 104, 112, 512}) {
        const OpSpec spec = op_of(97, 48, k, world_size, dtype);
        if (dtype == DType::F8E4m3 && !backend().supports(spec)) continue; // its library does not take every size
        for (const Cut& cut : cuts_of(spec)) run_and_check(plan(spec, cut, *communicator), *communicator);
      }
      const OpSpec spec = op_of(96, 32, 2048, world_size, dtype);
      ResidentProblem problem(spec, 3, *communicator);
      prepare(plan(spec, {{48, 48}}, *communicator), problem, *communicator)->run(RunMode::Fused);
      problem.fetch_results();
      const auto found = executor::verify_result(spec, problem.host().buffers(), {{48, 48}}, 1);
      EXPECT_TRUE(found.ok()) << found.error().text(); // far tighter than the naive bound at this k
      ++run_count;
    }
  }
  if (run_count == 0) GTEST_SKIP() << reasons;
}

TEST_P(ProductConformance, EpiloguesAreAddedOnceForEveryCutTypeAndRankCount) {
  std::string reasons;
  int run_count = 0;
  const auto check = [&](const char* name, DType dtype, int world_size) {
    OpSpec spec = next_to(op_of(71, 37, 29, world_size, dtype));
    spec.epilogue = planner::parse_epilogue(name).value();
    if (const auto supported = backend().supports(spec); !supported) {
      reasons += supported.error().text() + "; ";
      return;
    }
    auto communicator = open(world_size);
    for (const Cut& cut : {Cut{{71}}, Cut{{1, 30, 40}}}) run_and_check(plan(spec, cut, *communicator), *communicator);
    ++run_count;
  };
  for (const DType dtype : {DType::F32, DType::Bf16, DType::F16, DType::I8}) {
    for (const char* name : {"bias", "residual", "bias+residual"}) check(name, dtype, 2);
  }
  for (const int world_size : {3, 4, 8}) check("bias+residual", DType::F32, world_size);
  if (run_count == 0) GTEST_SKIP() << reasons;
}

TEST_P(ProductConformance, RowsOfSumsAreNormalisedHoweverTheyAreCut) {
  if (!planner::traits_of(op(4, 4, 4, 2).kind).sums()) return expect_no_norm();
  std::string reasons;
  int run_count = 0;
  for (const char* name : {"rms_norm", "bias+residual+rms_norm"}) {
    for (const auto& [m, dtype, world_size] : {std::tuple(71, DType::F32, 2),
                                               {71, DType::Bf16, 2},
                                               {71, DType::I8, 2},
                                               {5, DType::F32, 2},
                                               {71, DType::F32, 3},
                                               {5, DType::F32, 4}}) {
      OpSpec spec = next_to(op_of(m, 37, 29, world_size, dtype));
      spec.epilogue = planner::parse_epilogue(name).value();
      if (const auto supported = backend().supports(spec); !supported) {
        reasons += supported.error().text() + "; ";
        continue;
      }
      auto communicator = open(world_size);
      for (const Cut& cut : cuts_of(spec)) run_and_check(plan(spec, cut, *communicator), *communicator);
      ++run_count;
    }
  }
  if (run_count == 0) GTEST_SKIP() << reasons;
}

TEST_P(ProductConformance, VerifyFindsAWrongNorm) {
  if (!planner::traits_of(op(4, 4, 4, 2).kind).sums()) return expect_no_norm();
  OpSpec spec = op(389, 264, 136, 2);
  spec.epilogue.norm = planner::Norm::Rms;
  if (const auto supported = backend().supports(spec); !supported) GTEST_SKIP() << supported.error().text();
  const Cut cut{{5, planner::traits_of(spec.kind).cut_axis_length(spec) - 5}};
  auto bound = bind(spec, cut);
  bound.prepared->run(RunMode::Fused);
  bound.problem->fetch_results();
  const auto buffers = bound.problem->host().buffers();
  const auto found = executor::verify_result(spec, buffers, cut, 1);
  ASSERT_TRUE(found.ok()) << found.error().text();
  const auto element_bytes = static_cast<std::size_t>(planner::size_bytes(planner::product_type(spec)));
  const auto element =
      buffers[1].normed.subspan(static_cast<std::size_t>(3 * spec.n + 7) * element_bytes, element_bytes);
  const std::size_t fraction = element_bytes == sizeof(float) ? 1 : 0; // its bit 0x20 is a quarter or less
  element[fraction] ^= std::byte{0x20};
  const auto wrong = executor::verify_result(spec, buffers, cut, 1);
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().text(), ::testing::HasSubstr("normed: rank 1, row 3, column 7: is "));
  std::ranges::fill(element, std::byte{0xFF}); // no number
  EXPECT_FALSE(executor::verify_result(spec, buffers, cut, 1).ok());
}

TEST_P(ProductConformance, VerifyKnowsEpiloguesAndScales) {
  std::string reasons;
  int run_count = 0;
  for (const DType dtype : {DType::F32, DType::I8}) {
    OpSpec spec = op(389, 264, 136, runs(3) ? 3 : 2);
    spec.dtype = dtype;
    spec = next_to(spec);
    spec.epilogue = {.has_bias = true, .has_residual = takes_residual(spec)};
    if (const auto supported = backend().supports(spec); !supported) {
      reasons += supported.error().text() + "; ";
      continue;
    }
    const Cut cut{{5, 128, 256}};
    auto bound = bind(spec, cut);
    bound.prepared->run(RunMode::Fused);
    bound.problem->fetch_results();
    const auto found = executor::verify_result(spec, bound.problem->host().buffers(), cut, 1);
    EXPECT_TRUE(found.ok()) << spec.text() << ": " << found.error().text();
    const auto intermediates = bound.prepared->intermediates();
    if (!intermediates.empty()) {
      const auto exchanged = executor::verify_exchange(spec, intermediates, bound.problem->host().buffers(), cut);
      EXPECT_TRUE(exchanged.ok()) << spec.text() << ": " << exchanged.error().text();
    }
    ++run_count;
  }
  if (run_count == 0) GTEST_SKIP() << reasons;
}

TEST_P(BackendConformance, LargerProblemPassesTheOracleOfVerify) {
  const int world_size = runs(3) ? 3 : 2;
  const OpSpec spec = op(389, 264, 136, world_size);
  auto bound = bind(spec, {{5, 128, 128, 128}});
  bound.prepared->run(RunMode::Fused);
  bound.problem->fetch_results();
  const auto found = executor::verify_result(spec, bound.problem->host().buffers(), {{5, 128, 128, 128}}, 1);
  ASSERT_TRUE(found.ok()) << found.error().text();
  EXPECT_EQ(found.value().element_count, world_size * executor::operand_shapes(spec).c.element_count());
}

/// Writable choices of all rows of every rank, in memory that the ranks can read. Those of ResidentProblem cannot be
/// written.
struct OwnChoices {
  std::vector<std::vector<std::int64_t>> experts; ///< by rank
  std::vector<std::vector<float>> weights;        ///< by rank; empty where nothing is weighted
  std::vector<std::unique_ptr<executor::RankMemory>> memory;
  std::vector<RankBuffers> buffers;

  OwnChoices(const OpSpec& spec, const ResidentProblem& problem, Communicator& communicator)
      : buffers(problem.buffers().begin(), problem.buffers().end()) {
    const auto count = static_cast<std::size_t>(spec.m * spec.experts->top_k);
    for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
      experts.emplace_back(count);
      weights.emplace_back(buffers[rank].choices.weights.empty() ? 0 : count, 0.5F);
      memory.push_back(communicator.allocate(static_cast<int>(rank), count * sizeof(std::int64_t)));
      buffers[rank].choices.experts = memory.back()->bytes();
      if (weights.back().empty()) continue;
      memory.push_back(communicator.allocate(static_cast<int>(rank), count * sizeof(float)));
      buffers[rank].choices.weights = memory.back()->bytes();
    }
    bring();
  }

  /// Uploads the choices to the memory that the ranks read.
  void bring() {
    auto next = memory.begin();
    for (std::size_t rank = 0; rank < experts.size(); ++rank) {
      (*next++)->upload(std::as_bytes(std::span(experts[rank])));
      if (!weights[rank].empty()) (*next++)->upload(std::as_bytes(std::span(weights[rank])));
    }
  }

  /// The host buffers of the problem with these choices, for an oracle.
  [[nodiscard]] std::vector<RankBuffers> as_read_by(const ResidentProblem& problem) const {
    std::vector<RankBuffers> host(problem.host().buffers().begin(), problem.host().buffers().end());
    for (std::size_t rank = 0; rank < host.size(); ++rank) {
      host[rank].choices.experts = std::as_bytes(std::span(experts[rank]));
      host[rank].choices.weights = std::as_bytes(std::span(weights[rank]));
    }
    return host;
  }
};

// Step 0: all rows choose one expert, more rows than one call multiplies. Steps 1 and 13: neighbouring choices differ.
TEST_P(ChoiceConformance, AreRightHoweverUnevenAndReadByEveryRun) {
  auto communicator = open(2);
  OpSpec spec = op(330, 12, 9, 2);
  spec.experts = {.count = 40, .top_k = 3};
  spec = next_to(spec);
  ResidentProblem problem(spec, 3, *communicator);
  OwnChoices own(spec, problem, *communicator);
  const auto prepared = executor::prepare(plan(spec, {{130, 200}}, *communicator), own.buffers, *communicator).value();
  for (const std::int64_t step : {0, 1, 13}) {
    for (std::size_t rank = 0; rank < own.experts.size(); ++rank)
      for (std::size_t i = 0; i < own.experts[rank].size(); ++i) {
        own.experts[rank][i] = 39 - static_cast<std::int64_t>(i) * step % 40;
        if (!own.weights[rank].empty()) own.weights[rank][i] = static_cast<float>(i % 7) / 4 - 0.5F;
      }
    own.bring();
    problem.poison();
    prepared->run(RunMode::Fused);
    problem.fetch_results();
    SCOPED_TRACE("step " + std::to_string(step));
    expect_right(spec, own.as_read_by(problem));
  }
}

TEST_P(ChoiceConformance, RefusesWhatNoExpertIsNamingRankRowAndValue) {
  auto communicator = open(2);
  OpSpec spec = op(8, 8, 8, 2);
  spec.experts = {.count = 4, .top_k = 2};
  const ResidentProblem problem(spec, 1, *communicator);
  OwnChoices own(spec, problem, *communicator);
  const auto expect = [&](const char* text) {
    own.bring();
    expect_refused(spec, own.buffers, *communicator, ErrorCode::InvalidSpec, text);
  };
  for (auto& experts : own.experts) experts[7] = 4;
  expect("rank 0, row 3, choice 1 is expert 4; legal: 0 to 3");
  for (auto& experts : own.experts) experts[7] = -1;
  expect("is expert -1");
  for (auto& experts : own.experts) experts[7] = 0;
  own.experts[1][0] = 3;
  expect("rank 1 brings other choices or weights than rank 0");
  own.experts[1][0] = 0;
  if (!own.weights[0].empty()) {
    for (auto& weights : own.weights) weights[2] = std::nanf("");
    expect("rank 0, row 1, choice 0 has the weight nan; needs a finite number");
    const auto all = std::exchange(own.buffers[1].choices.weights, {});
    expect("rank 1 weights of the choices has 0 bytes");
    own.buffers[1].choices.weights = all;
  }
  own.buffers[1].choices.experts = own.buffers[1].choices.experts.first(8);
  expect("rank 1 chosen experts has 8 bytes");
}

TEST_P(BackendConformance, EveryRunReadsANewAndWritesAllOfC) {
  const OpSpec spec = op(95, 24, 16, 2);
  auto bound = bind(spec, {{13, 82}}, with_gathered_a(spec));
  for (std::uint64_t run = 0; run < 20; ++run) {
    bound.problem->refill_a(100 + run);
    bound.problem->poison();
    bound.prepared->run(RunMode::Fused);
    expect_right(spec, *bound.problem);
  }
}

TEST_P(BackendConformance, PlansOnOneCommunicatorDoNotDisturbEachOther) {
  const int world_size = runs(3) ? 3 : 2;
  auto communicator = open(world_size);
  const OpSpec small = op(70, 8, 8, world_size);
  const OpSpec large = op(120, 40, 24, world_size);
  ResidentProblem small_problem(small, 1, *communicator);
  ResidentProblem large_problem(large, 2, *communicator);
  auto small_prepared = prepare(plan(small, {{4, 66}}, *communicator), small_problem, *communicator);
  auto large_prepared = prepare(plan(large, {{40, 40, 40}}, *communicator), large_problem, *communicator);
  for (int i = 0; i < 3; ++i) {
    small_problem.poison();
    large_problem.poison();
    large_prepared->run(RunMode::Fused);
    small_prepared->run(RunMode::Fused);
    expect_right(small, small_problem);
    expect_right(large, large_problem);
  }
}

TEST_P(BackendConformance, TheLanesOneAfterTheOtherGiveTheResult) {
  const OpSpec spec = op(90, 24, 32, 2);
  auto bound = bind(spec, {{50, 40}});
  const bool computes_first = planner::traits_of(spec.kind).first_lane == planner::Lane::Compute;
  const auto first = computes_first ? RunMode::ComputeOnly : RunMode::CommunicationOnly;
  const auto second = computes_first ? RunMode::CommunicationOnly : RunMode::ComputeOnly;
  bound.prepared->run(first);
  EXPECT_TRUE(is_poisoned(spec, *bound.problem)); // only the second lane writes C
  bound.prepared->run(second);
  expect_right(spec, *bound.problem);
}

TEST_P(BackendConformance, WhatSerialMultipliesRunsAlone) {
  const OpSpec spec = op(90, 24, 32, 2);
  auto bound = bind(spec, {{90}});
  bound.prepared->run(RunMode::Serial);
  bound.problem->poison();
  const auto& record = bound.prepared->run(RunMode::SerialCompute);
  EXPECT_GT(record.makespan.count(), 0);
  EXPECT_EQ(record.ranks[0].communication[0].end.count(), 0);
  if (planner::traits_of(spec.kind).first_lane == planner::Lane::Compute)
    EXPECT_TRUE(is_poisoned(spec, *bound.problem)); // the collective writes C
  else
    expect_right(spec, *bound.problem);
}

TEST_P(BackendConformance, EachModeRecordsItsOwnLanesOnly) {
  const OpSpec spec = op(90, 24, 32, runs(4) ? 4 : 2);
  auto bound = bind(spec, {{50, 40}});
  const bool has_local = planner::traits_of(spec.kind).has_local_part;
  const auto& record = bound.prepared->run(RunMode::ComputeOnly);
  EXPECT_EQ(record.ranks[0].communication[1].end.count(), 0);
  EXPECT_GT(record.ranks[0].compute[1].end.count(), 0);
  EXPECT_EQ(record.ranks[1].local.end.count() > 0, has_local);
  bound.prepared->run(RunMode::CommunicationOnly);
  EXPECT_EQ(record.ranks[0].compute[1].end.count(), 0);
  EXPECT_EQ(record.ranks[0].local.end.count(), 0);
  EXPECT_GT(record.ranks[0].communication[1].end.count(), 0);
}

TEST_P(BackendConformance, IndependentRunsBothLanesAndLeavesTheNextFusedRunRight) {
  const OpSpec spec = op(90, 24, 32, 2);
  auto bound = bind(spec, {{50, 40}});
  const auto& record = bound.prepared->run(RunMode::Independent);
  EXPECT_GT(record.ranks[1].compute[1].end.count(), 0);
  EXPECT_GT(record.ranks[1].communication[1].end.count(), 0);
  bound.problem->poison();
  bound.prepared->run(RunMode::Fused);
  expect_right(spec, *bound.problem);
}

TEST_P(IntermediatesConformance, WhatPassesBetweenTheLanesExplainsAFusedRun) {
  const OpSpec spec = op(73, 24, 16, runs(3) ? 3 : 2);
  auto bound = bind(spec, {{11, 62}});
  bound.prepared->run(RunMode::Fused);
  const auto intermediates = bound.prepared->intermediates();
  ASSERT_FALSE(intermediates.empty());
  bound.problem->fetch_results();
  const auto found = executor::verify_exchange(spec, intermediates, bound.problem->host().buffers(), {{11, 62}});
  EXPECT_TRUE(found.ok()) << found.error().text();
}

TEST_P(BackendConformance, RecordedTimesFollowTheOrderOfTheLanes) {
  const OpSpec spec = op(90, 24, 32, 2);
  auto bound = bind(spec, {{30, 30, 30}});
  const bool is_sliced = planner::slices_of(default_variant(spec)).count() > 1;
  const auto& record = bound.prepared->run(RunMode::Fused);
  ASSERT_EQ(record.ranks.size(), 2U);
  const auto& traits = planner::traits_of(spec.kind);
  const bool computes_first = traits.first_lane == planner::Lane::Compute;
  auto first = std::chrono::nanoseconds::max(), last = std::chrono::nanoseconds::min();
  for (const auto& rank : record.ranks) {
    const auto& before = computes_first ? rank.compute : rank.communication;
    const auto& after = computes_first ? rank.communication : rank.compute;
    ASSERT_EQ(before.size(), 3U);
    ASSERT_EQ(after.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_LE(before[i].start, before[i].end);
      EXPECT_LE(after[i].start, after[i].end);
      EXPECT_GE(after[i].start, is_sliced ? before[i].start : before[i].end);
      EXPECT_GE(after[i].end, before[i].end);
      if (i == 0) continue;
      EXPECT_GE(before[i].start, before[i - 1].end);
      EXPECT_GE(after[i].start, after[i - 1].end);
    }
    first = std::min(first, before[0].start);
    if (traits.has_local_part) first = std::min(first, rank.local.start);
    EXPECT_LE(rank.local.end, rank.compute[0].start);
    last = std::max(last, after[2].end);
  }
  EXPECT_EQ(record.makespan, last - first);
}

TEST_P(LocalPartConformance, AnOwnShardThatIsNotFirstWaitsForTheOthers) {
  const OpSpec spec = op(60, 24, 32, 2);
  auto communicator = open(2);
  ResidentProblem problem(spec, 9, *communicator);
  auto serial = plan(spec, {{60}}, *communicator);
  serial.schedule = planner::Schedule::Pipelined;
  const auto prepared = prepare(serial, problem, *communicator);
  for (const auto& rank : prepared->run(RunMode::Fused).ranks) EXPECT_GE(rank.local.start, rank.communication[0].end);
  expect_right(spec, problem);
}

TEST_P(BackendConformance, ASerialPlanOverlapsNothing) {
  const OpSpec spec = op(90, 24, 32, 2);
  const bool computes_first = planner::traits_of(spec.kind).first_lane == planner::Lane::Compute;
  auto communicator = open(2);
  ResidentProblem problem(spec, 9, *communicator);
  auto serial = plan(spec, {{90}}, *communicator);
  serial.schedule = planner::Schedule::Serial;
  for (const planner::Variant& variant : backend().variants(spec, options_for(2))) {
    SCOPED_TRACE(variant.text());
    serial.variant = variant;
    problem.poison();
    const auto prepared = prepare(serial, problem, *communicator);
    for (const auto& rank : prepared->run(RunMode::Fused).ranks) {
      const auto& first = (computes_first ? rank.compute : rank.communication).front();
      const auto& second = (computes_first ? rank.communication : rank.compute).front();
      EXPECT_GE(second.start, first.end);
      EXPECT_GE(second.end, second.start);
      if (rank.local.end.count() > 0) { // the own shard, where the backend times it separately
        EXPECT_GE(rank.local.start, first.end);
      }
    }
    expect_right(spec, problem);
  }
  serial.cut = {{45, 45}};
  const auto cut = executor::prepare(serial, problem.buffers(), *communicator);
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.error().code, ErrorCode::InvalidSpec);
}

TEST_P(BackendConformance, FingerprintIsTheSameEveryTimeAndSaysWhatIsEmulated) {
  auto communicator = open(2);
  CommunicatorOptions options = GetParam().under_test.options;
  options.world_size = 2;
  EXPECT_EQ(communicator->fingerprint(), backend().fingerprint(options));
  EXPECT_EQ(communicator->fingerprint(), open(2)->fingerprint());
  EXPECT_EQ(communicator->fingerprint().is_emulated(), options.link.is_emulated());
  if (runs(3)) {
    EXPECT_NE(communicator->fingerprint(), open(3)->fingerprint());
  }
}

TEST_P(BackendConformance, AllocatesMemoryThatKeepsWhatIsUploaded) {
  auto communicator = open(2);
  std::vector<std::byte> sent(1000), got(1000);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7);
  const auto memory = communicator->allocate(1, sent.size());
  EXPECT_EQ(memory->bytes().size(), sent.size());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->bytes().data()) % 64, 0U);
  memory->upload(sent);
  memory->download(got);
  EXPECT_EQ(got, sent);
}

TEST_P(BackendConformance, RefusesAPlanOfAnotherMachineUnlessToldNotTo) {
  auto communicator = open(2);
  const OpSpec spec = op(8, 8, 8, 2);
  const ResidentProblem problem(spec, 1, *communicator);
  auto foreign = plan(spec, {{8}}, *communicator);
  foreign.fingerprint.fields["device"] = "another device";
  const auto refused = executor::prepare(foreign, problem.buffers(), *communicator);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::Stale);
  EXPECT_THAT(refused.error().text(), ::testing::HasSubstr("another device"));
  EXPECT_TRUE(
      executor::prepare(foreign, problem.buffers(), *communicator, {.accept_other_fingerprint = true, .prepare = {}})
          .ok());
}

TEST_P(BackendConformance, RefusesAnotherWorldSize) {
  auto communicator = open(2);
  const OpSpec spec = op_of(8, 8, 8, 3, op(8, 8, 8, 2).dtype);
  const RandomProblem problem(spec, 1);
  expect_refused(spec, problem.buffers(), *communicator, ErrorCode::InvalidSpec, "world_size");
}

TEST_P(ShardConformance, RefusesRowsThatTheRanksDoNotShareEvenly) {
  auto communicator = open(2);
  OpSpec spec = op(8, 8, 8, 2);
  const ResidentProblem problem(spec, 1, *communicator);
  spec.m = 17;
  expect_refused(spec, problem.buffers(), *communicator, ErrorCode::InvalidSpec, "m: is 17");
}

TEST_P(BackendConformance, RefusesBlocksThatDoNotSumToTheCutAxis) {
  auto communicator = open(2);
  const OpSpec spec = op(8, 8, 8, 2);
  const ResidentProblem problem(spec, 1, *communicator);
  const auto refused = executor::prepare(plan(spec, {{3, 4}}, *communicator), problem.buffers(), *communicator);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidSpec);
}

TEST_P(BackendConformance, RefusesWrongBuffersNamingRankAndMatrix) {
  auto communicator = open(2);
  const OpSpec spec = op(8, 8, 8, 2);
  const ResidentProblem problem(spec, 1, *communicator);
  const std::vector<RankBuffers> good(problem.buffers().begin(), problem.buffers().end());
  const auto expect = [&](std::span<const RankBuffers> buffers, const char* text) {
    expect_refused(spec, buffers, *communicator, ErrorCode::InvalidSpec, text);
  };
  expect(std::span(good).first(1), "1 sets of buffers");
  auto bad = good;
  if (spec.tables) {
    bad[1].bags.offsets = bad[1].bags.offsets.first(bad[1].bags.offsets.size() - 8);
    expect(bad, "rank 1 bags' offsets");
  } else {
    bad[1].a = bad[1].a.first(bad[1].a.size() - 4);
    expect(bad, "rank 1 A");
    bad = good;
    bad[0].bags.offsets = good[1].a;
    expect(bad, "rank 0 bags' offsets");
  }
  bad = good;
  bad[0].c = bad[1].c;
  expect(bad, "overlaps");
  const auto room = communicator->allocate(0, good[0].b.size() + 1);
  bad = good;
  bad[0].b = room->bytes().subspan(1);
  expect(bad, "rank 0 B is not aligned");
  bad = good;
  bad[1].bias = good[1].b;
  expect(bad, "rank 1 bias has");
}

TEST_P(BackendConformance, RefusesUnknownVariants) {
  auto communicator = open(2);
  const OpSpec spec = op(8, 8, 8, 2);
  const ResidentProblem problem(spec, 1, *communicator);
  const planner::Variant unknown{"no_such_variant", {}};
  expect_refused(spec, problem.buffers(), *communicator, ErrorCode::UnknownName, "no_such_variant", &unknown);
  planner::Variant overset = default_variant(spec);
  overset.fields["no_such_setting"] = "1";
  expect_refused(spec, problem.buffers(), *communicator, ErrorCode::InvalidSpec, "no_such_setting", &overset);
}

TEST_P(BackendConformance, RefusesIllegalOperatorsAndOptions) {
  const DType dtype = op(8, 8, 8, 2).dtype;
  EXPECT_EQ(backend().supports(op_of(0, 8, 8, 2, dtype)).error().code, ErrorCode::InvalidSpec);
  EXPECT_EQ(backend().supports(op_of(8, 8, 8, 1, dtype)).error().code, ErrorCode::InvalidSpec);
  CommunicatorOptions options = GetParam().under_test.options;
  options.world_size = 0;
  EXPECT_EQ(backend().open(options).error().code, ErrorCode::InvalidSpec);
  options.world_size = 2;
  options.deadline = std::chrono::milliseconds{0};
  EXPECT_EQ(backend().open(options).error().code, ErrorCode::InvalidSpec);
}

TEST_P(BackendConformance, RefusesWhatExceedsMemoryBeforeAllocating) {
  // A, B and the product of at least 2^39 bytes each; no machine that runs this test has them.
  const auto refused = backend().supports(op_of(1 << 18, 1 << 19, 1 << 19, 2, op(8, 8, 8, 2).dtype));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("available"));
}

/// Instantiates the suites of every backend. @param backends  an expression of type std::vector<BackendUnderTest>
#define MC2_INSTANTIATE_CONFORMANCE(prefix, backends)                                         \
  MC2_INSTANTIATE_SUITE(prefix, BackendConformance, with_kinds(&is_any, backends));           \
  MC2_INSTANTIATE_SUITE(prefix, ProductConformance, with_kinds(&is_product, backends));       \
  MC2_INSTANTIATE_SUITE(prefix, LocalPartConformance, with_kinds(&has_local_part, backends)); \
  MC2_INSTANTIATE_SUITE(prefix, ChoiceConformance, with_kinds(&chooses_experts, backends));   \
  MC2_INSTANTIATE_SUITE(prefix, ShardConformance, with_kinds(&has_row_shards, backends))
#define MC2_INSTANTIATE_SUITE(prefix, suite, cases) \
  INSTANTIATE_TEST_SUITE_P(prefix, suite, ::testing::ValuesIn(cases), [](const auto& one) { return one.param.name(); })

} // namespace mc2::testing
