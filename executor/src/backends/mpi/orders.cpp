#include "backends/mpi/orders.hpp"

#include "backends/mpi/world.hpp"

namespace mc2::executor::mpi {

MPI_Comm order_channel() {
  static_cast<void>(World::get()); // made first, so that it goes last
  static const Channel channel;
  return channel.get();
}

namespace {

void put_operator(Message& message, const planner::OpSpec& op) {
  message.put(static_cast<std::int64_t>(op.kind)).put(op.m).put(op.n).put(op.k);
  message.put(static_cast<std::int64_t>(op.dtype)).put(op.world_size);
  message.put(op.epilogue.has_bias ? 1 : 0).put(op.epilogue.has_residual ? 1 : 0);
  message.put(static_cast<std::int64_t>(op.epilogue.norm));
  const planner::ChosenExperts chosen = op.experts.value_or(planner::ChosenExperts{});
  message.put(op.experts_per_rank).put(chosen.count).put(chosen.top_k).put(op.tables ? 1 : 0);
  if (!op.tables) return;
  message.put(op.tables->table_count).put(op.tables->row_count);
  message.put(static_cast<std::int64_t>(op.tables->pooling));
}

planner::OpSpec get_operator(Message& message) {
  planner::OpSpec op;
  op.kind = static_cast<planner::OpKind>(message.number());
  op.m = message.number();
  op.n = message.number();
  op.k = message.number();
  op.dtype = static_cast<planner::DType>(message.number());
  op.world_size = static_cast<int>(message.number());
  op.epilogue.has_bias = message.number() != 0;
  op.epilogue.has_residual = message.number() != 0;
  op.epilogue.norm = static_cast<planner::Norm>(message.number());
  op.experts_per_rank = message.number();
  planner::ChosenExperts chosen;
  chosen.count = message.number();
  chosen.top_k = message.number();
  if (chosen.count > 0) op.experts = chosen;
  if (message.number() == 0) return op;
  op.tables.emplace();
  op.tables->table_count = message.number();
  op.tables->row_count = message.number();
  op.tables->pooling = static_cast<planner::Pooling>(message.number());
  return op;
}

} // namespace

void put_request(Message& message, const PrepareRequest& request) {
  put_operator(message, request.stages.op);
  message.put(static_cast<std::int64_t>(request.stages.first_lane));
  message.put(static_cast<std::int64_t>(request.stages.stages.size()));
  for (const Stage& stage : request.stages.stages) message.put(stage.first_row).put(stage.row_count);
  message.put(static_cast<std::int64_t>(request.stages.schedule));
  message.put(request.variant.name).put(static_cast<std::int64_t>(request.variant.fields.size()));
  for (const auto& [key, value] : request.variant.fields) message.put(key).put(value);
  message.put(request.options.allow_independent ? 1 : 0);
}

PrepareRequest get_request(Message& message) {
  PrepareRequest request;
  request.stages.op = get_operator(message);
  request.stages.first_lane = static_cast<planner::Lane>(message.number());
  request.stages.stages.resize(static_cast<std::size_t>(message.number()));
  for (Stage& stage : request.stages.stages) {
    stage.first_row = message.number();
    stage.row_count = message.number();
  }
  request.stages.schedule = static_cast<planner::Schedule>(message.number());
  request.variant.name = message.text();
  for (std::int64_t left = message.number(); left > 0; --left) {
    const std::string key = message.text();
    request.variant.fields[key] = message.text();
  }
  request.options.allow_independent = message.number() != 0;
  return request;
}

std::array<std::pair<std::span<const std::byte>, const char*>, 14> named_operands(const RankBuffers& own) {
  return {{{own.a, "A"},
           {own.b, "B"},
           {own.c, "C"},
           {own.bias, "bias"},
           {own.residual, "residual"},
           {own.a_scales, "scales of A"},
           {own.b_scales, "scales of B"},
           {own.bags.offsets, "bags' offsets"},
           {own.bags.indices, "bags' indices"},
           {own.choices.experts, "chosen experts"},
           {own.choices.weights, "weights of the choices"},
           {own.gathered_a, "gathered A"},
           {own.norm_weight, "weight of the norm"},
           {own.normed, "normed"}}};
}

void put_numbers(Message& message, std::span<const std::int64_t> numbers) {
  message.put(static_cast<std::int64_t>(numbers.size()));
  for (const std::int64_t number : numbers) message.put(number);
}

std::vector<std::int64_t> get_numbers(Message& message) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(message.number()));
  for (std::int64_t& number : numbers) number = message.number();
  return numbers;
}

void pack_times(const RankTimes& times, std::span<std::int64_t> numbers) noexcept {
  std::size_t at = 0;
  const auto put = [&](const StageTime& time) {
    numbers[at++] = time.start.count();
    numbers[at++] = time.end.count();
  };
  for (const StageTime& time : times.compute) put(time);
  for (const StageTime& time : times.communication) put(time);
  put(times.local);
}

void unpack_times(std::span<const std::int64_t> numbers, RankTimes& times) noexcept {
  std::size_t at = 0;
  const auto get = [&](StageTime& time) {
    time.start = std::chrono::nanoseconds{numbers[at++]};
    time.end = std::chrono::nanoseconds{numbers[at++]};
  };
  for (StageTime& time : times.compute) get(time);
  for (StageTime& time : times.communication) get(time);
  get(times.local);
}

} // namespace mc2::executor::mpi
