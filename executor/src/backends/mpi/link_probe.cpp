#include "backends/mpi/link_probe.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>

#include "backends/mpi/check.hpp"
#include "backends/mpi/point_to_point.hpp"
#include "texts.hpp"

namespace mc2::executor::mpi {
namespace {

constexpr std::size_t kFirstBytes = std::size_t{64} << 10U, kMostBytes = std::size_t{1} << 20U;
constexpr double kLongEnoughUs = 4'000; // a shorter burst may pass switches and token buckets at another rate
constexpr int kLeastRepeats = 3, kMostRepeats = 50; // the fastest counts
constexpr double kTimedUs = 10'000;
/// A busy core may delay all exchanges of one time. So pairs that seem slow are measured again, until they have not
/// become faster by more than kFaster for kSteadyTimes in a row.
constexpr int kMoreTimes = 24, kSteadyTimes = 4;
constexpr double kFaster = 0.05;
constexpr std::chrono::seconds kDeadline{60}; // a rank may still exchange with others, over slow links

/// The first ranks of two nodes, which exchange messages.
class Pair {
 public:
  Pair(int rank, int peer, MPI_Comm comm) : rank_(rank), peer_(peer), link_(comm) {}

  double byte_us() {
    exchange(1); // connects
    std::size_t bytes = kFirstBytes;
    while (bytes < kMostBytes && least_us(bytes, 0) < kLongEnoughUs) bytes *= 2;
    return least_us(bytes, kTimedUs) / static_cast<double>(bytes);
  }

 private:
  /// The shortest of several exchanges, which last timed_us together unless they are very short. An exchange that a
  /// busy core delayed must not make the link look slow.
  double least_us(std::size_t bytes, double timed_us) {
    double least = agreed_us(bytes), sum = least;
    for (int i = 1; i < kLeastRepeats || (sum < timed_us && i < kMostRepeats); ++i) {
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
                          rank_text(rank_) + " hears nothing of " + rank_text(peer_) +
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

/// Waits for all ranks without taking a core from those that still measure.
void meet(MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(comm, &request), "MPI_Ibarrier");
  const Patience patience(std::chrono::milliseconds{1}, std::chrono::microseconds{0});
  for (int is_done = 0; is_done == 0;) {
    check(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    if (is_done == 0) patience.pause();
  }
}

using Table = std::vector<std::vector<double>>; // by node and node

/// us per byte of every pair that is `wanted`, 0 for the others. The same on all ranks.
template <typename Wanted>
Table measured(const Placement& placement, int rank, MPI_Comm comm, const Wanted& wanted) {
  const int count = placement.node_count(), node = placement.node_of(rank);
  Table table(static_cast<std::size_t>(count), std::vector<double>(static_cast<std::size_t>(count)));
  std::vector<double>& own = table[static_cast<std::size_t>(node)];
  const int even_count = count + count % 2;
  for (int round = 0; round + 1 < even_count && placement.place_of(rank) == 0; ++round) {
    const int other = opponent(node, round, even_count);
    if (other >= count || !wanted(node, other)) continue;
    own[static_cast<std::size_t>(other)] = Pair(rank, placement.ranks_of(other).front(), comm).byte_us();
  }
  meet(comm);
  for (std::vector<double>& row : table)
    check(MPI_Allreduce(MPI_IN_PLACE, row.data(), count, MPI_DOUBLE, MPI_MAX, comm), "MPI_Allreduce");
  return table;
}

/// Takes the times that are shorter. Returns whether any is shorter by more than kFaster.
bool keep_least(const Table& again, Table& least) {
  bool is_faster = false;
  for (std::size_t a = 0; a < least.size(); ++a)
    for (std::size_t b = 0; b < least.size(); ++b) {
      if (!(again[a][b] > 0)) continue;
      is_faster = is_faster || again[a][b] < (1 - kFaster) * least[a][b];
      least[a][b] = std::min(least[a][b], again[a][b]);
    }
  return is_faster;
}

} // namespace

Links measured_links(const Placement& placement, int rank, MPI_Comm comm) {
  const int count = placement.node_count();
  if (count < 3) return Links(count);
  Table least = measured(placement, rank, comm, [](int, int) { return true; });
  Links links(least);
  for (int i = 0, steady_times = 0; i < kMoreTimes && steady_times < kSteadyTimes && !links.text().empty(); ++i) {
    const Table again =
        measured(placement, rank, comm, [&](int node, int other) { return links.slowness(node, other) > 1; });
    steady_times = keep_least(again, least) ? 0 : steady_times + 1;
    links = Links(least);
  }
  return links;
}

} // namespace mc2::executor::mpi
