#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "mc2/planner/error.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

inline constexpr double kBytesPerMib = 1024.0 * 1024.0;
inline constexpr double kNsPerUs = 1000.0;

[[nodiscard]] constexpr double to_us(std::chrono::nanoseconds time) noexcept {
  return static_cast<double>(time.count()) / kNsPerUs;
}

/// Whole milliseconds, rounded up so that a short time does not become 0. `seconds` is at least 0 and at most some
/// years.
[[nodiscard]] std::chrono::milliseconds to_ms(double seconds) noexcept;

/// Half the width of a normal distribution's central 90 % and 95 % interval, in standard deviations: 5 % and 2.5 % lie
/// beyond each end.
inline constexpr double kNormal90 = 1.645, kNormal95 = 1.96;

/// Times beyond this many us (31 years) are refused.
inline constexpr double kMaxTimeUs = 1e15;

/// Errors: InvalidSpec under `field` for a time that is negative or above kMaxTimeUs.
[[nodiscard]] Result<void> validate_time(const std::string& field, double us);

/// Smallest time of something that ran, in us: a picosecond.
inline constexpr double kMinTimeUs = 1e-6;

/// Checks the time of something that ran. Errors: InvalidSpec under `field` for a time below kMinTimeUs or above
/// kMaxTimeUs.
[[nodiscard]] Result<void> validate_measured_time(const std::string& field, double us);

/// As validate_measured_time(), but 0 is legal too: the time is not known.
[[nodiscard]] Result<void> validate_known_time(const std::string& field, double us);

/// Checks a measured benefit, the saved part of serial's time, and its interval, which must contain it.
/// Errors: InvalidSpec naming "benefit", "benefit_low" or "benefit_high" for a value that no two times give.
[[nodiscard]] Result<void> validate_benefit(double benefit, double low, double high);

/// Errors: InvalidSpec under `field`, which names the lower end, if low is above high or either is not finite.
[[nodiscard]] Result<void> validate_interval(const std::string& field, double low, double high);

/// Element type of A and B; the product's follows from it (product_type() in op_spec.hpp). Values are stored: never
/// renumber.
enum class DType : std::uint8_t { F32 = 1, F16 = 2, Bf16 = 3, I8 = 4, F8E4m3 = 5 };

/// Every element type, in the order in which they are listed.
inline constexpr std::array kDTypes{DType::F32, DType::F16, DType::Bf16, DType::I8, DType::F8E4m3};

[[nodiscard]] std::string_view to_string(DType dtype) noexcept;

/// Errors: UnknownName, listing the legal spellings.
[[nodiscard]] Result<DType> parse_dtype(std::string_view text);

/// Whether elements stand for numbers only together with f32 scales, which are separate operands: i8, f8e4m3.
[[nodiscard]] constexpr bool has_scales(DType dtype) noexcept { return dtype == DType::I8 || dtype == DType::F8E4m3; }

/// Type of products of elements of `dtype`: bf16 for types with scales, otherwise `dtype`.
[[nodiscard]] constexpr DType product_type(DType dtype) noexcept { return has_scales(dtype) ? DType::Bf16 : dtype; }

/// Bytes of one element.
[[nodiscard]] std::int64_t size_bytes(DType dtype) noexcept;

/// `numerator / denominator` rounded up; both > 0.
[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t numerator, std::int64_t denominator) noexcept {
  return (numerator + denominator - 1) / denominator;
}

/// `value` rounded up to a multiple of `step`; value >= 0, step > 0.
template <typename Number>
[[nodiscard]] constexpr Number align_up(Number value, Number step) noexcept {
  return (value + step - 1) / step * step;
}

/// `value` rounded down to a multiple of `step`; step > 0.
[[nodiscard]] constexpr std::int64_t align_down(std::int64_t value, std::int64_t step) noexcept {
  return value - value % step;
}

} // namespace mc2::planner

#pragma GCC visibility pop
