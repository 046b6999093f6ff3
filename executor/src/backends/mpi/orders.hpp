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

/// The messages between rank 0 and the processes that it directs.

/// The communicator for orders, made at the first call. Order: the first call is collective.
[[nodiscard]] MPI_Comm order_channel();

/// The part of a prepare order that is equal for all ranks.
struct PrepareRequest {
  StageList stages;
  planner::Variant variant;
  PrepareOptions options;
};
void put_request(Message& message, const PrepareRequest& request);
[[nodiscard]] PrepareRequest get_request(Message& message);

void put_numbers(Message& message, std::span<const std::int64_t> numbers);
[[nodiscard]] std::vector<std::int64_t> get_numbers(Message& message);

} // namespace mc2::executor::mpi
