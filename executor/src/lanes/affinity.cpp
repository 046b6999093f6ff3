#include "lanes/affinity.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "mc2/planner/error.hpp"
#include "mc2/planner/text.hpp"
#include "texts.hpp"

namespace mc2::executor::lanes {
namespace {

constexpr int kMaxCores = 4096;

/// A CPU mask for up to kMaxCores cores; cpu_set_t has only 1024.
struct CpuMask {
  CpuMask() { CPU_ZERO_S(sizeof words, set()); }
  cpu_set_t* set() noexcept { return reinterpret_cast<cpu_set_t*>(words); }
  unsigned long words[kMaxCores / (8 * sizeof(unsigned long))];
};

} // namespace

std::string_view to_string(Pinning pinning) noexcept {
  switch (pinning) {
    case Pinning::None: return "none";
    case Pinning::Shared: return "shared";
    case Pinning::Separate: return "separate";
  }
  return "unknown";
}

std::vector<int> allowed_cores() {
  CpuMask mask;
  if (sched_getaffinity(0, sizeof mask.words, mask.set()) != 0) {
    throw SystemError("sched_getaffinity", errno, std::strerror(errno));
  }
  std::vector<int> cores;
  for (int core = 0; core < kMaxCores; ++core) {
    if (CPU_ISSET_S(static_cast<std::size_t>(core), sizeof mask.words, mask.set())) cores.push_back(core);
  }
  return cores;
}

int memory_node() {
  constexpr std::string_view kPrefix = "node";
  std::set<int> nodes;
  for (const int core : allowed_cores()) {
    std::error_code error; // ignored: without such links the set stays empty
    for (const auto& entry :
         std::filesystem::directory_iterator("/sys/devices/system/cpu/cpu" + std::to_string(core), error)) {
      const std::string name = entry.path().filename();
      if (!name.starts_with(kPrefix)) continue;
      if (const auto node = number_in<int>(std::string_view(name).substr(kPrefix.size()))) nodes.insert(*node);
    }
  }
  return nodes.size() == 1 ? *nodes.begin() : -1;
}

CoreShare share_of_cores(std::span<const std::vector<int>> cores, std::size_t own) {
  CoreShare share{.process_count = 0};
  for (std::size_t other = 0; other < cores.size(); ++other) {
    if (cores[other] == cores[own]) {
      ++share.process_count;
      if (other < own) ++share.place;
      continue;
    }
    std::vector<int> both;
    std::ranges::set_intersection(cores[other], cores[own], std::back_inserter(both));
    share.overlaps = share.overlaps || !both.empty();
  }
  return share;
}

CoreLayout::CoreLayout(std::vector<int> cores, int world_size, bool pin_threads) : cores_(std::move(cores)) {
  cores_per_rank_ = cores_.size() / static_cast<std::size_t>(std::max(1, world_size));
  if (cores_per_rank_ >= 2) compute_thread_count_ = static_cast<int>(cores_per_rank_) - 1;
  if (!pin_threads || cores_per_rank_ == 0) return;
  pinning_ = cores_per_rank_ >= 2 ? Pinning::Separate : Pinning::Shared;
}

std::span<const int> CoreLayout::cores_of(int rank, planner::Lane lane) const noexcept {
  if (pinning_ == Pinning::None) return {};
  const auto own = std::span(cores_).subspan(static_cast<std::size_t>(rank) * cores_per_rank_, cores_per_rank_);
  if (pinning_ == Pinning::Shared) return own;
  return lane == planner::Lane::Compute ? own.first(cores_per_rank_ - 1) : own.last(1);
}

void pin_current_thread(std::span<const int> cores, int rank) {
  CpuMask mask;
  for (const int core : cores) CPU_SET_S(static_cast<std::size_t>(core), sizeof mask.words, mask.set());
  if (sched_setaffinity(0, sizeof mask.words, mask.set()) != 0) {
    throw SystemError("sched_setaffinity", errno, rank_text(rank) + ": " + std::strerror(errno));
  }
}

} // namespace mc2::executor::lanes
