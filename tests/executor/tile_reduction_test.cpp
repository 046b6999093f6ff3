#include "backends/cuda/tiles/tile_reduction.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/runtime/handles.hpp"
#include "backends/cuda/runtime/machine.hpp"
#include "element.hpp"
#include "executor/hold_sms.hpp"
#include "executor/transposed.hpp"
#include "mc2/executor/verify.hpp"

namespace mc2::executor::cuda {
namespace {

using planner::Cut;
using planner::DType;
using planner::OpKind;
using planner::OpSpec;
using testing::transposed;

std::unique_ptr<DeviceMemory> resident(DevicePool& pool, std::span<const std::byte> bytes) {
  auto memory = std::make_unique<DeviceMemory>(pool, bytes.size());
  memory->upload(bytes);
  return memory;
}

/// Runs all ranks on device 0, each on a stream of its own.
class RanksOnOneDevice {
 public:
  RanksOnOneDevice(DevicePool& pool, const OpSpec& op, const Cut& cut, TileReduction::Options options,
                   const std::vector<int>& cta_counts)
      : pool_(pool), op_(op), cut_(cut), problem_(op, 7), abort_(resident(pool, std::vector<std::byte>(4))) {
    const StageList stages = lower(op, cut, planner::Schedule::Pipelined).value();
    std::vector<std::byte*> addresses;
    for (int rank = 0; rank < op.world_size; ++rank) {
      memory_.push_back(resident(
          pool, std::vector<std::byte>(static_cast<std::size_t>(tile_memory_bytes(stages, options.tile_columns)))));
      addresses.push_back(memory_.back()->bytes().data());
    }
    for (int rank = 0; rank < op.world_size; ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      const RankBuffers& host = problem_.buffers()[index];
      Rank& own = ranks_.emplace_back();
      own.b = resident(pool, options.b_is_transposed ? transposed(host.b, op.k, op.n)
                                                     : std::vector<std::byte>(host.b.begin(), host.b.end()));
      own.c = resident(pool, host.c);
      own.products = std::make_unique<DeviceMemory>(pool, static_cast<std::size_t>(op.m * op.n * 2));
      options.cta_count = cta_counts[index];
      own.part = std::make_unique<TileReduction>(stages, rank, options, addresses,
                                                 reinterpret_cast<const std::uint32_t*>(abort_->bytes().data()), pool);
      own.stream = make_stream(false);
    }
  }

  void bind_another_a(std::uint64_t seed) {
    problem_.refill_a(seed);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      Rank& own = ranks_[rank];
      own.a = resident(pool_, problem_.buffers()[rank].a);
      TileReduction::Matrices matrices{own.a->bytes().data(), own.b->bytes().data(), {}, own.products->bytes().data()};
      for (std::size_t other = 0; other < ranks_.size(); ++other) matrices.c[other] = ranks_[other].c->bytes().data();
      own.part->bind(matrices);
    }
  }
  void enqueue(std::size_t rank) { ranks_[rank].part->enqueue(stream(rank)); }
  void enqueue_products(std::size_t rank) { ranks_[rank].part->enqueue_products(stream(rank)); }
  [[nodiscard]] cudaStream_t stream(std::size_t rank) const { return ranks_[rank].stream.get(); }

  /// Does the collective's part: sums the products over the ranks.
  void sum_products() {
    if (op_.dtype == DType::F16)
      sum_products_as<F16>();
    else
      sum_products_as<Bf16>();
  }

  /// Compares the results with the oracle. All runs must have ended.
  void expect_right() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) ranks_[rank].c->download(problem_.buffers()[rank].c);
    const auto right = verify_result(op_, problem_.buffers(), cut_, 1);
    EXPECT_TRUE(right.ok()) << right.error().text();
  }

 private:
  struct Rank {
    std::unique_ptr<DeviceMemory> a, b, c, products;
    std::unique_ptr<TileReduction> part;
    Stream stream;
  };

  template <typename T>
  void sum_products_as() {
    const auto count = static_cast<std::size_t>(op_.m * op_.n);
    std::vector<float> sums(count);
    std::vector<T> elements(count);
    for (const Rank& rank : ranks_) {
      rank.products->download(std::as_writable_bytes(std::span(elements)));
      for (std::size_t i = 0; i < count; ++i) sums[i] += load(elements[i]);
    }
    for (std::size_t i = 0; i < count; ++i) store(sums[i], elements[i]);
    const bool is_scattered = op_.kind == OpKind::MatmulReduceScatter;
    const std::size_t shard = is_scattered ? count / ranks_.size() : count;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      ranks_[rank].c->upload(std::as_bytes(std::span(elements).subspan(is_scattered ? rank * shard : 0, shard)));
  }

  DevicePool& pool_;
  OpSpec op_;
  Cut cut_;
  RandomProblem problem_;
  std::unique_ptr<DeviceMemory> abort_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  std::vector<Rank> ranks_;
};

class TilesOnOneDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    if (device_count(&reason) == 0) GTEST_SKIP() << reason;
    if (compute_capability(0) != 90)
      GTEST_SKIP() << "device 0 has compute capability " << compute_capability(0) << "; this needs 90";
    pool_ = std::make_unique<DevicePool>(0, DevicePool::Source::Cuda);
  }

  void expect_right(const OpSpec& op, const Cut& cut, const TileReduction::Options& options) {
    SCOPED_TRACE(op.text() + ", " + cut.text() + (options.b_is_transposed ? ", B of [n, k], " : ", ") +
                 std::to_string(options.cta_count) + " thread blocks, " + std::to_string(options.tile_columns) +
                 " columns a tile");
    const auto ranks = static_cast<std::size_t>(op.world_size);
    RanksOnOneDevice device(*pool_, op, cut, options, std::vector<int>(ranks, options.cta_count));
    for (std::uint64_t run = 0; run < 2; ++run) { // the second must not see the flags of the first
      device.bind_another_a(run);
      for (std::size_t rank = 0; rank < ranks; ++rank) device.enqueue(rank);
      MC2_CUDA(cudaDeviceSynchronize());
      device.expect_right();
    }
    device.bind_another_a(2);
    for (std::size_t rank = 0; rank < ranks; ++rank) device.enqueue_products(rank);
    MC2_CUDA(cudaDeviceSynchronize());
    device.sum_products();
    device.expect_right();
  }

  std::unique_ptr<DevicePool> pool_;
};

TEST_F(TilesOnOneDevice, AreSummedInEveryShapeTypeAndOrder) {
  struct Shape {
    std::int64_t rows, n, k;
    Cut cut;
  };
  const auto expect_right_in_every_way = [&](OpSpec op, const Cut& cut) {
    for (const DType dtype : {DType::Bf16, DType::F16}) {
      op.dtype = dtype;
      for (const int tile_columns : {kWideTile, kNarrowTile}) {
        for (const bool b_is_transposed : {false, true})
          expect_right(op, cut,
                       {.tile_columns = tile_columns,
                        .b_is_transposed = b_is_transposed,
                        .cta_count = sm_count() / op.world_size});
      }
    }
  };
  for (const int ranks : {2, 3, 4, 8}) {
    const auto op = [&](OpKind kind, std::int64_t m, const Shape& shape) {
      return OpSpec{.kind = kind, .m = m, .n = shape.n, .k = shape.k, .world_size = ranks};
    };
    for (const Shape& shape : {Shape{1, 8, 8, {{1}}}, Shape{130, 264, 72, {{1, 128, 1}}},
                               Shape{300, 1000, 200, {{300}}}, Shape{1025, 520, 264, {{513, 256, 256}}}})
      expect_right_in_every_way(op(OpKind::MatmulReduceScatter, shape.rows * ranks, shape), shape.cut);
    for (const Shape& shape : {Shape{65, 8, 8, {{65}}}, Shape{130, 264, 72, {{1, 128, 1}}},
                               Shape{1001, 1000, 200, {{300, 300, 401}}}, Shape{2049, 520, 264, {{513, 1536}}}})
      expect_right_in_every_way(op(OpKind::MatmulAllReduce, shape.rows, shape), shape.cut);
  }
}

TEST_F(TilesOnOneDevice, AreSummedByFewThreadBlocks) {
  const OpSpec op{
      .kind = OpKind::MatmulReduceScatter, .m = 1200, .n = 1000, .k = 200, .dtype = DType::Bf16, .world_size = 4};
  for (const int cta_count : {1, 7}) expect_right(op, {{100, 200}}, {.cta_count = cta_count});
  OpSpec to_all = op;
  to_all.kind = OpKind::MatmulAllReduce;
  for (const int cta_count : {1, 7})
    expect_right(to_all, {{500, 700}}, {.tile_columns = kNarrowTile, .cta_count = cta_count});
}

/// Tells when all work that the stream holds now has ended. Under compute-sanitizer cudaStreamQuery() would wait for
/// all kernels instead.
class StreamEnd {
 public:
  explicit StreamEnd(cudaStream_t stream) {
    MC2_CUDA(cudaLaunchHostFunc(
        stream, [](void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; }, &is_reached_));
  }
  [[nodiscard]] bool is_reached() const { return is_reached_; }

 private:
  std::atomic<bool> is_reached_ = false;
};

// A kernel may have to share the GPU with a collective that waits for peers. Rank 0 must end although only few of rank
// 1's thread blocks have begun, the others finding no free SM.
TEST_F(TilesOnOneDevice, NeedNotAllBeInPlace) {
  constexpr int kThere = 10; // thread blocks of each rank that find an SM
  const OpSpec op{
      .kind = OpKind::MatmulReduceScatter, .m = 4096, .n = 1024, .k = 128, .dtype = DType::Bf16, .world_size = 2};
  RanksOnOneDevice device(*pool_, op, {{1024, 1024}}, {}, {kThere, sm_count()});
  device.bind_another_a(3);
  unsigned* release = nullptr;
  MC2_CUDA(cudaMallocHost(&release, sizeof *release));
  *release = 0;
  const Stream holder = make_stream(false);
  MC2_CUDA(testing::hold_sms(sm_count() - 2 * kThere, release, holder.get()));
  const StreamEnd holder_end(holder.get());
  const auto let_begin = [] { std::this_thread::sleep_for(std::chrono::milliseconds{100}); };
  let_begin();
  device.enqueue(0);
  const StreamEnd rank_0_end(device.stream(0));
  let_begin(); // kernels of two streams may begin in either order, and rank 1 would take all SMs that are left
  device.enqueue(1);
  const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds{5};
  while (!rank_0_end.is_reached() && std::chrono::steady_clock::now() < latest) std::this_thread::yield();
  EXPECT_TRUE(rank_0_end.is_reached());
  EXPECT_FALSE(holder_end.is_reached()) << "nothing was held";
  *release = 1;
  MC2_CUDA(cudaDeviceSynchronize());
  device.expect_right();
  MC2_CUDA(cudaFreeHost(release));
}

} // namespace
} // namespace mc2::executor::cuda
