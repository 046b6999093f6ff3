#include "nccl_row.hpp"

#include <cmath>

#include "fields.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::profiler {
namespace {

using planner::Collective;

constexpr double kLeastBandwidth = 1; ///< the tool prints two decimals, which say little of less
/// Both bandwidths are of one time, so that their ratio differs only by the rounding of their digits.
constexpr double kFactorError = 0.002;
/// The same where the ranks are not known, or derived from the ratio.
constexpr double kUnknownRanksError = 0.03;
constexpr int kMostDerivedRanks = 16; ///< for more ranks, (R - 1)/R hardly differs

/// The range of busbw / algbw that the printed digits allow.
struct FactorRange {
  double low = 0, high = 0;
};

std::optional<FactorRange> bandwidth_factor(const NcclRow& row) {
  const auto &alg = row.alg_bandwidth, &bus = row.bus_bandwidth;
  const bool has_bus = bus.rounding > 0 && std::isfinite(bus.value); // not of a missing cell
  if (alg.value < kLeastBandwidth || alg.rounding >= alg.value || !has_bus) return std::nullopt;
  return FactorRange{(bus.value - bus.rounding) / (alg.value + alg.rounding),
                     (bus.value + bus.rounding) / (alg.value - alg.rounding)};
}

double expected_factor(Collective collective, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  return collective == Collective::AllReduce ? 2 * others : others;
}

bool reduces(Collective collective) {
  return collective == Collective::AllReduce || collective == Collective::ReduceScatter;
}

} // namespace

std::string contradiction(Collective collective, int ranks, const NcclRow& row) {
  const std::string name(planner::to_string(collective));
  if (row.root >= 0) return "it has a root, rank " + std::to_string(row.root) + ", which no " + name + " has";
  if (!row.redop.empty() && (row.redop == "none") == reduces(collective))
    return "its redop is '" + shown(row.redop) + "', which no " + name + " has";
  if (row.count > 0 && row.element_bytes > 0 && row.size_bytes > 0) {
    std::int64_t bytes = 0;
    const bool counts_all = !__builtin_mul_overflow(row.count, row.element_bytes, &bytes) && bytes == row.size_bytes;
    if (collective == Collective::AllReduce && !counts_all)
      return "its count is not of its size, as that of an all_reduce is";
    const bool counts_part = !__builtin_mul_overflow(bytes, std::int64_t{ranks}, &bytes) && bytes == row.size_bytes;
    if (collective != Collective::AllReduce && ranks > 1 && !counts_part)
      return "its count is not of one rank's part of its size among " + std::to_string(ranks) + " ranks";
  }
  if (std::string why = bandwidth_fault("algbw", row.size_bytes, row.size_bytes, row.time_us, row.alg_bandwidth);
      !why.empty())
    return "its " + why;
  const auto factor = bandwidth_factor(row);
  if (!factor) return {};
  const double least = collective == Collective::AllReduce ? 1 : 0.5, most = 2 * least; // for 2 and for many ranks
  const auto reaches = [&](double low, double high, double error) {
    return factor->high > low * (1 - error) && factor->low < high * (1 + error);
  };
  const double expected = ranks < 2 ? least : expected_factor(collective, ranks);
  if (ranks < 2 ? reaches(least, most, kUnknownRanksError) : reaches(expected, expected, kFactorError)) return {};
  return "its busbw/algbw is " + number_text(row.bus_bandwidth.value / row.alg_bandwidth.value, 3) + ", which " + name +
         (ranks < 2 ? std::string(" never has") : " of " + std::to_string(ranks) + " ranks does not have");
}

int ranks_by_bandwidth(Collective collective, const NcclRow& row) {
  const auto factor = bandwidth_factor(row);
  if (!factor) return 0;
  const double middle = (factor->low + factor->high) / 2;
  const double others = collective == Collective::AllReduce ? middle / 2 : middle;
  if (!(others > 0 && others < 1)) return 0;
  const double ranks = 1 / (1 - others);
  const int whole = static_cast<int>(std::lround(ranks));
  return whole >= 2 && whole <= kMostDerivedRanks && std::abs(ranks / whole - 1) < kUnknownRanksError ? whole : 0;
}

} // namespace mc2::profiler
