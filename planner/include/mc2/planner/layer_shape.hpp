#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/op_spec.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// How the ranks share a layer's weight B [k, n], which determines the collective beside its matmul. Tensor
/// parallelism divides an axis. Source: Shoeybi et al., Megatron-LM, arXiv:1909.08053 §3; with sequence parallelism
/// Korthikanti et al., arXiv:2205.05198 §4.2.2. Expert parallelism gives every rank whole experts. Source: Lepikhin
/// et al., GShard, arXiv:2006.16668 §3.2.
enum class Parallelism : std::uint8_t {
  Row = 1,      ///< k is divided; the partial products are summed: all-reduce or reduce-scatter
  Column = 2,   ///< n is divided; the input's rows are gathered first
  Dispatch = 3, ///< no axis is divided: whole experts on every rank, whose rows arrive from all ranks
  Combine = 4,  ///< no axis is divided: whole experts on every rank, whose rows return to all ranks
};

[[nodiscard]] std::string_view to_string(Parallelism parallelism) noexcept;
/// Errors: UnknownName.
[[nodiscard]] Result<Parallelism> parse_parallelism(std::string_view text);
[[nodiscard]] constexpr bool divides_an_axis(Parallelism parallelism) noexcept {
  return parallelism == Parallelism::Row || parallelism == Parallelism::Column;
}

/// Columns of a weight that several ranks hold if there are more ranks than parts: those of keys and values.
struct SharedColumns {
  std::int64_t n = 0;     ///< how many of the weight's columns
  std::int64_t units = 0; ///< parts of these columns that stay whole; divides n
  bool operator==(const SharedColumns&) const = default;
};

/// The experts of a layer, all of one shape.
struct ExpertCount {
  std::int64_t total = 0;     ///< experts on all ranks together
  std::int64_t per_token = 0; ///< experts that each token goes to
  bool operator==(const ExpertCount&) const = default;
};

/// A named layer of a model before it is divided.
struct LayerShape {
  std::string model; ///< e.g. "Llama-3-70B"
  std::string layer; ///< e.g. "mlp_down"
  Parallelism parallelism = Parallelism::Row;
  std::int64_t n = 0; ///< columns of the whole weight
  std::int64_t k = 0; ///< rows of the whole weight
  /// Number of parts of the divided axis that must stay whole, such as attention heads. It divides the axis without its
  /// shared columns. 0: nothing is divided.
  std::int64_t units = 0;
  DType dtype = DType::Bf16;
  std::int64_t count = 1;                             ///< number of such layers in the model
  std::optional<SharedColumns> shared = std::nullopt; ///< only of a layer divided by columns
  std::optional<ExpertCount> experts = std::nullopt;  ///< of dispatch and combine; unset: one expert a rank

  /// The operator kinds of such a layer, in the registry's order.
  [[nodiscard]] std::vector<OpKind> kinds() const;

  /// The operator of one of `ranks` ranks for m rows of its product.
  /// Errors: Infeasible when the ranks do not divide `units`, or the experts; InvalidSpec as OpSpec::validate.
  [[nodiscard]] Result<OpSpec> op(OpKind kind, std::int64_t m, int ranks) const;

  /// Rows of one rank's product in a step of `token_count` tokens: the tokens or, with experts, the rows that reach a
  /// rank if all experts get equally many. Rounded up to an m that the operator can have.
  [[nodiscard]] std::int64_t rows_of(std::int64_t token_count, OpKind kind, int ranks) const;

  /// 1 if the layer names no experts. `ranks` must divide their total.
  [[nodiscard]] std::int64_t experts_of_a_rank(int ranks) const;

  bool operator==(const LayerShape&) const = default;
};

} // namespace mc2::planner

#pragma GCC visibility pop
