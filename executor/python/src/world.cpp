#include "world.hpp"

#include <utility>

#include "mc2/planner/text.hpp"

namespace mc2::python {
namespace {

using executor::RunMode;

Error not_usable(const char* message) { return {ErrorCode::InvalidSpec, "communicator", message}; }

constexpr mc2::Name<RunMode> kModeNames[]{{RunMode::Fused, "fused"},
                                          {RunMode::Serial, "serial"},
                                          {RunMode::SerialCompute, "serial_compute"},
                                          {RunMode::ComputeOnly, "compute"},
                                          {RunMode::CommunicationOnly, "communication"},
                                          {RunMode::Independent, "independent"}};

} // namespace

Result<planner::Plan> given_plan(const World& world, const planner::OpSpec& op, const planner::Cut& cut,
                                 const std::optional<planner::Variant>& variant,
                                 const std::optional<std::string>& schedule) {
  std::optional<planner::Schedule> named;
  if (schedule) {
    MC2_ASSIGN(named, planner::parse_schedule(*schedule));
  }
  MC2_TRY(op.validate());
  const planner::Variant chosen = variant ? *variant : world.backend().variants(op, world.options()).front();
  return planner::unpredicted_plan(op, world.communicator().fingerprint(), chosen, cut, named);
}

World::World(const std::string& backend, executor::CommunicatorOptions options)
    : backend_(unwrap(executor::find_backend(backend))), options_(std::move(options)) {
  unwrap(options_.validate());
  communicator_ = unwrap(backend_->open(options_));
}

World::~World() {
  if (is_inherited()) static_cast<void>(communicator_.release());
  std::optional<py::gil_scoped_release> unlocked; // closing may wait for ranks on other hosts
  if (PyGILState_Check() != 0) unlocked.emplace();
  communicator_.reset();
}

executor::Communicator& World::communicator() const {
  if (is_inherited()) throw Failure(not_usable("was opened before this process was forked; open one after the fork"));
  if (is_closed_) throw Failure(not_usable("is closed; open another"));
  return *communicator_;
}

World::Turn::Turn(World& world) : busy_(world.is_busy_) {
  static_cast<void>(world.communicator()); // throws if it is closed or belongs to another process
  if (busy_.exchange(true, std::memory_order_acquire))
    throw Failure(not_usable("is running in another thread; one run at a time, or a communicator for each thread"));
}

Binding::~Binding() {
  if (world_->is_inherited()) static_cast<void>(prepared_.release()); // its lanes exist in the parent only
}

executor::RunRecord Binding::run(const std::string& mode, bool with_stages) {
  const World::Turn turn(*world_);
  const executor::RunMode parsed = unwrap(parse_name<RunMode>(kModeNames, mode, "mode"));
  if (parsed == executor::RunMode::Independent && !has_independent_)
    throw Failure({ErrorCode::InvalidSpec, "mode", "independent needs prepare(..., allow_independent=True)"});
  return prepared_->run(parsed, with_stages ? executor::RunDetail::Stages : executor::RunDetail::Makespan);
}

void Binding::rebind(const Addresses& addresses, py::object keep_alive) {
  const World::Turn turn(*world_);
  const executor::RankBuffers buffers[] = {buffers_at(op_, addresses, b_is_transposed_, norm_epsilon_)};
  unwrap(prepared_->rebind(buffers));
  keep_alive_ = std::move(keep_alive);
}

void Binding::enqueue(std::uintptr_t stream, bool as_graph) {
  const World::Turn turn(*world_);
  void* const streams[] = {reinterpret_cast<void*>(stream)}; // NOLINT: Python passes handles as numbers
  unwrap(prepared_->enqueue(streams, as_graph ? executor::Submission::Graph : executor::Submission::Eager));
}

} // namespace mc2::python
