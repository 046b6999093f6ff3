#include "backends/host/host_communicator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "backends/host/host_backend.hpp"
#include "mc2/executor/executor.hpp"
#include "mc2/executor/verify.hpp"
#include "support/prepare.hpp"

namespace mc2::executor::host::host_communicator_test {
namespace {

using planner::Lane;
using ::testing::HasSubstr;

struct Way {
  const char* link;
  const char* variant = "direct";
};

constexpr Way kWays[] = {{"shm"},
                         {"100Gbit"},
                         {"tcp:100Gbit"},
                         {"shm", "two_shot"},
                         {"shm", "low_latency"},
                         {"shm", "ring"},
                         {"shm", "push"},
                         {"shm", "push(initiator=proxy)"}};

planner::OpSpec small_op() {
  return {.kind = planner::OpKind::MatmulAllReduce,
          .m = 96,
          .n = 16,
          .k = 16,
          .dtype = planner::DType::F32,
          .world_size = 3};
}

/// A communicator of three ranks with a prepared plan of four blocks. Each stage calls `hook` before it starts.
struct Rig {
  Rig(const Way& way, StageHook hook, std::chrono::milliseconds deadline = std::chrono::seconds{60})
      : variant(planner::parse_variant(way.variant)), problem(small_op(), 1) {
    auto options = testing::host_options(3, way.link);
    options.deadline = deadline;
    communicator = open_host(options, std::move(hook)).value();
    prepared = bind();
  }

  std::unique_ptr<Prepared> bind() {
    return testing::prepare_cut(*communicator, small_op(), {{24, 24, 24, 24}}, variant, problem.buffers()).value();
  }

  std::string run_failure() {
    try {
      prepared->run(RunMode::Fused);
    } catch (const SystemError& error) {
      last_code = error.native_code();
      return error.what();
    }
    return "";
  }

  planner::Variant variant;
  RandomProblem problem;
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<Prepared> prepared;
  int last_code = 0;
};

StageHook throw_at(int rank, Lane lane, std::size_t stage) {
  return [=](int r, Lane l, std::size_t s) {
    if (r == rank && l == lane && s == stage) throw std::runtime_error("injected fault");
  };
}

TEST(HostCommunicator, FaultInAnyLaneEndsEveryRankAndNamesTheRank) {
  for (const Way& way : kWays) {
    for (const Lane lane : {Lane::Compute, Lane::Communication}) {
      for (const std::size_t stage : {0U, 2U}) {
        Rig rig(way, throw_at(1, lane, stage));
        const std::string failure = rig.run_failure();
        EXPECT_THAT(failure, HasSubstr("rank 1")) << way.link << " " << way.variant;
        EXPECT_THAT(failure, HasSubstr("injected fault")) << way.link << " " << way.variant;
      }
    }
  }
}

TEST(HostCommunicator, AbortedCommunicatorRefusesEveryLaterRun) {
  Rig rig(kWays[0], throw_at(2, Lane::Compute, 1));
  rig.run_failure();
  EXPECT_THAT(rig.run_failure(), HasSubstr("aborted by an earlier failure"));
  EXPECT_EQ(rig.last_code, ECANCELED);
  EXPECT_THROW(rig.bind(), SystemError);
}

TEST(HostCommunicator, LaneThatHangsIsReportedWithItsRankWhenTheDeadlinePasses) {
  for (const Way& way : kWays) {
    // Rank 1 sleeps well beyond the deadline before its second block; when it wakes, the run is aborted.
    const auto hang = [](int rank, Lane lane, std::size_t stage) {
      if (rank == 1 && lane == Lane::Compute && stage == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    };
    Rig rig(way, hang, std::chrono::milliseconds{150});
    const std::string failure = rig.run_failure();
    EXPECT_EQ(rig.last_code, ETIMEDOUT) << failure;
    EXPECT_THAT(failure, HasSubstr("rank 1")) << way.link << " " << way.variant;
  }
}

TEST(HostCommunicator, LaneThatHangsInsideACollectiveIsReportedByThoseWhoWaitForIt) {
  for (const Way& way : kWays) {
    if (std::string(way.variant) == "direct") continue; // nobody waits for rank 1's lane here
    const auto hang = [](int rank, Lane lane, std::size_t stage) {
      if (rank == 1 && lane == Lane::Communication && stage == 1)
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
    };
    Rig rig(way, hang, std::chrono::milliseconds{150});
    const std::string failure = rig.run_failure();
    EXPECT_EQ(rig.last_code, ETIMEDOUT) << failure;
    EXPECT_THAT(failure, HasSubstr("past the run's deadline")) << way.variant;
  }
}

TEST(HostCommunicator, ModelledTimesBeyondTheDeadlineEndTheRun) {
  auto options = testing::host_options(3, "1kbit"); // 2 peers' 16 rows of 16 f32 take 16 s
  options.deadline = std::chrono::milliseconds{20};
  RandomProblem problem(small_op(), 1);
  auto communicator = open_host(options, {}).value();
  auto prepared = testing::prepare_cut(*communicator, small_op(), {{96}}, {"direct", {}}, problem.buffers()).value();
  EXPECT_THROW(prepared->run(RunMode::CommunicationOnly), SystemError);
}

TEST(HostCommunicator, SlowPacedSocketsEndAtTheDeadline) {
  // With 2 MB per peer at 1 kbit/s the sockets' buffers fill up, and nothing moves.
  const planner::OpSpec op{.kind = planner::OpKind::MatmulAllReduce,
                           .m = 1024,
                           .n = 2048,
                           .k = 1,
                           .dtype = planner::DType::F32,
                           .world_size = 2};
  auto options = testing::host_options(2, "tcp:1kbit");
  options.deadline = std::chrono::milliseconds{50};
  RandomProblem problem(op, 1);
  auto communicator = open_host(options, {}).value();
  auto prepared = testing::prepare_cut(*communicator, op, {{1024}}, {"direct", {}}, problem.buffers()).value();
  EXPECT_THROW(prepared->run(RunMode::CommunicationOnly), SystemError);
}

TEST(HostCommunicator, RefusesTransposedWeightsAndAPlaceAmongProcesses) {
  Rig rig({"shm"}, {});
  std::vector<RankBuffers> buffers(rig.problem.buffers().begin(), rig.problem.buffers().end());
  buffers[1].b_is_transposed = true;
  EXPECT_THAT(testing::prepare_cut(*rig.communicator, small_op(), {{96}}, rig.variant, buffers).error().text(),
              HasSubstr("rank 1 B is [n, k]"));
  CommunicatorOptions options;
  options.process = ProcessPlace{0, "key"};
  EXPECT_THAT(open_host(options, {}).error().text(), HasSubstr("takes no place among processes"));
  options.process.reset();
  int something = 0;
  options.native_communicators = {&something, &something};
  EXPECT_EQ(open_host(options, {}).error().code, ErrorCode::Unsupported);
  EXPECT_EQ(open_host(options, {}).error().field, "native_communicators");
  options.native_communicators.clear();
  options.process = ProcessPlace{2, "key"};
  EXPECT_THAT(options.validate().error().text(), HasSubstr("rank 2 of 2; legal are 0..1"));
  options.process = ProcessPlace{0, ""};
  EXPECT_THAT(options.validate().error().text(), HasSubstr("has no key"));
}

TEST(HostCommunicator, OpensAndClosesWithoutARun) {
  for (const Way& way : kWays) {
    for (int i = 0; i < 3; ++i) Rig rig(way, {});
  }
}

TEST(HostCommunicator, AllocatesNoBytes) {
  const auto opened = open_host({}, {}).value();
  EXPECT_TRUE(opened->allocate(0, 0)->bytes().empty());
}

TEST(HostCommunicator, HookSeesEveryStageOfEveryLane) {
  std::atomic<int> calls{0};
  Rig rig(kWays[0], [&](int, Lane, std::size_t) { ++calls; });
  rig.prepared->run(RunMode::Fused);
  EXPECT_EQ(calls, 3 * 2 * 4);
}

TEST(HostCommunicator, RefusesASecondThreadWhileARunIsUnderWay) {
  std::string second;
  Rig* seen = nullptr;
  Rig rig({"shm"}, [&](int rank, Lane lane, std::size_t stage) {
    if (seen != nullptr && rank == 0 && lane == Lane::Compute && stage == 1) second = seen->run_failure();
  });
  seen = &rig;
  EXPECT_EQ(rig.run_failure(), "");
  EXPECT_THAT(second, HasSubstr("another thread runs on this communicator"));
  EXPECT_EQ(rig.last_code, EBUSY);
  seen = nullptr;
  EXPECT_EQ(rig.run_failure(), ""); // the first thread's run was not disturbed
}

/// In a child process: runs the parent's plan, which must be refused, and destroys the plan and the communicator, which
/// must not hang. @return 0 if the run was refused with the expected message
int try_as_child(Rig& rig) {
  const bool is_refused = rig.run_failure().find("opened by the parent process") != std::string::npos;
  rig.prepared.reset();
  rig.communicator.reset();
  return is_refused ? 0 : 1;
}

TEST(HostCommunicator, RefusesToRunInAChildProcessWhichMayEndAllTheSame) {
  for (const Way& way : kWays) {
    Rig rig(way, {});
    const pid_t child = ::fork();
    if (child == 0) ::_exit(try_as_child(rig));
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << way.link << " " << way.variant;
    EXPECT_EQ(rig.run_failure(), "") << way.link << " " << way.variant; // the parent can still run
  }
}

} // namespace
} // namespace mc2::executor::host::host_communicator_test
