#pragma once

#include <span>
#include <vector>

#include "lanes/peer_order.hpp"

namespace mc2::executor::host {

/// Models when the ranks on one switch have pulled their pieces; its clock counts ns from 0. Each rank pulls from its
/// peers one after the other. A rank's incoming direction carries one piece at a time. Its outgoing direction is shared
/// equally by the n ranks that pull from it at that moment, so each takes n times as long (processor sharing, as
/// network cards serve their queues). The model is exact, because rates change only when a piece starts or ends.
/// Allocates nothing after construction. Threads: externally synchronised.
class PullSchedule {
 public:
  explicit PullSchedule(int world_size);

  /// Forgets all pulls and sets the time to 0.
  void reset() noexcept;

  /// Posts that the rank starts at `start_ns` to pull one piece from each peer in turn. The piece of peer q takes
  /// `piece_ns[q]` >= 0 when nobody else pulls from q; the rank's own element is ignored. The rank must have finished
  /// its previous pulls. If the model's time is already past `start_ns`, the pieces are taken to have been pulled at
  /// full rate from `start_ns` until now.
  void post(int rank, double start_ns, std::span<const double> piece_ns, lanes::PeerOrder order) noexcept;

  /// The time at which the rank has its last piece, provided that nobody posts anything more.
  [[nodiscard]] double projected_end_ns(int rank);

  /// Lets the model's time pass until `time_ns`. Everything that starts before then must have been posted. True if the
  /// rank has its last piece by `time_ns`.
  [[nodiscard]] bool is_finished_at(int rank, double time_ns) noexcept;

 private:
  struct Pull {
    double start_ns = 0; ///< start of the first piece
    double left_ns = 0;  ///< rest of the present piece, at full rate
    double end_ns = 0;   ///< end of the last piece, once it has arrived
    lanes::PeerOrder order = lanes::PeerOrder::Staggered;
    int piece_count = 0; ///< pieces still to come, the present one included; 0: finished
  };
  struct State {
    double now_ns = 0;
    std::vector<Pull> pulls; ///< by rank
    std::vector<int> load;   ///< by rank: number of ranks that pull from it now
  };

  /// Length of the present piece at full rate.
  [[nodiscard]] double present_piece_ns(const Pull& pull, int rank) const noexcept;
  [[nodiscard]] int source_of(const Pull& pull, int rank) const noexcept;
  /// When the rank's present piece ends, or its first piece starts, at the present load; infinity when the rank has all
  /// pieces.
  [[nodiscard]] double next_event_ns(const State& state, int rank) const noexcept;
  void count_load(State& state) const noexcept;
  /// Lets time pass until `until_ns`. No event may lie before `until_ns`; events at `until_ns` take place.
  void pass(State& state, double until_ns) const noexcept;
  /// Advances to the next event but not beyond `limit_ns`. False when there is no event up to then.
  bool step(State& state, double limit_ns) const noexcept;

  int world_size_;
  State state_, scratch_;
  std::vector<std::vector<double>> piece_ns_; ///< by rank and peer: lengths of the pieces that the rank posted last
};

} // namespace mc2::executor::host
