#include "process_group.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <cstring>
#include <thread>

#include "executor/told.hpp"
#include "support/forked.hpp"

namespace mc2::executor::process_group_test {
namespace {

using mc2::testing::has;
using mc2::testing::run_processes;
using mc2::testing::thrown;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::chrono::seconds kDeadline{20};

/// Of this test in this process: others run beside it.
std::string key(const char* name) { return std::string(name) + " " + std::to_string(getppid()); }

TEST(ProcessGroup, EveryRankGetsEveryRanksBytes) {
  EXPECT_THAT(run_processes(4,
                            [](int rank) {
                              ProcessGroup group({rank, key("bytes")}, 4, kDeadline);
                              for (std::size_t turn = 0; turn < 300;
                                   ++turn) { // of all lengths, many slots long ones among them
                                const auto text = [&](int of) {
                                  return std::string((turn * 97 + static_cast<std::size_t>(of) * 4096) % 20'000,
                                                     static_cast<char>('a' + of));
                                };
                                const auto all = group.all_gather(text(rank));
                                for (int of = 0; of < 4; ++of)
                                  if (all[static_cast<std::size_t>(of)] != text(of)) return 1;
                              }
                              return group.maximum(10 * rank) == 30 ? 0 : 2;
                            }),
              Each(0));
}

TEST(ProcessGroup, SeveralWithOneKeyMeetInTheirOrder) {
  EXPECT_THAT(run_processes(3,
                            [](int rank) {
                              for (int number = 0; number < 20; ++number) {
                                ProcessGroup group({rank, key("order")}, 3, kDeadline);
                                if (group.maximum(number) != number) return 1;
                              }
                              return 0;
                            }),
              Each(0));
}

TEST(ProcessGroup, TheFirstRanksErrorIsEveryRanks) {
  EXPECT_THAT(run_processes(3,
                            [](int rank) {
                              ProcessGroup group({rank, key("error")}, 3, kDeadline);
                              if (!group.share_error({})) return 1;
                              const Error own{ErrorCode::OutOfRange, "m", "is wrong on " + std::to_string(rank)};
                              const auto shared = group.share_error(rank == 0 ? Result<void>{} : own);
                              if (shared || shared.error().code != ErrorCode::OutOfRange) return 2;
                              return has(shared.error().text(), "rank 1: m: is wrong on 1");
                            }),
              Each(0));
}

TEST(ProcessGroup, WhoSaysSomethingElseIsNamed) {
  EXPECT_THAT(run_processes(3,
                            [](int rank) {
                              ProcessGroup group({rank, key("agree")}, 3, kDeadline);
                              if (!group.agree("the same")) return 1;
                              const auto same = group.agree(rank == 2 ? "that" : "this");
                              return same ? 2 : has(same.error().text(), "rank 2 calls that; rank 0 calls this");
                            }),
              Each(0));
}

TEST(ProcessGroup, ARankThatFailsIsNamedToAll) {
  EXPECT_THAT(run_processes(3,
                            [](int rank) {
                              ProcessGroup group({rank, key("fails")}, 3, kDeadline);
                              if (rank == 1) {
                                group.fail("the device is gone");
                                return 0;
                              }
                              const int code =
                                  has(thrown([&] { (void)group.all_gather("x"); }), "rank 1: the device is gone");
                              return code != 0 ? code : *group.abort_word() == 1 ? 0 : 2;
                            }),
              Each(0));
}

TEST(ProcessGroup, ARankThatLeavesIsMissedByThoseWhoWaitForItOnly) {
  EXPECT_THAT(run_processes(3,
                            [](int rank) {
                              {
                                ProcessGroup group({rank, key("leaves")}, 3, kDeadline);
                                if (group.maximum(rank) != 2) return 1;
                                if (rank == 2) return 0;
                                const std::string told = thrown([&] { (void)group.all_gather("x"); });
                                // The first of the two may be gone before the other has looked.
                                const std::string other = "rank " + std::to_string(1 - rank) + " has ended";
                                return told.find(other) != std::string::npos ? 0 : has(told, "rank 2 has left");
                              }
                              return 0;
                            }),
              Each(0));
}

TEST(ProcessGroup, AProcessThatIsKilledIsNamedToAll) {
  EXPECT_THAT(run_processes(3,
                            [](int rank) {
                              ProcessGroup group({rank, key("killed")}, 3, kDeadline);
                              (void)group.all_gather("all are here");
                              if (rank == 2) kill(getpid(), SIGKILL);
                              return has(thrown([&] { (void)group.all_gather("x"); }), "rank 2 has ended");
                            }),
              ElementsAre(0, 0, 128 + SIGKILL));
}

TEST(ProcessGroup, RanksThatDoNotComeAreNamed) {
  EXPECT_THAT(run_processes(2,
                            [](int rank) {
                              const auto open = [&] {
                                ProcessGroup({rank == 0 ? 0 : 2, key("missing")}, 4, std::chrono::milliseconds{300});
                              };
                              return has(thrown(open), "of 4 ranks these did not come within 300 ms: 1, 3");
                            }),
              Each(0));
  EXPECT_THAT(thrown([] {
                ProcessGroup({1, "nobody leads"}, 2, std::chrono::milliseconds{50});
              }),
              HasSubstr("rank 0 did not come within 50 ms"));
}

TEST(ProcessGroup, ARankThatIsThereTwiceIsRefused) {
  const auto codes = run_processes(3, [](int rank) {
    const std::string message = thrown([&] {
      ProcessGroup({std::min(rank, 1), key("twice")}, 3, std::chrono::milliseconds{500});
    });
    return message.find("rank 1 is there twice") != std::string::npos ? 7
                                                                      : has(message, "did not come within 500 ms: 2");
  });
  EXPECT_THAT(codes, ::testing::UnorderedElementsAre(0, 0, 7));
  EXPECT_EQ(codes.front(), 0) << "rank 0 is there once";
}

// Whoever waits looks whether the others are still the processes that came, by when they started.
TEST(ProcessGroup, OneThatIsThereTwiceDoesNotMakeTheOtherLookEnded) {
  const auto take_part = [](int rank) {
    try {
      ProcessGroup group({rank, key("claimed")}, 3, kDeadline);
      if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds{100});
      (void)group.all_gather("x");
      return 0;
    } catch (const SystemError& error) {
      return has(error.what(), "no error");
    }
  };
  EXPECT_THAT(
      run_processes(4,
                    [&](int place) {
                      if (place < 2) return take_part(place);
                      std::this_thread::sleep_for(
                          std::chrono::milliseconds{place == 2 ? 100 : 300}); // one after the other
                      if (place == 3) return take_part(2);
                      const std::string same = key("claimed");
                      const auto claim = [&](int) {
                        return has(thrown([&] { ProcessGroup({1, same}, 3, kDeadline); }), "rank 1 is there twice");
                      };
                      return run_processes(1, claim).front(); // a process that has started later than rank 1's
                    }),
      Each(0));
}

TEST(ProcessGroup, WhatAnEndedJobLeftBehindIsPassedOver) {
  // A rank 0 that is killed while it waits leaves the name.
  EXPECT_THAT(run_processes(1,
                            [](int) {
                              std::jthread end([] {
                                std::this_thread::sleep_for(std::chrono::milliseconds{100});
                                kill(getpid(), SIGKILL);
                              });
                              ProcessGroup group({0, key("left")}, 2, kDeadline);
                              return 0;
                            }),
              ElementsAre(128 + SIGKILL));
  EXPECT_THAT(run_processes(2,
                            [](int rank) {
                              // the other finds the old one first
                              if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds{100});
                              ProcessGroup group({rank, key("left")}, 2, kDeadline);
                              return group.maximum(rank) == 1 ? 0 : 1;
                            }),
              Each(0));
}

} // namespace
} // namespace mc2::executor::process_group_test
