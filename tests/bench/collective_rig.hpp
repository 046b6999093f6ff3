#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mc2/executor/executor.hpp"
#include "mc2/executor/resident_problem.hpp"

namespace mc2::cli {

/// One operator in equal blocks, ready to run with every variant, each checked; its collectives alone are timed.
class CollectiveRig {
 public:
  CollectiveRig(const planner::OpSpec& op, executor::Communicator& communicator);

  /// Errors: as Communicator::prepare; Mismatch.
  Result<void> add(const planner::Variant& variant, std::int64_t block_count);
  /// Of the variant that was added then.
  const executor::RunRecord& run(std::size_t variant);

 private:
  planner::OpSpec op_;
  executor::Communicator& communicator_;
  executor::ResidentProblem problem_;
  std::vector<std::unique_ptr<executor::Prepared>> prepared_;
};

} // namespace mc2::cli
