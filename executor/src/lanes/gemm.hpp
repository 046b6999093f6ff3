#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "mc2/planner/op_spec.hpp"

namespace mc2::executor::lanes {

/// What one call multiplies: so many rows of A by columns [first_column, first_column + columns) of B.
struct GemmShape {
  std::int64_t rows = 0;
  std::int64_t first_column = 0;
  std::int64_t columns = 0;
  auto operator<=>(const GemmShape&) const = default;
};

/// Whether the library's kernels take A's rows by whole AMX tiles of 64 bytes. They are wrong about a rest: before 3.0
/// they end in an illegal instruction where rows have 125 to 127 bytes (its issue 1661), and later ones read on in the
/// next row (issue 5717).
[[nodiscard]] bool gemm_isa_has_amx();

/// How many numbers a row of A is multiplied as: k, or up to a whole tile with zeros.
[[nodiscard]] std::int64_t depth_of(const planner::OpSpec& op, bool fills_tiles);

/// What is the same for all calls: B and what goes with it.
struct GemmWeights {
  std::span<const std::byte> b;             ///< [k, n]
  std::span<const std::byte> b_scales = {}; ///< f32 [n] for i8; read by every call
  std::span<const std::byte> bias =
      {};                    ///< [n] in the product's type, added to every row; empty: none. Read by every call
  bool has_residual = false; ///< every call adds a residual
  bool keeps_f32 = false;    ///< the product is f32, whatever the operator's type
  /// Rows of A are copied with zeros up to a whole AMX tile, but for f32, which has none.
  bool fills_tiles = gemm_isa_has_amx();
};

/// What one call reads and writes.
struct GemmOperands {
  const std::byte* a = nullptr;        ///< [rows, k]
  std::byte* product = nullptr;        ///< [rows, columns] in the product's type; overlaps nothing
  const std::byte* residual = nullptr; ///< [rows, columns] likewise, where GemmWeights::has_residual
  const std::byte* a_scale = nullptr;  ///< one f32 for i8
};

/// One rank's matmul: rows of A [m, k] times columns of B [k, n], on the matmul library's own threads. B is packed
/// once. Threads: build, use and destroy on one thread at a time; the library sizes its team by the building
/// thread's.
class Gemm {
 public:
  /// Builds one kernel per distinct number of rows and columns in `shapes` and packs each range of columns of B into
  /// the layout that its longest shape prefers. A shape whose kernel cannot use that layout gets its own copy. Throws
  /// SystemError naming the rank.
  /// @param sharing  another of the same operator and kinds of weights, whose kernels this one uses where shapes are
  ///                 alike: several experts' matrices need them once. Both are used on one thread. Null: builds its own
  Gemm(const planner::OpSpec& op, int rank, const GemmWeights& weights, std::span<const GemmShape> shapes,
       const Gemm* sharing = nullptr);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  /// product = a * those columns of B * scales + bias + residual, all dense and row-major, accumulated in f32 - i8 in
  /// 32 bit integers - and rounded once. `shape` is one of those given above. Blocks; mc2 allocates nothing here.
  /// Throws SystemError naming the rank.
  void multiply(const GemmOperands& operands, const GemmShape& shape);

  /// Packed copies of columns of B: one for each range of columns whose shapes share a layout.
  [[nodiscard]] std::size_t packed_layout_count() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// "2.6.3".
[[nodiscard]] std::string gemm_library_version();
/// The instruction set that the library generates code for, e.g. "avx512_core_bf16".
[[nodiscard]] std::string gemm_isa();
/// Whether that instruction set multiplies bf16 numbers without converting them to f32 first.
[[nodiscard]] bool gemm_isa_has_bf16();
/// Whether it has dot products of i8 numbers.
[[nodiscard]] bool gemm_isa_has_i8();

} // namespace mc2::executor::lanes
