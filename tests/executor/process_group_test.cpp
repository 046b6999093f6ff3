#include "process_group.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <thread>

#include "executor/told.hpp"
#include "support/forked.hpp"
#include "support/free_port.hpp"
#include "tcp_link.hpp"

namespace mc2::executor::process_group_test {
namespace {

using mc2::testing::has;
using mc2::testing::run_processes;
using mc2::testing::thrown;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::chrono::seconds kDeadline{20};

/// Runs each test in both ways in which processes meet: by TCP, and through shared memory.
class ProcessGroups : public ::testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] static bool by_tcp() { return GetParam(); }

  [[nodiscard]] std::unique_ptr<ProcessGroup> open(int rank, const char* name, int world_size,
                                                   std::chrono::milliseconds deadline = kDeadline) const {
    // The key is unique to this test and process, because other tests run at the same time.
    ProcessPlace place{.rank = rank, .key = std::string(name) + " " + std::to_string(process_)};
    if (by_tcp()) place.address = "127.0.0.1:" + std::to_string(port_);
    return open_process_group(place, world_size, deadline);
  }
  /// The text about a rank in messages, e.g. of(2, "has ended").
  [[nodiscard]] static std::string of(int rank, const std::string& what) {
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    return "rank " + std::to_string(rank) + (by_tcp() ? std::string(" on ") + host.data() : "") + " " + what;
  }

 private:
  const pid_t process_ = getpid(); ///< the parent of the ranks' processes
  const int port_ = mc2::testing::free_port();
};

INSTANTIATE_TEST_SUITE_P(Ways, ProcessGroups, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "Tcp" : "SharedMemory"; });

TEST_P(ProcessGroups, EveryRankGetsEveryRanksBytes) {
  EXPECT_THAT(run_processes(4,
                            [this](int rank) {
                              const auto group = open(rank, "bytes", 4);
                              for (std::size_t turn = 0; turn < 300;
                                   ++turn) { // texts of many lengths, some of many slots
                                const auto text = [&](int of) {
                                  return std::string((turn * 97 + static_cast<std::size_t>(of) * 4096) % 20'000,
                                                     static_cast<char>('a' + of));
                                };
                                const auto all = group->all_gather(text(rank));
                                for (int of = 0; of < 4; ++of)
                                  if (all[static_cast<std::size_t>(of)] != text(of)) return 1;
                              }
                              const std::array<std::int64_t, 2> own{-rank, std::int64_t{rank} << 40};
                              const auto numbers = group->gather(own); // two of every rank
                              if (numbers.size() != 8 || numbers[6] != -3 || numbers[7] != std::int64_t{3} << 40)
                                return 3;
                              return group->maximum(10 * rank) == 30 ? 0 : 2;
                            }),
              Each(0));
}

TEST_P(ProcessGroups, SeveralWithOneKeyMeetInTheirOrder) {
  EXPECT_THAT(run_processes(3,
                            [this](int rank) {
                              for (int number = 0; number < 20; ++number) {
                                const auto group = open(rank, "order", 3);
                                if (group->maximum(number) != number) return 1;
                              }
                              return 0;
                            }),
              Each(0));
}

TEST_P(ProcessGroups, TheFirstRanksErrorIsEveryRanks) {
  EXPECT_THAT(run_processes(3,
                            [this](int rank) {
                              const auto group = open(rank, "error", 3);
                              if (!group->share_error({})) return 1;
                              const Error own{ErrorCode::OutOfRange, "m", "is wrong on " + std::to_string(rank)};
                              const auto shared = group->share_error(rank == 0 ? Result<void>{} : own);
                              if (shared || shared.error().code != ErrorCode::OutOfRange) return 2;
                              return has(shared.error().text(), "rank 1: m: is wrong on 1");
                            }),
              Each(0));
}

TEST_P(ProcessGroups, WhoSaysSomethingElseIsNamed) {
  EXPECT_THAT(run_processes(3,
                            [this](int rank) {
                              const auto group = open(rank, "agree", 3);
                              if (!group->agree("the same")) return 1;
                              const auto same = group->agree(rank == 2 ? "that" : "this");
                              return same ? 2 : has(same.error().text(), "rank 2 calls that; rank 0 calls this");
                            }),
              Each(0));
}

TEST_P(ProcessGroups, ARankThatFailsIsNamedToAll) {
  EXPECT_THAT(run_processes(3,
                            [this](int rank) {
                              const auto group = open(rank, "fails", 3);
                              if (rank == 1) {
                                group->fail("the device is gone");
                                return 0;
                              }
                              const int code =
                                  has(thrown([&] { (void)group->all_gather("x"); }), "rank 1: the device is gone");
                              return code != 0 ? code : *group->abort_word() == 1 ? 0 : 2;
                            }),
              Each(0));
}

TEST_P(ProcessGroups, ARankThatLeavesIsMissedByThoseWhoWaitForItOnly) {
  EXPECT_THAT(run_processes(3,
                            [this](int rank) {
                              {
                                const auto group = open(rank, "leaves", 3);
                                if (group->maximum(rank) != 2) return 1;
                                if (rank == 2) return 0;
                                const std::string told = thrown([&] { (void)group->all_gather("x"); });
                                // The first of the two ranks may end before the other one looks.
                                const std::string other = of(1 - rank, "has ended");
                                return told.find(other) != std::string::npos ? 0 : has(told, "rank 2 has left");
                              }
                              return 0;
                            }),
              Each(0));
}

TEST_P(ProcessGroups, AProcessThatIsKilledIsNamedToAll) {
  EXPECT_THAT(run_processes(3,
                            [this](int rank) {
                              const auto group = open(rank, "killed", 3);
                              (void)group->all_gather("all are here");
                              if (rank == 2) kill(getpid(), SIGKILL);
                              return has(thrown([&] { (void)group->all_gather("x"); }), of(2, "has ended").c_str());
                            }),
              ElementsAre(0, 0, 128 + SIGKILL));
}

TEST_P(ProcessGroups, RanksThatDoNotComeAreNamed) {
  EXPECT_THAT(run_processes(2,
                            [this](int rank) {
                              const auto come = [&] {
                                (void)open(rank == 0 ? 0 : 2, "missing", 4, std::chrono::milliseconds{300});
                              };
                              return has(thrown(come), "of 4 ranks these did not come within 300 ms: 1, 3");
                            }),
              Each(0));
  EXPECT_THAT(thrown([this] { (void)open(1, "nobody leads", 2, std::chrono::milliseconds{50}); }),
              HasSubstr("rank 0 did not come within 50 ms"));
}

TEST_P(ProcessGroups, ARankThatWasLateIsMetAtTheNextAttempt) {
  const auto meet = [this](int rank, std::chrono::milliseconds deadline) {
    return thrown([&] { (void)open(rank, "late", 3, deadline)->all_gather("x"); });
  };
  EXPECT_THAT(run_processes(3,
                            [&](int rank) {
                              if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds{500});
                              if (rank != 2) (void)meet(rank, std::chrono::milliseconds{200 + 50 * rank});
                              return has(meet(rank, kDeadline), "nothing was thrown");
                            }),
              Each(0));
}

TEST_P(ProcessGroups, TwoRanksInOneProcessAreRefused) {
  std::jthread first([this] { (void)thrown([this] { (void)open(0, "one process", 2, std::chrono::seconds{2}); }); });
  std::this_thread::sleep_for(std::chrono::milliseconds{300});
  EXPECT_THAT(thrown([this] { (void)open(1, "one process", 2); }), HasSubstr("every process holds one rank"));
}

TEST(SharedMemoryGroup, TwoRanksInOneProcessAreBothTold) {
  const std::string key = "both told " + std::to_string(getpid());
  for (const int first : {0, 1}) { // rank 0 waits for rank 1, or rank 1 for rank 0's memory
    std::string told;
    std::jthread waiting([&] { told = thrown([&] { (void)open_process_group({first, key}, 2, kDeadline); }); });
    const auto start = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds{300});
    EXPECT_THAT(thrown([&] {
                  (void)open_process_group({1 - first, key}, 2, kDeadline);
                }),
                HasSubstr("every process holds one rank"));
    waiting.join();
    EXPECT_THAT(told, HasSubstr("another thread of this process came as rank " + std::to_string(1 - first)));
    EXPECT_LT(std::chrono::steady_clock::now() - start, kDeadline);
  }
}

TEST(SharedMemoryGroup, RanksOfWorldsOfOtherSizesAreToldAtOnceAndMayTryAgain) {
  const auto codes = run_processes(2, [](int rank) {
    const ProcessPlace place{rank, "sizes " + std::to_string(getppid())};
    const auto start = std::chrono::steady_clock::now();
    const std::string told = thrown([&] { (void)open_process_group(place, 2 + rank, kDeadline); });
    if (has(told, "rank 1 opens a world of 3, rank 0 one of 2") != 0) return 1;
    if (std::chrono::steady_clock::now() - start > kDeadline) return 2;
    return open_process_group(place, 2, kDeadline)->maximum(rank) == 1 ? 0 : 3;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST_P(ProcessGroups, ARankThatIsThereTwiceIsRefused) {
  const auto codes = run_processes(3, [this](int rank) {
    const std::string message =
        thrown([&] { (void)open(std::min(rank, 1), "twice", 3, std::chrono::milliseconds{500}); });
    return message.find("rank 1 is there twice") != std::string::npos ? 7
                                                                      : has(message, "did not come within 500 ms: 2");
  });
  EXPECT_THAT(codes, ::testing::UnorderedElementsAre(0, 0, 7));
  EXPECT_EQ(codes.front(), 0) << "rank 0 is there once";
}

// A waiting rank recognises the others' processes by their start times. A second process that claims to be rank 1 must
// not make the first one look ended.
TEST_P(ProcessGroups, OneThatIsThereTwiceDoesNotMakeTheOtherLookEnded) {
  const auto take_part = [this](int rank) {
    try {
      const auto group = open(rank, "claimed", 3);
      if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds{100});
      (void)group->all_gather("x");
      return 0;
    } catch (const SystemError& error) {
      return has(error.what(), "no error");
    }
  };
  EXPECT_THAT(run_processes(4,
                            [&](int place) {
                              if (place < 2) return take_part(place);
                              std::this_thread::sleep_for(
                                  std::chrono::milliseconds{place == 2 ? 100 : 300}); // one comes after the other
                              if (place == 3) return take_part(2);
                              const auto claim = [&](int) {
                                return has(thrown([&] { (void)open(1, "claimed", 3); }), "rank 1 is there twice");
                              };
                              return run_processes(1, claim).front(); // starts later than rank 1
                            }),
              Each(0));
}

TEST_P(ProcessGroups, WhatAnEndedJobLeftBehindIsPassedOver) {
  // Rank 0 is killed while it waits, so what it created under the name stays behind.
  EXPECT_THAT(run_processes(1,
                            [this](int) {
                              std::jthread end([] {
                                std::this_thread::sleep_for(std::chrono::milliseconds{100});
                                kill(getpid(), SIGKILL);
                              });
                              const auto group = open(0, "left", 2);
                              return 0;
                            }),
              ElementsAre(128 + SIGKILL));
  EXPECT_THAT(run_processes(2,
                            [this](int rank) {
                              // Lets rank 1 find what was left behind first.
                              if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds{100});
                              const auto group = open(rank, "left", 2);
                              return group->maximum(rank) == 1 ? 0 : 1;
                            }),
              Each(0));
}

TEST(TcpGroup, SaysWhatIsWrongWithAnAddress) {
  const auto told = [](const std::string& address, int rank = 1) {
    return thrown([&] {
      (void)open_process_group({.rank = rank, .key = "address", .address = address}, 2, std::chrono::milliseconds{300});
    });
  };
  for (const char* wrong : {"host", "host:", ":1", "host:0", "host:65536", "host:x1", "host:-1"})
    EXPECT_THAT(check_meeting({.key = "", .address = wrong}, 2).error().text(), HasSubstr("legal: host:port")) << wrong;
  EXPECT_TRUE(check_meeting({.key = "", .address = "[::1]:7"}, 2));
  EXPECT_FALSE(check_meeting({.rank = 2, .key = ""}, 2));
  EXPECT_FALSE(check_meeting({.key = std::string(5000, 'k')}, 2));
  EXPECT_THAT(told("no-such-host.invalid:7"), HasSubstr("rank 0 did not come within 300 ms at no-such-host.invalid:7"));
  EXPECT_THAT(told("127.0.0.1:" + std::to_string(mc2::testing::free_port())), HasSubstr("Connection refused"));
  EXPECT_THAT(told("192.0.2.1:7", 0), HasSubstr("give an address of this host")); // an address for documentation only
}

/// Connects to rank 0's port without being a rank, sends the bytes, and stays connected until the process ends.
/// @return whether this worked
bool disturb(int port, std::string_view bytes) {
  const int stranger = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const auto end = std::chrono::steady_clock::now() + kDeadline;
  while (connect(stranger, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  return send(stranger, bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0;
}

TEST(TcpGroup, StrangersAreInNobodysWay) {
  const int port = mc2::testing::free_port();
  EXPECT_THAT(run_processes(3,
                            [port](int rank) {
                              if (rank == 2) {
                                frames::Header endless{.kind = frames::Kind::Hello, .rank = 1, .byte_count = ~0U};
                                const std::string_view header(reinterpret_cast<const char*>(&endless), sizeof endless);
                                const std::string_view half = header.substr(0, 7);
                                for (const std::string_view bytes : {std::string_view(), half, header})
                                  if (!disturb(port, bytes)) return 1;
                                if (!disturb(port, "GET / HTTP/1.1\r\n\r\n")) return 1;
                                if (!disturb(port, std::string(100'000, '\xff'))) return 1;
                                std::this_thread::sleep_for(std::chrono::milliseconds{600});
                              } else {
                                if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds{300});
                                ProcessPlace place{.rank = rank, .key = "strangers"};
                                place.address = "127.0.0.1:" + std::to_string(port);
                                const auto group = open_process_group(place, 2, kDeadline);
                                if (group->maximum(rank) != 1) return 1;
                              }
                              return 0;
                            }),
              Each(0));
}

TEST(TcpGroup, RanksThatWantOtherNumbersOfRanksAreToldSo) {
  const int port = mc2::testing::free_port();
  EXPECT_THAT(run_processes(2,
                            [port](int rank) {
                              ProcessPlace place{.rank = rank, .key = "numbers"};
                              place.address = "127.0.0.1:" + std::to_string(port);
                              const int world_size = rank == 0 ? 2 : 4;
                              return has(
                                  thrown([&] { (void)open_process_group(place, world_size, std::chrono::seconds{2}); }),
                                  "wants 4 ranks and rank 0 on");
                            }),
              Each(0));
}

TEST(TcpGroup, WhoLeavesWaitsForTheOthers) {
  const int port = mc2::testing::free_port();
  EXPECT_THAT(run_processes(3,
                            [port](int rank) {
                              ProcessPlace place{.rank = rank, .key = "leaving"};
                              place.address = "127.0.0.1:" + std::to_string(port);
                              const auto group = open_process_group(place, 3, kDeadline);
                              if (group->maximum(rank) != 2) return 1;
                              const auto start = std::chrono::steady_clock::now();
                              if (rank == 1) { // does not leave yet, and is told at once
                                const int heard = has(thrown([&] { (void)group->all_gather("x"); }), " has left");
                                std::this_thread::sleep_for(std::chrono::milliseconds{300});
                                group->leave();
                                return heard;
                              }
                              group->leave();
                              const auto time = std::chrono::steady_clock::now() - start;
                              return time > std::chrono::milliseconds{250} && time < kDeadline ? 0 : 2;
                            }),
              Each(0));
}

TEST(TcpGroup, APortThatIsTakenIsSaid) {
  const auto [listener, port] = mc2::testing::bound_socket();
  ASSERT_EQ(listen(listener, 1), 0);
  const ProcessPlace place{.key = "taken", .address = "127.0.0.1:" + std::to_string(port)};
  EXPECT_THAT(thrown([&] { (void)open_process_group(place, 2, std::chrono::seconds{5}); }),
              HasSubstr("Address already in use; give an address of this host and a port that is free"));
  close(listener);
}

TEST(TcpGroup, WhoComesEarlyHearsWhoIsMissing) {
  const int port = mc2::testing::free_port();
  const auto codes = run_processes(2, [port](int rank) {
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds{400});
    const ProcessPlace place{.rank = rank, .key = "early", .address = "127.0.0.1:" + std::to_string(port)};
    const std::string told = thrown([&] { (void)open_process_group(place, 3, std::chrono::milliseconds{600}); });
    return has(told, "of 3 ranks these did not come within 600 ms: 2");
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(TcpGroup, AnAddressThatNobodyAnswersHoldsNobodyUp) {
  // The address is of a network for documentation: nothing answers there, or no route leads to it.
  const auto start = std::chrono::steady_clock::now();
  const ProcessPlace place{.rank = 1, .key = "dropped", .address = "192.0.2.1:7"};
  EXPECT_THAT(thrown([&] { (void)open_process_group(place, 2, std::chrono::milliseconds{2500}); }),
              HasSubstr("rank 0 did not come within 2500 ms at 192.0.2.1:7"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds{6});
}

TEST(TcpGroup, AnotherJobsRankIsNotLetIn) {
  const int port = mc2::testing::free_port();
  const auto codes = run_processes(2, [port](int rank) {
    const ProcessPlace place{
        .rank = rank, .key = "job " + std::to_string(rank), .address = "127.0.0.1:" + std::to_string(port)};
    const std::string told = thrown([&] { (void)open_process_group(place, 2, std::chrono::milliseconds{400}); });
    return has(told,
               rank == 0 ? "these did not come within 400 ms: 1" : "rank 0 did not come within 400 ms at 127.0.0.1");
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(TcpGroup, AProcessThatStopsIsMissed) {
  const int port = mc2::testing::free_port();
  const auto codes = run_processes(2, [port](int rank) {
    const ProcessPlace place{.rank = rank, .key = "stops", .address = "127.0.0.1:" + std::to_string(port)};
    const auto group = open_process_group(place, 2, std::chrono::milliseconds{1500});
    if (group->maximum(rank) != 1) return 1;
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds{300}); // until the other rank has received its number
      // Stops itself. A child lets it continue after the other rank has noticed.
      const pid_t self = getpid();
      if (fork() == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds{3000});
        kill(self, SIGCONT);
        _exit(0);
      }
      kill(self, SIGSTOP);
      return 0;
    }
    const auto start = std::chrono::steady_clock::now();
    while (!group->failure() && std::chrono::steady_clock::now() - start < std::chrono::seconds{3})
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    const auto failure = group->failure();
    return has(failure.value_or(""), "nothing was heard of rank 1") + (*group->abort_word() == 1 ? 0 : 4);
  });
  EXPECT_THAT(codes, Each(0));
}

} // namespace
} // namespace mc2::executor::process_group_test
