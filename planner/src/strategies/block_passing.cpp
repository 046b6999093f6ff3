#include "strategies/block_passing.hpp"

#include <algorithm>
#include <cstddef>

namespace mc2::planner::strategies {
namespace {

/// Of a block in more waves, none is a sixtieth of it.
constexpr std::int64_t kMostWaves = 60;

} // namespace

BlockPassing::BlockPassing(const Problem& problem, const VariantCost& cost)
    : options_(problem.options), waves_(tile_waves(problem.op, cost.variant, problem.model.fingerprint)) {
  if (!waves_ || !problem.traits.has_row_shards) {
    by_wave_count_.push_back(slices_of(cost.variant));
    return;
  }
  const std::int64_t most = std::min(waves_->wave_count(problem.rows), kMostWaves);
  for (int count = 1; count <= most; ++count) by_wave_count_.push_back(Slices::equal(count));
}

const Slices& BlockPassing::slices(std::int64_t block_rows) const noexcept {
  if (by_wave_count_.size() == 1) return by_wave_count_.front();
  const auto count = static_cast<std::size_t>(waves_->wave_count(block_rows));
  return by_wave_count_[std::min(count, by_wave_count_.size()) - 1];
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

} // namespace mc2::planner::strategies
