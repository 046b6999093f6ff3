#pragma once

#include <mpi.h>

#include "mc2/planner/units.hpp"

namespace mc2::executor::mpi {

/// The MPI type that carries elements of `dtype`; 16-bit words for the floating-point types that MPI does not know.
[[nodiscard]] MPI_Datatype element_type(planner::DType dtype) noexcept;

/// How MPI carries and adds the elements of a type. Bf16 is added by lanes::add_partial(), so the library's collectives
/// round after each addition. Types other than F32 and Bf16 are only carried.
class ElementSum {
 public:
  /// Throws SystemError.
  explicit ElementSum(planner::DType dtype);
  ~ElementSum();
  ElementSum(const ElementSum&) = delete;
  ElementSum& operator=(const ElementSum&) = delete;

  [[nodiscard]] MPI_Datatype type() const noexcept { return type_; }
  [[nodiscard]] MPI_Op operation() const noexcept { return operation_; }

 private:
  MPI_Datatype type_;
  MPI_Op operation_ = MPI_SUM;
  bool is_own_ = false; ///< whether the operation has to be freed
};

} // namespace mc2::executor::mpi
