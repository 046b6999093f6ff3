#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/op_spec.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// How an algorithm of a GPU's library divides a matmul.
struct MatmulTile {
  int rows = 0, columns = 0; ///< of C, which an SM multiplies at once; 0 if they are not known
  int k_parts = 1;           ///< k is split into so many parts, which are multiplied side by side and then added up

  [[nodiscard]] auto operator<=>(const MatmulTile&) const = default;
};

/// The tiles whose times are known, of one part each.
[[nodiscard]] std::vector<MatmulTile> known_tiles();

/// One call of the library: `batch_count` products of `rows` rows each, by the same [op.n, op.k] matrix.
struct MatmulCall {
  std::int64_t rows = 0;
  int batch_count = 1;
  int sm_count = 0; ///< SMs that the matmul may count on; 0: all
};

/// Which of the algorithms that the library offers shall carry out a call. It is the first, the library's own choice,
/// unless another is predicted to take 3 % less time. Source: docs/cost_model.md §12.
/// @param offered  not empty
/// @return its index; 0 if nothing is known of the machine, of the operator's matmul or of the first tile
[[nodiscard]] std::size_t choose_tile(const Fingerprint& machine, const OpSpec& op, const MatmulCall& call,
                                      std::span<const MatmulTile> offered);

} // namespace mc2::planner

#pragma GCC visibility pop
