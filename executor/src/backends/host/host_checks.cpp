#include "backends/host/host_checks.hpp"

#include <string>
#include <vector>

#include "backends/host/gemm.hpp"
#include "backends/host/machine.hpp"

namespace mc2::executor::host {
namespace {

using planner::Error;
using planner::ErrorCode;
using planner::Result;

Error unsupported_type(const char* reason) { return {ErrorCode::Unsupported, "dtype", reason}; }

Result<void> check_dtype(planner::DType dtype) {
  switch (dtype) {
    case planner::DType::F32: return {};
    case planner::DType::F16:
      return unsupported_type(
          "the host backend does not run f16: CPUs would convert it to f32 and back; use f32 or bf16");
    case planner::DType::Bf16: break;
  }
  if (!has_cpu_feature("avx512_bf16")) {
    return unsupported_type("this CPU has no avx512_bf16, so bf16 would only be emulated; use f32");
  }
  if (!gemm_isa_has_bf16()) {
    return unsupported_type("oneDNN generates no avx512_core_bf16 code here (is ONEDNN_MAX_CPU_ISA set?); use f32");
  }
  return {};
}

/// One matrix of one rank, for checks that treat them alike.
struct NamedBytes {
  std::string name;
  std::span<const std::byte> bytes;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  bool is_written = false;
};

std::vector<NamedBytes> all_matrices(const planner::OpSpec& op, std::span<const RankBuffers> buffers) {
  std::vector<NamedBytes> matrices;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::string rank = "rank " + std::to_string(i) + " ";
    matrices.push_back({rank + "A", buffers[i].a, op.m, op.k, false});
    matrices.push_back({rank + "B", buffers[i].b, op.k, op.n, false});
    matrices.push_back({rank + "C", buffers[i].c, op.m, op.n, true});
  }
  return matrices;
}

Result<void> check_matrix(const NamedBytes& matrix, std::int64_t element_bytes) {
  const std::int64_t needed = matrix.rows * matrix.columns * element_bytes;
  if (static_cast<std::int64_t>(matrix.bytes.size()) != needed) {
    return Error{ErrorCode::InvalidSpec, "buffers",
                 matrix.name + " has " + std::to_string(matrix.bytes.size()) + " bytes; [" +
                     std::to_string(matrix.rows) + ", " + std::to_string(matrix.columns) + "] needs " +
                     std::to_string(needed)};
  }
  if (reinterpret_cast<std::uintptr_t>(matrix.bytes.data()) % static_cast<std::uintptr_t>(element_bytes) != 0) {
    return Error{ErrorCode::InvalidSpec, "buffers",
                 matrix.name + " is not aligned to its " + std::to_string(element_bytes) + "-byte elements"};
  }
  return {};
}

bool overlap(std::span<const std::byte> left, std::span<const std::byte> right) {
  const auto left_at = reinterpret_cast<std::uintptr_t>(left.data());
  const auto right_at = reinterpret_cast<std::uintptr_t>(right.data());
  return left_at < right_at + right.size() && right_at < left_at + left.size();
}

Result<void> check_overlaps(std::span<const NamedBytes> matrices) {
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    for (std::size_t j = i + 1; j < matrices.size(); ++j) {
      const bool is_hazard = matrices[i].is_written || matrices[j].is_written;
      if (is_hazard && overlap(matrices[i].bytes, matrices[j].bytes)) {
        return Error{ErrorCode::InvalidSpec, "buffers",
                     matrices[i].name + " overlaps " + matrices[j].name + "; C must overlap nothing"};
      }
    }
  }
  return {};
}

} // namespace

Result<void> check_operator(const planner::OpSpec& op) {
  if (auto legal = op.validate(); !legal) return legal.error();
  if (op.kind != planner::OpKind::MatmulAllReduce) {
    return Error{ErrorCode::Unsupported, "kind", "the host backend runs matmul_all_reduce only"};
  }
  return check_dtype(op.dtype);
}

std::int64_t operator_bytes(const planner::OpSpec& op) noexcept {
  const std::int64_t element_count = op.m * op.k + 2 * op.k * op.n + 2 * op.m * op.n;
  return op.world_size * element_count * planner::size_bytes(op.dtype);
}

Result<void> check_memory(std::int64_t needed_bytes) {
  const std::int64_t available = available_memory_bytes();
  if (needed_bytes <= available) return {};
  return Error{ErrorCode::Unsupported, "m",
               "all ranks together need " + bytes_text(needed_bytes) + " of memory and this machine has " +
                   bytes_text(available) + " available"};
}

Result<void> check_variant(const planner::Variant& variant) {
  if (variant.name != kDirectVariant) {
    return Error{ErrorCode::UnknownName, "variant",
                 "the host backend has no variant \"" + variant.name + "\"; it has: " + kDirectVariant};
  }
  if (!variant.fields.empty()) {
    return Error{ErrorCode::InvalidSpec, "variant",
                 "the variant \"direct\" takes no settings, but got \"" + variant.fields.begin()->first + "\""};
  }
  return {};
}

Result<void> check_stages(const StageList& list) {
  planner::Cut cut;
  for (const Stage& stage : list.stages) cut.block_rows.push_back(stage.row_count);
  auto expected = lower(list.op, cut);
  if (!expected) return expected.error();
  if (expected.value() != list) {
    return Error{ErrorCode::InvalidSpec, "stages", "the stages are not those that lower() makes from their lengths"};
  }
  return {};
}

Result<void> check_buffers(const planner::OpSpec& op, std::span<const RankBuffers> buffers) {
  if (buffers.size() != static_cast<std::size_t>(op.world_size)) {
    return Error{ErrorCode::InvalidSpec, "buffers",
                 std::to_string(buffers.size()) + " sets of buffers for " + std::to_string(op.world_size) +
                     " ranks; one per rank is needed"};
  }
  const auto matrices = all_matrices(op, buffers);
  for (const NamedBytes& matrix : matrices) {
    if (auto legal = check_matrix(matrix, planner::size_bytes(op.dtype)); !legal) return legal.error();
  }
  return check_overlaps(matrices);
}

} // namespace mc2::executor::host
