#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support.hpp"
#include "torch_peer.hpp"

namespace mc2::cli {

/// PyTorch's times of one operator, and mc2's measured in the same rounds.
struct PeerTimes {
  std::string failure; ///< why PyTorch has no times here; empty when it has
  std::vector<TorchForm> forms;
  std::map<std::string, std::vector<double>> form_us; ///< for each form, the median of every round
  std::vector<double> mc2_us; ///< the kept plan: for each round, the median of the runs right before and right after

  /// The fastest form whose name begins with `prefix`, or "" when none took part.
  [[nodiscard]] std::string fastest(std::string_view prefix) const;
  /// The form that a user of PyTorch would run: the fastest fused form, or the fastest of all for kinds without one.
  [[nodiscard]] std::string peer() const;
  /// PyTorch's time / mc2's, paired by round. The form must have taken part.
  [[nodiscard]] profiler::Interval ratio(const std::string& form) const;
};

/// Predictions of the kept plan's time.
struct PeerPrediction {
  double tuned_us = 0;    ///< by the model after tuning
  double anchored_us = 0; ///< by that model anchored at the uncut parts that the final race measured
};

/// The results of one shape's turn.
struct PeerRace {
  planner::OpSpec op;
  std::optional<Error> error;               ///< why the turn ended early; the members below are then incomplete
  planner::Plan plan;                       ///< the plan that tuning kept
  Race race;                                ///< one contender: the kept plan, or serial against itself
  std::optional<PeerPrediction> prediction; ///< none where the samples could not be fitted
  double verified_error_ratio = 0;          ///< error of the kept plan's result / allowed error; <= 1
  PeerTimes torch;
  double tuning_s = 0;
  double whole_s = 0;

  /// False where the plan is serial itself.
  [[nodiscard]] bool is_cut() const { return plan.schedule != planner::Schedule::Serial; }
  [[nodiscard]] const Contender& contender() const { return race.contenders.front(); }
  [[nodiscard]] double serial_us() const { return median(contender().serial_us); }
  [[nodiscard]] double mc2_us() const { return median(contender().fused_us); }
  /// serial / mc2, paired.
  [[nodiscard]] profiler::Interval speedup() const;
  /// Anchored prediction / measured - 1. There must be a prediction.
  [[nodiscard]] double prediction_error() const { return prediction->anchored_us / mc2_us() - 1; }
  /// Prediction of the model after tuning / measured - 1. There must be a prediction.
  [[nodiscard]] double tuned_prediction_error() const { return prediction->tuned_us / mc2_us() - 1; }
};

/// Holds the PyTorch process. Starts it when it is first needed, and again after a failure, a few times.
class TorchSeat {
 public:
  /// @param python  the interpreter; empty: PyTorch is left out
  /// @param reason_without  the reason why PyTorch is left out
  TorchSeat(std::string python, int rank_count, std::string reason_without)
      : python_(std::move(python)), rank_count_(rank_count), reason_(std::move(reason_without)) {}

  /// The running peer. Null when there is none; reason() says why.
  [[nodiscard]] TorchPeer* peer();
  /// Ends the peer. To be called after an error of the peer.
  void drop(const std::string& reason);
  [[nodiscard]] const std::string& reason() const noexcept { return reason_; }
  [[nodiscard]] int rank_count() const noexcept { return rank_count_; }
  [[nodiscard]] const std::map<std::string, std::string>& software() const noexcept { return software_; }

 private:
  std::string python_;
  int rank_count_;
  int start_count_ = 0;
  std::string reason_;
  std::unique_ptr<TorchPeer> peer_;
  std::map<std::string, std::string> software_;
};

/// Backend, settings and programs with which shapes take their turns.
struct PeerArena {
  const executor::Backend& backend;
  executor::CommunicatorOptions options; ///< for the shape's number of ranks
  TuneSettings tune;
  RaceSettings race; ///< the final one
  store::Store& store;
  TorchSeat& torch;
};

/// Tunes the operator, checks the kept plan's result, and races the plan against the best serial and then against
/// PyTorch's forms on the same matrices. Errors are stored in the result. Throws SystemError.
[[nodiscard]] PeerRace race_peers(const planner::OpSpec& op, const PeerArena& arena);

} // namespace mc2::cli
