#include "backends/mpi/orders.hpp"

#include <map>
#include <optional>
#include <string>

#include "backends/mpi/world.hpp"

namespace mc2::executor::mpi {

MPI_Comm order_channel() {
  const World& world = World::get(); // made first, so that it is destroyed after the channel
  static const Channel channel(world.opening_deadline());
  return channel.get();
}

namespace {

/// Puts its argument into a message.
struct Putting {
  void operator()(const std::string& text) const { message.put(text); }
  template <typename Number>
  void operator()(Number number) const {
    message.put(static_cast<std::int64_t>(number));
  }
  void operator()(const std::map<std::string, std::string>& texts) const {
    (*this)(texts.size());
    for (const auto& [key, value] : texts) message.put(key).put(value);
  }
  template <typename List>
  void size(const List& list) const {
    (*this)(list.size());
  }
  template <typename T>
  [[nodiscard]] bool has(const std::optional<T>& value) const {
    (*this)(value.has_value());
    return value.has_value();
  }

  Message& message;
};

/// Reads its argument from a message.
struct Taking {
  void operator()(std::string& text) const { text = message.text(); }
  template <typename Number>
  void operator()(Number& number) const {
    number = static_cast<Number>(message.number());
  }
  void operator()(std::map<std::string, std::string>& texts) const {
    for (std::int64_t left = message.number(); left > 0; --left) {
      const std::string key = message.text();
      texts[key] = message.text();
    }
  }
  template <typename List>
  void size(List& list) const {
    list.resize(static_cast<std::size_t>(message.number()));
  }
  template <typename T>
  [[nodiscard]] bool has(std::optional<T>& value) const {
    if (message.number() != 0) value.emplace();
    return value.has_value();
  }

  Message& message;
};

template <typename Pass, typename... Members>
void each(const Pass& pass, Members&... members) {
  (pass(members), ...);
}

template <typename Pass, typename Op>
void pass_operator(const Pass& pass, Op& op) {
  each(pass, op.kind, op.m, op.n, op.k, op.dtype, op.world_size, op.experts_per_rank);
  each(pass, op.epilogue.has_bias, op.epilogue.has_residual, op.epilogue.norm);
  if (pass.has(op.experts)) each(pass, op.experts->count, op.experts->top_k);
  if (pass.has(op.tables)) each(pass, op.tables->table_count, op.tables->row_count, op.tables->pooling);
}

template <typename Pass, typename Request>
void pass_request(const Pass& pass, Request& request) {
  pass_operator(pass, request.stages.op);
  each(pass, request.stages.first_lane, request.stages.schedule);
  pass.size(request.stages.stages);
  for (auto& stage : request.stages.stages) each(pass, stage.first_row, stage.row_count);
  each(pass, request.variant.name, request.variant.fields, request.options.allow_independent);
}

} // namespace

void put_request(Message& message, const PrepareRequest& request) { pass_request(Putting{message}, request); }

PrepareRequest get_request(Message& message) {
  PrepareRequest request;
  pass_request(Taking{message}, request);
  return request;
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

} // namespace mc2::executor::mpi
