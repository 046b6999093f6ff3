#include "backends/mpi/neighbours.hpp"

#include <cstring>
#include <new>

#include "lanes/peer_order.hpp"

namespace mc2::executor::mpi {

Neighbours::Neighbours(const node::NodeHeap& heap, std::size_t signals, int own, const std::vector<int>& ranks,
                       std::chrono::microseconds sleep)
    : heap_(heap), own_(own), ranks_(ranks), sleep_(sleep) {
  for (int place = 0; place < static_cast<int>(ranks.size()); ++place)
    announcements_.push_back(reinterpret_cast<Announcements*>(heap.segment(place).data() + signals));
  new (announcements_[static_cast<std::size_t>(own)]) Announcements;
}

int Neighbours::other(int step) const noexcept {
  return lanes::peer_at(lanes::PeerOrder::Staggered, own_, count(), step);
}

void Neighbours::push(const lanes::PieceAddresses& pieces) const noexcept {
  for (int step = 0; step + 1 < count(); ++step) {
    const auto to = static_cast<std::size_t>(rank_at(other(step)));
    const auto bytes = static_cast<std::size_t>(pieces.outgoing_bytes[to]);
    if (bytes > 0) std::memcpy(pieces.remote_landings[to], pieces.outgoing[to], bytes);
  }
}

void Neighbours::wait_for_all(const Pause& pause) {
  for (int step = 0; step + 1 < count(); ++step) wait_for(other(step), pause);
}

} // namespace mc2::executor::mpi
