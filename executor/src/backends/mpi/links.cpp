#include "backends/mpi/links.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "mc2/planner/text.hpp"

namespace mc2::executor::mpi {
namespace {

constexpr int kMostTriedNodes = 8; // 5040 orders; with more nodes the ring goes to the nearest node next

int power_of_two_below(double ratio) {
  int power = 1;
  while (power <= std::numeric_limits<int>::max() / 4 && 2 * power <= ratio) power *= 2;
  return power;
}

} // namespace

Links::Links(int node_count)
    : slowness_(static_cast<std::size_t>(node_count), std::vector<int>(static_cast<std::size_t>(node_count), 1)) {}

Links::Links(const std::vector<std::vector<double>>& byte_us) : Links(static_cast<int>(byte_us.size())) {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < byte_us.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) least = std::min(least, byte_us[i][j]);
  for (std::size_t i = 0; i < byte_us.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) slowness_[i][j] = slowness_[j][i] = power_of_two_below(byte_us[i][j] / least);
}

std::string Links::text() const {
  std::vector<std::string> texts;
  for (int i = 0; i < node_count(); ++i)
    for (int j = i + 1; j < node_count(); ++j)
      if (const int times = slowness(i, j); times != 1)
        texts.push_back(std::to_string(i) + "-" + std::to_string(j) + ":" + std::to_string(times) + "x");
  return list_text(texts, ",");
}

std::vector<int> Links::ring() const {
  std::vector<int> order(slowness_.size());
  std::iota(order.begin(), order.end(), 0);
  if (text().empty()) return order;
  if (node_count() > kMostTriedNodes) return nearest_first();
  const auto cost = [this](const std::vector<int>& ring) {
    int worst = 1;
    int sum = 0;
    for (std::size_t at = 0; at < ring.size(); ++at) {
      const int slow = slowness(ring[at], ring[(at + 1) % ring.size()]);
      worst = std::max(worst, slow);
      sum += slow;
    }
    return std::pair(worst, sum);
  };
  std::vector<int> best = order;
  while (std::next_permutation(order.begin() + 1, order.end())) // node 0 stays first, because a ring has no beginning
    if (cost(order) < cost(best)) best = order;
  return best;
}

std::vector<int> Links::nearest_first() const {
  std::vector<int> order{0}, left(slowness_.size() - 1);
  std::iota(left.begin(), left.end(), 1);
  while (!left.empty()) {
    const auto next = std::ranges::min_element(left, {}, [&](int node) { return slowness(order.back(), node); });
    order.push_back(*next);
    left.erase(next);
  }
  return order;
}

} // namespace mc2::executor::mpi
