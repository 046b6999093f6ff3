#include "backends/host/mechanisms/variants.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "mc2/planner/text.hpp"
#include "variant_settings.hpp"

namespace mc2::executor::host {
namespace {

using planner::OpSpec;
using planner::OpTraits;
using planner::Variant;
using Mechanism = HostVariant::Mechanism;

constexpr int kMaxLaneCount = 16;

bool runs_any(const OpTraits&) { return true; }
bool runs_sums(const OpTraits& kind) { return kind.sums(); }
bool runs_all_reduce(const OpTraits& kind) { return kind.collective == planner::Collective::AllReduce; }

/// Whether a matmul can start on the pieces of several peers one by one. TCP carries the pieces of a block side by
/// side, so they all arrive at the end.
bool has_slices(const OpSpec& op, const LinkSpec& link) {
  return planner::traits_of(op.kind).communicates_first() && op.world_size > 2 && link.mode != LinkSpec::Mode::Tcp;
}

struct MechanismRow {
  std::string_view name;
  Mechanism mechanism;
  bool (*runs)(const OpTraits& kind);
  std::string_view kinds; ///< names the kinds that the mechanism runs, for messages; empty: the kinds are listed
  bool needs_shared_memory;
  std::span<const std::string_view> settings;
};

constexpr std::string_view kOrder = "order", kInitiator = "initiator", kLanes = "lanes";
constexpr std::array kOrderAndSlices{kOrder, planner::kSlicesSetting};
constexpr std::array kOrderOnly{kOrder};
constexpr std::array kLanesOnly{kLanes};
constexpr std::array kInitiatorOnly{kInitiator};
constexpr std::array kMechanisms{
    MechanismRow{kDirectVariant, Mechanism::Direct, &runs_any, "every kind", false, kOrderAndSlices},
    MechanismRow{"two_shot", Mechanism::TwoShot, &runs_all_reduce, {}, true, kOrderOnly},
    MechanismRow{"low_latency", Mechanism::LowLatency, &runs_any, "every kind", true, kOrderOnly},
    MechanismRow{"ring", Mechanism::Ring, &runs_sums, "kinds that sum", true, kLanesOnly},
    MechanismRow{"push", Mechanism::Push, &runs_any, "every kind", true, kInitiatorOnly},
};

/// Whether the sums go to whole rows of C unchanged: no cut along n, no bias, residual or norm. Only "direct" does the
/// rest.
bool is_plain(const OpSpec& op) { return op.epilogue.is_empty() && planner::cut_axis(op) == planner::CutAxis::Rows; }

bool runs(const MechanismRow& row, const OpSpec& op) {
  return row.runs(planner::traits_of(op.kind)) && (row.mechanism == Mechanism::Direct || is_plain(op));
}

bool carries(const MechanismRow& row, const OpSpec& op, const LinkSpec& link) {
  return runs(row, op) && (link.mode == LinkSpec::Mode::SharedMemory || !row.needs_shared_memory);
}

std::string known_names(const OpSpec& op, const LinkSpec& link) {
  std::string names;
  for (const MechanismRow& row : kMechanisms) {
    if (carries(row, op, link)) names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  return names;
}

Error bad_setting(std::string_view setting, const std::string& value, const char* legal) {
  return {ErrorCode::InvalidSpec, "variant",
          "the setting " + std::string(setting) + " is \"" + value + "\"; legal: " + legal};
}

Result<void> read_lanes(const std::string& value, HostVariant& read) {
  const auto count = number_in<int>(value);
  if (!count || *count < 1 || *count > kMaxLaneCount) return bad_setting(kLanes, value, "1 to 16");
  read.lane_count = *count;
  return {};
}

Result<void> read_slices(const OpSpec& op, const LinkSpec& link, const std::string& value, HostVariant& read) {
  if (!has_slices(op, link)) {
    return Error{ErrorCode::Unsupported, "variant",
                 "the setting slices is for kinds that communicate first, on 3 ranks or more, over shm or an emulated "
                 "link; leave it out"};
  }
  const std::string by_peer = std::to_string(op.world_size - 1);
  if (value != by_peer) {
    return Error{ErrorCode::InvalidSpec, "variant",
                 "the setting slices is \"" + value + "\"; legal: " + by_peer + ", one for each peer"};
  }
  read.slice_count = op.world_size - 1;
  return {};
}

Result<void> read_order(const std::string& value, HostVariant& read) {
  if (value != "staggered" && value != "rank") return bad_setting(kOrder, value, "staggered, rank");
  read.order = value == "rank" ? lanes::PeerOrder::Rank : lanes::PeerOrder::Staggered;
  return {};
}

Result<void> read_initiator(const std::string& value, HostVariant& read) {
  if (value != "self" && value != "proxy") return bad_setting(kInitiator, value, "self, proxy");
  read.has_proxy = value == "proxy";
  return {};
}

Result<void> read_setting(std::string_view setting, const std::string& value, HostVariant& read) {
  if (setting == kLanes) return read_lanes(value, read);
  return setting == kOrder ? read_order(value, read) : read_initiator(value, read);
}

Error unsupported(const MechanismRow& row, const OpSpec& op, const LinkSpec& link) {
  const std::string name = "\"" + std::string(row.name) + "\"";
  const std::string kinds = row.kinds.empty() ? planner::kinds_with(row.runs) : std::string(row.kinds);
  const std::string reason = runs(row, op) ? " needs the link shm, not " + link.text()
                             : row.runs(planner::traits_of(op.kind))
                                 ? " runs neither cuts along n nor epilogues"
                                 : " runs " + kinds + ", not " + std::string(planner::to_string(op.kind));
  return {ErrorCode::Unsupported, "variant", name + reason + "; here there are: " + known_names(op, link)};
}

} // namespace

std::vector<Variant> host_variants(const OpSpec& op, const LinkSpec& link) {
  std::vector<Variant> variants;
  for (const MechanismRow& row : kMechanisms) {
    if (!carries(row, op, link)) continue;
    variants.push_back({std::string(row.name), {}});
    const auto add_with = [&](std::string_view setting, std::string value) {
      variants.push_back({std::string(row.name), {{std::string(setting), std::move(value)}}});
    };
    if (row.mechanism == Mechanism::Direct && has_slices(op, link))
      add_with(planner::kSlicesSetting, std::to_string(op.world_size - 1));
    if (row.mechanism == Mechanism::Push) add_with(kInitiator, "proxy");
  }
  return variants;
}

Result<HostVariant> read_variant(const OpSpec& op, const LinkSpec& link, const Variant& variant) {
  const auto* row = std::ranges::find(kMechanisms, std::string_view(variant.name), &MechanismRow::name);
  if (row == kMechanisms.end()) {
    return Error{ErrorCode::UnknownName, "variant",
                 "the host backend has no variant \"" + variant.name + "\"; it has: " + known_names(op, link)};
  }
  HostVariant read{.mechanism = row->mechanism};
  MC2_TRY(check_settings(variant, row->settings));
  for (const auto& [key, value] : variant.fields) {
    MC2_TRY(key == planner::kSlicesSetting ? read_slices(op, link, value, read) : read_setting(key, value, read));
  }
  if (!carries(*row, op, link)) return unsupported(*row, op, link);
  return read;
}

} // namespace mc2::executor::host
