#include "capi/handles.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

namespace mc2::capi {
namespace {

std::atomic<int> alive_count{0};

/// The object behind each handle of these tests. It counts the objects that are alive.
struct Thing final : Object {
  static constexpr Kind kKind = Kind::Machine;
  Thing() { ++alive_count; }
  ~Thing() override { --alive_count; }
  std::atomic<int> use_count{0};
};

HandleTable& table() { return HandleTable::get(); }

std::uint64_t make() { return table().add(Thing::kKind, std::make_unique<Thing>()); }

mc2_status try_use(std::uint64_t handle) {
  return call([&] {
    const Pinned<Thing> thing(reinterpret_cast<const void*>(handle));
    ++thing->use_count;
  });
}

mc2_status free_thing(std::uint64_t handle) { return free_handle<Thing>(reinterpret_cast<void*>(handle)); }

TEST(HandleTable, NeverGivesAHandleTwice) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 10'000; ++i) {
    const auto handle = make();
    EXPECT_TRUE(seen.insert(handle).second);
    EXPECT_EQ(free_thing(handle), MC2_OK);
  }
  EXPECT_EQ(alive_count, 0);
}

TEST(HandleTable, HoldsMoreThanAChunkAtATime) {
  std::vector<std::uint64_t> handles;
  for (int i = 0; i < 5000; ++i) handles.push_back(make());
  EXPECT_EQ(alive_count, 5000);
  for (const auto handle : handles) EXPECT_EQ(try_use(handle), MC2_OK);
  for (const auto handle : handles) EXPECT_EQ(free_thing(handle), MC2_OK);
  for (const auto handle : handles) EXPECT_EQ(try_use(handle), MC2_ERROR_HANDLE);
  EXPECT_EQ(alive_count, 0);
}

TEST(HandleTable, AnObjectThatIsFreedInUseGoesWithItsLastUse) {
  const auto handle = make();
  {
    const Pinned<Thing> thing(reinterpret_cast<const void*>(handle));
    EXPECT_EQ(free_thing(handle), MC2_OK);
    EXPECT_EQ(try_use(handle), MC2_ERROR_HANDLE);
    EXPECT_EQ(alive_count, 1);
    ++thing->use_count;
  }
  EXPECT_EQ(alive_count, 0);
}

// Threads make, use and free the same handles as fast as they can. Exactly one thread must free each handle, and no
// object may be used after its end.
TEST(HandleTable, IsSharedByThreads) {
  constexpr int kThreads = 4, kRounds = 300, kShared = 8;
  std::array<std::atomic<std::uint64_t>, kShared> shared{};
  std::atomic<int> made_count{0}, freed_count{0}, wrong_count{0};
  const auto work = [&](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      auto& place = shared[static_cast<std::size_t>((round + thread) % kShared)];
      const auto handle = make();
      ++made_count;
      const auto old = place.exchange(handle);
      for (const auto tried : {old, handle, shared[static_cast<std::size_t>(round % kShared)].load()})
        if (const auto status = try_use(tried); status != MC2_OK && status != MC2_ERROR_HANDLE) ++wrong_count;
      if (old != 0 && free_thing(old) == MC2_OK) ++freed_count;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(work, thread);
  }
  for (const auto& place : shared)
    if (free_thing(place) == MC2_OK) ++freed_count;
  EXPECT_EQ(wrong_count, 0);
  EXPECT_EQ(freed_count, made_count);
  EXPECT_EQ(alive_count, 0);
}

} // namespace
} // namespace mc2::capi
