#include <exception>
#include <optional>
#include <vector>

#include "capi/objects.hpp"
#include "capi/structs.hpp"
#include "capi/values.hpp"
#include "mc2/executor/executor.hpp"

namespace mc2::capi {
namespace {

std::span<const std::byte> input_at(const void* address, std::size_t byte_count, const char* field) {
  return bytes_at<const std::byte>(address, byte_count, field);
}

std::span<const std::int64_t> counts_at(const std::int64_t* address, std::size_t count, const char* field) {
  if (address == nullptr) return {};
  if (count == 0)
    fail(MC2_ERROR_INVALID_SPEC, field, "is given with 0 counts; needs one for each expert, or NULL for equal splits");
  if (count > static_cast<std::size_t>(planner::kMaxSize))
    fail(MC2_ERROR_INVALID_SPEC, field, "has more counts than any world has experts");
  return {address, count};
}

executor::IndexType read_index_type(std::int32_t type, const char* field) {
  if (type == MC2_INDEX_I32) return executor::IndexType::I32;
  if (type == MC2_INDEX_I64 || type == 0) return executor::IndexType::I64;
  fail(MC2_ERROR_UNKNOWN_NAME, field, "is " + std::to_string(type) + "; legal: MC2_INDEX_I32, MC2_INDEX_I64");
}

executor::RankBuffers rank_buffers(const mc2_buffers& from) {
  executor::RankBuffers to;
  to.a = input_at(from.a, from.a_bytes, "buffers.a");
  to.b = input_at(from.b, from.b_bytes, "buffers.b");
  to.c = bytes_at<std::byte>(from.c, from.c_bytes, "buffers.c");
  to.bags = {input_at(from.bag_offsets, from.bag_offsets_bytes, "buffers.bag_offsets"),
             input_at(from.bag_indices, from.bag_indices_bytes, "buffers.bag_indices"),
             read_index_type(from.bag_index_type, "buffers.bag_index_type")};
  to.choices = {input_at(from.choice_experts, from.choice_experts_bytes, "buffers.choice_experts"),
                input_at(from.choice_weights, from.choice_weights_bytes, "buffers.choice_weights"),
                read_index_type(from.choice_index_type, "buffers.choice_index_type")};
  if (from.count_count != 0 && from.send_counts == nullptr && from.receive_counts == nullptr)
    fail(MC2_ERROR_INVALID_SPEC, "buffers.count_count",
         "is " + std::to_string(from.count_count) + ", but send_counts and receive_counts are NULL; needs 0");
  to.send_counts = counts_at(from.send_counts, from.count_count, "buffers.send_counts");
  to.receive_counts = counts_at(from.receive_counts, from.count_count, "buffers.receive_counts");
  to.device_send_counts =
      input_at(from.device_send_counts, from.device_send_counts_bytes, "buffers.device_send_counts");
  to.bias = input_at(from.bias, from.bias_bytes, "buffers.bias");
  to.residual = input_at(from.residual, from.residual_bytes, "buffers.residual");
  to.norm_weight = input_at(from.norm_weight, from.norm_weight_bytes, "buffers.norm_weight");
  to.normed = bytes_at<std::byte>(from.normed, from.normed_bytes, "buffers.normed");
  if (from.norm_epsilon != 0) to.norm_epsilon = static_cast<float>(from.norm_epsilon);
  to.a_scales = input_at(from.a_scales, from.a_scales_bytes, "buffers.a_scales");
  to.b_scales = input_at(from.b_scales, from.b_scales_bytes, "buffers.b_scales");
  to.gathered_a = bytes_at<std::byte>(from.gathered_a, from.gathered_a_bytes, "buffers.gathered_a");
  return to;
}

/// Leaves the call for an address with 0 bytes, which the executor would take for an operand that is left out. Operands
/// that every rank needs are not checked here: the executor's error tells their right size, which depends on the
/// splits.
void check_left_out(const mc2_buffers& from, const planner::OpSpec& op) {
  const auto check = [&](const void* address, std::size_t byte_count, bool is_operand, const char* field) {
    if (address == nullptr || byte_count > 0 || is_operand) return;
    fail(MC2_ERROR_INVALID_SPEC, field, "is given with 0 bytes, but " + op.text() + " has none; needs NULL");
  };
  const mc2_operand_sizes sizes = operand_sizes(op);
  check(from.a, from.a_bytes, sizes.a_bytes > 0, "buffers.a");
  if (from.device_send_counts != nullptr && from.device_send_counts_bytes == 0)
    fail(MC2_ERROR_INVALID_SPEC, "buffers.device_send_counts", "has 0 bytes; needs 8 for each expert of all ranks");
  check(from.bias, from.bias_bytes, sizes.bias_bytes > 0, "buffers.bias");
  check(from.residual, from.residual_bytes, sizes.residual_bytes > 0, "buffers.residual");
  check(from.norm_weight, from.norm_weight_bytes, sizes.norm_weight_bytes > 0, "buffers.norm_weight");
  check(from.normed, from.normed_bytes, sizes.normed_bytes > 0, "buffers.normed");
  check(from.a_scales, from.a_scales_bytes, sizes.a_scales_bytes > 0, "buffers.a_scales");
  check(from.b_scales, from.b_scales_bytes, sizes.b_scales_bytes > 0, "buffers.b_scales");
  if (from.norm_epsilon != 0 && sizes.normed_bytes == 0)
    fail(MC2_ERROR_INVALID_SPEC, "buffers.norm_epsilon", "is given, but " + op.text() + " has none; needs 0");
  check(from.bag_offsets, from.bag_offsets_bytes, op.tables.has_value(), "buffers.bag_offsets");
  check(from.bag_indices, from.bag_indices_bytes, op.tables.has_value(), "buffers.bag_indices");
  check(from.choice_experts, from.choice_experts_bytes, op.experts.has_value(), "buffers.choice_experts");
  const bool is_weighted = op.experts && planner::traits_of(op.kind).sums();
  check(from.choice_weights, from.choice_weights_bytes, is_weighted, "buffers.choice_weights");
  check(from.gathered_a, from.gathered_a_bytes, sizes.gathered_a_bytes > 0, "buffers.gathered_a");
  if (from.gathered_a != nullptr && from.gathered_a_bytes == 0)
    fail(MC2_ERROR_INVALID_SPEC, "buffers.gathered_a",
         "has 0 bytes; needs " + std::to_string(sizes.gathered_a_bytes) + ", or NULL on a rank that does not want it");
}

/// Reads the caller's array of buffers, one for each rank of this process.
std::vector<executor::RankBuffers> read_buffers(const mc2_buffers* first, std::size_t count, std::size_t rank_count,
                                                const planner::OpSpec& op) {
  if (count != rank_count) {
    fail(MC2_ERROR_INVALID_SPEC, "count",
         "is " + std::to_string(count) + "; the communicator has " + std::to_string(rank_count) +
             " ranks in this process");
  }
  std::vector<executor::RankBuffers> buffers;
  for (const mc2_buffers& known : read_structs(first, count, "buffers")) {
    try {
      check_left_out(known, op);
      buffers.push_back(rank_buffers(known));
    } catch (CallFailed& failed) {
      if (count > 1) failed.message = "of buffers[" + std::to_string(buffers.size()) + "] " + failed.message;
      throw;
    }
  }
  return buffers;
}

/// Runs `work`, which checks arguments before executor::prepare(). If it fails, shares the error with the other
/// processes, which wait for this one at the beginning of executor::prepare().
template <typename Work>
auto together(executor::Communicator& ranks, const Work& work) {
  try {
    return work();
  } catch (const CallFailed& own) {
    static_cast<void>(ranks.share_error(Error{ErrorCode::InvalidSpec, own.field, own.message}));
    throw;
  } catch (const std::exception& own) { // such as std::bad_alloc
    static_cast<void>(ranks.share_error(Error{ErrorCode::Unsupported, "", own.what()}));
    throw;
  }
}

executor::RunMode read_mode(std::int32_t mode) {
  if (mode == MC2_RUN_FUSED) return executor::RunMode::Fused;
  if (mode == MC2_RUN_SERIAL) return executor::RunMode::Serial;
  fail(MC2_ERROR_UNKNOWN_NAME, "mode", "is " + std::to_string(mode) + "; legal: MC2_RUN_FUSED, MC2_RUN_SERIAL");
}

} // namespace
} // namespace mc2::capi

using namespace mc2;
using namespace mc2::capi;

extern "C" {

mc2_status mc2_communicator_open(const mc2_communicator_options* options, mc2_communicator** communicator) {
  return call_for<CommunicatorObject>(communicator, "communicator", [&] {
    const auto machinery = read_machinery(options);
    auto opened = take(machinery.backend.open(machinery.options));
    return std::make_shared<SharedCommunicator>(machinery.backend, machinery.options, std::move(opened));
  });
}

mc2_status mc2_communicator_machine(const mc2_communicator* communicator, mc2_machine** machine) {
  return call_for<MachineObject>(machine, "machine", [&] {
    const Pinned<CommunicatorObject> of(communicator);
    check_process(of->shared->process(), "communicator");
    return of->shared->get().fingerprint();
  });
}

mc2_status mc2_communicator_ranks(const mc2_communicator* communicator, int32_t* ranks, size_t capacity,
                                  size_t* count) {
  return call([&] {
    const Pinned<CommunicatorObject> of(communicator);
    check_process(of->shared->process(), "communicator");
    hand_out_list(of->shared->get().local_ranks(), ranks, capacity, count, "ranks");
  });
}

mc2_status mc2_free_communicator(mc2_communicator* communicator) {
  return free_handle<CommunicatorObject>(communicator);
}

mc2_status mc2_prepare(mc2_communicator* communicator, const mc2_plan* plan, const mc2_buffers* buffers, size_t count,
                       const mc2_prepare_options* options, mc2_prepared** prepared) {
  return call([&] {
    given(prepared, "prepared");
    const Pinned<CommunicatorObject> on(communicator);
    const Turn turn = on->shared->take_turn();
    executor::Communicator& ranks = on->shared->get();
    executor::ExecuteOptions execute;
    std::optional<Pinned<PlanObject>> by;
    const auto views = together(ranks, [&] {
      by.emplace(plan);
      execute.accept_other_fingerprint = read_optional_struct(options, "options").accept_other_machine != 0;
      return read_buffers(buffers, count, ranks.local_ranks().size(), (*by)->plan().op);
    });
    hand_out(
        std::make_unique<PreparedObject>(on->shared, take(executor::prepare((*by)->plan(), views, ranks, execute))),
        prepared);
  });
}

mc2_status mc2_run(mc2_prepared* prepared, int32_t mode, mc2_run_times* times) {
  return call([&] {
    const Pinned<PreparedObject> of(prepared);
    if (times != nullptr) static_cast<void>(check_header(times, "times"));
    const Turn turn = of->communicator->take_turn();
    const auto& record = of->prepared->run(read_mode(mode), executor::RunDetail::Makespan);
    if (times == nullptr) return;
    mc2_run_times told{};
    told.makespan_us = planner::to_us(record.makespan);
    told.wall_us = planner::to_us(record.wall);
    write_struct(times, told, "times");
  });
}

mc2_status mc2_enqueue(mc2_prepared* prepared, void* const* streams, size_t count, int32_t eager) {
  return call([&] {
    const Pinned<PreparedObject> of(prepared);
    if (count > static_cast<std::size_t>(planner::kMaxWorldSize))
      fail(MC2_ERROR_INVALID_SPEC, "count", "is larger than any world");
    if (count > 0) static_cast<void>(given(streams, "streams"));
    const Turn turn = of->communicator->take_turn();
    take(of->prepared->enqueue({streams, count},
                               eager != 0 ? executor::Submission::Eager : executor::Submission::Graph));
  });
}

mc2_status mc2_free_prepared(mc2_prepared* prepared) { return free_handle<PreparedObject>(prepared); }

} // extern "C"
