#pragma once

#include <cstdint>
#include <random>

#include "context.hpp"
#include "profiling_quality.hpp"
#include "simulated_machine.hpp"

namespace mc2::cli {

/// The course of mc2's own profile, as `mc2 profile --measurements` would run it. Errors: as profiler::profile.
[[nodiscard]] Result<Course> profile_course(const SimulatedMachine& machine);

/// The order in which each round visits the cases of the default sweep.
enum class GridOrder : std::uint8_t {
  CoarseToFine, ///< the longest, the shortest, the middle, then the middles of the remaining gaps
  Random,       ///< another order in every round
};

/// The course of the default sweep's grid alone. @param random  used for GridOrder::Random
[[nodiscard]] Course grid_course(SimulatedMachine machine, GridOrder order, std::mt19937_64& random);

/// The course of brute force without a model: runs whole cuts of the family, uncut first and then in random order, and
/// takes the fastest so far. One measurement is one run. After all cuts the next round begins; means over rounds count.
[[nodiscard]] Course brute_force_course(SimulatedMachine machine, std::mt19937_64& random);

/// Measurements in one round of the default sweep.
[[nodiscard]] int grid_size(const SimulatedMachine& machine);

} // namespace mc2::cli
