#pragma once

#include <span>
#include <vector>

#include "lanes/peer_order.hpp"

namespace mc2::executor::host {

/// When ranks on one switch have pulled their pieces: a model in its own time, in ns. Each rank pulls from one peer
/// after the other. A rank's incoming direction carries one piece at a time; its outgoing direction is shared equally
/// by those who pull from it just then (processor sharing, as network cards serve their queues), so n of them take n
/// times as long. Exact: rates change only where a piece starts or ends. Allocates nothing after construction. Not
/// synchronised.
class PullSchedule {
 public:
  explicit PullSchedule(int world_size);

  /// Forgets everything; time 0.
  void reset() noexcept;

  /// At `start_ns` the rank starts to pull a piece from every peer in turn, that of peer q `piece_ns[q]` >= 0 long
  /// where nobody else pulls from q; its own element means nothing. The rank has finished what it posted before. Where
  /// the model has already passed `start_ns`, what the rank would have pulled until now counts as pulled without
  /// competition.
  void post(int rank, double start_ns, std::span<const double> piece_ns, lanes::PeerOrder order) noexcept;

  /// When the rank has its last piece if nobody posts anything more.
  [[nodiscard]] double projected_end_ns(int rank);

  /// Lets the model's time pass until `time_ns`, at which everything that starts before has been posted; true if the
  /// rank has its last piece by then.
  [[nodiscard]] bool is_finished_at(int rank, double time_ns) noexcept;

 private:
  struct Pull {
    double start_ns = 0; ///< of the first piece
    double left_ns = 0;  ///< of the present piece, at full rate
    double end_ns = 0;   ///< of the last piece, once it is there
    lanes::PeerOrder order = lanes::PeerOrder::Staggered;
    int piece_count = 0; ///< still to come, the present one included; 0: finished
  };
  struct State {
    double now_ns = 0;
    std::vector<Pull> pulls; ///< by rank
    std::vector<int> load;   ///< by rank: how many pull from it now
  };

  /// Length of the present piece at full rate.
  [[nodiscard]] double present_piece_ns(const Pull& pull, int rank) const noexcept;
  [[nodiscard]] int source_of(const Pull& pull, int rank) const noexcept;
  /// When the rank's present piece ends or its first starts, at the present load; infinity when it has all.
  [[nodiscard]] double next_event_ns(const State& state, int rank) const noexcept;
  void count_load(State& state) const noexcept;
  /// Lets time pass in which no event but those at its end happens.
  void pass(State& state, double until_ns) const noexcept;
  /// To the next event, at most to `limit_ns`; false when none is left until then.
  bool step(State& state, double limit_ns) const noexcept;

  int world_size_;
  State state_, scratch_;
  std::vector<std::vector<double>> piece_ns_; ///< by rank and peer, of what the rank posted last
};

} // namespace mc2::executor::host
