#include "verify_norm.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "double_oracle.hpp"
#include "mc2/planner/text.hpp"
#include "parallel_for.hpp"
#include "texts.hpp"
#include "verify_report.hpp"

namespace mc2::executor {
namespace {

/// Compares the normalised rows of one rank with the norm of its rows of C.
class NormedRows {
 public:
  NormedRows(const planner::OpSpec& op, const RankBuffers& rank)
      : op_(op),
        type_(planner::product_type(op)),
        epsilon_(rank.norm_epsilon),
        weight_(static_cast<std::size_t>(op.n)),
        sums_(type_, rank.c, op.n),
        normed_(type_, rank.normed, op.n) {
    MatrixReader(type_, rank.norm_weight, op.n).read_row(0, weight_);
  }

  struct Worst {
    double ratio = 0;
    std::int64_t column = 0;
    double value = 0, expected = 0;
  };
  [[nodiscard]] Worst worst_of(std::int64_t row) const {
    std::vector<double> sums(weight_.size()), values(weight_.size());
    sums_.read_row(row, sums);
    normed_.read_row(row, values);
    double squares = 0;
    for (const double sum : sums) squares += sum * sum;
    const double factor = 1 / std::sqrt(squares / static_cast<double>(op_.n) + epsilon_);
    Worst worst;
    for (std::size_t j = 0; j < values.size(); ++j) {
      const double expected = sums[j] * factor * weight_[j];
      const double difference = std::abs(values[j] - expected);
      // A value that was not written is a NaN, which the comparison below must find.
      const double ratio = difference == 0 ? 0 : difference / (roundoff() * std::abs(expected) + half_smallest(type_));
      if (!(ratio <= worst.ratio)) worst = {ratio, static_cast<std::int64_t>(j), values[j], expected};
      if (std::isnan(ratio)) break;
    }
    return worst;
  }

  [[nodiscard]] Error error(std::int64_t row, std::size_t rank) const {
    const Worst worst = worst_of(row);
    return {ErrorCode::Mismatch, "normed",
            rank_text(rank) + ", row " + std::to_string(row) + ", column " + std::to_string(worst.column) + ": is " +
                number_text(worst.value, kDigits) + ", should be " + number_text(worst.expected, kDigits)};
  }

 private:
  [[nodiscard]] double roundoff() const {
    constexpr double kConfidence = 4;
    const double in_f32 = kConfidence * kF32Roundoff * (std::sqrt(static_cast<double>(op_.n)) + 4);
    return in_f32 + (type_ == planner::DType::F32 ? 0 : 1.01 * unit_roundoff(type_));
  }

  planner::OpSpec op_;
  planner::DType type_;
  double epsilon_;
  std::vector<double> weight_;
  MatrixReader sums_, normed_;
};

} // namespace

Result<double> verify_norm(const planner::OpSpec& op, std::span<const RankBuffers> buffers) {
  double worst = 0;
  if (op.epilogue.norm == planner::Norm::None) return worst;
  const std::int64_t row_count = operand_shapes(op).normed.rows;
  for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
    const NormedRows rows(op, buffers[rank]);
    std::vector<double> ratios(static_cast<std::size_t>(row_count));
    parallel_for(row_count,
                 [&](std::int64_t row) { ratios[static_cast<std::size_t>(row)] = rows.worst_of(row).ratio; });
    const auto bad = std::ranges::find_if(ratios, [](double ratio) { return !(ratio <= 1); });
    if (bad != ratios.end()) return rows.error(bad - ratios.begin(), rank);
    worst = std::max(worst, std::ranges::max(ratios));
  }
  return worst;
}

} // namespace mc2::executor
