#include "lanes/lane_checks.hpp"

#include "bags.hpp"
#include "checks.hpp"
#include "choices.hpp"
#include "lanes/block_layout.hpp"
#include "lanes/compute_device.hpp"
#include "lanes/gemm.hpp"
#include "lanes/machine.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"
#include "texts.hpp"

namespace mc2::executor::lanes {
namespace {

Error unsupported_type(const char* reason) { return {ErrorCode::Unsupported, "dtype", reason}; }

Result<void> check_dtype(planner::DType dtype) {
  switch (dtype) {
    case planner::DType::F32: return {};
    case planner::DType::F16: return unsupported_type("CPUs would convert f16 to f32 and back; use f32 or bf16");
    case planner::DType::F8E4m3:
      return unsupported_type("CPUs do not multiply f8e4m3; backend cuda may, or use i8 or bf16");
    case planner::DType::I8:
      if (gemm_isa_has_i8()) return {};
      return unsupported_type(
          "oneDNN generates no avx512_core_vnni code here, so i8 would be slower than f32; use f32");
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

/// Errors: Unsupported unless B is [k, n] and counts are in host memory.
Result<void> check_host_forms(std::span<const int> ranks, std::span<const RankBuffers> buffers,
                              std::string_view backend) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::string rank = rank_text(ranks[i]);
    if (buffers[i].b_is_transposed)
      return Error{ErrorCode::Unsupported, "buffers",
                   rank + " B is [n, k]; the " + std::string(backend) + " backend takes [k, n] only"};
    if (!buffers[i].device_send_counts.empty())
      return Error{ErrorCode::Unsupported, "counts",
                   rank + " has counts in device memory; the " + std::string(backend) +
                       " backend takes send_counts and receive_counts"};
  }
  return {};
}

} // namespace

Result<void> check_operator(const planner::OpSpec& op) {
  MC2_TRY(op.validate());
  if (planner::traits_of(op.kind).work == planner::Work::Pooling) return {}; // pooling sums every type in f32
  return check_dtype(op.dtype);
}

Result<void> check_operands(const planner::OpSpec& op, std::span<const int> ranks, std::span<const RankBuffers> buffers,
                            std::string_view backend) {
  MC2_TRY(check_buffers(op, ranks, buffers));
  MC2_TRY(check_host_forms(ranks, buffers, backend));
  MC2_TRY(check_bags(op, ranks, buffers));
  return check_choices(op, ranks, buffers);
}

std::int64_t operator_bytes(const planner::OpSpec& op) noexcept {
  const std::int64_t packed = op.tables ? 0 : operand_shapes(op).b.element_count() * planner::size_bytes(op.dtype);
  return op.world_size * (operand_bytes(op) + packed + intermediate_bytes(op));
}

std::int64_t device_bytes(const StageList& list) noexcept {
  // oneDNN rounds the columns of a packed matrix up, and keeps some bytes beside each matrix.
  constexpr std::int64_t kPackedMultiple = 64, kMatrixBytes = 4096;
  if (list.op.tables) return 0;
  std::int64_t columns = planner::align_up(list.op.n, kPackedMultiple);
  if (planner::cut_axis(list.op) == planner::CutAxis::Columns) {
    columns = 0;
    for (const Stage& stage : list.stages) columns += planner::align_up(stage.row_count, kPackedMultiple);
  }
  const std::int64_t depth = depth_of(list.op, gemm_isa_has_amx()), element_bytes = planner::size_bytes(list.op.dtype);
  const std::int64_t longer_bytes =
      depth == list.op.k ? 0 : list.op.m * planner::products_per_row(list.op) * depth * element_bytes;
  return planner::matrix_count(list.op) * (columns * depth * element_bytes + kMatrixBytes) + longer_bytes +
         grouped_scratch_bytes(list.op);
}

Result<void> check_memory(std::int64_t needed_bytes) {
  const std::int64_t available = available_memory_bytes();
  if (needed_bytes <= available) return {};
  return Error{ErrorCode::Unsupported, "",
               "all ranks together need " + bytes_text(needed_bytes) + " of memory and this machine has " +
                   bytes_text(available) + " available; fewer ranks or smaller sizes need less"};
}

} // namespace mc2::executor::lanes
