#include "backends/mpi/variants.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "backends/mpi/world.hpp"
#include "mc2/planner/collective.hpp"
#include "mc2/planner/text.hpp"
#include "variant_settings.hpp"

namespace mc2::executor::mpi {
namespace {

using planner::Variant;

constexpr const char* kSleepUs = "sleep_us";
constexpr int kMaxSleepUs = 10'000;
// The interval balances two costs: beside a matmul each look takes about 20 us of its core, and data that has arrived
// waits for the next look (docs/mpi.md).
constexpr const char* kShortSleepUs = "50";
constexpr const char* kLongSleepUs = "400";

struct NamedAlgorithm {
  const char* name;
  MpiVariant::Algorithm algorithm;
  bool has_sleep;
};

// In order of preference. Reading memory beats messages where it is possible. Our own algorithms leave the matmul its
// core and are faster than the library's nonblocking ones, which do so, too. "blocking" needs a core to spin on.
constexpr std::array kAlgorithms{NamedAlgorithm{"direct", MpiVariant::Algorithm::Direct, false},
                                 NamedAlgorithm{"two_shot", MpiVariant::Algorithm::TwoShot, false},
                                 NamedAlgorithm{"hierarchical", MpiVariant::Algorithm::Hierarchical, true},
                                 NamedAlgorithm{"ring", MpiVariant::Algorithm::Ring, true},
                                 NamedAlgorithm{"sliced_ring", MpiVariant::Algorithm::SlicedRing, true},
                                 NamedAlgorithm{"pairwise", MpiVariant::Algorithm::Pairwise, true},
                                 NamedAlgorithm{"blocking", MpiVariant::Algorithm::Blocking, false},
                                 NamedAlgorithm{"nonblocking", MpiVariant::Algorithm::Nonblocking, true}};

/// Does not start MPI in a program without a launcher.
bool shares_memory() { return launched_process_count() > 1 && World::get().shares_memory(); }
bool is_hierarchy() {
  return launched_process_count() > 1 && World::get().placement().is_hierarchy() && World::get().shares_node_memory();
}

bool runs(MpiVariant::Algorithm algorithm, const planner::OpSpec& op) {
  const auto collective = planner::collective_of(op.kind);
  const bool is_all_to_all = collective == planner::Collective::AllToAll;
  switch (algorithm) {
    case MpiVariant::Algorithm::Direct: return shares_memory();
    case MpiVariant::Algorithm::TwoShot: // on 2 ranks it moves as many bytes as "direct", but in two steps
      return collective == planner::Collective::AllReduce && op.world_size > 2 && shares_memory();
    case MpiVariant::Algorithm::Hierarchical: return is_hierarchy();
    case MpiVariant::Algorithm::Ring:
    case MpiVariant::Algorithm::SlicedRing: return !is_all_to_all;
    case MpiVariant::Algorithm::Pairwise: return is_all_to_all;
    case MpiVariant::Algorithm::Blocking:
    case MpiVariant::Algorithm::Nonblocking: break;
  }
  return true;
}

} // namespace

std::vector<Variant> mpi_variants(const planner::OpSpec& op) {
  using enum MpiVariant::Algorithm;
  std::vector<Variant> variants;
  for (const auto& [name, algorithm, has_sleep] : kAlgorithms) {
    if (!runs(algorithm, op)) continue;
    // Slices keep a link busy between the steps of a ring. They are not offered where ranks share memory, which has no
    // such link, or on 2 ranks, which need one step only.
    if (algorithm == SlicedRing && (shares_memory() || op.world_size == 2)) continue;
    if (!has_sleep) {
      variants.push_back({.name = name, .fields = {}});
      continue;
    }
    // Links between nodes carry a block for milliseconds, so a long sleep delays it little. The library's nonblocking
    // collectives take more steps, each of which would wait for a look.
    const bool may_sleep_long = !shares_memory() && algorithm != Nonblocking;
    if (may_sleep_long) variants.push_back({.name = name, .fields = {{kSleepUs, kLongSleepUs}}});
    variants.push_back({.name = name, .fields = {{kSleepUs, kShortSleepUs}}});
  }
  return variants;
}

Result<MpiVariant> read_variant(const planner::OpSpec& op, const Variant& variant) {
  const auto* row = std::ranges::find_if(
      kAlgorithms, [&](const NamedAlgorithm& one) { return one.name == variant.name && runs(one.algorithm, op); });
  if (row == kAlgorithms.end()) {
    std::vector<std::string> names;
    for (const Variant& offered : mpi_variants(op))
      if (names.empty() || names.back() != offered.name) names.push_back(offered.name);
    return Error{ErrorCode::UnknownName, "variant",
                 "the mpi backend has no variant \"" + variant.name + "\" of " +
                     std::string(planner::to_string(op.kind)) + " here; it has: " + list_text(names)};
  }
  constexpr std::array<std::string_view, 1> kSettings{kSleepUs};
  MC2_TRY(check_settings(variant, std::span(kSettings).first(row->has_sleep ? 1 : 0)));
  MpiVariant read{.algorithm = row->algorithm};
  if (!row->has_sleep) return read;
  MC2_ASSIGN(const int sleep_us, whole_setting(variant, kSleepUs, 0, kMaxSleepUs));
  read.sleep = std::chrono::microseconds(sleep_us);
  return read;
}

} // namespace mc2::executor::mpi
