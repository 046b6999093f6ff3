#include "mc2/executor/node_collectives.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "element.hpp"
#include "executor/told.hpp"
#include "node/lane.hpp"
#include "support/forked.hpp"

namespace mc2::executor::node_collectives_test {
namespace {

using mc2::testing::has;
using mc2::testing::run_processes;
using mc2::testing::thrown;
using planner::DType;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr std::chrono::seconds kDeadline{20};

/// A place with a key of its own for this test and process, because other tests run at the same time.
ProcessPlace place(const char* name, int rank) { return {rank, std::string(name) + " " + std::to_string(getppid())}; }

std::unique_ptr<NodeCollectives> open(const char* name, int rank, int world_size, int threads = 1,
                                      std::chrono::milliseconds deadline = kDeadline, int memory_node = 0) {
  return NodeCollectives::open(place(name, rank), world_size,
                               {.threads = threads, .deadline = deadline, .memory_node = memory_node})
      .value();
}

/// The elements of a rank in a round: small random whole numbers. Their sums are exact in every type but i8, where they
/// wrap.
Bytes drawn(DType dtype, std::int64_t count, int rank, std::uint32_t round) {
  std::minstd_rand random(round * 64 + static_cast<std::uint32_t>(rank) + 1);
  std::uniform_int_distribution<int> element(-60, 60);
  Bytes bytes(static_cast<std::size_t>(count * planner::size_bytes(dtype)));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto put = [&](auto value) {
      std::memcpy(bytes.data() + i * static_cast<std::int64_t>(sizeof value), &value, sizeof value);
    };
    const int value = element(random);
    switch (dtype) {
      case DType::F32: put(static_cast<float>(value)); break;
      case DType::Bf16: put(to_bf16(static_cast<float>(value))); break;
      case DType::F16: put(to_f16(static_cast<float>(value))); break;
      case DType::I8:
      case DType::F8E4m3: put(static_cast<std::int8_t>(value)); break;
    }
  }
  return bytes;
}

/// The sum of drawn() over the ranks, by the definition.
Bytes summed(DType dtype, std::int64_t count, int world_size, std::uint32_t round) {
  std::vector<int> sums(static_cast<std::size_t>(count));
  for (int rank = 0; rank < world_size; ++rank) {
    std::minstd_rand random(round * 64 + static_cast<std::uint32_t>(rank) + 1);
    std::uniform_int_distribution<int> element(-60, 60);
    for (int& sum : sums) sum += element(random);
  }
  Bytes bytes = drawn(dtype, count, 0, round);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto put = [&](auto value) { std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value); };
    switch (dtype) {
      case DType::F32: put(static_cast<float>(sums[i])); break;
      case DType::Bf16: put(to_bf16(static_cast<float>(sums[i]))); break;
      case DType::F16: put(to_f16(static_cast<float>(sums[i]))); break;
      case DType::I8:
      case DType::F8E4m3: put(static_cast<std::int8_t>(sums[i])); break;
    }
  }
  return bytes;
}

Bytes part(const Bytes& whole, int rank, int world_size) {
  const auto size = static_cast<std::ptrdiff_t>(whole.size()) / world_size;
  return {whole.begin() + rank * size, whole.begin() + (rank + 1) * size};
}

/// Calls each collective with `count` elements between two ranks. @return the number of the first with a wrong result,
/// or 0
int wrong_collective(NodeCollectives& all, DType dtype, std::int64_t count, std::uint32_t round) {
  const int rank = all.rank(), ranks = all.world_size();
  Bytes data = drawn(dtype, count, rank, round);
  if (!all.all_reduce(data, dtype) || data != summed(dtype, count, ranks, round)) return 1;
  const Bytes whole = drawn(dtype, count * ranks, rank, round);
  Bytes own = drawn(dtype, count, rank, round + 1);
  if (!all.reduce_scatter(whole, own, dtype)) return 2;
  if (own != part(summed(dtype, count * ranks, ranks, round), rank, ranks)) return 2;
  own = drawn(dtype, count, rank, round);
  Bytes gathered(own.size() * static_cast<std::size_t>(ranks));
  if (!all.all_gather(own, gathered)) return 3;
  for (int other = 0; other < ranks; ++other)
    if (part(gathered, other, ranks) != drawn(dtype, count, other, round)) return 3;
  Bytes received(whole.size());
  if (!all.all_to_all(whole, received)) return 4;
  for (int other = 0; other < ranks; ++other)
    if (part(received, other, ranks) != part(drawn(dtype, count * ranks, other, round), rank, ranks)) return 4;
  return 0;
}

TEST(NodeCollectives, EveryCollectiveIsItsDefinition) {
  for (const int ranks : {2, 3, 4, 8}) {
    const auto codes = run_processes(ranks, [&](int rank) {
      const auto all = open("definition", rank, ranks, 1 + ranks % 3);
      std::uint32_t round = 0;
      for (const DType dtype : {DType::F32, DType::Bf16, DType::F16, DType::I8})
        for (const std::int64_t count : {0, 1, 7, 64, 1000, 16 * 1024, 70 * 1024 + 13})
          if (const int wrong = wrong_collective(*all, dtype, count, round += 2)) return wrong;
      return 0;
    });
    EXPECT_THAT(codes, Each(0)) << ranks << " ranks";
  }
}

/// The NUMA node that each rank claims to be on, in any order. The machine may have a single one.
using Nodes = std::vector<int>;

TEST(NodeCollectives, EveryCollectiveIsItsDefinitionAcrossNumaNodes) {
  for (const Nodes& nodes : {Nodes{0, 0, 1, 1}, Nodes{3, 1, 1, 3}, Nodes{0, 1, 2, 0, 1, 2}}) {
    const auto ranks = static_cast<int>(nodes.size());
    const auto codes = run_processes(ranks, [&](int rank) {
      const auto all = open("nodes", rank, ranks, 2, kDeadline, nodes[static_cast<std::size_t>(rank)]);
      std::uint32_t round = 0;
      for (const DType dtype : {DType::F32, DType::Bf16, DType::F16, DType::I8})
        for (const std::int64_t count : {0, 1, 1000, dtype == DType::I8 ? 300 * 1024 : 20 * 1024 + 13})
          if (const int wrong = wrong_collective(*all, dtype, count, round += 2)) return wrong;
      return 0;
    });
    EXPECT_THAT(codes, Each(0)) << ranks << " ranks";
  }
}

TEST(NodeCollectives, CallsOfAnySizeFollowOneAnother) {
  for (const Nodes& nodes : {Nodes{0, 0, 0}, Nodes{0, 1, 0, 1}}) {
    const auto ranks = static_cast<int>(nodes.size());
    const auto codes = run_processes(ranks, [&](int rank) {
      const auto all = open("follow", rank, ranks, 2, kDeadline, nodes[static_cast<std::size_t>(rank)]);
      std::minstd_rand random(7); // same sequence on every rank
      for (std::uint32_t round = 0; round < 400; round += 2) {
        if (random() % 8 == static_cast<std::uint32_t>(rank))
          std::this_thread::sleep_for(std::chrono::microseconds(300)); // makes ranks late in turn
        const auto count = static_cast<std::int64_t>(std::exp2(static_cast<double>(random() % 1600) / 100));
        if (const int wrong = wrong_collective(*all, round % 4 == 0 ? DType::F32 : DType::Bf16, count, round))
          return wrong;
      }
      return 0;
    });
    EXPECT_THAT(codes, Each(0)) << ranks << " ranks";
  }
}

TEST(NodeCollectives, WhatIsGatheredMayHoldTheOwnPart) {
  const auto codes = run_processes(2, [](int rank) {
    const auto all = open("in place", rank, 2);
    Bytes gathered(200'000);
    const auto own = std::span(gathered).subspan(static_cast<std::size_t>(rank) * 100'000, 100'000);
    std::ranges::fill(own, static_cast<std::byte>(rank + 1));
    if (!all->all_gather(own, gathered)) return 1;
    return gathered.front() == std::byte{1} && gathered.back() == std::byte{2} ? 0 : 2;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(NodeCollectives, ShortFloatsAreAddedInOrderAndRoundedOnce) {
  const auto codes = run_processes(3, [](int rank) {
    const auto all = open("rounding", rank, 3);
    // 1 + 2^-8 + 2^-8 is 1 if each addition rounds, and 1 + 2^-7 if only the result is rounded.
    std::vector<Bf16> shorts(33, to_bf16(rank == 0 ? 1.0F : 0x1p-8F));
    if (!all->all_reduce(std::as_writable_bytes(std::span(shorts)), DType::Bf16)) return 1;
    for (const Bf16 sum : shorts)
      if (to_float(sum) != 1 + 0x1p-7F) return 2;
    std::vector<F16> halves(33, to_f16(rank == 0 ? 1.0F : 0x1p-11F));
    if (!all->all_reduce(std::as_writable_bytes(std::span(halves)), DType::F16)) return 3;
    for (const F16 sum : halves)
      if (to_float(sum) != 1 + 0x1p-10F) return 4;
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

/// The sum of 1 and three times 2^-8 differs if a node's sum is rounded before the sums of the nodes are added.
TEST(NodeCollectives, SumsOfNumaNodesAreNotRounded) {
  const auto codes = run_processes(4, [](int rank) {
    const auto all = open("nodes' sums", rank, 4, 1, kDeadline, rank / 2);
    std::vector<Bf16> shorts(700'000, to_bf16(rank == 0 ? 1.0F : 0x1p-8F)); // large enough for two steps
    if (!all->all_reduce(std::as_writable_bytes(std::span(shorts)), DType::Bf16)) return 1;
    for (const Bf16 sum : shorts)
      if (to_float(sum) != to_float(to_bf16(1 + 3 * 0x1p-8F))) return 2;
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

/// Added in the order of ranks, 1, 2^-24, 2^-24 and -1 give 0. Added on their node first, the two small ones survive.
TEST(NodeCollectives, LargeSumsAreMadeNodeByNode) {
  const auto codes = run_processes(4, [](int rank) {
    const float own = std::array{1.0F, 0x1p-24F, 0x1p-24F, -1.0F}[static_cast<std::size_t>(rank)];
    const auto sum_of = [&](std::size_t count, const char* name, int node) {
      const auto all = open(name, rank, 4, 1, kDeadline, node);
      std::vector<float> numbers(count, own);
      return all->all_reduce(std::as_writable_bytes(std::span(numbers)), DType::F32) ? numbers[count / 2] : -1;
    };
    const int node = rank == 0 || rank == 3 ? 0 : 1; // 1 and -1 on one node, the small ones on the other
    if (sum_of(100'000, "one node", 0) != 0) return 1;
    if (sum_of(100'000, "two nodes", node) != 0x1p-23F) return 2;
    if (sum_of(1000, "small", node) != 0) return 3; // small sums are flat: each rank reads all parts
    return sum_of(100'000, "unknown", rank == 2 ? -1 : node) == 0 ? 0 : 4;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(NodeCollectives, NumaNodesOfUnequalRanksAreOne) {
  using node::neighbours_of;
  EXPECT_THAT(neighbours_of(3, Nodes{0, 1, 0, 1}).near, ElementsAre(1, 3));
  EXPECT_THAT(neighbours_of(3, Nodes{0, 1, 0, 1}).counterparts, ElementsAre(2, 3));
  EXPECT_THAT(neighbours_of(0, Nodes{5, 2, 2, 5}).counterparts, ElementsAre(1, 0)); // in the order of nodes
  for (const Nodes& nodes : {Nodes{0, 0, 0, 0}, Nodes{0, 0, 0, 1}, Nodes{0, 1, 2, 3}, Nodes{0, 0, -1, -1}}) {
    EXPECT_THAT(neighbours_of(2, nodes).near, ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(neighbours_of(2, nodes).counterparts, ElementsAre(2));
  }
}

TEST(NodeCollectives, AnotherCallIsToldToEveryRankThatMeetsIt) {
  const auto codes = run_processes(2, [](int rank) {
    const auto all = open("mismatch", rank, 2);
    Bytes data(rank == 0 ? 64 : 128);
    const auto call = [&] { return all->all_reduce(data, DType::F32); };
    const std::string message = thrown(call);
    return has(message, "all_reduce of 64 bytes of f32") + has(message, "all_reduce of 128 bytes of f32") +
           has(thrown(call), "open the collectives anew");
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(NodeCollectives, ACallOfNothingIsCompared) {
  const auto codes = run_processes(2, [](int rank) {
    const auto all = open("nothing", rank, 2);
    Bytes data(rank == 0 ? 0 : 64);
    return has(thrown([&] { return all->all_reduce(data, DType::F32); }), "all_reduce of 0 bytes of f32");
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(NodeCollectives, ADeadlineIsForEachWait) {
  const auto codes = run_processes(2, [](int rank) {
    const auto all = open("slow", rank, 2, 1, std::chrono::milliseconds(400));
    Bytes data(64);
    for (int turn = 0; turn < 4; ++turn) { // together the waits exceed the deadline
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
      if (!all->all_reduce(data, DType::F32)) return 1;
    }
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(NodeCollectives, ARankThatEndsIsNamed) {
  const auto codes = run_processes(3, [](int rank) {
    const auto all = open("killed", rank, 3);
    Bytes data(1 << 20);
    if (!all->all_reduce(data, DType::F32)) return 1;
    if (rank == 1) raise(SIGKILL);
    return has(thrown([&] { return all->all_reduce(data, DType::F32); }), "rank 1 has ended");
  });
  EXPECT_EQ(codes[0], 0);
  EXPECT_EQ(codes[2], 0);
}

TEST(NodeCollectives, ARankThatLeavesIsNamed) {
  const auto codes = run_processes(2, [](int rank) {
    auto all = open("left", rank, 2);
    Bytes data(64);
    if (!all->all_reduce(data, DType::F32)) return 1;
    if (rank == 1) {
      all.reset();
      std::this_thread::sleep_for(std::chrono::seconds(3)); // an ended process gets another message
      return 0;
    }
    return has(thrown([&] { return all->all_reduce(data, DType::F32); }), "rank 1 has left");
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(NodeCollectives, ARankThatDoesNotComeIsWaitedForNoLongerThanTheDeadline) {
  const auto codes = run_processes(2, [](int rank) {
    const auto all = open("late", rank, 2, 1, std::chrono::milliseconds(300));
    Bytes data(64);
    if (rank == 1)
      std::this_thread::sleep_for(std::chrono::seconds(4)); // long: rank 0 may start late on a busy machine
    const std::string message = thrown([&] { return all->all_reduce(data, DType::F32); });
    return has(message, "rank 1 did not come within 300 ms");
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(NodeCollectives, WhatCannotBeIsRefusedByTheRankAlone) {
  const auto codes = run_processes(2, [](int rank) {
    const auto all = open("refused", rank, 2);
    Bytes data(64), half(32), odd(63);
    const auto refused = [](const Result<void>& result, const char* field) {
      return result || result.error().field != field ? 1 : 0;
    };
    const int wrong = refused(all->all_reduce(data, DType::F8E4m3), "dtype") +
                      refused(all->all_reduce(odd, DType::F32), "data") +
                      refused(all->reduce_scatter(data, data, DType::F32), "data") +
                      refused(all->reduce_scatter(data, std::span(data).first(32), DType::F32), "own") +
                      refused(all->all_gather(half, half), "data") +
                      refused(all->all_gather(std::span(data).subspan(8, 32), data), "own") +
                      refused(all->all_to_all(odd, odd), "data") + refused(all->all_to_all(data, data), "received");
    return wrong + wrong_collective(*all, DType::F32, 100, 0); // refused calls exchanged nothing
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(NodeCollectives, OptionsOutOfRangeAreNamed) {
  const auto field = [](const ProcessPlace& where, int ranks, const NodeCollectivesOptions& options) {
    const auto opened = NodeCollectives::open(where, ranks, options);
    return opened ? "none" : opened.error().field;
  };
  EXPECT_EQ(field({0, "x"}, 1, {}), "world_size");
  EXPECT_EQ(field({0, "x"}, 65, {}), "world_size");
  EXPECT_EQ(field({2, "x"}, 2, {}), "rank");
  EXPECT_EQ(field({-1, "x"}, 2, {}), "rank");
  EXPECT_EQ(field({0, "x"}, 2, {.threads = 0}), "threads");
  EXPECT_EQ(field({0, "x"}, 2, {.deadline = std::chrono::milliseconds(0)}), "deadline");
}

} // namespace
} // namespace mc2::executor::node_collectives_test
