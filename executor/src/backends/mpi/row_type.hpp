#pragma once

#include <mpi.h>

#include <cstdint>

#include "backends/mpi/check.hpp"

namespace mc2::executor::mpi {

/// One row as an MPI type, so that counts and offsets are given in rows.
class RowType {
 public:
  /// Throws SystemError.
  RowType(MPI_Datatype element, std::int64_t columns) {
    check(MPI_Type_contiguous(static_cast<int>(columns), element, &type_), "MPI_Type_contiguous");
    check(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  ~RowType() { MPI_Type_free(&type_); }
  RowType(const RowType&) = delete;
  RowType& operator=(const RowType&) = delete;

  [[nodiscard]] MPI_Datatype get() const noexcept { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

} // namespace mc2::executor::mpi
