#include "backends/mpi/link_probe.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>

#include "backends/mpi/check.hpp"
#include "backends/mpi/point_to_point.hpp"

namespace mc2::executor::mpi {
namespace {

constexpr std::size_t kFirstBytes = std::size_t{64} << 10U, kMostBytes = std::size_t{1} << 20U;
constexpr double kLongEnoughUs = 4'000; // a shorter burst may pass switches and token buckets at another rate
constexpr int kLeastRepeats = 3, kMostRepeats = 50; // the fastest counts
constexpr double kTimedUs = 10'000;
constexpr std::chrono::seconds kDeadline{20};

/// The first ranks of two nodes, which exchange messages.
class Pair {
 public:
  Pair(int rank, int peer, MPI_Comm comm) : rank_(rank), peer_(peer), link_(comm) {}

  double byte_us() {
    exchange(1); // connects
    for (std::size_t bytes = kFirstBytes;; bytes *= 2) {
      const double us = agreed_us(bytes);
      if (us >= kLongEnoughUs || bytes == kMostBytes) return least_us(bytes) / static_cast<double>(bytes);
    }
  }

 private:
  /// The shortest of several exchanges; there are more of them if they are short. An exchange that a busy core delayed
  /// must not make the link look slow.
  double least_us(std::size_t bytes) {
    double least = agreed_us(bytes), sum = least;
    for (int i = 1; i < kLeastRepeats || (sum < kTimedUs && i < kMostRepeats); ++i) {
      const double us = agreed_us(bytes);
      least = std::min(least, us);
      sum += us;
    }
    return least;
  }

  /// The longer of the two ranks' times, so that both ranks take the same decisions.
  double agreed_us(std::size_t bytes) {
    const auto start = Clock::now();
    exchange(bytes);
    const std::array own{std::chrono::duration<double, std::micro>(Clock::now() - start).count()};
    std::array<double, 1> other{};
    swap(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(other)));
    return std::max(own[0], other[0]);
  }

  void exchange(std::size_t bytes) {
    outgoing_.resize(bytes);
    incoming_.resize(bytes);
    swap(outgoing_, incoming_);
  }

  void swap(std::span<const std::byte> out, std::span<std::byte> in) {
    const auto end = Clock::now() + kDeadline;
    const Patience patience(std::chrono::microseconds{50}, std::chrono::milliseconds{1});
    link_.pass({out, peer_}, {in, peer_}, planner::DType::I8, [&] {
      patience.pause();
      if (Clock::now() > end)
        throw SystemError("measuring links", ETIMEDOUT,
                          "rank " + std::to_string(rank_) + " hears nothing of rank " + std::to_string(peer_) +
                              "; can their hosts connect to each other's ports?");
    });
  }

  int rank_, peer_;
  PointToPoint link_;
  std::vector<std::byte> outgoing_, incoming_;
};

/// The node that `node` is paired with in a round of a round-robin tournament: with `even_count` nodes, each meets
/// every other once in even_count - 1 rounds. A result of at least the real number of nodes means that the node rests.
int opponent(int node, int round, int even_count) {
  const int last = even_count - 1;
  if (node == last) return round;
  const int other = ((2 * round - node) % last + last) % last;
  return other == node ? last : other;
}

} // namespace

Links measured_links(const Placement& placement, int rank, MPI_Comm comm) {
  const int count = placement.node_count(), node = placement.node_of(rank);
  if (count < 3) return Links(count);
  const auto at = [count](int a, int b) {
    return static_cast<std::size_t>(a) * static_cast<std::size_t>(count) + static_cast<std::size_t>(b);
  };
  std::vector<double> all(at(count, 0));
  const int even_count = count + count % 2;
  for (int round = 0; round + 1 < even_count && placement.place_of(rank) == 0; ++round) {
    const int other = opponent(node, round, even_count);
    if (other >= count) continue;
    all[at(node, other)] = Pair(rank, placement.ranks_of(other).front(), comm).byte_us();
  }
  check(MPI_Allreduce(MPI_IN_PLACE, all.data(), static_cast<int>(all.size()), MPI_DOUBLE, MPI_MAX, comm),
        "MPI_Allreduce");
  std::vector<std::vector<double>> byte_us(static_cast<std::size_t>(count));
  for (int a = 0; a < count; ++a)
    for (int b = 0; b < count; ++b)
      byte_us[static_cast<std::size_t>(a)].push_back(std::max(all[at(a, b)], all[at(b, a)]));
  return Links(byte_us);
}

} // namespace mc2::executor::mpi
