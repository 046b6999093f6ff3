#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "mc2/planner/op_spec.hpp"

namespace mc2::executor::host {

/// One rank's matmul: rows of A [m, k] times B [k, n], on the matmul library's own threads. B is packed once.
/// Threads: build, use and destroy on one thread at a time; the library sizes its team by the building thread's.
class Gemm {
 public:
  /// Builds one kernel per distinct length in `block_rows` and packs `b` into the layout that the longest one
  /// prefers. A length whose kernel cannot use that layout gets its own copy. Throws SystemError naming the rank.
  Gemm(const planner::OpSpec& op, int rank, std::span<const std::byte> b, std::span<const std::int64_t> block_rows);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  /// product [rows, n] = a [rows, k] * B, both row-major in the operator's type. `rows` is one of the lengths given
  /// above. Blocks; mc2 allocates nothing here. Throws SystemError naming the rank.
  void multiply(const std::byte* a, std::byte* product, std::int64_t rows);

  /// Packed copies of B: 1 when all lengths share a layout.
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

} // namespace mc2::executor::host
