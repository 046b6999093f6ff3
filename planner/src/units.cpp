#include "mc2/planner/units.hpp"

#include <array>

#include "names.hpp"

namespace mc2::planner {
namespace {
constexpr std::array kNames{Name<DType>{DType::F32, "f32"}, Name<DType>{DType::F16, "f16"},
                            Name<DType>{DType::Bf16, "bf16"}, Name<DType>{DType::I8, "i8"},
                            Name<DType>{DType::F8E4m3, "f8e4m3"}};
} // namespace

std::string_view to_string(DType dtype) noexcept { return name_of<DType>(kNames, dtype); }

Result<DType> parse_dtype(std::string_view text) { return parse_name<DType>(kNames, text, "dtype"); }

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
