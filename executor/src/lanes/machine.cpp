#include "lanes/machine.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

namespace mc2::executor::lanes {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

/// The value of the first "key : value" line of a /proc file; empty when there is none.
std::string first_value(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(key)) continue;
    if (line.find_first_not_of(" \t", key.size()) != colon) continue;
    const auto first = line.find_first_not_of(" \t", colon + 1);
    return first == std::string::npos ? "" : line.substr(first);
  }
  return {};
}

/// The number of bytes in a control group's file; kUnlimited for "max" and for a missing file.
std::int64_t group_bytes(const char* path) {
  std::ifstream file(path);
  std::int64_t bytes = 0;
  return file >> bytes ? bytes : kUnlimited;
}

} // namespace

std::string cpu_model() {
  std::string model = first_value("/proc/cpuinfo", "model name");
  return model.empty() ? "unknown" : model;
}

bool has_cpu_feature(std::string_view feature) {
  std::istringstream flags(first_value("/proc/cpuinfo", "flags"));
  for (std::string flag; flags >> flag;) {
    if (flag == feature) return true;
  }
  return false;
}

std::int64_t available_memory_bytes() {
  constexpr std::int64_t kBytesPerKib = 1024;
  std::istringstream meminfo(first_value("/proc/meminfo", "MemAvailable"));
  std::int64_t machine_kib = 0;
  const std::int64_t machine = meminfo >> machine_kib ? machine_kib * kBytesPerKib : kUnlimited;
  const std::int64_t limit = group_bytes("/sys/fs/cgroup/memory.max");
  const std::int64_t used = group_bytes("/sys/fs/cgroup/memory.current");
  const std::int64_t group = limit == kUnlimited || used == kUnlimited ? kUnlimited : limit - used;
  return std::max<std::int64_t>(0, std::min(machine, group));
}

} // namespace mc2::executor::lanes
