#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "mc2/planner/op_spec.hpp"

namespace mc2::executor::lanes {

/// The shape of one call: `rows` rows of A times columns [first_column, first_column + columns) of B.
struct GemmShape {
  std::int64_t rows = 0;
  std::int64_t first_column = 0;
  std::int64_t columns = 0;
  auto operator<=>(const GemmShape&) const = default;
};

/// Whether oneDNN's kernels use AMX, which takes rows of A by tiles of 64 bytes. Rows that are no whole number of tiles
/// fail: oneDNN before 3.0 runs into an illegal instruction for rows of 125 to 127 bytes (its issue 1661), and later
/// versions read beyond the row (issue 5717).
[[nodiscard]] bool gemm_isa_has_amx();

/// The number of elements that a row of A has in the matmul: k, rounded up to whole AMX tiles if `fills_tiles`.
[[nodiscard]] std::int64_t depth_of(const planner::OpSpec& op, bool fills_tiles);

/// B, and the other operands and settings that are the same for all calls.
struct GemmWeights {
  std::span<const std::byte> b;             ///< [k, n]
  std::span<const std::byte> b_scales = {}; ///< f32 [n] for i8; read by every call
  std::span<const std::byte> bias = {};     ///< [n] in the product's type, added to every row; read by every call
  bool has_residual = false;                ///< every call adds a residual
  bool keeps_f32 = false;                   ///< the product is f32 for every type of operator
  /// Rows of A are copied and filled with zeros up to whole AMX tiles. Does nothing for f32, which does not use AMX.
  bool fills_tiles = gemm_isa_has_amx();
};

/// The operands of one call.
struct GemmOperands {
  const std::byte* a = nullptr;        ///< [rows, k]
  std::byte* product = nullptr;        ///< [rows, columns] in the product's type; must not overlap other operands
  const std::byte* residual = nullptr; ///< [rows, columns] in the product's type, if GemmWeights::has_residual
  const std::byte* a_scale = nullptr;  ///< one f32 for i8
};

/// One rank's matmul: rows of A [m, k] times columns of B [k, n], on oneDNN's threads. B is packed once. Threads:
/// built, used and destroyed by one thread at a time; oneDNN uses as many threads as the building thread may (OpenMP).
class Gemm {
 public:
  /// Builds one kernel for each number of rows and columns in `shapes`, and packs each range of columns of B into the
  /// layout that its longest shape prefers. A shape whose kernel cannot use that layout gets its own copy. Throws
  /// SystemError naming the rank.
  /// @param sharing  a Gemm of the same operator and kinds of weights. Its kernels are used where shapes are equal, so
  ///                 that the matrices of several experts share them. One thread uses both. Null: builds all kernels
  Gemm(const planner::OpSpec& op, int rank, const GemmWeights& weights, std::span<const GemmShape> shapes,
       const Gemm* sharing = nullptr);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  /// product = a * (columns of B) * scales + bias + residual. All are dense and row-major. Sums are accumulated in f32,
  /// those of i8 in 32-bit integers, and rounded once. `shape` must be one of those given to the constructor. Returns
  /// when done; mc2 allocates nothing here. Throws SystemError naming the rank.
  void multiply(const GemmOperands& operands, const GemmShape& shape);

  /// The number of packed copies of columns of B. Shapes with the same columns and layout share one.
  [[nodiscard]] std::size_t packed_layout_count() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// oneDNN's version, e.g. "2.6.3".
[[nodiscard]] std::string gemm_library_version();
/// The instruction set that oneDNN generates code for, e.g. "avx512_core_bf16".
[[nodiscard]] std::string gemm_isa();
/// Whether gemm_isa() multiplies bf16 numbers without converting them to f32 first.
[[nodiscard]] bool gemm_isa_has_bf16();
/// Whether gemm_isa() has dot products of i8 numbers.
[[nodiscard]] bool gemm_isa_has_i8();

} // namespace mc2::executor::lanes
