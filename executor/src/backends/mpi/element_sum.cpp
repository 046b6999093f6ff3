#include "backends/mpi/element_sum.hpp"

#include "backends/mpi/check.hpp"
#include "bf16.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::executor::mpi {
namespace {

void add_f32(const float* addend, float* sum, std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += addend[i];
}

void add_bf16(const Bf16* addend, Bf16* sum, std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i) sum[i] = to_bf16(to_float(addend[i]) + to_float(sum[i]));
}

/// An MPI_User_function.
void add_bf16_words(void* addend, void* sum, int* count, MPI_Datatype* /*type*/) {
  add_bf16(static_cast<const Bf16*>(addend), static_cast<Bf16*>(sum), *count);
}

} // namespace

MPI_Datatype element_type(planner::DType dtype) noexcept {
  switch (dtype) {
    case planner::DType::F32: return MPI_FLOAT;
    case planner::DType::I8: return MPI_INT8_T;
    case planner::DType::Bf16:
    case planner::DType::F16:
    case planner::DType::F8E4m3: break;
  }
  return MPI_UINT16_T;
}

void add_to(planner::DType dtype, const std::byte* addend, std::byte* sum, std::int64_t element_count) noexcept {
  switch (dtype) {
    case planner::DType::F32:
      return add_f32(reinterpret_cast<const float*>(addend), reinterpret_cast<float*>(sum), element_count);
    case planner::DType::Bf16:
      return add_bf16(reinterpret_cast<const Bf16*>(addend), reinterpret_cast<Bf16*>(sum), element_count);
    default: break;
  }
  MC2_CHECK(false, "a type that is never summed over the ranks reached its sum");
}

ElementSum::ElementSum(planner::DType dtype) : type_(element_type(dtype)) {
  if (dtype != planner::DType::Bf16) return;
  check(MPI_Op_create(&add_bf16_words, /*commute=*/1, &operation_), "MPI_Op_create");
  is_own_ = true;
}

ElementSum::~ElementSum() {
  if (is_own_) MPI_Op_free(&operation_);
}

} // namespace mc2::executor::mpi
