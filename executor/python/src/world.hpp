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

/// An open communicator, shared by the Python objects that run on it: it closes with the last of them.
class World {
 public:
  World(const std::string& backend, executor::CommunicatorOptions options);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  /// In a forked child nothing is closed: the ranks' threads are the parent's.
  ~World();

  [[nodiscard]] const executor::Backend& backend() const noexcept { return *backend_; }
  [[nodiscard]] const executor::CommunicatorOptions& options() const noexcept { return options_; }
  /// Errors: InvalidSpec in a forked child, and after close().
  [[nodiscard]] executor::Communicator& communicator() const;
  [[nodiscard]] bool is_inherited() const noexcept { return process_.is_inherited(); }
  void close() noexcept { is_closed_ = true; }

  /// One thread at a time; the second is refused rather than kept waiting. Errors: as communicator(), too.
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

/// Blocks that the caller chose, on this world's machine; of its first variant unless one is named.
/// Errors: as planner::unpredicted_plan; UnknownName for a schedule that there is not.
[[nodiscard]] Result<planner::Plan> given_plan(const World& world, const planner::OpSpec& op, const planner::Cut& cut,
                                               const std::optional<planner::Variant>& variant,
                                               const std::optional<std::string>& schedule = std::nullopt);

/// Of A, B, C and the gathered A (0 where it is not wanted) of one rank, in memory of its device; behind them, as far
/// as the operator has an epilogue, bias, residual, norm weight and normed rows.
using Addresses = std::vector<std::uintptr_t>;

/// Why addresses are refused: they are of one rank.
[[nodiscard]] Error not_one_rank();

/// A rank's matrices at these addresses, of the sizes that the operator has. Throws Failure where there are fewer.
[[nodiscard]] executor::RankBuffers buffers_at(const planner::OpSpec& op, const Addresses& addresses,
                                               bool b_is_transposed, float norm_epsilon = executor::kUsualNormEpsilon);

/// A plan bound to memory, and what keeps that memory alive.
class Binding {
 public:
  /// @param world      shared with the communicator's other bindings: the last one closes it
  /// @param keep_alive whatever owns the buffers
  Binding(std::shared_ptr<World> world, std::unique_ptr<executor::Prepared> prepared, planner::OpSpec op,
          py::object keep_alive, bool has_independent, bool b_is_transposed = false,
          float norm_epsilon = executor::kUsualNormEpsilon)
      : world_(std::move(world)),
        prepared_(std::move(prepared)),
        op_(op),
        keep_alive_(std::move(keep_alive)),
        has_independent_(has_independent),
        b_is_transposed_(b_is_transposed),
        norm_epsilon_(norm_epsilon) {}
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;
  ~Binding();

  [[nodiscard]] executor::RunRecord run(const std::string& mode, bool with_stages);
  /// As executor::Prepared. The addresses are of the rank's A, B and C; `keep_alive` owns them from now on.
  void rebind(const Addresses& addresses, py::object keep_alive);
  void enqueue(std::uintptr_t stream, bool as_graph);
  [[nodiscard]] executor::PeerReach peer_reach() const noexcept { return prepared_->peer_reach(); }
  [[nodiscard]] const planner::OpSpec& op() const noexcept { return op_; }
  [[nodiscard]] const py::object& kept() const noexcept { return keep_alive_; }

 private:
  std::shared_ptr<World> world_; ///< outlives prepared_
  std::unique_ptr<executor::Prepared> prepared_;
  planner::OpSpec op_;
  py::object keep_alive_;
  bool has_independent_;
  bool b_is_transposed_;
  float norm_epsilon_;
};

/// Plans on addresses, where processes hold one rank each.
void bind_addresses(py::class_<World, std::shared_ptr<World>>& world, py::class_<Binding>& prepared);

/// Collectives alone.
void bind_collectives(py::module_& module);

/// The C arrays of a call, and what to run.
void bind_arrays(py::module_& module, py::class_<World, std::shared_ptr<World>>& world);

} // namespace mc2::python
