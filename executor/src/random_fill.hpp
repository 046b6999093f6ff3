#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor {

/// Fills `bytes` with numbers in [-1, 1) that `dtype` represents exactly; I8 with integers in [-128, 127]. The same
/// seed gives the same numbers on every machine.
void fill_random(planner::DType dtype, std::span<std::byte> bytes, std::uint64_t seed);

/// Fills the choices of rows. A row's experts differ; the first experts are chosen more often than the last, because
/// routers are uneven, too. The same seed gives the same choices on every machine.
void fill_random_choices(const planner::ChosenExperts& experts, std::span<std::int64_t> chosen, std::uint64_t seed);

/// Fills offsets and row numbers of one rank's bags. Lengths are between 0 and 2 k, and exactly k on average, so that
/// `indices` has table_count * m * k elements. The same seed gives the same bags on every machine.
void fill_random_bags(const planner::OpSpec& op, std::span<std::int64_t> offsets, std::span<std::int64_t> indices,
                      std::uint64_t seed);

} // namespace mc2::executor
