// Behaviour of the C interface: values in and out, plans, runs, stores. capi_refusals_test.cpp tests its refusals.

#include <gmock/gmock.h>

#include <cstddef>
#include <cstring>

#include "embed/capi.hpp"

namespace mc2::capi_tests {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;

TEST(CInterface, NamesItsVersionAndEveryStatus) {
  EXPECT_STREQ(mc2_version(), MC2_EXPECTED_VERSION);
  EXPECT_STREQ(mc2_status_name(MC2_OK), "ok");
  EXPECT_STREQ(mc2_status_name(MC2_ERROR_STALE), "stale");
  EXPECT_STREQ(mc2_status_name(MC2_ERROR_FORK), "fork");
  for (const mc2_status none : {-1, 16, 99, 106}) EXPECT_STREQ(mc2_status_name(none), "unknown");
  for (mc2_status known = MC2_OK; known <= MC2_ERROR_UNREADABLE; ++known)
    EXPECT_STRNE(mc2_status_name(known), "unknown");
}

TEST(CInterface, TellsOperandSizes) {
  const auto spec = op();
  mc2_operand_sizes sizes = MC2_INIT(mc2_operand_sizes);
  MC2_ASSERT_OK(mc2_operands(&spec, &sizes));
  EXPECT_EQ(sizes.a_bytes, 512 * 128 * 4);
  EXPECT_EQ(sizes.b_bytes, 128 * 256 * 4);
  EXPECT_EQ(sizes.c_bytes, 512 * 256 * 4);
  EXPECT_EQ(sizes.bias_bytes, 0);
  EXPECT_EQ(sizes.size, sizeof sizes);
}

TEST(CInterface, PlansFromAModelAndReadsTheDocumentBack) {
  mc2_plan* const plan = plan_of(op());
  mc2_plan_summary summary = MC2_INIT(mc2_plan_summary);
  MC2_ASSERT_OK(mc2_plan_summarize(plan, &summary));
  EXPECT_STREQ(summary.strategy, "search");
  EXPECT_STREQ(summary.variant, "direct");
  EXPECT_STREQ(summary.provenance, "analytic");
  EXPECT_STREQ(summary.source, "");
  EXPECT_EQ(summary.measured_pair_count, 0); // the plan was not raced
  EXPECT_EQ(summary.measured_fused_us, 0);
  EXPECT_STREQ(summary.measured_at, "");
  EXPECT_EQ(summary.cut_axis, MC2_CUT_ROWS);
  // Uncut, each lane takes 20 + 256 = 276 us.
  EXPECT_DOUBLE_EQ(summary.compute_us, 276);
  EXPECT_DOUBLE_EQ(summary.serial_us, 552);

  std::array<std::int64_t, 64> lengths{};
  std::size_t count = 0;
  EXPECT_EQ(mc2_plan_blocks(plan, lengths.data(), lengths.size(), nullptr), MC2_ERROR_INVALID_SPEC);
  EXPECT_EQ(lengths.front(), 0) << "outputs are written on success only";
  MC2_ASSERT_OK(mc2_plan_blocks(plan, lengths.data(), lengths.size(), &count));
  ASSERT_EQ(static_cast<std::int64_t>(count), summary.block_count);
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < count; ++i) rows += lengths[i];
  EXPECT_EQ(rows, 512);

  const char* json = nullptr;
  std::size_t length = 0;
  MC2_ASSERT_OK(mc2_plan_to_json(plan, &json, &length));
  mc2_plan* again = nullptr;
  MC2_ASSERT_OK(mc2_plan_from_json(json, length, &again));
  mc2_plan_summary same = MC2_INIT(mc2_plan_summary);
  MC2_ASSERT_OK(mc2_plan_summarize(again, &same));
  EXPECT_STREQ(same.digest, summary.digest);
  mc2_op_spec spec = MC2_INIT(mc2_op_spec);
  MC2_ASSERT_OK(mc2_plan_op(again, &spec));
  EXPECT_EQ(spec.m, 512);
  EXPECT_EQ(spec.kind, MC2_MATMUL_ALL_REDUCE);
  EXPECT_EQ(mc2_free_plan(again), MC2_OK);
  EXPECT_EQ(mc2_free_plan(plan), MC2_OK);
}

TEST(CInterface, TakesPlanningOptions) {
  mc2_model* const from = model();
  const auto spec = op();
  mc2_plan_options options = MC2_INIT(mc2_plan_options);
  options.max_block_count = 1;
  mc2_plan* plan = nullptr;
  MC2_ASSERT_OK(mc2_plan_from_model(from, &spec, &options, &plan));
  std::size_t count = 0;
  MC2_ASSERT_OK(mc2_plan_blocks(plan, nullptr, 0, &count));
  EXPECT_EQ(count, 1U);
  mc2_free_plan(plan);
  options = MC2_INIT(mc2_plan_options);
  options.alignment = 128; // 4 x 128 takes 420 us, 2 x 256 takes 444 us (tests/install_consumer)
  options.allow_small_gain = 1;
  MC2_ASSERT_OK(mc2_plan_from_model(from, &spec, &options, &plan));
  std::array<std::int64_t, 8> lengths{};
  MC2_ASSERT_OK(mc2_plan_blocks(plan, lengths.data(), lengths.size(), &count));
  EXPECT_EQ(std::vector(lengths.begin(), lengths.begin() + static_cast<std::ptrdiff_t>(count)),
            std::vector<std::int64_t>(4, 128));
  mc2_free_plan(plan);
  mc2_free_model(from);
}

TEST(CInterface, RunsAPlanOnTheCallersMatrices) {
  Running running;
  mc2_run_times times = MC2_INIT(mc2_run_times);
  for (const std::int32_t mode : {MC2_RUN_FUSED, MC2_RUN_SERIAL}) {
    for (auto& c : running.matrices.c) c.assign(c.size(), -1);
    MC2_ASSERT_OK(mc2_run(running.prepared, mode, &times));
    EXPECT_GT(times.makespan_us, 0);
    EXPECT_GE(times.wall_us, times.makespan_us);
    for (std::size_t i = 0; i < 512 * 256; i += 977)
      for (std::size_t rank = 0; rank < 2; ++rank)
        ASSERT_EQ(running.matrices.c[rank][i], running.matrices.expected(running.spec, i / 256, i % 256)) << i;
  }
  MC2_ASSERT_OK(mc2_run(running.prepared, MC2_RUN_FUSED, nullptr));
}

TEST(CInterface, GathersAWhereItIsWanted) {
  auto spec = op();
  spec.kind = MC2_ALL_GATHER_MATMUL;
  mc2_operand_sizes sizes = MC2_INIT(mc2_operand_sizes);
  MC2_ASSERT_OK(mc2_operands(&spec, &sizes));
  EXPECT_EQ(sizes.gathered_a_bytes, 512 * 128 * 4);
  auto shard = spec;
  shard.m /= 2;
  Matrices matrices(shard);
  for (auto& c : matrices.c) c.resize(512 * 256);
  std::vector<float> gathered(512 * 128, -1);
  auto buffers = matrices.buffers();
  buffers[1].gathered_a = gathered.data(); // rank 0 does not ask for it
  buffers[1].gathered_a_bytes = gathered.size() * sizeof(float);
  mc2_communicator* const ranks = communicator();
  mc2_context_options options = MC2_INIT(mc2_context_options);
  options.flags = MC2_CONTEXT_DISABLED; // plans are uncut
  mc2_context* context = nullptr;
  MC2_ASSERT_OK(mc2_context_create(&options, &context));
  mc2_machine* machine = nullptr;
  MC2_ASSERT_OK(mc2_communicator_machine(ranks, &machine));
  mc2_plan* plan = nullptr;
  MC2_ASSERT_OK(mc2_find_plan(context, &spec, machine, &plan));
  mc2_prepared* prepared = nullptr;
  MC2_ASSERT_OK(mc2_prepare(ranks, plan, buffers.data(), buffers.size(), nullptr, &prepared));
  MC2_ASSERT_OK(mc2_run(prepared, MC2_RUN_FUSED, nullptr));
  auto expected = matrices.a[0];
  expected.insert(expected.end(), matrices.a[1].begin(), matrices.a[1].end());
  EXPECT_EQ(gathered, expected);
  mc2_free_prepared(prepared);
  buffers[1].gathered_a_bytes -= 4;
  EXPECT_EQ(mc2_prepare(ranks, plan, buffers.data(), buffers.size(), nullptr, &prepared), MC2_ERROR_INVALID_SPEC);
  EXPECT_THAT(last_error().message, HasSubstr("rank 1 gathered A has 262140 bytes"));
  buffers[1].gathered_a_bytes = 0;
  EXPECT_EQ(mc2_prepare(ranks, plan, buffers.data(), buffers.size(), nullptr, &prepared), MC2_ERROR_INVALID_SPEC);
  EXPECT_STREQ(last_error().field, "buffers.gathered_a");
  EXPECT_THAT(last_error().message, HasSubstr("has 0 bytes; needs 262144"));
  buffers[1].gathered_a_bytes = 4;
  buffers[1].gathered_a = nullptr;
  EXPECT_EQ(mc2_prepare(ranks, plan, buffers.data(), buffers.size(), nullptr, &prepared), MC2_ERROR_INVALID_SPEC);
  EXPECT_STREQ(last_error().field, "buffers.gathered_a");
  mc2_free_plan(plan);
  mc2_free_machine(machine);
  mc2_free_communicator(ranks);
  mc2_free_context(context);
}

TEST(CInterface, MultipliesRowsByTheExpertsThatTheyChose) {
  mc2_op_spec spec = MC2_INIT(mc2_op_spec);
  spec.kind = MC2_GROUPED_MATMUL_REDUCE_SCATTER;
  spec.m = 4, spec.n = 2, spec.k = 1;
  spec.dtype = MC2_F32;
  spec.world_size = 2;
  spec.expert_count = 3, spec.top_k = 2;
  mc2_operand_sizes sizes = MC2_INIT(mc2_operand_sizes);
  MC2_ASSERT_OK(mc2_operands(&spec, &sizes));
  EXPECT_EQ(sizes.a_bytes, 8 * 4); // A has one row per choice of an expert
  EXPECT_EQ(sizes.b_bytes, 3 * 2 * 4);
  EXPECT_EQ(sizes.c_bytes, 2 * 2 * 4);
  const std::array<float, 8> a{1, 2, 3, 4, 5, 6, 7, 8}; // the same on both ranks
  const std::array<float, 6> b{1, -1, 10, -10, 100, -100};
  const std::array<std::int32_t, 8> experts{0, 1, 1, 2, 2, 0, 0, 0};
  const std::array<float, 8> weights{1, 0.5, 1, 0.5, 1, 0.5, 1, 0.5};
  std::array<std::array<float, 4>, 2> c{};
  std::array<mc2_buffers, 2> buffers;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    buffers[rank] = MC2_INIT(mc2_buffers);
    buffers[rank].a = a.data(), buffers[rank].a_bytes = sizeof a;
    buffers[rank].b = b.data(), buffers[rank].b_bytes = sizeof b;
    buffers[rank].c = c[rank].data(), buffers[rank].c_bytes = sizeof c[rank];
    buffers[rank].choice_experts = experts.data(), buffers[rank].choice_experts_bytes = sizeof experts;
    buffers[rank].choice_weights = weights.data(), buffers[rank].choice_weights_bytes = sizeof weights;
    buffers[rank].choice_index_type = MC2_INDEX_I32;
  }
  mc2_communicator* const ranks = communicator();
  mc2_machine* machine = nullptr;
  MC2_ASSERT_OK(mc2_communicator_machine(ranks, &machine));
  mc2_plan* plan = nullptr;
  MC2_ASSERT_OK(mc2_plan_uncut(&spec, machine, &plan));
  mc2_prepared* prepared = nullptr;
  MC2_ASSERT_OK(mc2_prepare(ranks, plan, buffers.data(), buffers.size(), nullptr, &prepared));
  MC2_ASSERT_OK(mc2_run(prepared, MC2_RUN_FUSED, nullptr));
  // The first column of C: 2 (1 + 0.5 * 2 * 10) and 2 (3 * 10 + 0.5 * 4 * 100) on rank 0, 2 (5 * 100 + 0.5 * 6) and
  // 2 (7 + 0.5 * 8) on rank 1. The second column is its negative.
  EXPECT_THAT(c[0], ::testing::ElementsAre(22, -22, 460, -460));
  EXPECT_THAT(c[1], ::testing::ElementsAre(1006, -1006, 22, -22));
  mc2_free_prepared(prepared);
  mc2_free_plan(plan);
  mc2_free_machine(machine);
  mc2_free_communicator(ranks);
}

TEST(CInterface, APreparedRunOutlivesTheHandlesThatItWasMadeFrom) {
  Running running;
  MC2_ASSERT_OK(mc2_free_plan(running.plan));
  MC2_ASSERT_OK(mc2_free_communicator(running.ranks));
  running.plan = nullptr;
  running.ranks = nullptr;
  MC2_ASSERT_OK(mc2_run(running.prepared, MC2_RUN_FUSED, nullptr));
}

TEST(CInterface, TellsTheRanksOfThisProcess) {
  mc2_communicator* const ranks = communicator();
  std::array<std::int32_t, 4> numbers{-1, -1, -1, -1};
  std::size_t count = 0;
  MC2_ASSERT_OK(mc2_communicator_ranks(ranks, numbers.data(), 1, &count));
  EXPECT_EQ(count, 2U);
  EXPECT_THAT(numbers, ::testing::ElementsAre(0, -1, -1, -1)); // only as many as fit are written
  mc2_free_communicator(ranks);
}

/// The log lines that a context hands to its caller, with their levels.
struct Lines {
  std::vector<std::string> all;
  static void add(void* user, std::int32_t level, const char* line) {
    static_cast<Lines*>(user)->all.push_back(std::to_string(level) + " " + line);
  }
};

mc2_context_options offline(Lines& lines) {
  mc2_context_options options = MC2_INIT(mc2_context_options);
  options.flags = MC2_CONTEXT_NO_ENVIRONMENT;
  options.log = &Lines::add;
  options.log_user = &lines;
  return options;
}

TEST(CContext, FindsAPlanFromAModelAndSaysWhereAndWhyNotElsewhere) {
  Lines lines;
  const Directory directory;
  const std::string store = directory.file("store.db");
  mc2_model* const from = model();
  const mc2_model* models[] = {from};
  auto options = offline(lines);
  options.store = store.c_str();
  options.models = models;
  options.model_count = 1;
  mc2_context* context = nullptr;
  MC2_ASSERT_OK(mc2_context_create(&options, &context));
  MC2_ASSERT_OK(mc2_free_model(from));

  mc2_machine* const machine = invented_machine();
  const auto spec = op();
  for (int call = 0; call < 2; ++call) { // the context remembers the plan for the second call
    mc2_plan* plan = nullptr;
    MC2_ASSERT_OK(mc2_find_plan(context, &spec, machine, &plan));
    mc2_plan_summary summary = MC2_INIT(mc2_plan_summary);
    MC2_ASSERT_OK(mc2_plan_summarize(plan, &summary));
    EXPECT_THAT(summary.source, HasSubstr("own planner"));
    ASSERT_EQ(summary.miss_count, 1U);
    const char* reason = nullptr;
    MC2_ASSERT_OK(mc2_plan_miss(plan, 0, &reason));
    EXPECT_THAT(reason, HasSubstr("kept plans"));
    EXPECT_EQ(mc2_plan_miss(plan, 1, &reason), MC2_ERROR_OUT_OF_RANGE);
    EXPECT_EQ(mc2_free_plan(plan), MC2_OK);
  }
  EXPECT_THAT(lines.all, Contains(AllOf(HasSubstr("4 event=plan "), HasSubstr("own planner"))).Times(1));
  EXPECT_EQ(mc2_free_context(context), MC2_OK);
  EXPECT_EQ(mc2_free_machine(machine), MC2_OK);
}

TEST(CPlanRanges, AreFoundKeptAsADocumentAndLookedUp) {
  mc2_machine* const machine = invented_machine();
  const mc2_model* models[] = {model()};
  Lines lines;
  auto options = offline(lines);
  options.models = models;
  options.model_count = 1;
  mc2_context* context = nullptr;
  MC2_ASSERT_OK(mc2_context_create(&options, &context));
  const auto spec = op();
  mc2_plan_ranges* found = nullptr;
  MC2_ASSERT_OK(mc2_find_plan_ranges(context, &spec, spec.m / 2, machine, &found));
  const char* text = nullptr;
  size_t length = 0;
  MC2_ASSERT_OK(mc2_plan_ranges_to_json(found, &text, &length));
  mc2_plan_ranges* ranges = nullptr;
  MC2_ASSERT_OK(mc2_plan_ranges_from_json(text, length, &ranges));
  mc2_block_split split = MC2_INIT(mc2_block_split);
  MC2_ASSERT_OK(mc2_plan_ranges_split(ranges, spec.m, &split));
  EXPECT_EQ(split.cut_axis, MC2_CUT_ROWS);
  EXPECT_EQ(split.block_count * split.block_length + split.odd_length, spec.m);
  mc2_plan* plan = nullptr;
  MC2_ASSERT_OK(mc2_plan_ranges_plan(ranges, spec.m, &plan));
  mc2_plan_summary summary = MC2_INIT(mc2_plan_summary);
  MC2_ASSERT_OK(mc2_plan_summarize(plan, &summary));
  EXPECT_EQ(summary.block_count, split.block_count + (split.odd_length > 0 ? 1 : 0));
  EXPECT_EQ(mc2_plan_ranges_split(ranges, spec.m + 1, &split), MC2_ERROR_NOT_FOUND);
  EXPECT_EQ(mc2_plan_ranges_plan(ranges, 0, &plan), MC2_ERROR_INVALID_SPEC);
  EXPECT_EQ(mc2_find_plan_ranges(context, &spec, spec.m + 1, machine, &found), MC2_ERROR_INVALID_SPEC);
  EXPECT_EQ(mc2_plan_ranges_from_json("{}", 2, &ranges), MC2_ERROR_MALFORMED);
  EXPECT_EQ(mc2_free_plan_ranges(ranges), MC2_OK);
  EXPECT_EQ(mc2_plan_ranges_split(ranges, spec.m, &split), MC2_ERROR_HANDLE);
}

/// The JSON object of this name, with its braces, e.g. the fields of a machine or of a model's fingerprint.
std::string fields_of(const std::string& json, const std::string& name) {
  const auto begin = json.find('{', json.find("\"" + name + "\""));
  return json.substr(begin, json.find('}', begin) - begin + 1);
}

TEST(CContext, AnAnchoredPlanIsOfWhatTheMachineTakesNow) {
  mc2_communicator* const ranks = communicator();
  mc2_machine* here = nullptr;
  MC2_ASSERT_OK(mc2_communicator_machine(ranks, &here));
  const char* text = nullptr;
  MC2_ASSERT_OK(mc2_machine_to_json(here, &text, nullptr));
  std::string document = model_document();
  const std::string invented = fields_of(document, "fingerprint");
  document.replace(document.find(invented), invented.size(), fields_of(text, "fields"));
  mc2_model* from = nullptr;
  MC2_ASSERT_OK(mc2_model_from_json(document.data(), document.size(), &from));
  const mc2_model* models[] = {from};
  Lines lines;
  auto options = offline(lines);
  options.models = models;
  options.model_count = 1;
  mc2_context* context = nullptr;
  MC2_ASSERT_OK(mc2_context_create(&options, &context));
  const auto spec = op();
  mc2_plan *plain = nullptr, *anchored = nullptr;
  MC2_ASSERT_OK(mc2_find_plan(context, &spec, here, &plain));
  MC2_ASSERT_OK(mc2_find_plan_anchored(context, ranks, &spec, &anchored));
  mc2_plan_summary before = MC2_INIT(mc2_plan_summary), now = MC2_INIT(mc2_plan_summary);
  MC2_ASSERT_OK(mc2_plan_summarize(plain, &before));
  MC2_ASSERT_OK(mc2_plan_summarize(anchored, &now));
  // The model's times are invented, so this machine's matmul does not take exactly 276 us.
  EXPECT_DOUBLE_EQ(before.compute_us, 276);
  EXPECT_NE(now.compute_us, before.compute_us);
  EXPECT_GT(now.makespan_us, 0);
  EXPECT_EQ(mc2_find_plan_anchored(context, nullptr, &spec, &anchored), MC2_ERROR_HANDLE);
  for (mc2_plan* plan : {plain, anchored}) mc2_free_plan(plan);
  mc2_free_context(context);
  mc2_free_model(from);
  mc2_free_machine(here);
  mc2_free_communicator(ranks);
}

TEST(CContext, DisabledGivesTheUncutPlanWhichRunsRight) {
  Lines lines;
  auto options = offline(lines);
  options.flags |= MC2_CONTEXT_DISABLED;
  mc2_context* context = nullptr;
  MC2_ASSERT_OK(mc2_context_create(&options, &context));
  mc2_communicator* const ranks = communicator();
  mc2_machine* machine = nullptr;
  MC2_ASSERT_OK(mc2_communicator_machine(ranks, &machine));
  const auto spec = op();
  mc2_plan* plan = nullptr;
  MC2_ASSERT_OK(mc2_find_plan(context, &spec, machine, &plan));
  std::size_t count = 0;
  MC2_ASSERT_OK(mc2_plan_blocks(plan, nullptr, 0, &count));
  EXPECT_EQ(count, 1U);
  Matrices matrices(spec);
  const auto buffers = matrices.buffers();
  mc2_prepared* prepared = nullptr;
  MC2_ASSERT_OK(mc2_prepare(ranks, plan, buffers.data(), buffers.size(), nullptr, &prepared));
  MC2_ASSERT_OK(mc2_run(prepared, MC2_RUN_FUSED, nullptr));
  EXPECT_EQ(matrices.c[1][12'345], matrices.expected(spec, 12'345 / 256, 12'345 % 256));
  mc2_free_prepared(prepared);
  mc2_free_plan(plan);
  mc2_free_machine(machine);
  mc2_free_communicator(ranks);
  mc2_free_context(context);
}

TEST(CContext, TheEnvironmentDisablesToo) {
  ASSERT_EQ(::setenv("MC2_DISABLE", "1", 1), 0);
  Lines lines;
  auto options = offline(lines);
  options.flags = 0;
  options.store = "";
  options.server_url = "";
  mc2_context* context = nullptr;
  MC2_ASSERT_OK(mc2_context_create(&options, &context));
  ASSERT_EQ(::setenv("MC2_DISABLE", "maybe", 1), 0);
  mc2_context* none = nullptr;
  EXPECT_EQ(mc2_context_create(&options, &none), MC2_ERROR_INVALID_SPEC);
  EXPECT_STREQ(last_error().field, "MC2_DISABLE");
  EXPECT_EQ(none, nullptr);
  ::unsetenv("MC2_DISABLE");
  mc2_machine* const here = machine();
  mc2_plan* plan = nullptr;
  const auto spec = op();
  MC2_ASSERT_OK(mc2_find_plan(context, &spec, here, &plan));
  mc2_plan_summary summary = MC2_INIT(mc2_plan_summary);
  MC2_ASSERT_OK(mc2_plan_summarize(plan, &summary));
  EXPECT_THAT(summary.source, HasSubstr("disabled"));
  mc2_free_plan(plan);
  mc2_free_machine(here);
  mc2_free_context(context);
}

TEST(CInterface, TellsWhatWasMeasuredApartFromWhatWasPredicted) {
  mc2_plan* const plan = plan_of(op());
  const char* json = nullptr;
  std::size_t length = 0;
  MC2_ASSERT_OK(mc2_plan_to_json(plan, &json, &length));
  std::string raced(json, length);
  ASSERT_EQ(raced.back(), '}');
  // Keys are in ascending order in the document, so "validation" goes before "variant", the last key.
  const auto at = raced.rfind(",\"variant\":");
  ASSERT_NE(at, std::string::npos);
  raced.insert(at, R"(,"validation":{"benefit":0.2,"benefit_high":0.25,"benefit_low":0.15,"fused_us":400,)"
                   R"("measured_at":"2026-11-27T22:07:31Z","pair_count":9,"serial_us":500})");
  mc2_plan* again = nullptr;
  MC2_ASSERT_OK(mc2_plan_from_json(raced.data(), raced.size(), &again));
  mc2_plan_summary summary = MC2_INIT(mc2_plan_summary);
  MC2_ASSERT_OK(mc2_plan_summarize(again, &summary));
  EXPECT_EQ(summary.measured_fused_us, 400);
  EXPECT_EQ(summary.measured_serial_us, 500);
  EXPECT_EQ(summary.measured_benefit, 0.2);
  EXPECT_EQ(summary.measured_benefit_low, 0.15);
  EXPECT_EQ(summary.measured_benefit_high, 0.25);
  EXPECT_EQ(summary.measured_pair_count, 9);
  EXPECT_STREQ(summary.measured_at, "2026-11-27T22:07:31Z");
  EXPECT_DOUBLE_EQ(summary.serial_us, 552); // still the prediction
  mc2_free_plan(again);
  mc2_free_plan(plan);
}

TEST(CStore, KeepsPlansAndModels) {
  const Directory directory;
  mc2_store* store = nullptr;
  MC2_ASSERT_OK(mc2_store_open(directory.file("store.db").c_str(), 0, &store));
  mc2_plan* const plan = plan_of(op());
  mc2_model* const from = model();
  MC2_ASSERT_OK(mc2_store_put_plan(store, plan, nullptr));
  MC2_ASSERT_OK(mc2_store_put_model(store, from));
  mc2_machine* const machine = invented_machine();
  const auto spec = op();
  mc2_plan* kept = nullptr;
  MC2_ASSERT_OK(mc2_store_get_plan(store, &spec, machine, nullptr, &kept));
  mc2_plan_summary put = MC2_INIT(mc2_plan_summary), got = MC2_INIT(mc2_plan_summary);
  MC2_ASSERT_OK(mc2_plan_summarize(plan, &put));
  MC2_ASSERT_OK(mc2_plan_summarize(kept, &got));
  EXPECT_STREQ(got.digest, put.digest);
  const auto longer = op(256); // differs from op() in the length of the cut axis
  mc2_model* kept_model = nullptr;
  MC2_ASSERT_OK(mc2_store_get_model(store, &longer, machine, &kept_model));
  mc2_free_model(kept_model);
  EXPECT_EQ(mc2_store_get_plan(store, &longer, machine, nullptr, &kept), MC2_ERROR_NOT_FOUND);
  mc2_free_plan(kept);
  mc2_free_machine(machine);
  mc2_free_model(from);
  mc2_free_plan(plan);
  EXPECT_EQ(mc2_free_store(store), MC2_OK);
}

// ---- Structs of other headers

TEST(CStructs, OfAnOlderHeaderGetDefaultsForTheRest) {
  auto spec = op();
  spec.size = offsetof(mc2_op_spec, has_bias);
  spec.has_bias = 1; // beyond the size that the caller states
  mc2_operand_sizes sizes = MC2_INIT(mc2_operand_sizes);
  MC2_ASSERT_OK(mc2_operands(&spec, &sizes));
  EXPECT_EQ(sizes.bias_bytes, 0);
}

TEST(CStructs, OfAnOlderHeaderAreNotWrittenBehindTheirEnd) {
  const auto spec = op();
  mc2_operand_sizes sizes = MC2_INIT(mc2_operand_sizes);
  sizes.size = offsetof(mc2_operand_sizes, b_bytes);
  sizes.b_bytes = -7;
  MC2_ASSERT_OK(mc2_operands(&spec, &sizes));
  EXPECT_EQ(sizes.a_bytes, 512 * 128 * 4);
  EXPECT_EQ(sizes.b_bytes, -7);
}

template <typename T>
struct Newer {
  T known = MC2_INIT(T);
  std::array<std::int64_t, 2> added{};
  Newer() { known.size = sizeof(Newer); }
};

TEST(CStructs, OfANewerHeaderAreTakenWhileTheyAskForNothingNew) {
  Newer<mc2_op_spec> spec;
  spec.known = op();
  spec.known.size = sizeof spec;
  Newer<mc2_operand_sizes> sizes;
  sizes.added = {5, 5};
  MC2_ASSERT_OK(mc2_operands(&spec.known, &sizes.known));
  EXPECT_EQ(sizes.known.c_bytes, 512 * 256 * 4);
  EXPECT_THAT(sizes.added, Each(0)); // fields that this library does not know
  EXPECT_EQ(sizes.known.size, sizeof sizes);
  spec.added[1] = 1;
  EXPECT_EQ(mc2_operands(&spec.known, &sizes.known), MC2_ERROR_STRUCT);
  EXPECT_THAT(last_error().message, HasSubstr("newer"));
}

} // namespace
} // namespace mc2::capi_tests
