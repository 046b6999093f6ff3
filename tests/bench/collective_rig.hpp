#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "context.hpp"
#include "mc2/executor/executor.hpp"
#include "mc2/executor/resident_problem.hpp"

namespace CLI {
class App;
}

namespace mc2::cli {

/// The backend and the operator kind whose collectives are timed alone.
struct CollectiveSite {
  const executor::Backend* backend = nullptr;
  executor::CommunicatorOptions options;
  planner::OpKind kind = planner::OpKind::MatmulAllReduce;
  planner::DType dtype = planner::DType::F32;

  /// The variants that the backend proposes, without those that name a tile of the matmul.
  [[nodiscard]] std::vector<planner::Variant> variants(const planner::OpSpec& op) const;
};

/// Command-line options for a CollectiveSite.
struct CollectiveOptions {
  MachineOptions machine;
  std::string dtype = "f32";
  int ranks = 2;

  void add_to(CLI::App& app);
  /// Errors: UnknownName, InvalidSpec, Unsupported.
  [[nodiscard]] Result<CollectiveSite> site() const;
};

/// One operator in equal blocks, prepared and checked with several variants. Only its collectives are timed.
class CollectiveRig {
 public:
  CollectiveRig(const planner::OpSpec& op, executor::Communicator& communicator);

  /// Prepares the operator with a variant and checks its result. Errors: as Communicator::prepare; Mismatch.
  Result<void> add(const planner::Variant& variant, std::int64_t block_count);
  /// Runs the collectives of a variant. @param variant  its index in the order of add()
  const executor::RunRecord& run(std::size_t variant);

 private:
  planner::OpSpec op_;
  executor::Communicator& communicator_;
  executor::ResidentProblem problem_;
  std::vector<std::unique_ptr<executor::Prepared>> prepared_;
};

} // namespace mc2::cli
