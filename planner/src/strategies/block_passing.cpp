#include "strategies/block_passing.hpp"

#include <algorithm>
#include <cstddef>

namespace mc2::planner::strategies {
namespace {

/// Largest number of slices of a block. A block of more waves passes in this many, each a small part of the block.
constexpr int kMostWaves = 60;

/// Divisions into 1, 2, ... equal slices.
const std::vector<Slices>& equal_slices() {
  static const std::vector<Slices> all = [] {
    std::vector<Slices> slices;
    for (int count = 1; count <= kMostWaves; ++count) slices.push_back(Slices::equal(count));
    return slices;
  }();
  return all;
}

} // namespace

BlockPassing::BlockPassing(const Problem& problem, const VariantCost& cost)
    : options_(problem.options),
      waves_(tile_waves(problem.op, cost.variant, problem.model.fingerprint)),
      slices_(slices_of(cost.variant)),
      passes_by_wave_(waves_ && problem.traits.has_row_shards && slices_.count() > 1) {}

const Slices& BlockPassing::slices(std::int64_t block_rows) const noexcept {
  if (!passes_by_wave_) return slices_;
  const std::int64_t count = std::min<std::int64_t>(waves_->wave_count(block_rows), kMostWaves);
  return equal_slices()[static_cast<std::size_t>(count - 1)];
}

std::vector<std::int64_t> BlockPassing::passing_rows(const Cut& cut) const {
  return waves_ ? waves_->taken_together(cut.block_rows) : cut.block_rows;
}

std::vector<Span> BlockPassing::spans_of_blocks(const Cut& cut, const std::vector<Span>& passed) const {
  const std::vector<std::int64_t> rows = passing_rows(cut);
  std::vector<Span> spans(passed.begin(), passed.end() - std::ssize(rows));
  auto block = cut.block_rows.begin();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Span& whole = passed[passed.size() - rows.size() + i];
    const double us_per_row = (whole.end_us - whole.start_us) / static_cast<double>(rows[i]);
    for (std::int64_t done = 0; done < rows[i]; done += *block++) {
      const double start_us = whole.start_us + us_per_row * static_cast<double>(done);
      const bool is_last = done + *block == rows[i];
      spans.push_back({start_us, is_last ? whole.end_us : start_us + us_per_row * static_cast<double>(*block)});
    }
  }
  return spans;
}

PlanOptions BlockPassing::options() const {
  PlanOptions options = options_;
  if (waves_) options.min_block_rows = std::max(options.min_block_rows, waves_->least_rows());
  return options;
}

bool BlockPassing::shares_waves(const BlockSplit& split) const noexcept {
  const std::int64_t shortest = split.odd_rows > 0 ? std::min(split.odd_rows, split.long_rows) : split.long_rows;
  return waves_ && split.block_count() > 1 && shortest < waves_->least_rows();
}

std::optional<BlockSplit> BlockPassing::halves_of_one(std::int64_t rows) const noexcept {
  if (!waves_ || rows >= 2 * waves_->least_rows() || options_.max_block_count < 2) return std::nullopt;
  const std::int64_t half = align_up(ceil_div(rows, 2), options_.alignment);
  const std::int64_t rest = rows - half;
  if (std::min(half, rest) < options_.min_block_rows) return std::nullopt;
  return rest == half ? BlockSplit{half, 2} : BlockSplit{half, 1, rest, false};
}

} // namespace mc2::planner::strategies
