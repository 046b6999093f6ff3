#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "capi/handles.hpp"
#include "mc2/embed/plan_finder.hpp"
#include "mc2/executor/backend.hpp"
#include "mc2/executor/communicator.hpp"
#include "mc2/executor/process_mark.hpp"
#include "mc2/finder/plan_source.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/plan_ranges.hpp"
#include "mc2/profiler/refine.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/store.hpp"

namespace mc2::capi {

/// Leaves the call with MC2_ERROR_FORK in a child of the process that opened `what`.
void check_process(const executor::ProcessMark& process, const char* what);

/// While it lives, other threads cannot take a Turn with the same flag.
class Turn {
 public:
  /// Leaves the call with MC2_ERROR_BUSY and the text `busy` if another thread has its turn, and as check_process()
  /// does.
  Turn(const executor::ProcessMark& process, std::atomic_flag& is_taken, const char* what, const char* busy);
  ~Turn() { is_taken_.clear(std::memory_order_release); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::atomic_flag& is_taken_;
};

/// A value with its JSON document.
template <Kind kOwn, typename Value>
struct ValueObject final : Object {
  static constexpr Kind kKind = kOwn;
  explicit ValueObject(Value of) : value(std::move(of)), json(store::encode(value)) {}
  const Value value;
  const std::string json;
};

using MachineObject = ValueObject<Kind::Machine, planner::Fingerprint>;
using ModelObject = ValueObject<Kind::Model, planner::CostModel>;
using PlanRangesObject = ValueObject<Kind::PlanRanges, planner::PlanRanges>;

struct PlanObject final : Object {
  static constexpr Kind kKind = Kind::Plan;
  /// @param plan  shared with the PlanFinder that remembers it
  explicit PlanObject(std::shared_ptr<const finder::FoundPlan> plan);
  /// For a plan that no finder found.
  explicit PlanObject(planner::Plan plan);
  [[nodiscard]] const planner::Plan& plan() const noexcept { return found->stored.plan; }
  const std::shared_ptr<const finder::FoundPlan> found;
  const std::string variant;
};

struct RefinementObject final : Object {
  static constexpr Kind kKind = Kind::Refinement;
  RefinementObject(const planner::OpSpec& of, profiler::Refinement made) : op(of), refinement(std::move(made)) {}
  const planner::OpSpec op;
  const profiler::Refinement refinement;
};

struct ContextObject final : Object {
  static constexpr Kind kKind = Kind::Context;
  explicit ContextObject(embed::PlanFinder opened) : finder(std::move(opened)) {}
  const embed::PlanFinder finder;
  const executor::ProcessMark process;
};

/// A communicator, shared by its handle and the prepared runs on it.
class SharedCommunicator {
 public:
  SharedCommunicator(const executor::Backend& backend, executor::CommunicatorOptions options,
                     std::unique_ptr<executor::Communicator> opened)
      : backend_(backend), options_(std::move(options)), communicator_(std::move(opened)) {}
  ~SharedCommunicator();
  SharedCommunicator(const SharedCommunicator&) = delete;
  SharedCommunicator& operator=(const SharedCommunicator&) = delete;

  [[nodiscard]] executor::Communicator& get() const noexcept { return *communicator_; }
  [[nodiscard]] const executor::Backend& backend() const noexcept { return backend_; }
  /// The options that it was opened with.
  [[nodiscard]] const executor::CommunicatorOptions& options() const noexcept { return options_; }
  [[nodiscard]] const executor::ProcessMark& process() const noexcept { return process_; }

  /// The turn that running or preparing on the communicator needs.
  [[nodiscard]] Turn take_turn();

 private:
  const executor::Backend& backend_;
  executor::CommunicatorOptions options_;
  std::unique_ptr<executor::Communicator> communicator_;
  const executor::ProcessMark process_;
  std::atomic_flag is_taken_;
};

struct CommunicatorObject final : Object {
  static constexpr Kind kKind = Kind::Communicator;
  explicit CommunicatorObject(std::shared_ptr<SharedCommunicator> opened) : shared(std::move(opened)) {}
  const std::shared_ptr<SharedCommunicator> shared;
};

struct PreparedObject final : Object {
  static constexpr Kind kKind = Kind::Prepared;
  PreparedObject(std::shared_ptr<SharedCommunicator> on, std::unique_ptr<executor::Prepared> made)
      : communicator(std::move(on)), prepared(std::move(made)) {}
  ~PreparedObject() override;
  const std::shared_ptr<SharedCommunicator> communicator;
  std::unique_ptr<executor::Prepared> prepared;
};

struct StoreObject final : Object {
  static constexpr Kind kKind = Kind::Store;
  explicit StoreObject(store::Store opened) : store(std::make_unique<store::Store>(std::move(opened))) {}
  ~StoreObject() override;
  std::mutex mutex;                      ///< guards the store: one thread at a time uses its connection
  std::atomic<std::thread::id> holder{}; ///< the thread that has locked the mutex
  std::unique_ptr<store::Store> store;
  const executor::ProcessMark process;
};

/// Locks a store for a call. Leaves the call with MC2_ERROR_FORK in a child of the process that opened it, and with
/// MC2_ERROR_BUSY in a callback of a call that has locked it.
class OpenStore {
 public:
  explicit OpenStore(const mc2_store* handle) : object_(handle) {
    check_process(object_->process, "store"); // before locking: the parent may have held the mutex during fork()
    if (object_->holder == std::this_thread::get_id())
      fail(MC2_ERROR_BUSY, "store", "is in use by the call that called this function; use it after that call");
    lock_ = std::unique_lock(object_->mutex);
    object_->holder = std::this_thread::get_id();
  }
  ~OpenStore() { object_->holder = std::thread::id{}; }
  OpenStore(const OpenStore&) = delete;
  OpenStore& operator=(const OpenStore&) = delete;
  [[nodiscard]] store::Store* operator->() const noexcept { return object_->store.get(); }
  [[nodiscard]] store::Store& operator*() const noexcept { return *object_->store; }

 private:
  Pinned<StoreObject> object_;
  std::unique_lock<std::mutex> lock_;
};

} // namespace mc2::capi
