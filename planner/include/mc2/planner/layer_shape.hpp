#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/op_spec.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// How a layer's weight B [k, n] is shared among the ranks, and with that the collective beside its matmul. Tensor
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

/// Columns of a weight that more ranks than it has parts hold several times: keys and values.
struct SharedColumns {
  std::int64_t n = 0;     ///< of the weight's
  std::int64_t units = 0; ///< parts of them that stay whole; divides n
  bool operator==(const SharedColumns&) const = default;
};

/// The experts of a layer, alike.
struct ExpertCount {
  std::int64_t total = 0;     ///< of all ranks
  std::int64_t per_token = 0; ///< that a token goes to
  bool operator==(const ExpertCount&) const = default;
};

/// A named layer of a model before it is divided.
struct LayerShape {
  std::string model; ///< e.g. "Llama-3-70B"
  std::string layer; ///< e.g. "mlp_down"
  Parallelism parallelism = Parallelism::Row;
  std::int64_t n = 0; ///< columns of the whole weight
  std::int64_t k = 0; ///< rows of the whole weight
  /// Parts of the divided axis that must stay whole, such as attention heads; divides the axis, without its shared
  /// columns. 0: nothing is divided.
  std::int64_t units = 0;
  DType dtype = DType::Bf16;
  std::int64_t count = 1;                             ///< how often the model has it
  std::optional<SharedColumns> shared = std::nullopt; ///< of a layer divided by columns
  std::optional<ExpertCount> experts = std::nullopt;  ///< of dispatch and combine; unset: one on every rank

  /// The operator kinds of such a layer, in the registry's order.
  [[nodiscard]] std::vector<OpKind> kinds() const;

  /// What one of `ranks` ranks computes for m rows of its product.
  /// Errors: Infeasible when the ranks do not divide `units`, or the experts; InvalidSpec as OpSpec::validate.
  [[nodiscard]] Result<OpSpec> op(OpKind kind, std::int64_t m, int ranks) const;

  /// Rows of one rank's product when a step computes so many tokens: the tokens, or as many as reach a rank's expert
  /// when all experts get as many; no fewer than the operator can have.
  [[nodiscard]] std::int64_t rows_of(std::int64_t token_count, OpKind kind, int ranks) const;

  /// One where the layer names none. `ranks` divides them.
  [[nodiscard]] std::int64_t experts_of_a_rank(int ranks) const;

  bool operator==(const LayerShape&) const = default;
};

} // namespace mc2::planner

#pragma GCC visibility pop
