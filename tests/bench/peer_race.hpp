#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support.hpp"
#include "torch_peer.hpp"

namespace mc2::cli {

/// PyTorch's times of one operator, with mc2's of the same moments.
struct PeerTimes {
  std::string failure; ///< why PyTorch has no times here; empty when it has
  std::vector<TorchForm> forms;
  std::map<std::string, std::vector<double>> form_us; ///< by form: the median of every round
  std::vector<double> mc2_us; ///< the kept plan: by round, the median of the runs right before and right after

  /// The fastest form whose name begins so, or "" when none took part.
  [[nodiscard]] std::string fastest(std::string_view prefix) const;
  /// What a user of PyTorch would run: the fastest fused form, or the fastest of all for kinds without one.
  [[nodiscard]] std::string peer() const;
  /// PyTorch's time / mc2's, by rounds; the form took part.
  [[nodiscard]] profiler::Interval ratio(const std::string& form) const;
};

/// What the model says of the kept plan.
struct PeerPrediction {
  double tuned_us = 0;    ///< by the model as tuning left it
  double anchored_us = 0; ///< the same, anchored at the uncut parts as the final race measured them
};

/// Everything that one shape's turn found.
struct PeerRace {
  planner::OpSpec op;
  std::optional<Error> error;               ///< what ended its turn; what follows is then not all there
  planner::Plan plan;                       ///< kept by tuning
  Race race;                                ///< one contender: the kept plan, or serial against itself
  std::optional<PeerPrediction> prediction; ///< none where the samples could not be fitted
  double verified_error_ratio = 0;          ///< of the kept plan's result; <= 1
  PeerTimes torch;
  double tuning_s = 0;
  double whole_s = 0;

  /// Else the plan is serial itself.
  [[nodiscard]] bool is_cut() const { return plan.schedule != planner::Schedule::Serial; }
  [[nodiscard]] const Contender& contender() const { return race.contenders.front(); }
  [[nodiscard]] double serial_us() const { return median(contender().serial_us); }
  [[nodiscard]] double mc2_us() const { return median(contender().fused_us); }
  /// serial / mc2, of pairs.
  [[nodiscard]] profiler::Interval speedup() const;
  /// Anchored prediction / measured - 1; there is a prediction.
  [[nodiscard]] double prediction_error() const { return prediction->anchored_us / mc2_us() - 1; }
  /// The model's own prediction, as tuning left it / measured - 1; there is a prediction.
  [[nodiscard]] double tuned_prediction_error() const { return prediction->tuned_us / mc2_us() - 1; }
};

/// Where PyTorch runs: started when it is first needed, and again after a failure, a few times.
class TorchSeat {
 public:
  /// @param python  empty: PyTorch is left out, for the reason given
  TorchSeat(std::string python, int rank_count, std::string reason_without)
      : python_(std::move(python)), rank_count_(rank_count), reason_(std::move(reason_without)) {}

  /// Null when there is none; reason() says why.
  [[nodiscard]] TorchPeer* peer();
  /// After an error of the peer.
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

/// Where shapes take their turns, and how.
struct PeerArena {
  const executor::Backend& backend;
  executor::CommunicatorOptions options; ///< for the shape's number of ranks
  TuneSettings tune;
  RaceSettings race; ///< the final one
  store::Store& store;
  TorchSeat& torch;
};

/// Tunes the operator, checks the kept plan's result, races it against the best serial, then against PyTorch's forms
/// on the same matrices. Errors end up in the result. Throws SystemError.
[[nodiscard]] PeerRace race_peers(const planner::OpSpec& op, const PeerArena& arena);

} // namespace mc2::cli
