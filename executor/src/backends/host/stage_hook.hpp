#pragma once

#include <cstddef>
#include <functional>

#include "mc2/planner/op_spec.hpp"

namespace mc2::executor::host {

/// Called on a lane's thread before each of its stages. An exception from the hook fails that lane. For fault injection
/// in tests.
using StageHook = std::function<void(int rank, planner::Lane lane, std::size_t stage)>;

} // namespace mc2::executor::host
