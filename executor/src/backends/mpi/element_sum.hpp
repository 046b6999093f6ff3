#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>

#include "mc2/planner/units.hpp"

namespace mc2::executor::mpi {

/// The MPI type that carries elements: 16-bit words for the short floating-point types, which MPI does not know.
[[nodiscard]] MPI_Datatype element_type(planner::DType dtype) noexcept;

/// sum[i] = addend[i] + sum[i], added in f32 and rounded to `dtype`, which is F32 or Bf16. The two do not overlap.
void add_to(planner::DType dtype, const std::byte* addend, std::byte* sum, std::int64_t element_count) noexcept;

/// How MPI carries and adds the elements of a type. Bf16 is added by add_to(), so that the library's collectives
/// round after each of their additions; types other than F32 and Bf16 are carried only. Move it with its owner only.
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
