#include "nccl_rank_list.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "fields.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::profiler {
namespace {

using RankWords = std::vector<std::string_view>;

constexpr std::int64_t kMostListedRanks = 1'000'000;

/// The word after the first `name`; empty where there is none.
std::string_view launch_word(const RankWords& parts, std::string_view name) {
  const auto at = std::ranges::find(parts, name);
  return at == parts.end() || at + 1 == parts.end() ? std::string_view() : *(at + 1);
}

/// "node 320" of "... Pid 320 on node device 0"; empty where the line ends inside it.
std::string listed_process(const RankWords& parts) {
  const auto at = std::ranges::find(parts, std::string_view("Pid"));
  const bool is_whole = parts.end() - at > 4 && at[2] == "on" && at[4] == "device";
  return is_whole ? std::string(at[3]).append(" ").append(at[1]) : std::string();
}

} // namespace

void NcclRankList::begin_launch(std::string_view text) {
  constexpr std::int64_t kMostPerProcess = 1024;
  clear();
  const auto parts = words(text);
  const auto threads = parse_whole(launch_word(parts, "nThread")), gpus = parse_whole(launch_word(parts, "nGpus"));
  ranks_per_process_ = std::clamp<std::int64_t>(threads.value_or(0), 0, kMostPerProcess) *
                       std::clamp<std::int64_t>(gpus.value_or(0), 0, kMostPerProcess);
}

void NcclRankList::clear() {
  ranks_.clear();
  parts_.clear();
  processes_.clear();
  groups_.clear();
  has_twins_ = is_cut_ = false;
}

std::optional<std::string_view> NcclRankList::read(std::string_view text) {
  const std::size_t next = text.find('#');
  if (next == std::string_view::npos) return read_rank(text);
  // AMD's tool ends a cut line without a line break, so that the next line follows on the same one.
  is_cut_ = true;
  read_rank(std::string(text.substr(0, next)) + " ...");
  return read_rank(trimmed(text.substr(text.rfind('#') + 1))).value_or(std::string_view());
}

std::optional<std::string_view> NcclRankList::read_rank(std::string_view text) {
  const auto parts = words(text);
  if (parts.size() < 2 || parts[0] != "Rank") return std::nullopt;
  const bool is_cut = text.ends_with("...");
  is_cut_ = is_cut_ || is_cut;
  const auto rank = parse_whole(parts[1]);
  const bool is_number_whole = !is_cut || (parts.size() > 2 && parts[2] != "...");
  const bool is_listed = is_number_whole && rank && *rank >= 0 && *rank < kMostListedRanks;
  if (!is_listed) return is_cut ? std::optional(std::string_view()) : std::nullopt;
  const bool is_new = ranks_.insert(*rank).second;
  has_twins_ = has_twins_ || !is_new;
  if (parts.size() > 3 && parts[2] == "Group" && !is_cut) groups_.emplace(parts[3]);
  if (is_new && ranks_per_process_ > 0) parts_.insert(*rank / ranks_per_process_);
  if (std::string process = listed_process(parts); is_new && !process.empty()) processes_.insert(std::move(process));
  const std::size_t bracket = text.find("] ");
  return is_cut || bracket == std::string_view::npos ? std::string_view() : trimmed(text.substr(bracket + 2));
}

std::int64_t NcclRankList::told_count() const {
  const std::int64_t count = std::ssize(processes_);
  const bool is_spread = count > 0 && std::ssize(parts_) == count && *parts_.rbegin() + 1 == count;
  return is_spread ? count * ranks_per_process_ : 0;
}

int NcclRankList::count() const {
  const std::int64_t told = told_count(), listed = std::ssize(ranks_);
  const std::int64_t count = is_gapless() && !is_cut_ ? std::max(listed, told) : told;
  return count <= planner::kMaxWorldSize ? static_cast<int>(count) : 0;
}

std::string NcclRankList::gap() const {
  std::int64_t missing = 0;
  for (auto at = ranks_.begin(); at != ranks_.end() && *at == missing; ++at) ++missing;
  return missing < least_count() ? "rank " + std::to_string(missing) + " is not in it"
                                 : "it is cut behind " + std::to_string(missing) + " ranks";
}

} // namespace mc2::profiler
