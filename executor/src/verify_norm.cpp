#include "verify_norm.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "double_oracle.hpp"
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

  [[nodiscard]] WorstElement worst_of(std::int64_t row) const {
    std::vector<double> sums(weight_.size()), values(weight_.size());
    sums_.read_row(row, sums);
    normed_.read_row(row, values);
    double squares = 0;
    for (const double sum : sums) squares += sum * sum;
    const double factor = 1 / std::sqrt(squares / static_cast<double>(op_.n) + epsilon_);
    OracleRow oracle{std::vector<double>(values.size()), std::vector<double>(values.size())};
    for (std::size_t j = 0; j < values.size(); ++j) {
      oracle.expected[j] = sums[j] * factor * weight_[j];
      oracle.allowed[j] = roundoff() * std::abs(oracle.expected[j]) + half_smallest(type_);
    }
    return worst_element(values, oracle);
  }

  [[nodiscard]] Error error(std::int64_t row, std::size_t rank) const {
    const WorstElement worst = worst_of(row);
    return {ErrorCode::Mismatch, "normed",
            rank_text(rank) + ", row " + std::to_string(row) + ", column " + std::to_string(worst.column) + ": " +
                worst.text()};
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
    const auto found = worst_ratio(row_count, [&](std::int64_t row) { return rows.worst_of(row).ratio; });
    if (found.wrong) return rows.error(*found.wrong, rank);
    worst = std::max(worst, found.ratio);
  }
  return worst;
}

} // namespace mc2::executor
