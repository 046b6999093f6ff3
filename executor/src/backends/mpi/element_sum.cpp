#include "backends/mpi/element_sum.hpp"

#include "backends/mpi/check.hpp"
#include "lanes/combine.hpp"

namespace mc2::executor::mpi {
namespace {

/// Adds bf16 elements, as an MPI_User_function.
void add_bf16_words(void* addend, void* sum, int* count, MPI_Datatype* /*type*/) {
  lanes::add_partial(planner::DType::Bf16, static_cast<const std::byte*>(addend), static_cast<std::byte*>(sum), *count);
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

ElementSum::ElementSum(planner::DType dtype) : type_(element_type(dtype)) {
  if (dtype != planner::DType::Bf16) return;
  check(MPI_Op_create(&add_bf16_words, /*commute=*/1, &operation_), "MPI_Op_create");
  is_own_ = true;
}

ElementSum::~ElementSum() {
  if (is_own_) MPI_Op_free(&operation_);
}

} // namespace mc2::executor::mpi
