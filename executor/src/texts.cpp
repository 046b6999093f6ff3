#include "texts.hpp"

#include <array>
#include <cstdio>

namespace mc2::executor {

std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

std::string bytes_text(std::int64_t bytes) {
  struct Unit {
    const char* name;
    int digits;
  };
  constexpr std::array<Unit, 6> kUnits{{{"B", 0}, {"KiB", 1}, {"MiB", 1}, {"GiB", 2}, {"TiB", 2}, {"PiB", 2}}};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024.0 && unit + 1 < kUnits.size(); ++unit) value /= 1024.0;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f %s", kUnits[unit].digits, value, kUnits[unit].name);
  return text.data();
}

} // namespace mc2::executor
