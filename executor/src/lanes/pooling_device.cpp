#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "bags.hpp"
#include "element.hpp"
#include "lanes/compute_device.hpp"
#include "mc2/planner/error.hpp"
#include "texts.hpp"

namespace mc2::executor::lanes {
namespace {

constexpr std::int64_t kPlacesAhead = 8;
constexpr std::int64_t kLineBytes = 64;

/// Sums of kColumns columns, at most kMostColumns. These fit into the vector registers of every x86-64 CPU; sums in
/// memory would be read and written for every row.
using Lanes = float __attribute__((vector_size(16)));
constexpr std::int64_t kLaneCount = sizeof(Lanes) / sizeof(float), kMostColumns = 16 * kLaneCount;
template <std::int64_t kColumns>
using Sums = std::array<Lanes, kColumns / kLaneCount>;

template <std::size_t kCount>
[[gnu::always_inline]] inline void add_row(const float* row, std::array<Lanes, kCount>& sums) noexcept {
  for (std::size_t i = 0; i < kCount; ++i) {
    Lanes lanes;
    std::memcpy(&lanes, row + i * kLaneCount, sizeof lanes);
    sums[i] += lanes;
  }
}

template <typename Element, std::size_t kCount>
[[gnu::always_inline]] inline void add_row(const Element* row, std::array<Lanes, kCount>& sums) noexcept {
  std::array<float, kCount * kLaneCount> floats;
  for (std::size_t i = 0; i < floats.size(); ++i) floats[i] = load(row[i]);
  add_row(floats.data(), sums);
}

/// The tables of one rank and the bags that name rows of them.
template <typename Element>
class Pool {
 public:
  Pool(const planner::OpSpec& op, const RankBuffers& buffers)
      : bags_(op, buffers.bags),
        tables_(reinterpret_cast<const Element*>(buffers.b.data())),
        columns_(op.n / op.tables->table_count),
        table_elements_(op.tables->row_count * columns_),
        is_mean_(op.tables->pooling == planner::Pooling::Mean) {}

  /// Writes the features of one sample from one table. The bag must have been checked.
  void pool(std::int64_t table, std::int64_t sample, Element* features) const {
    const Element* rows = tables_ + table * table_elements_;
    const BagReader::Range range = bags_.range_of(table, sample);
    std::int64_t first = pool_columns<kMostColumns>(rows, range, features, 0);
    first = pool_columns<kMostColumns / 2>(rows, range, features, first);
    first = pool_columns<kMostColumns / 4>(rows, range, features, first);
    pool_rest(rows + first, range, features + first, columns_ - first);
  }

  [[nodiscard]] const BagReader& bags() const noexcept { return bags_; }
  [[nodiscard]] std::int64_t columns() const noexcept { return columns_; }

 private:
  /// Pools kColumns columns at a time, from column `first` on, while there are so many. Returns the first column left.
  template <std::int64_t kColumns>
  std::int64_t pool_columns(const Element* rows, const BagReader::Range& range, Element* features,
                            std::int64_t first) const {
    for (; first + kColumns <= columns_; first += kColumns) {
      Sums<kColumns> sums{};
      for (std::int64_t place = range.first; place < range.end; ++place) {
        fetch(rows + first, place + kPlacesAhead, kColumns);
        add_row(rows + first + bags_.row_at(place) * columns_, sums);
      }
      std::array<float, kColumns> floats;
      std::memcpy(floats.data(), sums.data(), sizeof floats);
      put_down(floats.data(), range, features + first, kColumns);
    }
    return first;
  }

  /// Pools the last columns, which are too few for pool_columns().
  void pool_rest(const Element* rows, const BagReader::Range& range, Element* features, std::int64_t count) const {
    if (count == 0) return;
    std::array<float, kMostColumns / 4> sums{};
    for (std::int64_t place = range.first; place < range.end; ++place) {
      fetch(rows, place + kPlacesAhead, count);
      const Element* row = rows + bags_.row_at(place) * columns_;
      for (std::int64_t i = 0; i < count; ++i) sums[static_cast<std::size_t>(i)] += load(row[i]);
    }
    put_down(sums.data(), range, features, count);
  }

  void put_down(const float* sums, const BagReader::Range& range, Element* features, std::int64_t count) const {
    const float divisor = is_mean_ && range.length() > 0 ? static_cast<float>(range.length()) : 1.0F;
    for (std::int64_t i = 0; i < count; ++i) store(sums[i] / divisor, features[i]);
  }

  /// Prefetches a row that is pooled soon, usually for the next bags of the same table. Rows are scattered over a table
  /// that no cache holds, and without prefetching each row would be waited for. Always inlined, because GCC 12 takes a
  /// function that only prefetches for one without effect and omits the call.
  [[gnu::always_inline]] void fetch(const Element* rows, std::int64_t place, std::int64_t count) const noexcept {
    if (place >= bags_.index_count()) return;
    const Element* row = rows + bags_.row_at(place) * columns_;
    for (std::int64_t i = 0; i < count; i += kLineBytes / std::int64_t{sizeof(Element)}) __builtin_prefetch(row + i);
  }

  BagReader bags_;
  const Element* tables_;
  std::int64_t columns_;
  std::int64_t table_elements_;
  bool is_mean_;
};

template <typename Element>
class PoolingDevice final : public ComputeDevice {
 public:
  PoolingDevice(const planner::OpSpec& op, int rank, const RankBuffers& buffers)
      : pool_(op, buffers), rank_(rank), table_count_(op.tables->table_count), columns_(op.n) {}

  /// Pools table after table, each for all runs, so that a row which several samples name is likely to be in the cache
  /// still.
  ComputeTimes multiply(const MatmulWork& work, Clock::time_point /*ready*/, const RunControl& control) override {
    control.throw_if_aborted();
    const auto start = Clock::now();
    for (std::int64_t table = 0; table < table_count_; ++table)
      for (const MatmulRun& run : work.runs) pool_run(table, run);
    return {start, Clock::now()};
  }

 private:
  void pool_run(std::int64_t table, const MatmulRun& run) const {
    auto* product = reinterpret_cast<Element*>(run.product);
    for (std::int64_t i = 0; i < run.shape.rows; ++i) {
      require_legal(table, run.first_row + i);
      pool_.pool(table, run.first_row + i, product + i * columns_ + table * pool_.columns());
    }
  }

  /// Checks a bag, which may have been refilled since prepare().
  void require_legal(std::int64_t table, std::int64_t sample) const {
    const auto legal = pool_.bags().check(table, sample);
    if (legal) return;
    throw SystemError("bags", EINVAL, rank_text(rank_) + ", " + legal.error().message);
  }

  Pool<Element> pool_;
  int rank_;
  std::int64_t table_count_;
  std::int64_t columns_; ///< of the product
};

} // namespace

std::unique_ptr<ComputeDevice> make_pooling_device(const planner::OpSpec& op, int rank, const RankBuffers& buffers) {
  switch (op.dtype) {
    case planner::DType::F32: return std::make_unique<PoolingDevice<float>>(op, rank, buffers);
    case planner::DType::F16: return std::make_unique<PoolingDevice<F16>>(op, rank, buffers);
    case planner::DType::Bf16: return std::make_unique<PoolingDevice<Bf16>>(op, rank, buffers);
    case planner::DType::I8:
    case planner::DType::F8E4m3: break;
  }
  MC2_CHECK(false, "a type without a pooling device");
  return nullptr;
}

} // namespace mc2::executor::lanes
