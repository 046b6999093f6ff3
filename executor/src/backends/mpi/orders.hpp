#pragma once

#include <mpi.h>

#include <cstdint>
#include <span>
#include <vector>

#include "backends/mpi/message.hpp"
#include "mc2/executor/communicator.hpp"
#include "mc2/planner/cost_model.hpp"
#include "stage.hpp"

namespace mc2::executor::mpi {

/// What rank 0 and the processes that it directs both know of the messages between them.

/// Made by the first use. Order: the first call is collective.
[[nodiscard]] MPI_Comm order_channel();

/// What every rank is to prepare.
struct PrepareRequest {
  StageList stages;
  planner::Variant variant;
  PrepareOptions options;
};
void put_request(Message& message, const PrepareRequest& request);
[[nodiscard]] PrepareRequest get_request(Message& message);

void put_numbers(Message& message, std::span<const std::int64_t> numbers);
[[nodiscard]] std::vector<std::int64_t> get_numbers(Message& message);

/// Numbers that a rank's times are sent as.
[[nodiscard]] constexpr std::size_t time_count(std::size_t stage_count) noexcept { return 4 * stage_count + 2; }
void pack_times(const RankTimes& times, std::span<std::int64_t> numbers) noexcept;
void unpack_times(std::span<const std::int64_t> numbers, RankTimes& times) noexcept;

} // namespace mc2::executor::mpi
