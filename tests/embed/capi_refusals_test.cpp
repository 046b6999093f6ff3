// Tests what the C interface refuses, with which code, field and message.

#include <gmock/gmock.h>
#include <sqlite3.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "embed/capi.hpp"

namespace mc2::capi_tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

#define EXPECT_REFUSED(expression, status, about, text)       \
  do {                                                        \
    EXPECT_EQ(expression, status) << last_error().message;    \
    EXPECT_EQ(last_error().code, status);                     \
    EXPECT_STREQ(last_error().name, mc2_status_name(status)); \
    EXPECT_STREQ(last_error().field, about);                  \
    EXPECT_THAT(last_error().message, HasSubstr(text));       \
  } while (false)

mc2_status sizes_of(const mc2_op_spec& spec) {
  mc2_operand_sizes sizes = MC2_INIT(mc2_operand_sizes);
  return mc2_operands(&spec, &sizes);
}

TEST(CRefusals, OfOperators) {
  auto spec = op(0);
  EXPECT_REFUSED(sizes_of(spec), MC2_ERROR_INVALID_SPEC, "op.m", "");
  spec = op();
  spec.kind = 1000;
  EXPECT_REFUSED(sizes_of(spec), MC2_ERROR_UNKNOWN_NAME, "op.kind", "is 1000; legal: 1 to ");
  spec = op();
  spec.dtype = 0;
  EXPECT_REFUSED(sizes_of(spec), MC2_ERROR_UNKNOWN_NAME, "op.dtype", "1 to 5");
  spec = op();
  spec.world_size = 1;
  EXPECT_REFUSED(sizes_of(spec), MC2_ERROR_INVALID_SPEC, "op.world_size", "");
  spec = op();
  spec.m = INT64_MAX;
  EXPECT_REFUSED(sizes_of(spec), MC2_ERROR_INVALID_SPEC, "op.m", "");
  spec = op();
  spec.kind = MC2_EMBEDDING_ALL_TO_ALL;
  spec.table_count = 2;
  spec.table_rows = 10;
  spec.pooling = 3;
  EXPECT_REFUSED(sizes_of(spec), MC2_ERROR_UNKNOWN_NAME, "op.pooling", "1 to 2");
  spec = op();
  spec.pooling = 9;
  EXPECT_REFUSED(sizes_of(spec), MC2_ERROR_INVALID_SPEC, "op.pooling", "is 9, but there are no tables");
  spec = op();
  spec.top_k = 1;
  EXPECT_REFUSED(sizes_of(spec), MC2_ERROR_INVALID_SPEC, "op.top_k", "is 1, but expert_count is 0");
  spec = op();
  spec.table_count = 2;
  spec.table_rows = 10;
  EXPECT_REFUSED(sizes_of(spec), MC2_ERROR_INVALID_SPEC, "op.table_count", "only embedding_all_to_all has tables");
  spec = op();
  spec.kind = MC2_EMBEDDING_ALL_TO_ALL;
  EXPECT_REFUSED(sizes_of(spec), MC2_ERROR_INVALID_SPEC, "op.table_count",
                 "embedding_all_to_all needs the number of a rank's tables");
}

TEST(CRefusals, OfStructsThatCannotBe) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{8}, std::size_t{2048}, SIZE_MAX}) {
    auto spec = op();
    spec.size = size;
    EXPECT_REFUSED(sizes_of(spec), MC2_ERROR_STRUCT, "op.size", "MC2_INIT");
  }
  auto spec = op();
  spec.version = 0;
  EXPECT_REFUSED(sizes_of(spec), MC2_ERROR_STRUCT, "op.version", "MC2_INIT");
  spec.version = MC2_STRUCT_VERSION + 1;
  EXPECT_REFUSED(sizes_of(spec), MC2_ERROR_NEWER_VERSION, "op.version", mc2_version());
  spec = op();
  spec.norm = MC2_NORM_RMS + 1;
  EXPECT_REFUSED(sizes_of(spec), MC2_ERROR_UNKNOWN_NAME, "op.norm", "legal: MC2_NORM_NONE, MC2_NORM_RMS");
  EXPECT_REFUSED(mc2_operands(nullptr, nullptr), MC2_ERROR_INVALID_SPEC, "op", "NULL");
  spec = op();
  EXPECT_REFUSED(mc2_operands(&spec, nullptr), MC2_ERROR_INVALID_SPEC, "sizes", "NULL");
  mc2_context_options options = MC2_INIT(mc2_context_options);
  options.flags = 1U << 31U;
  mc2_context* context = nullptr;
  EXPECT_REFUSED(mc2_context_create(&options, &context), MC2_ERROR_STRUCT, "options.flags", "");
}

TEST(CRefusals, OfAnErrorStructAreToldWithoutLosingTheError) {
  EXPECT_EQ(sizes_of(op(0)), MC2_ERROR_INVALID_SPEC);
  EXPECT_EQ(mc2_last_error(nullptr), MC2_ERROR_INVALID_SPEC);
  mc2_error error{};
  EXPECT_EQ(mc2_last_error(&error), MC2_ERROR_STRUCT);
  EXPECT_STREQ(last_error().field, "op.m");
}

TEST(CRefusals, AreToldToTheThreadThatAsked) {
  EXPECT_EQ(sizes_of(op(0)), MC2_ERROR_INVALID_SPEC);
  std::thread([] { EXPECT_EQ(last_error().code, MC2_OK); }).join();
  EXPECT_EQ(last_error().code, MC2_ERROR_INVALID_SPEC);
}

TEST(CRefusals, OfDocuments) {
  mc2_plan* plan = nullptr;
  EXPECT_EQ(mc2_plan_from_json("{", 1, &plan), MC2_ERROR_MALFORMED);
  EXPECT_EQ(mc2_plan_from_json(nullptr, 3, &plan), MC2_ERROR_INVALID_SPEC);
  EXPECT_EQ(mc2_plan_from_json("{}", 2, nullptr), MC2_ERROR_INVALID_SPEC);
  mc2_model* model = nullptr;
  std::string json = model_document();
  json.replace(json.find("mc2.cost_model/1"), 16, "mc2.cost_model/9");
  EXPECT_EQ(mc2_model_from_json(json.data(), json.size(), &model), MC2_ERROR_NEWER_VERSION);
  mc2_machine* machine = nullptr;
  EXPECT_EQ(mc2_machine_from_json("[]", 2, &machine), MC2_ERROR_MALFORMED);
  EXPECT_EQ(plan, nullptr);
  EXPECT_EQ(model, nullptr);
  EXPECT_EQ(machine, nullptr);
}

TEST(CRefusals, OfPlanning) {
  mc2_model* const from = model();
  mc2_plan* plan = nullptr;
  auto spec = op();
  spec.n = 512;
  EXPECT_EQ(mc2_plan_from_model(from, &spec, nullptr, &plan), MC2_ERROR_OUT_OF_RANGE);
  spec = op();
  mc2_plan_options options = MC2_INIT(mc2_plan_options);
  options.strategy = "magic";
  EXPECT_EQ(mc2_plan_from_model(from, &spec, &options, &plan), MC2_ERROR_UNKNOWN_NAME);
  options = MC2_INIT(mc2_plan_options);
  options.objective_quantile = 7;
  EXPECT_EQ(mc2_plan_from_model(from, &spec, &options, &plan), MC2_ERROR_INVALID_SPEC);
  options = MC2_INIT(mc2_plan_options);
  options.strategy = "formula"; // 512 rows are shorter than the recipe's short block
  EXPECT_EQ(mc2_plan_from_model(from, &spec, &options, &plan), MC2_ERROR_INFEASIBLE);
  EXPECT_EQ(plan, nullptr);
  mc2_free_model(from);
}

TEST(CRefusals, OfMachines) {
  auto options = two_ranks();
  mc2_communicator* ranks = nullptr;
  options.backend = "abacus";
  EXPECT_EQ(mc2_communicator_open(&options, &ranks), MC2_ERROR_UNKNOWN_NAME);
  options = two_ranks("fast");
  EXPECT_EQ(mc2_communicator_open(&options, &ranks), MC2_ERROR_INVALID_SPEC);
  options = two_ranks();
  options.world_size = -5;
  EXPECT_EQ(mc2_communicator_open(&options, &ranks), MC2_ERROR_INVALID_SPEC);
  options = two_ranks();
  options.native_communicator_count = 2;
  EXPECT_REFUSED(mc2_communicator_open(&options, &ranks), MC2_ERROR_INVALID_SPEC, "options.native_communicators",
                 "NULL");
  void* native[] = {&options, &options};
  options.native_communicators = native;
  EXPECT_REFUSED(mc2_communicator_open(&options, &ranks), MC2_ERROR_UNSUPPORTED, "native_communicators", "host");
  options = two_ranks();
  options.local_size = 2;
  EXPECT_REFUSED(mc2_communicator_open(&options, &ranks), MC2_ERROR_INVALID_SPEC, "options.rank_zero", "local_size");
  options.local_size = 0;
  options.rank_zero = "127.0.0.1:1";
  EXPECT_REFUSED(mc2_communicator_open(&options, &ranks), MC2_ERROR_INVALID_SPEC, "options.process_key", "rank_zero");
  options.process_key = "job 6";
  EXPECT_REFUSED(mc2_communicator_open(&options, &ranks), MC2_ERROR_INVALID_SPEC, "options.local_rank", "local_size 0");
  options = two_ranks();
  options.process_rank = 1;
  EXPECT_REFUSED(mc2_communicator_open(&options, &ranks), MC2_ERROR_INVALID_SPEC, "options.process_key", "NULL");
  options.process_key = "job 7";
  EXPECT_EQ(mc2_communicator_open(&options, &ranks),
            MC2_ERROR_UNSUPPORTED); // the host backend holds all ranks itself
  options.process_rank = 2;
  EXPECT_EQ(mc2_communicator_open(&options, &ranks), MC2_ERROR_INVALID_SPEC); // the ranks are 0 and 1
  options = two_ranks();
  options.reserved = 1;
  EXPECT_REFUSED(mc2_communicator_open(&options, &ranks), MC2_ERROR_STRUCT, "options.reserved", "MC2_INIT");
  EXPECT_EQ(ranks, nullptr);
}

TEST(CRefusals, OfPlansForAnotherNumberOfRanks) {
  mc2_machine* const here = machine(); // of 2 ranks
  auto spec = op();
  spec.world_size = 4;
  mc2_plan* plan = nullptr;
  EXPECT_REFUSED(mc2_plan_uncut(&spec, here, &plan), MC2_ERROR_INVALID_SPEC, "ranks", "4, but the machine has 2");
  spec.world_size = 2;
  MC2_ASSERT_OK(mc2_plan_uncut(&spec, here, &plan));
  mc2_free_machine(here);
  const char* text = nullptr;
  MC2_ASSERT_OK(mc2_plan_to_json(plan, &text, nullptr));
  std::string json = text;
  mc2_free_plan(plan);
  const std::string two = R"("ranks":"2")";
  ASSERT_NE(json.find(two), std::string::npos) << json;
  json.replace(json.find(two), two.size(), R"("ranks":"4")");
  MC2_ASSERT_OK(mc2_plan_from_json(json.data(), json.size(), &plan));
  const Directory directory;
  mc2_store* store = nullptr;
  MC2_ASSERT_OK(mc2_store_open(directory.file("store.db").c_str(), 0, &store));
  EXPECT_REFUSED(mc2_store_put_plan(store, plan, nullptr), MC2_ERROR_INVALID_SPEC, "ranks", "2, but the machine has 4");
  mc2_free_store(store);
  mc2_free_plan(plan);
}

TEST(CRefusals, OfBuffers) {
  Running running;
  mc2_prepare_options accept = MC2_INIT(mc2_prepare_options);
  accept.accept_other_machine = 1;
  mc2_prepared* prepared = nullptr;
  const auto prepare = [&](const std::array<mc2_buffers, 2>& buffers, std::size_t count = 2) {
    return mc2_prepare(running.ranks, running.plan, buffers.data(), count, &accept, &prepared);
  };
  auto buffers = running.matrices.buffers();
  EXPECT_REFUSED(prepare(buffers, 1), MC2_ERROR_INVALID_SPEC, "count", "2 ranks");
  buffers[1].a_bytes -= 4;
  EXPECT_EQ(prepare(buffers), MC2_ERROR_INVALID_SPEC);
  EXPECT_THAT(last_error().message, HasSubstr("262140")); // 512 x 128 x 4 - 4 bytes
  buffers = running.matrices.buffers();
  buffers[0].b = nullptr;
  EXPECT_REFUSED(prepare(buffers), MC2_ERROR_INVALID_SPEC, "buffers.b", "NULL");
  buffers = running.matrices.buffers();
  buffers[1].c = buffers[0].c;
  EXPECT_EQ(prepare(buffers), MC2_ERROR_INVALID_SPEC);
  buffers = running.matrices.buffers();
  buffers[1].size -= 8;
  EXPECT_REFUSED(prepare(buffers), MC2_ERROR_STRUCT, "buffers.size", "differs");
  buffers = running.matrices.buffers();
  buffers[0].bag_index_type = 9;
  EXPECT_EQ(prepare(buffers), MC2_ERROR_UNKNOWN_NAME);
  buffers = running.matrices.buffers();
  buffers[0].choice_index_type = 9;
  EXPECT_REFUSED(prepare(buffers), MC2_ERROR_UNKNOWN_NAME, "buffers.choice_index_type", "is 9");
  EXPECT_EQ(prepared, nullptr);
}

TEST(CRefusals, OfOperandsOfNoBytes) {
  Running running;
  mc2_prepared* prepared = nullptr;
  const auto prepare = [&](const std::array<mc2_buffers, 2>& buffers) {
    return mc2_prepare(running.ranks, running.plan, buffers.data(), buffers.size(), nullptr, &prepared);
  };
  const auto expect_refused = [&](auto field, const char* name, const char* text) {
    auto buffers = running.matrices.buffers();
    buffers[1].*field = running.matrices.a[1].data();
    EXPECT_REFUSED(prepare(buffers), MC2_ERROR_INVALID_SPEC, name, text);
  };
  const char* none = "matmul_all_reduce m=512 n=256 k=128 f32 x2 has none";
  expect_refused(&mc2_buffers::bias, "buffers.bias", none);
  expect_refused(&mc2_buffers::residual, "buffers.residual", none);
  expect_refused(&mc2_buffers::norm_weight, "buffers.norm_weight", none);
  expect_refused(&mc2_buffers::normed, "buffers.normed", none);
  expect_refused(&mc2_buffers::a_scales, "buffers.a_scales", none);
  expect_refused(&mc2_buffers::b_scales, "buffers.b_scales", none);
  expect_refused(&mc2_buffers::gathered_a, "buffers.gathered_a", none);
  expect_refused(&mc2_buffers::bag_offsets, "buffers.bag_offsets", none);
  expect_refused(&mc2_buffers::bag_indices, "buffers.bag_indices", none);
  expect_refused(&mc2_buffers::choice_experts, "buffers.choice_experts", none);
  expect_refused(&mc2_buffers::choice_weights, "buffers.choice_weights", none);
  auto buffers = running.matrices.buffers();
  const std::int64_t counts[] = {256, 256};
  buffers[0].receive_counts = counts;
  EXPECT_REFUSED(prepare(buffers), MC2_ERROR_INVALID_SPEC, "buffers.receive_counts", "0 counts");
  buffers[0].receive_counts = nullptr;
  buffers[0].count_count = 2;
  EXPECT_REFUSED(prepare(buffers), MC2_ERROR_INVALID_SPEC, "buffers.count_count", "is 2, but send_counts");
}

TEST(CRefusals, OfPlansForAnotherMachineOrShape) {
  Running running;
  const auto buffers = running.matrices.buffers();
  mc2_prepared* prepared = nullptr;
  EXPECT_EQ(mc2_prepare(running.ranks, running.plan, buffers.data(), 2, nullptr, &prepared), MC2_ERROR_STALE);
  EXPECT_THAT(last_error().message, AllOf(HasSubstr("cpu_model"), HasSubstr("an invented machine")));
  mc2_prepare_options accept = MC2_INIT(mc2_prepare_options);
  accept.accept_other_machine = 1;
  mc2_plan* const other = plan_of(op(1024));
  EXPECT_EQ(mc2_prepare(running.ranks, other, buffers.data(), 2, &accept, &prepared), MC2_ERROR_INVALID_SPEC);
  mc2_free_plan(other);
  auto three = two_ranks();
  three.world_size = 3;
  mc2_communicator* const ranks = communicator(three);
  const std::array<mc2_buffers, 3> triple{buffers[0], buffers[1], buffers[1]};
  EXPECT_REFUSED(mc2_prepare(ranks, running.plan, triple.data(), 3, &accept, &prepared), MC2_ERROR_INVALID_SPEC,
                 "world_size", "2 ranks");
  mc2_free_communicator(ranks);
  EXPECT_EQ(prepared, nullptr);
}

TEST(CRefusals, OfRuns) {
  Running running;
  EXPECT_REFUSED(mc2_run(running.prepared, 0, nullptr), MC2_ERROR_UNKNOWN_NAME, "mode", "MC2_RUN_FUSED");
  void* stream = nullptr;
  EXPECT_EQ(mc2_enqueue(running.prepared, &stream, 1, 0), MC2_ERROR_UNSUPPORTED);
  EXPECT_EQ(mc2_enqueue(running.prepared, nullptr, 1, 0), MC2_ERROR_INVALID_SPEC);
  mc2_run_times times{};
  EXPECT_EQ(mc2_run(running.prepared, MC2_RUN_FUSED, &times), MC2_ERROR_STRUCT);
  EXPECT_EQ(mc2_run(running.prepared, MC2_RUN_FUSED, nullptr), MC2_OK); // the refused calls did no harm
}

TEST(CRefusals, OfARunThatOutlastsItsDeadline) {
  auto slow = two_ranks("1Mbit"); // sending 512 KiB takes 4 s
  slow.deadline_ms = 20;
  Running running(slow);
  EXPECT_EQ(mc2_run(running.prepared, MC2_RUN_FUSED, nullptr), MC2_ERROR_SYSTEM);
  EXPECT_THAT(last_error().message, HasSubstr("deadline"));
  EXPECT_EQ(mc2_run(running.prepared, MC2_RUN_FUSED, nullptr), MC2_ERROR_SYSTEM);
  EXPECT_THAT(last_error().message, HasSubstr("earlier failure"));
}

TEST(CRefusals, OfASecondThreadOnOneRun) {
  Running running(two_ranks("200Mbit")); // sending 512 KiB takes 21 ms in each run
  std::atomic<int> busy_count = 0, wrong_count = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto run_until_busy = [&] {
    while (busy_count == 0 && std::chrono::steady_clock::now() < until) {
      const mc2_status status = mc2_run(running.prepared, MC2_RUN_FUSED, nullptr);
      if (status == MC2_ERROR_BUSY)
        ++busy_count;
      else if (status != MC2_OK)
        ++wrong_count;
    }
  };
  std::thread other(run_until_busy);
  run_until_busy();
  other.join();
  EXPECT_GE(busy_count, 1);
  EXPECT_EQ(wrong_count, 0);
  EXPECT_EQ(mc2_run(running.prepared, MC2_RUN_FUSED, nullptr), MC2_OK);
}

// ---- Handles

TEST(CHandles, AreRefusedOnceFreed) {
  mc2_plan* const plan = plan_of(op());
  MC2_ASSERT_OK(mc2_free_plan(plan));
  mc2_plan_summary summary = MC2_INIT(mc2_plan_summary);
  EXPECT_REFUSED(mc2_plan_summarize(plan, &summary), MC2_ERROR_HANDLE, "plan", "has been freed");
  EXPECT_REFUSED(mc2_free_plan(plan), MC2_ERROR_HANDLE, "plan", "has been freed");
  mc2_plan* const next = plan_of(op()); // reuses the place of the freed plan in the table
  EXPECT_REFUSED(mc2_plan_summarize(plan, &summary), MC2_ERROR_HANDLE, "plan", "has been freed");
  EXPECT_EQ(mc2_plan_summarize(next, &summary), MC2_OK);
  mc2_free_plan(next);
}

TEST(CHandles, OfAnotherKindOrNoneAtAllAreRefused) {
  mc2_machine* const here = machine();
  mc2_plan_summary summary = MC2_INIT(mc2_plan_summary);
  EXPECT_REFUSED(mc2_plan_summarize(reinterpret_cast<mc2_plan*>(here), &summary), MC2_ERROR_HANDLE, "plan", "machine");
  EXPECT_REFUSED(mc2_plan_summarize(nullptr, &summary), MC2_ERROR_HANDLE, "plan", "NULL");
  int no_handle = 0;
  EXPECT_REFUSED(mc2_plan_summarize(reinterpret_cast<mc2_plan*>(&no_handle), &summary), MC2_ERROR_HANDLE, "plan",
                 "no handle");
  for (const std::uintptr_t value : {std::uintptr_t{1}, std::uintptr_t{0xFFFFFF}, UINTPTR_MAX, UINTPTR_MAX << 24U})
    EXPECT_EQ(mc2_plan_summarize(reinterpret_cast<mc2_plan*>(value), &summary), MC2_ERROR_HANDLE);
  EXPECT_EQ(mc2_free_plan(reinterpret_cast<mc2_plan*>(here)), MC2_ERROR_HANDLE);
  EXPECT_EQ(mc2_free_machine(here), MC2_OK);
}

TEST(CHandles, NullMayBeFreed) {
  EXPECT_EQ(mc2_free_plan(nullptr), MC2_OK);
  EXPECT_EQ(mc2_free_model(nullptr), MC2_OK);
  EXPECT_EQ(mc2_free_machine(nullptr), MC2_OK);
  EXPECT_EQ(mc2_free_context(nullptr), MC2_OK);
  EXPECT_EQ(mc2_free_communicator(nullptr), MC2_OK);
  EXPECT_EQ(mc2_free_prepared(nullptr), MC2_OK);
  EXPECT_EQ(mc2_free_store(nullptr), MC2_OK);
}

TEST(CHandles, EveryCallRefusesAFreedOne) {
  const Directory directory;
  mc2_context_options offline = MC2_INIT(mc2_context_options);
  offline.flags = MC2_CONTEXT_NO_ENVIRONMENT;
  mc2_context* context = nullptr;
  MC2_ASSERT_OK(mc2_context_create(&offline, &context));
  mc2_store* store = nullptr;
  MC2_ASSERT_OK(mc2_store_open(directory.file("s.db").c_str(), 0, &store));
  Running running;
  mc2_machine* const here = machine();
  mc2_model* const from = model();
  for (const mc2_status freed :
       {mc2_free_context(context), mc2_free_store(store), mc2_free_machine(here), mc2_free_model(from),
        mc2_free_prepared(running.prepared), mc2_free_communicator(running.ranks)})
    ASSERT_EQ(freed, MC2_OK);

  const auto spec = op();
  const auto buffers = running.matrices.buffers();
  mc2_plan* plan = nullptr;
  mc2_model* model = nullptr;
  mc2_machine* machine = nullptr;
  mc2_prepared* prepared = nullptr;
  const char* text = nullptr;
  std::size_t count = 0;
  EXPECT_EQ(mc2_find_plan(context, &spec, here, &plan), MC2_ERROR_HANDLE);
  EXPECT_EQ(mc2_plan_from_model(from, &spec, nullptr, &plan), MC2_ERROR_HANDLE);
  EXPECT_EQ(mc2_plan_uncut(&spec, here, &plan), MC2_ERROR_HANDLE);
  EXPECT_EQ(mc2_machine_to_json(here, &text, nullptr), MC2_ERROR_HANDLE);
  EXPECT_EQ(mc2_model_to_json(from, &text, nullptr), MC2_ERROR_HANDLE);
  EXPECT_EQ(mc2_communicator_machine(running.ranks, &machine), MC2_ERROR_HANDLE);
  EXPECT_EQ(mc2_communicator_ranks(running.ranks, nullptr, 0, &count), MC2_ERROR_HANDLE);
  EXPECT_EQ(mc2_prepare(running.ranks, running.plan, buffers.data(), 2, nullptr, &prepared), MC2_ERROR_HANDLE);
  EXPECT_EQ(mc2_run(running.prepared, MC2_RUN_FUSED, nullptr), MC2_ERROR_HANDLE);
  EXPECT_EQ(mc2_enqueue(running.prepared, nullptr, 0, 0), MC2_ERROR_HANDLE);
  EXPECT_EQ(mc2_store_put_plan(store, running.plan, nullptr), MC2_ERROR_HANDLE);
  EXPECT_EQ(mc2_store_get_plan(store, &spec, here, nullptr, &plan), MC2_ERROR_HANDLE);
  EXPECT_EQ(mc2_store_put_model(store, from), MC2_ERROR_HANDLE);
  EXPECT_EQ(mc2_store_get_model(store, &spec, here, &model), MC2_ERROR_HANDLE);
}

TEST(CHandles, FreedByOneThreadEndWithTheLastCallOfAnother) {
  for (int round = 0; round < 20; ++round) {
    mc2_plan* const plan = plan_of(op());
    std::atomic<int> wrong_count = 0;
    std::atomic<bool> has_started = false;
    std::thread reader([&] {
      mc2_plan_summary summary = MC2_INIT(mc2_plan_summary);
      mc2_status status = MC2_OK;
      while (status == MC2_OK) {
        status = mc2_plan_summarize(plan, &summary);
        has_started = true;
      }
      if (status != MC2_ERROR_HANDLE) ++wrong_count;
    });
    while (!has_started) std::this_thread::yield();
    EXPECT_EQ(mc2_free_plan(plan), MC2_OK);
    reader.join();
    EXPECT_EQ(wrong_count, 0);
  }
}

// ---- Processes

/// What a function that mc2_tune() calls gets from the store that the tuning uses.
struct InsideTuning {
  mc2_store* store;
  mc2_machine* here;
  mc2_status seen = MC2_OK;

  static std::int32_t ask(void* user) {
    auto& self = *static_cast<InsideTuning*>(user);
    const auto spec = op();
    mc2_plan* plan = nullptr;
    self.seen = mc2_store_get_plan(self.store, &spec, self.here, nullptr, &plan);
    return 1; // ends the tuning
  }
};

TEST(CHandles, AStoreIsBusyForFunctionsOfTheTuningThatUsesIt) {
  const Directory directory;
  InsideTuning inside{nullptr, machine()};
  MC2_ASSERT_OK(mc2_store_open(directory.file("s.db").c_str(), 0, &inside.store));
  mc2_communicator* const ranks = communicator();
  const auto spec = op();
  mc2_tune_options options = MC2_INIT(mc2_tune_options);
  options.store = inside.store;
  options.is_cancelled = &InsideTuning::ask;
  options.user = &inside;
  mc2_plan* plan = nullptr;
  EXPECT_EQ(mc2_tune(ranks, &spec, &options, &plan), MC2_ERROR_CANCELLED);
  EXPECT_EQ(inside.seen, MC2_ERROR_BUSY);
  EXPECT_EQ(mc2_store_get_plan(inside.store, &spec, inside.here, nullptr, &plan), MC2_ERROR_NOT_FOUND);
  EXPECT_EQ(mc2_free_communicator(ranks), MC2_OK);
  EXPECT_EQ(mc2_free_store(inside.store), MC2_OK);
  EXPECT_EQ(mc2_free_machine(inside.here), MC2_OK);
}

TEST(CFork, WhatThreadsAndFilesBelongToIsRefusedInTheChildAndTheRestWorks) {
  const Directory directory;
  mc2_context_options offline = MC2_INIT(mc2_context_options);
  offline.flags = MC2_CONTEXT_NO_ENVIRONMENT;
  mc2_context* context = nullptr;
  MC2_ASSERT_OK(mc2_context_create(&offline, &context));
  mc2_store* store = nullptr;
  MC2_ASSERT_OK(mc2_store_open(directory.file("s.db").c_str(), 0, &store));
  Running running;
  mc2_machine* const here = machine();
  const auto spec = op();
  const auto buffers = running.matrices.buffers();

  const pid_t child = ::fork();
  if (child == 0) {
    mc2_plan* plan = nullptr;
    mc2_prepared* prepared = nullptr;
    mc2_plan_summary summary = MC2_INIT(mc2_plan_summary);
    const bool is_right =
        mc2_run(running.prepared, MC2_RUN_FUSED, nullptr) == MC2_ERROR_FORK &&
        mc2_prepare(running.ranks, running.plan, buffers.data(), 2, nullptr, &prepared) == MC2_ERROR_FORK &&
        mc2_find_plan(context, &spec, here, &plan) == MC2_ERROR_FORK &&
        mc2_store_put_plan(store, running.plan, nullptr) == MC2_ERROR_FORK &&
        mc2_plan_summarize(running.plan, &summary) == MC2_OK && mc2_free_prepared(running.prepared) == MC2_OK &&
        mc2_free_communicator(running.ranks) == MC2_OK && mc2_free_context(context) == MC2_OK &&
        mc2_free_store(store) == MC2_OK;
    ::_exit(is_right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(mc2_run(running.prepared, MC2_RUN_FUSED, nullptr), MC2_OK); // the parent goes on
  mc2_free_machine(here);
  mc2_free_store(store);
  mc2_free_context(context);
}

// ---- Stores

void execute_sql(const std::string& path, const char* sql) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
  sqlite3_close(database);
}

TEST(CStoreRefusals, OfStoresThatAreNewerMissingDamagedOrReadOnly) {
  const Directory directory;
  mc2_store* store = nullptr;
  EXPECT_EQ(mc2_store_open(directory.file("none.db").c_str(), 1, &store), MC2_ERROR_NOT_FOUND);
  EXPECT_EQ(mc2_store_open(nullptr, 0, &store), MC2_ERROR_INVALID_SPEC);

  const std::string path = directory.file("store.db");
  MC2_ASSERT_OK(mc2_store_open(path.c_str(), 0, &store));
  mc2_plan* const plan = plan_of(op());
  MC2_ASSERT_OK(mc2_store_put_plan(store, plan, nullptr));
  for (const char* purpose : {"two\nlines", "bad \xff byte"})
    EXPECT_EQ(mc2_store_put_plan(store, plan, purpose), MC2_ERROR_INVALID_SPEC);
  MC2_ASSERT_OK(mc2_free_store(store));
  MC2_ASSERT_OK(mc2_store_open(path.c_str(), 1, &store));
  EXPECT_EQ(mc2_store_put_plan(store, plan, nullptr), MC2_ERROR_READ_ONLY);
  MC2_ASSERT_OK(mc2_free_store(store));
  mc2_free_plan(plan);

  execute_sql(path, "UPDATE plan SET document = replace(document, 'search', 'free')");
  MC2_ASSERT_OK(mc2_store_open(path.c_str(), 1, &store));
  mc2_machine* const machine = invented_machine();
  const auto spec = op();
  mc2_plan* kept = nullptr;
  EXPECT_EQ(mc2_store_get_plan(store, &spec, machine, nullptr, &kept), MC2_ERROR_CORRUPT);
  MC2_ASSERT_OK(mc2_free_store(store));
  mc2_free_machine(machine);

  execute_sql(path, "PRAGMA user_version = 999");
  EXPECT_EQ(mc2_store_open(path.c_str(), 0, &store), MC2_ERROR_NEWER_VERSION);
  mc2_context_options options = MC2_INIT(mc2_context_options);
  options.flags = MC2_CONTEXT_NO_ENVIRONMENT;
  options.store = path.c_str();
  mc2_context* context = nullptr;
  EXPECT_EQ(mc2_context_create(&options, &context), MC2_ERROR_NEWER_VERSION);
  std::ofstream(path) << std::string(4096, 'x');
  EXPECT_EQ(mc2_context_create(&options, &context), MC2_ERROR_CORRUPT);
}

TEST(CContextRefusals, NameTheirReason) {
  mc2_context_options options = MC2_INIT(mc2_context_options);
  options.flags = MC2_CONTEXT_NO_ENVIRONMENT;
  const char* files[] = {"/nonexistent/plan.json"};
  options.plan_files = files;
  options.plan_file_count = 1;
  mc2_context* context = nullptr;
  EXPECT_EQ(mc2_context_create(&options, &context), MC2_ERROR_NOT_FOUND);
  EXPECT_STREQ(last_error().field, "/nonexistent/plan.json");
  files[0] = "/tmp";
  EXPECT_EQ(mc2_context_create(&options, &context), MC2_ERROR_INVALID_SPEC);
  EXPECT_STREQ(last_error().field, "/tmp");
  options.plan_files = nullptr;
  EXPECT_EQ(mc2_context_create(&options, &context), MC2_ERROR_INVALID_SPEC);
  options.plan_file_count = SIZE_MAX;
  EXPECT_EQ(mc2_context_create(&options, &context), MC2_ERROR_INVALID_SPEC);
  options.plan_file_count = 0;
  options.server_url = "nowhere";
  EXPECT_EQ(mc2_context_create(&options, &context), MC2_ERROR_INVALID_SPEC);
  options.server_url = nullptr;
  MC2_ASSERT_OK(mc2_context_create(&options, &context));
  mc2_machine* const here = machine();
  const auto spec = op();
  mc2_plan* plan = nullptr;
  EXPECT_EQ(mc2_find_plan(context, &spec, here, &plan), MC2_ERROR_NOT_FOUND);
  EXPECT_THAT(last_error().message, HasSubstr("own planner"));
  mc2_free_machine(here);
  mc2_free_context(context);
}

} // namespace
} // namespace mc2::capi_tests
