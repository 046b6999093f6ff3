#include <array>
#include <string>

#include "mc2/planner/op_spec.hpp"
#include "ops/all_gather_matmul.hpp"
#include "ops/all_to_all_matmul.hpp"
#include "ops/embedding_all_to_all.hpp"
#include "ops/matmul_all_reduce.hpp"
#include "ops/matmul_all_to_all.hpp"
#include "ops/matmul_reduce_scatter.hpp"

namespace mc2::planner {

std::span<const OpTraits> op_registry() noexcept {
  static const std::array kRegistry{ops::matmul_all_reduce(), ops::matmul_reduce_scatter(),
                                    ops::all_gather_matmul(), ops::matmul_all_to_all(),
                                    ops::all_to_all_matmul(), ops::embedding_all_to_all()};
  return kRegistry;
}

const OpTraits& traits_of(OpKind kind) {
  for (const auto& traits : op_registry())
    if (traits.kind == kind) return traits;
  check_failed("kind is registered", __FILE__, __LINE__, "an OpKind without a row in the operator registry");
}

std::string_view to_string(OpKind kind) { return traits_of(kind).name; }

Result<OpKind> parse_op_kind(std::string_view name) {
  std::string legal;
  for (const auto& traits : op_registry()) {
    if (traits.name == name) return traits.kind;
    legal += (legal.empty() ? "" : ", ") + std::string(traits.name);
  }
  return Error{ErrorCode::UnknownName, "op",
               "unknown operator '" + std::string(name.substr(0, 64)) + "'; legal: " + legal};
}

} // namespace mc2::planner
