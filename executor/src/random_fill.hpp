#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mc2/planner/units.hpp"

namespace mc2::executor {

/// Fills `bytes` with numbers in [-1, 1) that `dtype` represents exactly. Same seed, same numbers, on every machine.
void fill_random(planner::DType dtype, std::span<std::byte> bytes, std::uint64_t seed);

} // namespace mc2::executor
