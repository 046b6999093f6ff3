#include "backends/cuda/tiles/tile_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "mc2/planner/units.hpp"

namespace mc2::executor::cuda {
namespace {

using planner::Cut;
using planner::OpKind;
using planner::OpSpec;

struct Case {
  OpSpec op;
  Cut cut;
  int tile_columns;
  int cta_count;
};

OpSpec summing(OpKind kind, std::int64_t m, std::int64_t n, int ranks) {
  return {.kind = kind, .m = m, .n = n, .k = 64, .dtype = planner::DType::Bf16, .world_size = ranks};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int ranks : {2, 3, 4, 8}) {
    for (const int columns : {kNarrowTile, kWideTile}) {
      for (const int ctas : {1, 7, 132}) {
        for (const Cut& cut :
             {Cut{{1001}}, Cut{{300, 300, 401}}, Cut{{1, 999, 1}}, Cut{std::vector<std::int64_t>(143, 7)}}) {
          all.push_back({summing(OpKind::MatmulAllReduce, 1001, 1000, ranks), cut, columns, ctas});
          all.push_back(
              {summing(OpKind::MatmulReduceScatter, std::int64_t{1001} * ranks, 1000, ranks), cut, columns, ctas});
        }
      }
    }
  }
  return all;
}

std::string text_of(const Case& each) {
  return each.op.text() + ", " + each.cut.text() + ", " + std::to_string(each.tile_columns) + " columns, " +
         std::to_string(each.cta_count) + " thread blocks";
}

/// The order of tiles on each rank.
std::vector<std::vector<Tile>> orders_of(const Case& each) {
  const TileOrder order(lower(each.op, each.cut, planner::Schedule::Pipelined).value(), each.tile_columns,
                        each.cta_count);
  std::vector<std::vector<Tile>> orders;
  for (int rank = 0; rank < each.op.world_size; ++rank) orders.push_back(order.of(rank));
  return orders;
}

/// Identifies a tile across ranks: the rank that sums it, its first row there, and its first column.
std::tuple<int, int, int> place_of(const Tile& tile, std::size_t rank, int world_size) {
  return {(static_cast<int>(rank) + tile.distance) % world_size, tile.c_row, tile.column};
}

TEST(TileOrder, EveryRankMultipliesEveryTileOnceAndOneSumsIt) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(text_of(each));
    const StageList stages = lower(each.op, each.cut, planner::Schedule::Pipelined).value();
    const bool has_shards = each.op.kind == OpKind::MatmulReduceScatter;
    const std::int64_t shard_tiles =
        planner::ceil_div(summed_rows(each.op), kTileRows) * planner::ceil_div(each.op.n, each.tile_columns);
    std::map<std::tuple<int, int, int>, int> index_of;
    std::set<std::pair<int, int>> slots; // places in the summing ranks' memory
    const auto orders = orders_of(each);
    for (std::size_t rank = 0; rank < orders.size(); ++rank) {
      std::set<std::pair<int, int>> seen;
      for (const Tile& tile : orders[rank]) {
        EXPECT_TRUE(seen.insert({tile.a_row, tile.column}).second) << tile.a_row << ", " << tile.column;
        const int owner = (static_cast<int>(rank) + tile.distance) % each.op.world_size;
        EXPECT_EQ(tile.a_row, has_shards ? owner * summed_rows(each.op) + tile.c_row : tile.c_row);
        ASSERT_LT(tile.index, most_summed_tiles(stages, each.tile_columns));
        const auto [known, is_new] = index_of.try_emplace(place_of(tile, rank, each.op.world_size), tile.index);
        ASSERT_EQ(known->second, tile.index) << "ranks disagree";
        EXPECT_TRUE(!is_new || slots.insert({owner, tile.index}).second) << "two tiles in one place";
      }
      EXPECT_EQ(static_cast<std::int64_t>(seen.size()), shard_tiles * (has_shards ? each.op.world_size : 1));
    }
    EXPECT_EQ(index_of.size(), orders.front().size()) << "ranks sum other tiles";
  }
}

TEST(TileOrder, EndsWithOneThreadBlockOnEveryRank) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(text_of(each));
    const auto orders = orders_of(each);
    std::vector<std::size_t> next(orders.size());
    std::map<std::tuple<int, int, int>, int> arrived;
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t rank = 0; rank < orders.size(); ++rank) {
        for (; next[rank] < orders[rank].size(); ++next[rank], moves = true) {
          const Tile& tile = orders[rank][next[rank]];
          int& pieces = arrived[place_of(tile, rank, each.op.world_size)];
          if (tile.distance == 0 && pieces + 1 < each.op.world_size) break; // the rank waits here
          if (tile.distance > 0) ++pieces;
        }
      }
    }
    for (std::size_t rank = 0; rank < orders.size(); ++rank)
      EXPECT_EQ(next[rank], orders[rank].size()) << "rank " << rank << " waits for ever";
  }
}

TEST(TileOrder, TakesBlocksOfLessThanAWaveTogether) {
  const auto order_of = [](const OpSpec& op, const Cut& cut, int cta_count) {
    std::vector<std::pair<int, int>> places;
    for (const Tile& tile : TileOrder(lower(op, cut, planner::Schedule::Pipelined).value(), kWideTile, cta_count).of(1))
      places.emplace_back(tile.a_row, tile.column);
    return places;
  };
  for (const OpKind kind : {OpKind::MatmulAllReduce, OpKind::MatmulReduceScatter}) {
    const OpSpec op = summing(kind, kind == OpKind::MatmulAllReduce ? 4096 : 16384, 1024, 4); // 4 tiles side by side
    // The number of tiles in 1024 rows of every shard.
    const int whole_wave = kind == OpKind::MatmulAllReduce ? 32 : 128;
    const Cut uncut{{4096}}, coarse{{1024, 1024, 1024, 1024}}, fine{std::vector<std::int64_t>(8, 512)},
        ragged{{1024, 1024, 1024, 896, 128}};
    EXPECT_NE(order_of(op, coarse, whole_wave), order_of(op, uncut, whole_wave));
    EXPECT_EQ(order_of(op, fine, whole_wave), order_of(op, coarse, whole_wave));
    EXPECT_EQ(order_of(op, ragged, whole_wave), order_of(op, coarse, whole_wave)) << "a short rest belongs to the last";
    EXPECT_EQ(order_of(op, fine, 100 * whole_wave), order_of(op, uncut, 100 * whole_wave));
  }
}

} // namespace
} // namespace mc2::executor::cuda
