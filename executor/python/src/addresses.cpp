#include <cstdint>
#include <utility>

#include "mc2/executor/executor.hpp"
#include "world.hpp"

namespace mc2::python {
namespace {

using namespace py::literals;
using planner::OpSpec;
using planner::Variant;

// NOLINTNEXTLINE: Python passes addresses as numbers
std::byte* at(std::uintptr_t address) { return reinterpret_cast<std::byte*>(address); }

constexpr std::size_t kCountsIndex = 8; ///< counts in device memory; this and the following entries may be left out
constexpr std::size_t kBagsIndex = 9;   ///< offsets, row numbers, number of row numbers, bytes of one number
constexpr std::size_t kBagsEnd = 13;
constexpr std::size_t kChoicesIndex = 9; ///< experts, weights, bytes of an expert's number
constexpr std::size_t kChoicesEnd = 12;
constexpr std::size_t kScalesIndex = 9; ///< scales of A, scales of B
constexpr std::size_t kScalesEnd = 11;

executor::IndexType index_type(std::uintptr_t size_bytes) {
  return size_bytes == 4 ? executor::IndexType::I32 : executor::IndexType::I64;
}

std::span<const std::byte> bytes_at(std::uintptr_t address, std::int64_t count, std::uintptr_t size) {
  return {at(address), static_cast<std::size_t>(count) * size};
}

executor::EmbeddingBags bags_at(const OpSpec& op, const Addresses& addresses) {
  if (!op.tables) return {};
  const std::uintptr_t size = addresses[kBagsIndex + 3];
  return {.offsets = bytes_at(addresses[kBagsIndex], op.tables->table_count * op.m + 1, size),
          .indices = bytes_at(addresses[kBagsIndex + 1], static_cast<std::int64_t>(addresses[kBagsIndex + 2]), size),
          .type = index_type(size)};
}

executor::ExpertChoices choices_at(const OpSpec& op, const Addresses& addresses) {
  if (!op.experts) return {};
  const std::int64_t count = op.m * op.experts->top_k;
  const std::uintptr_t weights = addresses[kChoicesIndex + 1], size = addresses[kChoicesIndex + 2];
  return {.experts = bytes_at(addresses[kChoicesIndex], count, size),
          .weights = bytes_at(weights, weights == 0 ? 0 : count, sizeof(float)),
          .type = index_type(size)};
}

/// The scales of A or B; empty for types without scales. Operators with tables or chosen experts have none.
std::span<const std::byte> scales_at(const OpSpec& op, const Addresses& addresses, std::size_t index,
                                     const executor::MatrixShape& shape) {
  if (!planner::has_scales(op.dtype)) return {};
  return bytes_at(addresses[index], shape.element_count(), sizeof(float));
}

std::span<std::byte> gathered_at(const OpSpec& op, std::uintptr_t address) {
  if (address == 0) return {};
  const auto count = executor::gathered_a_shape(op).element_count();
  return {at(address), static_cast<std::size_t>(count * planner::size_bytes(op.dtype))};
}

std::size_t address_count(const OpSpec& op) {
  if (op.tables) return kBagsEnd;
  if (op.experts) return kChoicesEnd;
  if (planner::has_scales(op.dtype)) return kScalesEnd;
  return op.epilogue.is_empty() ? 4 : 8;
}

/// Errors: InvalidSpec if the operator needs more addresses; Unsupported.
Result<void> check_count(const OpSpec& op, const Addresses& addresses) {
  if (planner::has_scales(op.dtype) && op.experts)
    return Error{ErrorCode::Unsupported, "dtype", "has scales, which rows that choose experts do not take by address"};
  const std::size_t needed = address_count(op);
  if (addresses.size() >= needed) return {};
  return Error{ErrorCode::InvalidSpec, "addresses",
               "are " + std::to_string(addresses.size()) + "; needs " + std::to_string(needed) +
                   ", 0 for what the operator has not"};
}

std::unique_ptr<Binding> prepare_at(const std::shared_ptr<World>& world, const OpSpec& op,
                                    std::vector<std::int64_t> blocks, const std::optional<Variant>& variant,
                                    const Addresses& addresses, py::object keep_alive, bool allow_independent,
                                    bool b_is_transposed, const std::optional<std::string>& schedule,
                                    float norm_epsilon) {
  auto& communicator = world->communicator();
  if (communicator.local_ranks().size() != 1) throw Failure(not_one_rank());
  std::unique_ptr<executor::Prepared> prepared;
  {
    const py::gil_scoped_release released;
    const World::Turn turn(*world);
    const auto plan = given_plan(*world, op, {std::move(blocks)}, variant, schedule);
    // Shared, so that the other processes do not wait in prepare() for this rank.
    unwrap(communicator.share_error(plan ? check_count(op, addresses) : plan.error()));
    const executor::RankBuffers buffers[] = {buffers_at(op, addresses, b_is_transposed, norm_epsilon)};
    const executor::ExecuteOptions options{.prepare = {.allow_independent = allow_independent}};
    prepared = unwrap(executor::prepare(plan.value(), buffers, communicator, options));
  }
  return std::make_unique<Binding>(world, std::move(prepared), op, std::move(keep_alive), allow_independent,
                                   b_is_transposed, norm_epsilon);
}

} // namespace

Error not_one_rank() {
  return {ErrorCode::InvalidSpec, "communicator", "holds several ranks; open it with process=(rank, key)"};
}

executor::RankBuffers buffers_at(const OpSpec& op, const Addresses& addresses, bool b_is_transposed,
                                 float norm_epsilon) {
  unwrap(check_count(op, addresses));
  const auto shapes = executor::operand_shapes(op);
  const planner::DType product_type = planner::product_type(op);
  const auto bytes = [&](const executor::MatrixShape& shape, planner::DType dtype) {
    return static_cast<std::size_t>(shape.element_count() * planner::size_bytes(dtype));
  };
  const bool has_counts = addresses.size() > kCountsIndex && addresses[kCountsIndex] != 0;
  const std::int64_t count_bytes = has_counts ? op.world_size * op.experts_per_rank * std::int64_t{8} : 0;
  const auto added = [&](std::size_t index, const executor::MatrixShape& shape) -> std::span<std::byte> {
    if (shape.element_count() == 0) return {};
    return {at(addresses[index]), bytes(shape, product_type)};
  };
  return {.a = {at(addresses[0]), bytes(shapes.a, op.dtype)},
          .b = {at(addresses[1]), bytes(shapes.b, op.dtype)},
          .c = {at(addresses[2]), bytes(shapes.c, product_type)},
          .bags = bags_at(op, addresses),
          .choices = choices_at(op, addresses),
          .device_send_counts = {at(has_counts ? addresses[kCountsIndex] : 0), static_cast<std::size_t>(count_bytes)},
          .bias = added(4, shapes.bias),
          .residual = added(5, shapes.residual),
          .norm_weight = added(6, shapes.norm_weight),
          .normed = added(7, shapes.normed),
          .norm_epsilon = norm_epsilon,
          .a_scales = scales_at(op, addresses, kScalesIndex, shapes.a_scales),
          .b_scales = scales_at(op, addresses, kScalesIndex + 1, shapes.b_scales),
          .gathered_a = gathered_at(op, addresses[3]),
          .b_is_transposed = b_is_transposed};
}

void bind_addresses(py::class_<World, std::shared_ptr<World>>& world, py::class_<Binding>& prepared) {
  world.def("prepare_at", &prepare_at, "op"_a, "blocks"_a, "variant"_a, "addresses"_a, "keep_alive"_a,
            "allow_independent"_a = false, "b_is_transposed"_a = false, "schedule"_a = py::none(),
            "norm_epsilon"_a = executor::kUsualNormEpsilon,
            "Prepares blocks with a variant on the matrices of this process's only rank, in memory of its device.\n"
            "Collective. keep_alive owns the memory. addresses, in this order:\n"
            "- addresses of A, B, C and the rows of A gathered from all ranks (0: not wanted)\n"
            "- addresses of bias, residual, norm weight and normalised rows, 0 for those that the operator does not\n"
            "  have\n"
            "- address of the numbers of rows to send, int64 for each expert of all ranks, read by every run (0:\n"
            "  equal splits)\n"
            "- embedding tables: addresses of the bags' offsets and row numbers, how many row numbers there are,\n"
            "  and the bytes of one number\n"
            "- rows that choose experts: addresses of the expert numbers and of their weights (0: none), and the\n"
            "  bytes of one expert number\n"
            "- types with scales: addresses of the scales of A and of B, which rebind() must keep\n"
            "Entries after the last one that the operator needs may be left out.");
  prepared
      .def("rebind", &Binding::rebind, "addresses"_a, "keep_alive"_a,
           "Makes later runs work on other matrices. addresses and keep_alive as in prepare_at(). Matrices that\n"
           "other ranks access (peer_reach) must keep their addresses.")
      .def("enqueue", &Binding::enqueue, "stream"_a, "as_graph"_a = true, NoGil(),
           "Enqueues one run on a stream, behind the work that it holds, and does not wait for the run. stream:\n"
           "the native handle. Collective.")
      .def_property_readonly(
          "peer_reach",
          [](const Binding& self) {
            const auto reach = self.peer_reach();
            return std::pair(reach.a, reach.c);
          },
          "Whether other ranks access this rank's A, and its C: a pair. rebind() must keep the addresses of those\n"
          "matrices.");
}

} // namespace mc2::python
