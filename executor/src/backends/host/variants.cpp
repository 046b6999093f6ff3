#include "backends/host/variants.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "mc2/planner/collective.hpp"

namespace mc2::executor::host {
namespace {

using planner::Error;
using planner::ErrorCode;
using planner::OpSpec;
using planner::Result;
using planner::Variant;
using Mechanism = HostVariant::Mechanism;

constexpr int kMaxLaneCount = 16;

bool runs_any(const OpSpec&) { return true; }
bool runs_sums(const OpSpec& op) { return planner::sums_over_ranks(op.kind); }
bool runs_all_reduce(const OpSpec& op) { return op.kind == planner::OpKind::MatmulAllReduce; }

struct MechanismRow {
  std::string_view name;
  Mechanism mechanism;
  bool (*runs)(const OpSpec& op);
  std::string_view kinds; ///< that it runs, for messages
  bool needs_shared_memory;
  std::string_view setting; ///< the one that it has
};

constexpr std::string_view kOrder = "order", kInitiator = "initiator", kLanes = "lanes";
constexpr std::array kMechanisms{
    MechanismRow{kDirectVariant, Mechanism::Direct, &runs_any, "every kind", false, kOrder},
    MechanismRow{"two_shot", Mechanism::TwoShot, &runs_all_reduce, "matmul_all_reduce", true, kOrder},
    MechanismRow{"low_latency", Mechanism::LowLatency, &runs_any, "every kind", true, kOrder},
    MechanismRow{"ring", Mechanism::Ring, &runs_sums, "kinds that sum", true, kLanes},
    MechanismRow{"push", Mechanism::Push, &runs_any, "every kind", true, kInitiator},
};

/// Sums go to rows of C as they are: no columns, bias or residual. Only "direct" knows those.
bool is_plain(const OpSpec& op) { return op.epilogue.is_empty() && planner::cut_axis(op) == planner::CutAxis::Rows; }

bool runs(const MechanismRow& row, const OpSpec& op) {
  return row.runs(op) && (row.mechanism == Mechanism::Direct || is_plain(op));
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
  const auto parsed = std::from_chars(value.data(), value.data() + value.size(), read.lane_count);
  const bool is_whole = parsed.ec == std::errc() && parsed.ptr == value.data() + value.size();
  if (!is_whole || read.lane_count < 1 || read.lane_count > kMaxLaneCount) return bad_setting(kLanes, value, "1 to 16");
  return {};
}

Result<void> read_setting(std::string_view setting, const std::string& value, HostVariant& read) {
  if (setting == kLanes) return read_lanes(value, read);
  if (setting == kOrder) {
    if (value != "staggered" && value != "rank") return bad_setting(kOrder, value, "staggered, rank");
    read.order = value == "rank" ? PeerOrder::Rank : PeerOrder::Staggered;
    return {};
  }
  if (value != "self" && value != "proxy") return bad_setting(kInitiator, value, "self, proxy");
  read.has_proxy = value == "proxy";
  return {};
}

Error unsupported(const MechanismRow& row, const OpSpec& op, const LinkSpec& link) {
  const std::string name = "\"" + std::string(row.name) + "\"";
  const std::string reason = runs(row, op)   ? " needs the link shm, not " + link.text()
                             : row.runs(op) ? " runs neither cuts along n nor epilogues"
                                            : " runs " + std::string(row.kinds) + ", not " +
                                                  std::string(planner::to_string(op.kind));
  return {ErrorCode::Unsupported, "variant", name + reason + "; here there are: " + known_names(op, link)};
}

} // namespace

std::vector<Variant> host_variants(const OpSpec& op, const LinkSpec& link) {
  std::vector<Variant> variants;
  for (const MechanismRow& row : kMechanisms) {
    if (!carries(row, op, link)) continue;
    variants.push_back({std::string(row.name), {}});
    if (row.mechanism == Mechanism::Push) variants.push_back({std::string(row.name), {{std::string(kInitiator), "proxy"}}});
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
  for (const auto& [key, value] : variant.fields) {
    if (key != row->setting) {
      return Error{ErrorCode::InvalidSpec, "variant",
                   "\"" + variant.name + "\" has no setting \"" + key + "\"; it has: " + std::string(row->setting)};
    }
    if (auto legal = read_setting(row->setting, value, read); !legal) return legal.error();
  }
  if (!carries(*row, op, link)) return unsupported(*row, op, link);
  return read;
}

} // namespace mc2::executor::host
