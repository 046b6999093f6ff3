#include "mc2/planner/units.hpp"

#include <array>
#include <cmath>

#include "mc2/planner/text.hpp"
#include "names.hpp"

namespace mc2::planner {
namespace {
constexpr std::array kNames{Name<DType>{DType::F32, "f32"}, Name<DType>{DType::F16, "f16"},
                            Name<DType>{DType::Bf16, "bf16"}, Name<DType>{DType::I8, "i8"},
                            Name<DType>{DType::F8E4m3, "f8e4m3"}};
} // namespace

std::chrono::milliseconds to_ms(double seconds) noexcept {
  constexpr double kRounding = 1e-6; // 1.1 s are 1100.0000000000002 ms
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1e3 - kRounding)));
}

std::string_view to_string(DType dtype) noexcept { return name_of<DType>(kNames, dtype); }

Result<DType> parse_dtype(std::string_view text) { return parse_name<DType>(kNames, text, "dtype"); }

Result<void> validate_time(const std::string& field, double us) {
  if (us >= 0 && us <= kMaxTimeUs) return {};
  return Error{ErrorCode::InvalidSpec, field, "is " + number_text(us) + " us; legal: 0 to 1e15"};
}

Result<void> validate_interval(const std::string& field, double low, double high) {
  for (const double end : {low, high})
    if (!std::isfinite(end))
      return Error{ErrorCode::InvalidSpec, field, "has the end " + number_text(end) + "; must be finite"};
  if (low <= high) return {};
  return Error{
      ErrorCode::InvalidSpec, field,
      "is " + number_text(low) + ", above the interval's upper end, " + number_text(high) + "; must be at most that"};
}

std::int64_t size_bytes(DType dtype) noexcept {
  switch (dtype) {
    case DType::F32: return 4;
    case DType::I8:
    case DType::F8E4m3: return 1;
    case DType::F16:
    case DType::Bf16: break;
  }
  return 2;
}

} // namespace mc2::planner
