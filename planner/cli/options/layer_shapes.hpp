#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "context.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::cli {

/// How a layer's weight B [k, n] is shared among the ranks, and with that the collective beside its matmul. Tensor
/// parallelism divides an axis. Source: Shoeybi et al., Megatron-LM, arXiv:1909.08053 §3; with sequence parallelism
/// Korthikanti et al., arXiv:2205.05198 §4.2.2. Expert parallelism gives every rank whole experts. Source: Lepikhin
/// et al., GShard, arXiv:2006.16668 §3.2.
enum class Parallelism : std::uint8_t {
  Row = 1,      ///< k is divided; the partial products are summed: all-reduce or reduce-scatter
  Column = 2,   ///< n is divided; the input's rows are gathered first
  Dispatch = 3, ///< nothing is divided: an expert on every rank, whose rows arrive from all ranks
  Combine = 4,  ///< nothing is divided: an expert on every rank, whose rows return to all ranks
};

/// A named layer of a model before it is divided.
struct LayerShape {
  std::string model; ///< e.g. "Llama-3-70B"
  std::string layer; ///< e.g. "mlp_down"
  Parallelism parallelism = Parallelism::Row;
  std::int64_t n = 0; ///< columns of the whole weight
  std::int64_t k = 0; ///< rows of the whole weight
  /// Parts of the divided axis that must stay whole, such as attention heads; divides the axis. 0: nothing is
  /// divided.
  std::int64_t units = 0;
  planner::DType dtype = planner::DType::Bf16;

  /// The operator kinds of such a layer, in the registry's order.
  [[nodiscard]] std::vector<planner::OpKind> kinds() const;

  /// What one of `ranks` ranks computes for m rows.
  /// Errors: Infeasible when the ranks do not divide `units`; InvalidSpec as OpSpec::validate.
  [[nodiscard]] Result<planner::OpSpec> op(planner::OpKind kind, std::int64_t m, int ranks) const;
};

/// Reads named layers: CSV with columns model, layer, parallel (row, column, dispatch or combine), n, k and
/// optionally units (default: the divided axis; none for dispatch and combine) and dtype (default bf16). No two lines
/// name the same model and layer. Errors: Malformed or UnknownName with "file:line:column" as the field; at most
/// 10000 layers.
[[nodiscard]] Result<std::vector<LayerShape>> parse_layer_shapes(std::string_view text, const std::string& file);

/// data/llm_layers.csv as it was when this program was built.
[[nodiscard]] std::string_view built_in_layers() noexcept;

} // namespace mc2::cli
