#include "pytorch_matmul.hpp"

#include <algorithm>
#include <string>

#include "fields.hpp"

namespace mc2::profiler {

std::optional<std::size_t> find_first_operand(std::string_view operator_name) {
  if (operator_name == "aten::mm" || operator_name == "aten::_int_mm" || operator_name == "aten::_scaled_mm") return 0;
  if (operator_name == "aten::addmm") return 1;
  return std::nullopt;
}

bool multiplies(std::string_view operator_name, planner::DType dtype) {
  using planner::DType;
  if (operator_name == "aten::_int_mm") return dtype == DType::I8;
  if (operator_name == "aten::_scaled_mm") return dtype == DType::F8E4m3;
  return dtype != DType::I8 && dtype != DType::F8E4m3;
}

bool is_matmul_kernel(std::string_view kernel_name) {
  const std::string word = plain(kernel_name);
  return word.find("gemm") != std::string::npos || word.starts_with("nvjet");
}

std::optional<OperandsFault> find_operands_fault(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  if (a.empty() || b.empty()) return OperandsFault{"matmul without shapes; profile with record_shapes=True"};
  const auto is_empty = [](std::span<const std::int64_t> sizes) { return std::ranges::find(sizes, 0) != sizes.end(); };
  if (is_empty(a) || is_empty(b)) return OperandsFault{"matmul of nothing"};
  if (a.size() != 2 || b.size() != 2 || a[1] != b[0] || std::min({a[0], a[1], b[1]}) < 0)
    return OperandsFault{"the shapes of its operands do not multiply", true};
  return std::nullopt;
}

} // namespace mc2::profiler
