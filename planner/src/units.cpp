#include "mc2/planner/units.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "mc2/planner/text.hpp"

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

Result<void> validate_measured_time(const std::string& field, double us) {
  if (us >= kMinTimeUs && us <= kMaxTimeUs) return {};
  return Error{ErrorCode::InvalidSpec, field, "is " + number_text(us) + " us; legal: 1e-6 to 1e15"};
}

Result<void> validate_known_time(const std::string& field, double us) {
  if (us == 0 || (us >= kMinTimeUs && us <= kMaxTimeUs)) return {};
  return Error{ErrorCode::InvalidSpec, field, "is " + number_text(us) + " us; legal: 0, and 1e-6 to 1e15"};
}

Result<void> validate_benefit(double benefit, double low, double high) {
  constexpr double kRounding = 1e-9, kMostLoss = kMaxTimeUs / kMinTimeUs;
  const auto refused = [](const char* field, double value, const std::string& legal) {
    return Error{ErrorCode::InvalidSpec, field, "is " + number_text(value) + "; " + legal};
  };
  if (!(benefit >= -kMostLoss && benefit <= 1))
    return refused("benefit", benefit, "legal: -1e21 to 1, which is all of the time");
  const double ratio = 1 - benefit, slack = kRounding * std::max(1.0, ratio);
  MC2_TRY(validate_interval("benefit_low", low, high));
  if (!(low >= -3 * kMostLoss)) return refused("benefit_low", low, "legal: -3e21 to 1");
  if (!(low <= benefit + slack && benefit <= high + slack))
    return refused("benefit", benefit, "must lie in its interval, " + number_text(low) + " to " + number_text(high));
  // An interval that is equally wide to both sides may end above 1; documents of earlier versions have such intervals.
  if (!(high <= 1 + 2 * ratio + slack))
    return refused("benefit_high", high, "must be at most 1, which is all of the time");
  return {};
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
