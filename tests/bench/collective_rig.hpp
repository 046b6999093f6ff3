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

/// On what collectives alone are timed.
struct CollectiveSite {
  const executor::Backend* backend = nullptr;
  executor::CommunicatorOptions options;
  planner::OpKind kind = planner::OpKind::MatmulAllReduce;
  planner::DType dtype = planner::DType::F32;

  /// What the backend proposes, but for tiles of the matmul.
  [[nodiscard]] std::vector<planner::Variant> variants(const planner::OpSpec& op) const;
};

/// The options that say so.
struct CollectiveOptions {
  MachineOptions machine;
  std::string dtype = "f32";
  int ranks = 2;

  void add_to(CLI::App& app);
  /// Errors: UnknownName, InvalidSpec, Unsupported.
  [[nodiscard]] Result<CollectiveSite> site() const;
};

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
