#pragma once

#include <cstdint>
#include <random>

#include "context.hpp"
#include "profiling_quality.hpp"
#include "simulated_machine.hpp"

namespace mc2::cli {

/// What mc2 profiles, as `mc2 profile --measurements` would. Errors: as profiler::profile.
[[nodiscard]] Result<Course> profile_course(const SimulatedMachine& machine);

/// In which order the cases of the default sweep are visited, round after round.
enum class GridOrder : std::uint8_t {
  CoarseToFine, ///< the longest, the shortest, the middle, then the middles of what is left
  Random,       ///< another order in every round
};

/// @param random  for GridOrder::Random
[[nodiscard]] Course grid_course(SimulatedMachine machine, GridOrder order, std::mt19937_64& random);

/// Without a model: runs whole cuts of the family, uncut first and then in random order, and takes the fastest so
/// far. One measurement is one run; after all cuts the next round begins, and means over rounds count.
[[nodiscard]] Course brute_force_course(SimulatedMachine machine, std::mt19937_64& random);

/// Measurements in one round of the default sweep.
[[nodiscard]] int grid_size(const SimulatedMachine& machine);

} // namespace mc2::cli
