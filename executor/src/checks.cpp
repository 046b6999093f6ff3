#include "checks.hpp"

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "index_numbers.hpp"
#include "mc2/planner/text.hpp"
#include "row_splits.hpp"
#include "texts.hpp"

namespace mc2::executor {
namespace {

/// One matrix of one rank, for checks that are the same for all matrices.
struct NamedBytes {
  std::string name;
  std::span<const std::byte> bytes;
  MatrixShape shape;
  planner::DType dtype = planner::DType::F32;
  bool is_written = false;
};

std::vector<NamedBytes> all_matrices(const planner::OpSpec& op, std::span<const int> ranks,
                                     std::span<const RankBuffers> buffers) {
  std::vector<NamedBytes> matrices;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const OperandShapes shapes = rank_shapes(op, buffers[i]);
    const std::string rank = rank_text(ranks[i]) + " ";
    matrices.push_back({rank + "A", buffers[i].a, shapes.a, op.dtype});
    matrices.push_back({rank + "B", buffers[i].b, shapes.b, op.dtype});
    matrices.push_back({rank + "C", buffers[i].c, shapes.c, product_type(op), true});
    matrices.push_back({rank + "bias", buffers[i].bias, shapes.bias, product_type(op)});
    matrices.push_back({rank + "residual", buffers[i].residual, shapes.residual, product_type(op)});
    matrices.push_back({rank + "weight of the norm", buffers[i].norm_weight, shapes.norm_weight, product_type(op)});
    matrices.push_back({rank + "normed", buffers[i].normed, shapes.normed, product_type(op), true});
    matrices.push_back({rank + "scales of A", buffers[i].a_scales, shapes.a_scales});
    matrices.push_back({rank + "scales of B", buffers[i].b_scales, shapes.b_scales});
    const bool is_weighted = op.experts && planner::traits_of(op.kind).sums();
    matrices.push_back({rank + "weights of the choices", buffers[i].choices.weights,
                        is_weighted ? MatrixShape{op.m, op.experts->top_k} : MatrixShape{}});
    if (!buffers[i].gathered_a.empty())
      matrices.push_back({rank + "gathered A", buffers[i].gathered_a, gathered_a_shape(op), op.dtype, true});
  }
  return matrices;
}

/// An array of integers with their type.
struct NamedNumbers {
  NamedBytes array;
  IndexType type;
};

/// The arrays of bags and choices as matrices, so that the checks of matrices apply to them. The shape of the indices
/// is their own size, because the caller chooses how many there are.
std::vector<NamedNumbers> all_numbers(const planner::OpSpec& op, std::span<const int> ranks,
                                      std::span<const RankBuffers> buffers) {
  std::vector<NamedNumbers> arrays;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::string rank = rank_text(ranks[i]) + " ";
    const EmbeddingBags& bags = buffers[i].bags;
    const std::int64_t bag_count = op.tables ? op.tables->table_count * op.m : -1;
    arrays.push_back({{rank + "bags' offsets", bags.offsets, {1, bag_count + 1}}, bags.type});
    const auto index_count = static_cast<std::int64_t>(bags.indices.size()) / size_bytes(bags.type);
    arrays.push_back({{rank + "bags' indices", bags.indices, {1, op.tables ? index_count : 0}}, bags.type});
    const ExpertChoices& choices = buffers[i].choices;
    const MatrixShape chosen = op.experts ? MatrixShape{op.m, op.experts->top_k} : MatrixShape{};
    arrays.push_back({{rank + "chosen experts", choices.experts, chosen}, choices.type});
  }
  return arrays;
}

Result<void> check_gathers(const planner::OpSpec& op, std::span<const int> ranks,
                           std::span<const RankBuffers> buffers) {
  const auto gathers_a = [](const planner::OpTraits& traits) { return traits.gathers_a; };
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].gathered_a.empty() || gathers_a(planner::traits_of(op.kind))) continue;
    return Error{ErrorCode::InvalidSpec, "buffers",
                 rank_text(ranks[i]) + " wants the gathered A of " + std::string(to_string(op.kind)) + "; only " +
                     planner::kinds_with(gathers_a) + " gather one"};
  }
  return {};
}

Result<void> check_norms(const planner::OpSpec& op, std::span<const int> ranks, std::span<const RankBuffers> buffers) {
  for (std::size_t i = 0; i < buffers.size() && op.epilogue.norm != planner::Norm::None; ++i) {
    const float epsilon = buffers[i].norm_epsilon;
    if (epsilon > 0 && std::isfinite(epsilon)) continue;
    return Error{ErrorCode::InvalidSpec, "norm_epsilon",
                 rank_text(ranks[i]) + " has " + number_text(epsilon) + "; needs a number above 0, e.g. 1e-6"};
  }
  return {};
}

Result<void> check_matrix(const NamedBytes& matrix, std::int64_t element_bytes) {
  const std::int64_t needed = matrix.shape.element_count() * element_bytes;
  if (needed == 0 && !matrix.bytes.empty())
    return Error{ErrorCode::InvalidSpec, "buffers",
                 matrix.name + " has " + std::to_string(matrix.bytes.size()) +
                     " bytes, but the operator has no such operand; leave it out"};
  if (static_cast<std::int64_t>(matrix.bytes.size()) != needed) {
    return Error{ErrorCode::InvalidSpec, "buffers",
                 matrix.name + " has " + std::to_string(matrix.bytes.size()) + " bytes; [" +
                     std::to_string(matrix.shape.rows) + ", " + std::to_string(matrix.shape.columns) + "] needs " +
                     std::to_string(needed)};
  }
  if (reinterpret_cast<std::uintptr_t>(matrix.bytes.data()) % static_cast<std::uintptr_t>(element_bytes) != 0) {
    return Error{ErrorCode::InvalidSpec, "buffers",
                 matrix.name + " is not aligned to its " + std::to_string(element_bytes) + "-byte elements"};
  }
  return {};
}

Result<void> check_overlaps(std::span<const NamedBytes> matrices) {
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    for (std::size_t j = i + 1; j < matrices.size(); ++j) {
      const bool is_hazard = matrices[i].is_written || matrices[j].is_written;
      if (is_hazard && overlap(matrices[i].bytes, matrices[j].bytes)) {
        return Error{ErrorCode::InvalidSpec, "buffers",
                     matrices[i].name + " overlaps " + matrices[j].name + "; what a run writes must overlap nothing"};
      }
    }
  }
  return {};
}

} // namespace

bool overlap(std::span<const std::byte> left, std::span<const std::byte> right) {
  const auto left_at = reinterpret_cast<std::uintptr_t>(left.data());
  const auto right_at = reinterpret_cast<std::uintptr_t>(right.data());
  return !left.empty() && !right.empty() && left_at < right_at + right.size() && right_at < left_at + left.size();
}

Result<void> check_world(const StageList& list, int world_size) {
  if (list.op.world_size == world_size) return {};
  return Error{ErrorCode::InvalidSpec, "world_size",
               "the operator has " + std::to_string(list.op.world_size) + " ranks and the communicator has " +
                   std::to_string(world_size)};
}

Result<void> check_holds_all_ranks(const CommunicatorOptions& options, std::string_view backend) {
  const auto refuse = [&](const char* option, const char* what) {
    return Error{ErrorCode::Unsupported, option,
                 "the " + std::string(backend) + " backend takes no " + what + "; leave it out"};
  };
  if (options.process) return refuse("process", "place among processes");
  if (!options.native_communicators.empty())
    return refuse("native_communicators", "list of the caller's communicators");
  return {};
}

std::string call_text(const StageList& list, const planner::Variant& variant, const PrepareOptions& options) {
  std::string text = list.op.text() + " in blocks of";
  for (const Stage& stage : list.stages) text += " " + std::to_string(stage.row_count);
  text += " " + std::string(to_string(planner::cut_axis(list.op))) + " with " + variant.text();
  text += ", " + std::string(to_string(list.schedule));
  return text + (options.allow_independent ? ", lanes also independent" : "");
}

Result<void> check_buffers(const planner::OpSpec& op, std::span<const RankBuffers> buffers) {
  std::vector<int> ranks(static_cast<std::size_t>(op.world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  MC2_TRY(check_buffers(op, ranks, buffers));
  return check_splits_agree(op, buffers);
}

Result<void> check_buffers(const planner::OpSpec& op, std::span<const int> ranks,
                           std::span<const RankBuffers> buffers) {
  if (buffers.size() != ranks.size()) {
    return Error{ErrorCode::InvalidSpec, "buffers",
                 std::to_string(buffers.size()) + " sets of buffers for " + std::to_string(ranks.size()) +
                     " ranks; one per rank is needed"};
  }
  MC2_TRY(check_splits(op, ranks, buffers));
  MC2_TRY(check_gathers(op, ranks, buffers));
  MC2_TRY(check_norms(op, ranks, buffers));
  auto matrices = all_matrices(op, ranks, buffers);
  for (const NamedBytes& matrix : matrices) {
    MC2_TRY(check_matrix(matrix, planner::size_bytes(matrix.dtype)));
  }
  for (const NamedNumbers& numbers : all_numbers(op, ranks, buffers)) {
    MC2_TRY(check_matrix(numbers.array, size_bytes(numbers.type)));
    matrices.push_back(numbers.array);
  }
  for (std::size_t i = 0; i < buffers.size(); ++i)
    matrices.push_back({rank_text(ranks[i]) + " counts", buffers[i].device_send_counts, {}});
  return check_overlaps(matrices);
}

} // namespace mc2::executor
