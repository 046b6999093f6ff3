#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "executor/nccl_tuner/src/interface.hpp"
#include "mc2/store/nccl_rules.hpp"
#include "mc2/store/store.hpp"
#include "store/examples.hpp"
#include "store/place.hpp"

/// Loads the plug-in as NCCL does, and calls it through each version of NCCL's tuner interface.
namespace mc2::nccl_tuner::tuner_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kAlgorithms = 7, kProtocols = 3, kAllReduce = 4, kAllGather = 2, kRing = 1, kLl = 0, kSimple = 2;

std::vector<std::string> lines; // NOLINT: NCCL's log function has no context

void keep_line(LogLevel /*level*/, unsigned long about, const char* /*file*/, int /*line*/, const char* format, ...) {
  EXPECT_EQ(about, kAboutTuning);
  std::array<char, 1024> text{};
  va_list arguments; // NOLINT: NCCL's interface
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  lines.emplace_back(text.data());
}

struct Answer {
  Status status = kSuccess;
  int channels = 0; ///< NCCL's value before it asks
  std::array<float, kAlgorithms * kProtocols> costs{};
};

/// A communicator as the plug-in sees it, through one version of the interface.
class Communicator {
 public:
  Communicator(int version, std::size_t ranks, std::size_t nodes, Log log = keep_line) : version_(version) {
    library_ = dlopen(MC2_NCCL_TUNER, RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) throw std::runtime_error(dlerror());
    const auto* table = dlsym(library_, ("ncclTunerPlugin_v" + std::to_string(version)).c_str());
    if (table == nullptr) throw std::runtime_error(dlerror());
    if (version == 4) {
      const auto& tuner = *static_cast<const TunerV4*>(table);
      status_ = tuner.init(ranks, nodes, log, &context_);
      ask_ = tuner.get_coll_info, end_ = tuner.destroy;
      name_ = tuner.name;
    } else {
      const auto& tuner = *static_cast<const TunerV5*>(table); // v6 and v7 begin with the same members
      std::array<double, 512> constants{};                     // more than in any version
      int domains[3]{1, static_cast<int>(ranks), static_cast<int>(ranks)};
      status_ = tuner.init(&context_, 42, ranks, nodes, log, domains, constants.data());
      ask_ = tuner.get_coll_info, end_ = tuner.finalize;
      name_ = tuner.name;
      EXPECT_EQ(constants, decltype(constants){});
      if (version > 5) {
        EXPECT_EQ(static_cast<const TunerV6*>(table)->get_chunk_size, nullptr);
      }
    }
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() {
    EXPECT_EQ(end_(context_), kSuccess);
    dlclose(library_);
  }

  Answer ask(int function, std::size_t bytes, int grouped_ops = 1, int registered = 0, float cost = 5) {
    Answer answer;
    answer.costs.fill(cost);
    auto** costs = reinterpret_cast<float**>(answer.costs.data()); // NOLINT: as NCCL passes it
    answer.status =
        ask_(context_, function, bytes, grouped_ops, costs, kAlgorithms, kProtocols, registered, &answer.channels);
    return answer;
  }

  [[nodiscard]] Status status() const { return status_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] GetCollInfo function() const { return ask_; }
  [[nodiscard]] void* context() const { return context_; }

 private:
  int version_;
  void* library_ = nullptr;
  void* context_ = nullptr;
  Status status_ = kInternalError;
  GetCollInfo ask_ = nullptr;
  Finalize end_ = nullptr;
  std::string name_;
};

class NcclTuner : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    lines.clear();
    for (const char* name : {"NCCL_TUNER_CONFIG_FILE", "MC2_STORE", "MC2_LOG", "MC2_GPU_MODEL"}) unsetenv(name);
  }
  void use_file(const std::string& text) {
    std::ofstream(file_) << text;
    setenv("NCCL_TUNER_CONFIG_FILE", file_.c_str(), 1);
  }
  [[nodiscard]] static std::string said() {
    std::string all;
    for (const auto& line : lines) all += line + "\n";
    return all;
  }

  store::place::TemporaryDirectory scratch_;
  std::filesystem::path file_ = scratch_ / "rules.csv";
};

planner::Plan plan_of(const std::string& variant, int ranks, const std::string& gpu) {
  planner::Plan plan = store::examples::plan();
  plan.op = {planner::OpKind::MatmulAllReduce, 1024, 256, 512, planner::DType::Bf16, ranks};
  plan.cut.block_rows = {256, 768};
  plan.variant = planner::parse_variant(variant);
  plan.fingerprint.fields = {{"backend", "cuda"}, {"gpu_model", gpu}, {"ranks", std::to_string(ranks)}};
  return plan;
}

TEST_P(NcclTuner, AnswersByTheFirstLineThatMatches) {
  use_file(
      "# by hand\n\nallreduce,0,1024,ring,ll,2,-1,8\nallreduce,512, 4096 "
      ",tree,simple,8,1,8,-1,-1\r\nallgather,0,99,ring,simple,-1,-1,-1\n"
      "allreduce,0,9999,nvls,simple,16,-1,4\n");
  Communicator communicator(GetParam(), 8, 1);
  EXPECT_EQ(communicator.name(), "mc2");
  EXPECT_EQ(communicator.status(), kSuccess);
  EXPECT_THAT(said(), HasSubstr("3 rules for 8 ranks on 1 node from " + file_.string()));
  for (const auto& [bytes, channels, algorithm, protocol] : std::vector<std::tuple<std::size_t, int, int, int>>{
           {0, 2, kRing, kLl}, {1024, 2, kRing, kLl}, {1025, 8, 0, kSimple}, {4096, 8, 0, kSimple}}) {
    const Answer answer = communicator.ask(kAllReduce, bytes);
    EXPECT_EQ(answer.channels, channels) << bytes;
    for (int at = 0; at < kAlgorithms * kProtocols; ++at)
      EXPECT_EQ(answer.costs[static_cast<std::size_t>(at)], at == algorithm * kProtocols + protocol ? 0.0F : 5.0F)
          << bytes << " " << at;
  }
  EXPECT_EQ(communicator.ask(kAllGather, 99).channels, 0) << "NCCL's number";
  EXPECT_EQ(communicator.ask(kAllGather, 99).costs[kRing * kProtocols + kSimple], 0.0F);
}

TEST_P(NcclTuner, LeavesToNcclWhatNoRuleIsOf) {
  use_file("allreduce,1024,2048,ring,simple,4,1,8,2,1\n");
  setenv("MC2_LOG", "debug", 1);
  Communicator communicator(GetParam(), 8, 1);
  const auto is_left = [&](const Answer& answer) {
    return answer.status == kSuccess && answer.channels == 0 &&
           std::ranges::all_of(answer.costs, [](float cost) { return cost == 5; });
  };
  EXPECT_EQ(communicator.ask(kAllReduce, 1024, 2, 1).channels, 4);
  EXPECT_TRUE(is_left(communicator.ask(kAllReduce, 1023, 2, 1)));
  EXPECT_TRUE(is_left(communicator.ask(kAllReduce, 2049, 2, 1)));
  EXPECT_TRUE(is_left(communicator.ask(kAllReduce, 1024, 1, 1)));
  EXPECT_TRUE(is_left(communicator.ask(kAllReduce, 1024, 2, 0)));
  for (const int function : {-1, 0, 3, 5, 7, 1 << 30}) EXPECT_TRUE(is_left(communicator.ask(function, 1024, 2, 1)));
  const Answer excluded = communicator.ask(kAllReduce, 1024, 2, 1, -1);
  EXPECT_EQ(excluded.channels, 0);
  EXPECT_EQ(excluded.costs[kRing * kProtocols + kSimple], -1.0F);
  EXPECT_THAT(
      said(),
      HasSubstr(
          "allreduce of 1024 bytes on 8 ranks: by rule, channels 4 (-1: NCCL's), algorithm ring, protocol simple"));
  EXPECT_THAT(said(), HasSubstr("allreduce of 1023 bytes on 8 ranks: NCCL's choice: no rule"));
  EXPECT_THAT(said(), HasSubstr("NCCL's choice: its rule names what NCCL excludes here"));
  Communicator other(GetParam(), 4, 1), wide(GetParam(), 8, 2);
  EXPECT_TRUE(is_left(other.ask(kAllReduce, 1024, 2, 1)));
  EXPECT_TRUE(is_left(wide.ask(kAllReduce, 1024, 2, 1)));
}

TEST_P(NcclTuner, WithoutAFileOrAStoreNcclChooses) {
  Communicator communicator(GetParam(), 8, 1);
  EXPECT_EQ(communicator.status(), kSuccess);
  EXPECT_THAT(said(), HasSubstr("neither NCCL_TUNER_CONFIG_FILE nor MC2_STORE is set; NCCL chooses by itself"));
  EXPECT_EQ(communicator.ask(kAllReduce, 1 << 20).channels, 0);
  Communicator silent(GetParam(), 8, 1, nullptr);
  EXPECT_EQ(silent.ask(kAllReduce, 1 << 20).channels, 0);
}

TEST_P(NcclTuner, WhatCannotBeReadIsToldAndLeftOut) {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"allreduce,1,2,ring,simple,4\n", "line 1: has 6 fields; needs 8 to 10"},
      {"\n# x\nsum,1,2,ring,simple,4,1,8\n",
       "line 3: the collective is 'sum'; legal: broadcast, reduce, allgather, reducescatter, allreduce"},
      {"allreduce,1,2,rings,simple,4,1,8\n", "line 1: the algorithm is 'rings'; legal: tree, ring,"},
      {"allreduce,1,2,ring,fast,4,1,8\n", "line 1: the protocol is 'fast'; legal: ll, ll128, simple"},
      {"allreduce,5,2,ring,ll,4,1,8\n", "line 1: the smallest size is above the largest"},
      {"allreduce,-5,2,ring,ll,4,1,8\n", "line 1: the smallest size is '-5'; needs 0 to 9223372036854775807"},
      {"allreduce,1,99999999999999999999,ring,ll,4,1,8\n", "line 1: the largest size is '99999999999999999999'"},
      {"allreduce,1,2,ring,ll,65,1,8\n", "line 1: the number of channels is '65'; needs -1 to 64"},
      {"allreduce,1,2,ring,ll,4,1,8,-1,2\n", "line 1: what says whether buffers are registered is '2'; needs -1 to 1"},
      {std::string(1000, '\0'), "line 1: has 1 fields"}};
  for (const auto& [text, reason] : wrong) {
    lines.clear();
    use_file(text);
    Communicator communicator(GetParam(), 8, 1);
    EXPECT_THAT(said(), HasSubstr(reason));
    EXPECT_THAT(said(), HasSubstr("; NCCL chooses by itself"));
    EXPECT_EQ(communicator.status(), kSuccess);
    EXPECT_EQ(communicator.ask(kAllReduce, 1).channels, 0);
  }
  lines.clear();
  setenv("NCCL_TUNER_CONFIG_FILE", "/nowhere/rules.csv", 1);
  Communicator communicator(GetParam(), 8, 1);
  EXPECT_THAT(said(), HasSubstr("/nowhere/rules.csv: cannot be read; NCCL chooses by itself"));
}

TEST_P(NcclTuner, AStoresPlansGiveTheirChannels) {
  const auto path = scratch_ / "store.db";
  {
    auto store = store::Store::open(path, store::OpenMode::ReadWrite).value();
    const auto keep = [&](const planner::Plan& plan) {
      const auto kept = store.put_plan(plan, "tuned", "2026-11-26T00:00:00Z");
      EXPECT_TRUE(kept) << kept.error().text();
    };
    keep(plan_of("nccl(ctas=8)", 8, "GPU X"));
    keep(plan_of("nccl(ctas=4)", 4, "GPU X"));
    keep(plan_of("nccl(ctas=16)", 2, "GPU Y"));
    keep(plan_of("tile_store(gemm_sms=132)", 16, "GPU X"));
    // This plan is newer, but for a restricted purpose: it comes after the best plan of all for the same sizes.
    const auto of_few_blocks = plan_of("nccl(ctas=2)", 8, "GPU X");
    ASSERT_TRUE(store.put_plan(of_few_blocks, "tuned max_block_count=2", "2026-11-27T00:00:00Z"));
  }
  setenv("MC2_STORE", path.c_str(), 1);
  setenv("MC2_GPU_MODEL", "GPU X", 1);
  Communicator eight(GetParam(), 8, 1), four(GetParam(), 4, 1), two(GetParam(), 2, 1), sixteen(GetParam(), 16, 1),
      hosts(GetParam(), 8, 2);
  EXPECT_THAT(said(), HasSubstr("4 rules for 8 ranks on 1 node from " + path.string() + ", plans of GPU X"));
  EXPECT_EQ(eight.ask(kAllReduce, 256 * 256 * 2).channels, 8);
  EXPECT_EQ(eight.ask(kAllReduce, 768 * 256 * 2).channels, 8);
  EXPECT_EQ(eight.ask(kAllReduce, 768 * 256 * 2 + 1).channels, 0);
  EXPECT_EQ(four.ask(kAllReduce, 256 * 256 * 2).channels, 4);
  for (auto* other : {&two, &sixteen, &hosts}) EXPECT_EQ(other->ask(kAllReduce, 256 * 256 * 2).channels, 0);
  std::filesystem::resize_file(path, 5000);
  lines.clear();
  Communicator damaged(GetParam(), 8, 1);
  EXPECT_THAT(said(), HasSubstr("; NCCL chooses by itself"));
  EXPECT_EQ(damaged.ask(kAllReduce, 256 * 256 * 2).channels, 0);
}

TEST_P(NcclTuner, APlanOrAStoresExportServesAsAFile) {
  const auto ask = [&](const std::string& text, std::size_t ranks, int expected) {
    use_file(text);
    Communicator communicator(GetParam(), ranks, 1);
    EXPECT_EQ(communicator.ask(kAllReduce, 256 * 256 * 2).channels, expected) << said();
    return said();
  };
  const std::string plan = store::encode(plan_of("nccl(ctas=8)", 8, "GPU X"));
  EXPECT_THAT(ask("\n" + plan, 8, 8), HasSubstr("2 rules for 8 ranks on 1 node from " + file_.string()));
  ask(plan, 4, 0);
  EXPECT_THAT(ask(store::encode(plan_of("tile_store(gemm_sms=132)", 8, "GPU X")), 8, 0),
              HasSubstr("variant: is tile_store(gemm_sms=132), which sets no channels of NCCL's"));
  EXPECT_THAT(ask(plan.substr(0, 100), 8, 0), HasSubstr("; NCCL chooses by itself"));
  EXPECT_THAT(ask("{}", 8, 0), HasSubstr(file_.string() + ": key 'schema' is missing; expected \"mc2.plan/1\""));

  auto store = store::Store::open(scratch_ / "store.db", store::OpenMode::ReadWrite).value();
  ASSERT_TRUE(store.put_plan(plan_of("nccl(ctas=8)", 8, "GPU X"), "tuned", "2026-11-26T00:00:00Z"));
  ASSERT_TRUE(store.put_plan(plan_of("nccl(ctas=16)", 2, "GPU Y"), "tuned", "2026-11-26T00:00:00Z"));
  const std::string exported = store.export_json().value();
  setenv("MC2_GPU_MODEL", "GPU X", 1);
  EXPECT_THAT(ask(exported, 8, 8), HasSubstr("plans of GPU X"));
  ask(exported, 2, 0);
  EXPECT_THAT(ask(exported.substr(0, exported.size() - 9), 8, 0), HasSubstr("; NCCL chooses by itself"));
}

TEST_P(NcclTuner, AGpuThatNobodyNamesGivesNoPlans) {
  if (std::filesystem::exists("/proc/driver/nvidia/gpus")) GTEST_SKIP() << "this machine has a GPU";
  const auto path = scratch_ / "store.db";
  static_cast<void>(store::Store::open(path, store::OpenMode::ReadWrite).value());
  setenv("MC2_STORE", path.c_str(), 1);
  Communicator communicator(GetParam(), 8, 1);
  EXPECT_THAT(said(), HasSubstr("MC2_GPU_MODEL: is not set, and no GPU is seen in /proc/driver/nvidia"));
}

TEST_P(NcclTuner, AMillionAnswersFromManyThreadsAreThoseOfTheRules) {
  std::string text;
  for (int i = 0; i < 5000; ++i)
    text += "allreduce," + std::to_string(i * 1024) + "," + std::to_string(i * 1024 + 511) + ",ring,simple," +
            std::to_string(1 + i % 32) + ",-1,-1\n";
  use_file(text);
  Communicator communicator(GetParam(), 8, 1);
  EXPECT_THAT(said(), HasSubstr("has 5000 rules, of which the first 4096 are taken"));
  const auto ask = [&](unsigned seed, int count) {
    std::mt19937 random(seed);
    for (int i = 0; i < count; ++i) {
      const std::size_t bytes = random() % (6000 * 1024);
      const std::size_t rule = bytes / 1024;
      const int expected = rule < 4096 && bytes % 1024 < 512 ? static_cast<int>(1 + rule % 32) : 0;
      ASSERT_EQ(communicator.ask(kAllReduce, bytes).channels, expected) << bytes;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) threads.emplace_back(ask, seed, 250'000);
  for (auto& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Interfaces, NcclTuner, ::testing::Values(4, 5, 6, 7),
                         [](const auto& info) { return "v" + std::to_string(info.param); });

TEST(NcclRules, WhatIsExportedIsReadBack) {
  const auto rules = store::nccl_rules(plan_of("nccl(ctas=8,sm_count=116)", 8, "GPU X"));
  ASSERT_EQ(rules.size(), 2U);
  EXPECT_EQ(rules[0].min_bytes, 256 * 256 * 2);
  EXPECT_EQ(rules[0].channels, 8);
  EXPECT_THAT(store::nccl_rules(plan_of("nccl", 8, "GPU X")), IsEmpty());
  EXPECT_THAT(store::nccl_rules(plan_of("nccl(ctas=999)", 8, "GPU X")), IsEmpty());
}

} // namespace
} // namespace mc2::nccl_tuner::tuner_test
