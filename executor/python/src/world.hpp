#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "convert.hpp"
#include "mc2/executor/backend.hpp"
#include "mc2/executor/communicator.hpp"
#include "mc2/executor/process_mark.hpp"
#include "mc2/planner/planner.hpp"

namespace mc2::python {

/// An open communicator, shared by the Python objects that run on it. It closes when the last of them is destroyed.
class World {
 public:
  World(const std::string& backend, executor::CommunicatorOptions options);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  /// Closes nothing in a forked child, where the ranks' threads do not exist.
  ~World();

  [[nodiscard]] const executor::Backend& backend() const noexcept { return *backend_; }
  [[nodiscard]] const executor::CommunicatorOptions& options() const noexcept { return options_; }
  /// Errors: InvalidSpec in a forked child, and after close().
  [[nodiscard]] executor::Communicator& communicator() const;
  [[nodiscard]] bool is_inherited() const noexcept { return process_.is_inherited(); }
  void close() noexcept { is_closed_ = true; }

  /// A thread's turn to use the communicator. A second thread does not wait: it gets Failure. Errors: also as
  /// communicator().
  class Turn {
   public:
    explicit Turn(World& world);
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() { busy_.store(false, std::memory_order_release); }

   private:
    std::atomic<bool>& busy_;
  };

 private:
  const executor::Backend* backend_;
  executor::CommunicatorOptions options_;
  std::unique_ptr<executor::Communicator> communicator_;
  executor::ProcessMark process_;
  bool is_closed_ = false;
  std::atomic<bool> is_busy_{false};
};

/// A plan of blocks that the caller chose, for this world's machine. Without a variant it has the backend's first.
/// Errors: as planner::unpredicted_plan; UnknownName for a schedule that does not exist.
[[nodiscard]] Result<planner::Plan> given_plan(const World& world, const planner::OpSpec& op, const planner::Cut& cut,
                                               const std::optional<planner::Variant>& variant,
                                               const std::optional<std::string>& schedule = std::nullopt);

/// Addresses in memory of one rank's device: A, B, C and the gathered A (0: not wanted). With an epilogue, bias,
/// residual, norm weight and normed rows follow. Further entries are in addresses.cpp.
using Addresses = std::vector<std::uintptr_t>;

/// The error for addresses on a communicator that holds several ranks: addresses are those of one rank.
[[nodiscard]] Error not_one_rank();

/// A rank's matrices at these addresses, with the operator's sizes. Throws Failure if addresses are missing.
[[nodiscard]] executor::RankBuffers buffers_at(const planner::OpSpec& op, const Addresses& addresses,
                                               bool b_is_transposed, float norm_epsilon = executor::kUsualNormEpsilon);

/// A plan bound to memory, and the object that keeps the memory alive.
class Binding {
 public:
  /// @param world      shared with the communicator's other bindings; the last one closes it
  /// @param keep_alive the owner of the buffers
  Binding(std::shared_ptr<World> world, std::unique_ptr<executor::Prepared> prepared, planner::OpSpec op,
          py::object keep_alive, bool has_independent, bool b_is_transposed = false,
          float norm_epsilon = executor::kUsualNormEpsilon)
      : world_(std::move(world)),
        keep_alive_(std::move(keep_alive)),
        prepared_(std::move(prepared)),
        op_(op),
        has_independent_(has_independent),
        b_is_transposed_(b_is_transposed),
        norm_epsilon_(norm_epsilon) {}
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;
  ~Binding();

  [[nodiscard]] executor::RunRecord run(const std::string& mode, bool with_stages);
  /// As executor::Prepared::rebind(). `keep_alive` owns the memory at the new addresses.
  void rebind(const Addresses& addresses, py::object keep_alive);
  void enqueue(std::uintptr_t stream, bool as_graph);
  [[nodiscard]] executor::PeerReach peer_reach() const noexcept { return prepared_->peer_reach(); }
  [[nodiscard]] const planner::OpSpec& op() const noexcept { return op_; }
  /// Only for who has the turn of the world.
  [[nodiscard]] executor::Prepared& prepared() const noexcept { return *prepared_; }
  [[nodiscard]] const py::object& kept() const noexcept { return keep_alive_; }

 private:
  std::shared_ptr<World> world_; ///< outlives prepared_
  py::object keep_alive_;        ///< outlives prepared_, whose last run may still use the memory
  std::unique_ptr<executor::Prepared> prepared_;
  planner::OpSpec op_;
  bool has_independent_;
  bool b_is_transposed_;
  float norm_epsilon_;
};

/// Functions that take addresses, for communicators that hold one rank.
void bind_addresses(py::class_<World, std::shared_ptr<World>>& world, py::class_<Binding>& prepared);

/// Throws Failure for a masked array of numpy: its mask would be dropped.
void refuse_masked(const py::handle& array, const std::string& field);

/// NodeCollectives: collectives without a matmul.
void bind_collectives(py::module_& module);

/// Communicator.prepare(), which binds a plan to numpy arrays.
void bind_arrays(py::module_& module, py::class_<World, std::shared_ptr<World>>& world);

} // namespace mc2::python
