#pragma once

#include <cstdint>
#include <span>

#include "index_numbers.hpp"
#include "mc2/executor/buffer.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor {

/// Reads the bags of one rank in memory of this process. A view: owns nothing.
class BagReader {
 public:
  /// The arrays have the sizes that check_buffers() demands.
  BagReader(const planner::OpSpec& op, const EmbeddingBags& bags) noexcept;

  /// The places [first, end) of a bag's row numbers in the array of indices.
  struct Range {
    std::int64_t first = 0;
    std::int64_t end = 0;
    [[nodiscard]] std::int64_t length() const noexcept { return end - first; }
  };
  [[nodiscard]] Range range_of(std::int64_t table, std::int64_t sample) const noexcept {
    const std::int64_t bag = table * sample_count_ + sample;
    return {number(bags_.offsets, bag), number(bags_.offsets, bag + 1)};
  }
  /// The row number at a place of the array of indices.
  [[nodiscard]] std::int64_t row_at(std::int64_t place) const noexcept { return number(bags_.indices, place); }

  /// The number of row numbers of all bags together.
  [[nodiscard]] std::int64_t index_count() const noexcept { return index_count_; }

  /// Checks one bag. Errors: InvalidSpec naming table, sample and value, for a range that does not lie within the array
  /// of indices, or a row that the table does not have.
  [[nodiscard]] Result<void> check(std::int64_t table, std::int64_t sample) const;

 private:
  [[nodiscard]] std::int64_t number(std::span<const std::byte> from, std::int64_t place) const noexcept {
    return number_at(from, bags_.type, place);
  }

  EmbeddingBags bags_;
  std::int64_t sample_count_;
  std::int64_t row_count_; ///< rows of a table
  std::int64_t index_count_;
};

/// Checks all bags; succeeds for kinds without tables. `op` must be legal, check_buffers() must have passed, and the
/// buffers must be in memory of this process.
/// Errors: InvalidSpec naming rank, table, sample and value, for offsets that do not ascend from 0 to the number of
/// indices, and for rows that a table does not have.
[[nodiscard]] Result<void> check_bags(const planner::OpSpec& op, std::span<const int> ranks,
                                      std::span<const RankBuffers> buffers);

} // namespace mc2::executor
