#pragma once

#include "bf16.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor::lanes {

/// Calls `action` with a null pointer to an element of a type that is summed on the host.
template <typename Action>
void with_element_type(planner::DType dtype, const Action& action) noexcept {
  switch (dtype) {
    case planner::DType::F32: return action(static_cast<float*>(nullptr));
    case planner::DType::Bf16: return action(static_cast<Bf16*>(nullptr));
    case planner::DType::I8:
    case planner::DType::F16:
    case planner::DType::F8E4m3: break;
  }
  MC2_CHECK(false, "a type that the host backend does not sum reached the reduction");
}

} // namespace mc2::executor::lanes
