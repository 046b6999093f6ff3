#include "peer_race.hpp"

#include <algorithm>
#include <iostream>

#include "mc2/store/dates.hpp"
#include "pages/terminal.hpp"
#include "support.hpp"

namespace mc2::cli {
namespace {

using Clock = std::chrono::steady_clock;
using executor::RunMode;

constexpr int kMaxStartCount = 3;
constexpr int kPeerRounds = 7;
constexpr int kRunsPerRound = 3;

/// Runs the kept plan as a caller does.
struct Runner {
  executor::Prepared* prepared = nullptr;
  RunMode mode = RunMode::Fused;

  [[nodiscard]] double time_us() const { return wall_us(*prepared, mode); }
};

/// The runner of the kept plan; of the best serial where the plan is "do not cut".
Result<Runner> runner_of(Workbench& bench, const PeerRace& shape) {
  MC2_ASSIGN(auto prepared, shape.is_cut() ? bench.ready(shape.plan)
                                           : bench.ready(planner::uncut(bench.op()), shape.race.serial_variant));
  return Runner{prepared, shape.is_cut() ? RunMode::Fused : RunMode::Serial};
}

/// Fills the race of a plan that is serial. Both sides of every pair are then the same program.
Result<void> race_serial_with_itself(Workbench& bench, PeerRace& shape) {
  MC2_ASSIGN(const auto runner, runner_of(bench, shape));
  Contender& contender = shape.race.contenders.front();
  contender.variant = shape.race.serial_variant;
  contender.compute_us = shape.race.compute_us;
  contender.communication_us = shape.race.communication_us;
  const auto time = [&] { return runner.time_us(); };
  MC2_ASSIGN(auto pairs, time_pairs(contender.fused_us.size(), time, time));
  contender.fused_us = std::move(pairs.first_us);
  contender.serial_us = std::move(pairs.second_us);
  return {};
}

Result<void> race_serial(Workbench& bench, const RaceSettings& settings, PeerRace& shape) {
  MC2_ASSIGN(shape.race, shown_race(bench, {shape.plan}, settings, "race kept plan"));
  return shape.is_cut() ? Result<void>{} : race_serial_with_itself(bench, shape);
}

Result<PeerPrediction> prediction_of(const PeerRace& shape, const planner::CostModel& model) {
  // Serial is the sum of its parts; where a local part overlaps them, the model's uncut plan is not serial.
  if (!shape.is_cut())
    return PeerPrediction{shape.plan.serial_us, median(shape.race.compute_us) + median(shape.race.communication_us)};
  MC2_ASSIGN(const auto anchored, anchored_prediction(shape.contender(), shape.op, model));
  return PeerPrediction{shape.plan.makespan.us, anchored.makespan.us};
}

/// One round: mc2, PyTorch, mc2.
Result<void> race_round(const Runner& runner, TorchPeer& torch, PeerTimes& times) {
  std::vector<double> mc2_us;
  const auto time_mc2 = [&] {
    (void)runner.time_us(); // the GPU may have rested
    for (int run = 0; run < kRunsPerRound; ++run) mc2_us.push_back(runner.time_us());
  };
  time_mc2();
  MC2_ASSIGN(const auto timed, torch.time_forms(kRunsPerRound));
  time_mc2();
  times.mc2_us.push_back(median(mc2_us));
  for (const auto& [name, us] : timed) times.form_us[name].push_back(median(us));
  return {};
}

Result<void> race_torch(Workbench& bench, TorchPeer& torch, PeerRace& shape) {
  MC2_ASSIGN(const auto runner, runner_of(bench, shape));
  MC2_ASSIGN(const auto directory, PrivateDirectory::with_room_for(operand_bytes(bench.host_buffers())));
  write_operands(bench.host_buffers(), directory.path());
  MC2_ASSIGN(shape.torch.forms, torch.open_case(shape.op, directory.path()));
  const bool takes_part = std::ranges::any_of(shape.torch.forms, [](const auto& form) { return form.failure.empty(); });
  for (int round = 0; takes_part && round < kPeerRounds; ++round) MC2_TRY(race_round(runner, torch, shape.torch));
  if (!takes_part)
    shape.torch.failure =
        "torch: no form works: " + (shape.torch.forms.empty() ? "none" : shape.torch.forms.front().failure);
  return torch.close_case();
}

/// Races PyTorch where it is there. Its failures do not count as failures of the shape.
void race_torch_if_there(Workbench& bench, TorchSeat& seat, PeerRace& shape) {
  const bool has_ranks = shape.op.world_size == seat.rank_count();
  TorchPeer* torch = has_ranks ? seat.peer() : nullptr;
  if (torch == nullptr) {
    const bool is_there = seat.reason().empty();
    shape.torch.failure = is_there
                              ? "torch: runs with " + std::to_string(seat.rank_count()) + " ranks, the first shape's"
                              : seat.reason();
    return;
  }
  const auto raced = race_torch(bench, *torch, shape);
  if (raced) return;
  shape.torch = {};
  shape.torch.failure = raced.error().text();
  seat.drop(shape.torch.failure);
}

/// Tunes, and tunes once more where the samples could not be fitted: other work on the machine may have disturbed them.
Result<Tuned> tune_with_second_chance(Workbench& bench, const TuneSettings& settings, store::Store& store) {
  auto tuned = tune_operator(bench, settings, store);
  if (!tuned || tuned.value().model) return tuned;
  std::cerr << "mc2: measuring again: " << tuned.value().plan.makespan.reason << "\n";
  MC2_TRY(store.replace_samples(bench.op(), bench.fingerprint(), {}, store::utc_now()));
  return tune_operator(bench, settings, store);
}

Result<void> take_turn(const PeerArena& arena, PeerRace& shape) {
  const auto start = Clock::now();
  MC2_ASSIGN(auto bench, Workbench::open(arena.backend, arena.options, shape.op, fresh_seed()));
  MC2_ASSIGN(auto tuned, tune_with_second_chance(*bench, arena.tune, arena.store));
  shape.plan = tuned.plan;
  shape.tuning_s = seconds_since(start);
  MC2_TRY(race_serial(*bench, arena.race, shape));
  if (tuned.model) {
    MC2_ASSIGN(shape.prediction, prediction_of(shape, *tuned.model));
  }
  MC2_ASSIGN(const auto verified, bench->check(shape.plan));
  shape.verified_error_ratio = verified.worst_error_ratio;
  race_torch_if_there(*bench, arena.torch, shape);
  return {};
}

} // namespace

std::string PeerTimes::fastest(std::string_view prefix) const {
  std::string best;
  for (const auto& [name, us] : form_us)
    if (name.starts_with(prefix) && (best.empty() || median(us) < median(form_us.at(best)))) best = name;
  return best;
}

std::string PeerTimes::peer() const {
  const std::string fused = fastest("fused");
  return fused.empty() ? fastest("") : fused;
}

profiler::Interval PeerTimes::ratio(const std::string& form) const {
  return profiler::paired_ratio(form_us.at(form), mc2_us, 0.95);
}

profiler::Interval PeerRace::speedup() const {
  return profiler::paired_ratio(contender().serial_us, contender().fused_us, 0.95);
}

TorchPeer* TorchSeat::peer() {
  if (peer_ || python_.empty() || start_count_ == kMaxStartCount) return peer_.get();
  ++start_count_;
  std::cerr << "mc2: starting PyTorch (" << python_ << ", " << rank_count_ << " ranks)\n";
  auto started = TorchPeer::start(python_, rank_count_);
  if (!started) {
    start_count_ = kMaxStartCount; // no further attempts after a failed start
    drop(started.error().text());
    return nullptr;
  }
  peer_ = std::move(started).value();
  software_ = peer_->software();
  return peer_.get();
}

void TorchSeat::drop(const std::string& reason) {
  reason_ = reason;
  peer_.reset();
  std::cerr << "mc2: PyTorch: " << reason << "\n";
}

PeerRace race_peers(const planner::OpSpec& op, const PeerArena& arena) {
  const auto start = Clock::now();
  PeerRace shape;
  shape.op = op;
  if (auto done = take_turn(arena, shape); !done) shape.error = done.error();
  shape.whole_s = seconds_since(start);
  return shape;
}

} // namespace mc2::cli
