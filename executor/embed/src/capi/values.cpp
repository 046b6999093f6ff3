#include "capi/values.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "capi/objects.hpp"
#include "capi/structs.hpp"
#include "mc2/executor/buffer.hpp"
#include "mc2/planner/analytic_model.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/planner/device_model.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/topologies.hpp"

namespace mc2::capi {
namespace {

// mc2.h repeats the planner's values under other names. tests/planner/kinds_lists_test.py compares the operator kinds.
static_assert(MC2_F32 == static_cast<int>(planner::DType::F32) && MC2_F16 == static_cast<int>(planner::DType::F16) &&
              MC2_BF16 == static_cast<int>(planner::DType::Bf16) && MC2_I8 == static_cast<int>(planner::DType::I8) &&
              MC2_F8E4M3 == static_cast<int>(planner::DType::F8E4m3));
static_assert(MC2_POOLING_SUM == static_cast<int>(planner::Pooling::Sum) &&
              MC2_POOLING_MEAN == static_cast<int>(planner::Pooling::Mean));
static_assert(MC2_ERROR_INVALID_SPEC == static_cast<int>(ErrorCode::InvalidSpec) &&
              MC2_ERROR_NEWER_VERSION == static_cast<int>(ErrorCode::NewerVersion) &&
              MC2_ERROR_UNREADABLE == static_cast<int>(ErrorCode::Unreadable));

/// What the library calls a field, and what C's struct does.
using FieldNames = std::span<const std::pair<std::string_view, const char*>>;

constexpr std::pair<std::string_view, const char*> kOpFields[] = {
    {"m", "op.m"},
    {"n", "op.n"},
    {"k", "op.k"},
    {"ranks", "op.world_size"},
    {"experts", "op.expert_count"},
    {"top_k", "op.top_k"},
    {"experts_per_rank", "op.experts_per_rank"},
    {"tables", "op.table_count"},
    {"table_rows", "op.table_rows"},
    {"norm", "op.norm"},
};
constexpr std::pair<std::string_view, const char*> kCommunicatorFields[] = {
    {"world_size", "options.world_size"}, {"deadline", "options.deadline_ms"}, {"process", "options.process_rank"}};
constexpr std::pair<std::string_view, const char*> kPlanFields[] = {
    {"strategy", "strategy"},
    {"alignment", "alignment"},
    {"min_block_rows", "min_block_length"},
    {"max_block_count", "max_block_count"},
    {"block_overhead_us", "block_overhead_us"},
    {"objective_quantile", "objective_quantile"},
};

/// Leaves the call with the error, which names the field of C's struct.
void require(const Result<void>& verdict, FieldNames names, const std::string& prefix = {}) {
  if (verdict) return;
  Error error = verdict.error();
  const auto name = std::ranges::find(names, error.field, [](const auto& pair) { return pair.first; });
  if (name != names.end()) error.field = prefix + name->second;
  take(Result<void>(std::move(error)));
}

/// Reads an enumerator with a value from 1 to `last`. Leaves the call for any other number.
template <typename Enum>
Enum read_enum(std::int32_t value, Enum last, const char* field) {
  if (value < 1 || value > static_cast<std::int32_t>(last)) {
    fail(MC2_ERROR_UNKNOWN_NAME, field,
         "is " + std::to_string(value) + "; legal: 1 to " + std::to_string(static_cast<int>(last)) + " (mc2.h)");
  }
  return static_cast<Enum>(value);
}

planner::OpKind read_kind(std::int32_t value) {
  const auto last = std::ranges::max(planner::op_registry(), {}, &planner::OpTraits::kind).kind;
  return read_enum(value, last, "op.kind");
}

std::optional<planner::EmbeddingTables> read_tables(const mc2_op_spec& op) {
  if (op.table_count == 0 && op.table_rows == 0) {
    if (op.pooling != 0)
      fail(MC2_ERROR_INVALID_SPEC, "op.pooling",
           "is " + std::to_string(op.pooling) + ", but there are no tables (table_count, table_rows); needs 0");
    return std::nullopt;
  }
  const auto pooling =
      op.pooling == 0 ? planner::Pooling::Sum : read_enum(op.pooling, planner::Pooling::Mean, "op.pooling");
  return planner::EmbeddingTables{op.table_count, op.table_rows, pooling};
}

std::optional<planner::ChosenExperts> read_experts(const mc2_op_spec& op) {
  if (op.expert_count == 0 && op.top_k == 0) return std::nullopt;
  if (op.expert_count == 0)
    fail(MC2_ERROR_INVALID_SPEC, "op.top_k",
         "is " + std::to_string(op.top_k) +
             ", but expert_count is 0; grouped matmuls need both, and other kinds need 0 for both");
  return planner::ChosenExperts{op.expert_count, op.top_k};
}

planner::Norm read_norm(std::int32_t norm) {
  if (norm == MC2_NORM_NONE) return planner::Norm::None;
  if (norm == MC2_NORM_RMS) return planner::Norm::Rms;
  fail(MC2_ERROR_UNKNOWN_NAME, "op.norm", "is " + std::to_string(norm) + "; legal: MC2_NORM_NONE, MC2_NORM_RMS");
}

void read_process(const mc2_communicator_options& from, executor::CommunicatorOptions& to) {
  if (from.rank_zero == nullptr && (from.local_rank != 0 || from.local_size != 0))
    fail(MC2_ERROR_INVALID_SPEC, "options.rank_zero",
         "is NULL, but local_rank or local_size is given, which worlds of several hosts have");
  if (from.rank_zero != nullptr && from.process_key != nullptr &&
      (from.local_rank < 0 || from.local_rank >= from.local_size))
    fail(MC2_ERROR_INVALID_SPEC, "options.local_rank",
         "is " + std::to_string(from.local_rank) + " of local_size " + std::to_string(from.local_size) +
             "; legal: 0 to below local_size, the ranks of this host");
  if (from.process_key != nullptr)
    to.process = executor::ProcessPlace{.rank = from.process_rank,
                                        .key = from.process_key,
                                        .address = from.rank_zero == nullptr ? "" : from.rank_zero,
                                        .local_rank = from.local_rank,
                                        .local_size = from.local_size};
  else if (from.rank_zero != nullptr)
    fail(MC2_ERROR_INVALID_SPEC, "options.process_key", "is NULL, but rank_zero is given");
  else if (from.process_rank != 0)
    fail(MC2_ERROR_INVALID_SPEC, "options.process_key",
         "is NULL, but process_rank is " + std::to_string(from.process_rank));
}

} // namespace

planner::DType read_dtype(std::int32_t dtype, const char* field) {
  return read_enum(dtype, planner::DType::F8E4m3, field);
}

planner::DType read_summed_dtype(std::int32_t dtype, const char* field) {
  if (dtype == MC2_F8E4M3) return planner::DType::F8E4m3;
  return read_enum(dtype, planner::DType::I8, field);
}

planner::OpSpec read_op(const mc2_op_spec* address) {
  const auto op = read_struct(address, "op");
  planner::OpSpec spec;
  spec.kind = read_kind(op.kind);
  spec.m = op.m;
  spec.n = op.n;
  spec.k = op.k;
  spec.dtype = read_dtype(op.dtype, "op.dtype");
  spec.world_size = op.world_size;
  spec.tables = read_tables(op);
  spec.experts = read_experts(op);
  spec.experts_per_rank = op.experts_per_rank == 0 ? 1 : op.experts_per_rank;
  spec.epilogue = {op.has_bias != 0, op.has_residual != 0, read_norm(op.norm)};
  require(spec.validate(), kOpFields);
  return spec;
}

mc2_op_spec write_op(const planner::OpSpec& spec) {
  mc2_op_spec op{};
  op.kind = static_cast<std::int32_t>(spec.kind);
  op.m = spec.m;
  op.n = spec.n;
  op.k = spec.k;
  op.dtype = static_cast<std::int32_t>(spec.dtype);
  op.world_size = spec.world_size;
  op.has_bias = spec.epilogue.has_bias ? 1 : 0;
  op.has_residual = spec.epilogue.has_residual ? 1 : 0;
  op.norm = static_cast<std::int32_t>(spec.epilogue.norm);
  op.experts_per_rank = spec.experts_per_rank;
  if (spec.experts) {
    op.expert_count = spec.experts->count;
    op.top_k = spec.experts->top_k;
  }
  if (spec.tables) {
    op.table_count = spec.tables->table_count;
    op.table_rows = spec.tables->row_count;
    op.pooling = static_cast<std::int32_t>(spec.tables->pooling);
  }
  return op;
}

mc2_operand_sizes operand_sizes(const planner::OpSpec& op) {
  const auto shapes = executor::operand_shapes(op);
  const auto bytes = [](const executor::MatrixShape& shape, std::int64_t element) {
    return shape.element_count() * element;
  };
  const std::int64_t operand = planner::size_bytes(op.dtype), product = planner::size_bytes(planner::product_type(op));
  const std::int64_t scale = planner::size_bytes(planner::DType::F32);
  mc2_operand_sizes told{};
  told.a_bytes = bytes(shapes.a, operand);
  told.b_bytes = bytes(shapes.b, operand);
  told.c_bytes = bytes(shapes.c, product);
  told.bias_bytes = bytes(shapes.bias, product);
  told.residual_bytes = bytes(shapes.residual, product);
  told.norm_weight_bytes = bytes(shapes.norm_weight, product);
  told.normed_bytes = bytes(shapes.normed, product);
  told.a_scales_bytes = bytes(shapes.a_scales, scale);
  told.b_scales_bytes = bytes(shapes.b_scales, scale);
  if (planner::traits_of(op.kind).gathers_a) told.gathered_a_bytes = bytes(executor::gathered_a_shape(op), operand);
  return told;
}

Machinery read_machinery(const mc2_communicator_options* address) {
  const auto given_options = read_struct(address, "options");
  const auto* backend = take(executor::find_backend(given_options.backend == nullptr ? "host" : given_options.backend));
  const auto availability = given_options.rank_zero == nullptr
                                ? backend->availability()
                                : backend->availability(std::max(1, given_options.local_size));
  if (!availability.is_available)
    fail(MC2_ERROR_UNSUPPORTED, "options.backend",
         std::string(backend->name()) + " is not available: " + availability.reason);
  executor::CommunicatorOptions options;
  options.world_size = given_options.world_size;
  if (given_options.link != nullptr) options.link = take(executor::parse_link(given_options.link));
  if (given_options.virtual_compute != nullptr)
    options.virtual_compute = take(executor::parse_virtual_compute(given_options.virtual_compute));
  if (given_options.deadline_ms != 0) options.deadline = std::chrono::milliseconds(given_options.deadline_ms);
  options.pin_threads = given_options.no_pinning == 0;
  if (given_options.native_communicator_count > 0) {
    if (given_options.native_communicator_count > static_cast<std::size_t>(planner::kMaxWorldSize))
      fail(MC2_ERROR_INVALID_SPEC, "options.native_communicator_count", "is larger than any world");
    const auto* first = &given(given_options.native_communicators, "options.native_communicators");
    options.native_communicators.assign(first, first + given_options.native_communicator_count);
  }
  read_process(given_options, options);
  require(options.validate(), kCommunicatorFields);
  return {*backend, std::move(options)};
}

namespace {

std::optional<planner::LaneContention> read_contention(const mc2_plan_options& options, const std::string& prefix) {
  const planner::LaneContention read{options.compute_contention, options.communication_contention};
  if (read.compute == 0 && read.communication == 0) return std::nullopt;
  for (const auto& [factor, field] :
       {std::pair(read.compute, "compute_contention"), std::pair(read.communication, "communication_contention")}) {
    if (factor == 0)
      fail(MC2_ERROR_INVALID_SPEC, prefix + field, "is 0, but the other factor is given; give both or none");
    if (!(factor >= planner::kMinContention && factor <= planner::kMaxContention))
      fail(MC2_ERROR_INVALID_SPEC, prefix + field,
           "is " + number_text(factor) + "; legal: " + number_text(planner::kMinContention) + " to " +
               number_text(planner::kMaxContention));
  }
  return read;
}

} // namespace

planner::PlanOptions read_plan_options(const mc2_plan_options* address, const planner::Fingerprint& machine,
                                       const char* name) {
  const auto given_options = read_optional_struct(address, name);
  const std::string prefix = std::string(name) + ".";
  auto options = planner::default_options_on(machine);
  if (given_options.strategy != nullptr) options.strategy = given_options.strategy;
  if (given_options.alignment != 0) options.alignment = options.min_block_rows = given_options.alignment;
  if (given_options.min_block_length != 0) options.min_block_rows = given_options.min_block_length;
  if (given_options.max_block_count != 0) options.max_block_count = given_options.max_block_count;
  if (given_options.objective_quantile != 0) options.objective_quantile = given_options.objective_quantile;
  options.contention = read_contention(given_options, prefix);
  if (given_options.has_block_overhead != 0) options.block_overhead_us = given_options.block_overhead_us;
  if (given_options.has_block_overhead == 0 && given_options.block_overhead_us != 0)
    fail(MC2_ERROR_INVALID_SPEC, prefix + "block_overhead_us", "is given without has_block_overhead = 1");
  options.require_significant_gain = given_options.allow_small_gain == 0;
  if (given_options.count_count > 0) {
    const auto* counts = &given(given_options.counts, prefix + "counts");
    if (given_options.count_count > static_cast<std::size_t>(planner::kMaxSize))
      fail(MC2_ERROR_INVALID_SPEC, prefix + "count_count", "is larger than any worlds' tables");
    options.counts.assign(counts, counts + given_options.count_count);
  } else if (given_options.counts != nullptr) {
    fail(MC2_ERROR_INVALID_SPEC, prefix + "count_count", "is 0, but counts is given");
  }
  require(options.validate(), kPlanFields, prefix);
  return options;
}

std::string_view read_document(const char* json, std::size_t length) {
  std::string_view document(&given(json, "json"), length);
  if (document.ends_with('\0')) document.remove_suffix(1); // of a caller who counts the end of C's text
  return document;
}

void hand_out_text(std::string_view text, const char** to, std::size_t* length) {
  given(to, "json") = text.data();
  if (length != nullptr) *length = text.size();
}

} // namespace mc2::capi

using namespace mc2;
using namespace mc2::capi;

extern "C" {

mc2_status mc2_operands(const mc2_op_spec* op, mc2_operand_sizes* sizes) {
  return call([&] { write_struct(sizes, operand_sizes(read_op(op)), "sizes"); });
}

mc2_status mc2_machine_of(const mc2_communicator_options* options, mc2_machine** machine) {
  return call_for<MachineObject>(machine, "machine", [&] {
    const auto machinery = read_machinery(options);
    return machinery.backend.fingerprint(machinery.options);
  });
}

mc2_status mc2_machine_from_json(const char* json, size_t length, mc2_machine** machine) {
  return call_for<MachineObject>(machine, "machine",
                                 [&] { return take(store::decode_fingerprint(read_document(json, length))); });
}

mc2_status mc2_machine_to_json(const mc2_machine* machine, const char** json, size_t* length) {
  return call([&] { hand_out_text(Pinned<MachineObject>(machine)->json, json, length); });
}

mc2_status mc2_free_machine(mc2_machine* machine) { return free_handle<MachineObject>(machine); }

mc2_status mc2_model_from_json(const char* json, size_t length, mc2_model** model) {
  return call_for<ModelObject>(model, "model", [&] { return take(store::decode_model(read_document(json, length))); });
}

mc2_status mc2_model_of_device(const char* device, const mc2_op_spec* op, mc2_model** model) {
  return call_for<ModelObject>(model, "model",
                               [&] { return take(planner::device_model(&given(device, "device"), read_op(op))); });
}

mc2_status mc2_model_of_topology(const char* json, size_t length, const mc2_op_spec* op, mc2_model** model) {
  return call_for<ModelObject>(model, "model", [&] {
    const auto topology = take(store::topology_of(read_document(json, length)));
    return take(planner::analytic_model(topology, read_op(op)));
  });
}

mc2_status mc2_model_to_json(const mc2_model* model, const char** json, size_t* length) {
  return call([&] { hand_out_text(Pinned<ModelObject>(model)->json, json, length); });
}

mc2_status mc2_free_model(mc2_model* model) { return free_handle<ModelObject>(model); }

} // extern "C"
