#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "event_name.hpp"
#include "fields.hpp"
#include "json_handler.hpp"
#include "json_pieces.hpp"
#include "log_sink.hpp"
#include "mc2/planner/fingerprint.hpp"
#include "mc2/profiler/importer.hpp"
#include "pytorch_matmul.hpp"

namespace mc2::profiler {
namespace pytorch_trace {
namespace {

using planner::Collective;

constexpr std::size_t kMaxTextBytes = 4096;
/// Most matmuls, kernels of matmuls and kernels of collectives that are kept of one trace.
constexpr std::size_t kMaxKept = std::size_t{1} << 18;
constexpr std::size_t kMaxListed = 16; ///< most dimensions of an operand, most operands of an operator
constexpr std::string_view kOldKernel = "kernel that does not name its operator, as those of PyTorch before 2.3";

/// The fields of one event of the trace that mc2 reads.
struct Event {
  std::string phase, category, name;
  TraceTimes times;
  std::optional<std::int64_t> external; ///< the operator that launched the kernel
  std::int64_t device = 0;
  std::optional<std::int64_t> correlation;         ///< number of the kernel's launch
  std::vector<std::vector<std::int64_t>> operands; ///< dimensions of each operand
  std::vector<std::string> types;
  std::string collective, element, in_splits, out_splits, group, group_ranks;
  std::optional<std::int64_t> in_elements, out_elements, group_size;
};

struct Matmul {
  std::int64_t m = 0, n = 0, k = 0, start = 0;
  std::optional<planner::DType> dtype;
  bool is_twice = false; ///< two operators have this number
};

struct Interval {
  std::int64_t start = 0, end = 0;
};

/// A kernel that an operator with a matmul launched.
struct Kernel {
  Interval interval;
  std::int64_t external = 0, device = 0, line = 0;
  bool has_number_of_launch = false; ///< its operator's number is that of its launch: by chance, or none
};

struct CollectiveKernel {
  Interval interval;
  Timing timing;
  std::int64_t device = 0, line = 0;
  std::uint64_t group = 0;       ///< name of the group of ranks
  std::optional<int> place = {}; ///< index of the trace's rank in the group
  bool is_planned = false;
};

/// A set of intervals that can be asked whether another interval crosses any of them. Call sort() before cross().
class Intervals {
 public:
  void add(std::int64_t device, Interval interval) { all_[device].push_back(interval); }
  void sort() {
    for (auto& [device, list] : all_) {
      std::ranges::sort(list, {}, &Interval::start);
      std::int64_t last = list.front().end;
      for (Interval& each : list) each.end = last = std::max(last, each.end);
    }
  }
  [[nodiscard]] bool cross(std::int64_t device, Interval asked) const {
    const auto list = all_.find(device);
    if (list == all_.end()) return false;
    const auto after = std::ranges::lower_bound(list->second, asked.end, {}, &Interval::start);
    return after != list->second.begin() && std::prev(after)->end > asked.start;
  }

 private:
  std::unordered_map<std::int64_t, std::vector<Interval>> all_; ///< by device; sort() makes each end the latest so far
};

/// A PyTorch type, e.g. "c10::BFloat16", under a name that find_dtype() knows.
std::string_view bare_type(std::string_view type) {
  if (type.starts_with("c10::")) type.remove_prefix(5);
  if (type == "signed char" || type == "Char") return "int8";
  if (type == "Float8_e4m3fn") return "fp8_e4m3";
  if (type == "Byte" || type == "Bool") return "uint8";
  if (type == "Long") return "int64";
  return type;
}

/// The collective by the name that PyTorch's process groups give it.
std::optional<Collective> collective_named(const std::string& name) {
  if (name == "allreduce") return Collective::AllReduce;
  if (name == "_reduce_scatter_base" || name == "reduce_scatter") return Collective::ReduceScatter;
  if (name == "_allgather_base" || name == "allgather" || name == "all_gather") return Collective::AllGather;
  if (name == "all_to_all" || name == "all_to_allv") return Collective::AllToAll;
  return std::nullopt;
}

class Handler final : public JsonHandler {
 public:
  Handler(const JsonPieces& pieces, LogSink& sink) : pieces_(pieces), sink_(sink) {}

  bool number_float(number_float_t, const string_t& text) override {
    if (is_in_events_ && depth() == 3) event_.times.set(key_, parse_us(text));
    return true;
  }
  bool string(string_t& text) override {
    if (text.size() <= kMaxTextBytes) take_text(text);
    return true;
  }
  bool start_object(std::size_t) override {
    if (is_in_events_ && depth() == 2) event_ = {};
    return open();
  }
  bool start_array(std::size_t) override {
    if (depth() == 1 && root_key_ == "traceEvents") is_in_events_ = true;
    if (is_argument("Input Dims") && event_.operands.size() < kMaxListed) event_.operands.emplace_back();
    return open();
  }
  bool key(string_t& name) override {
    if (name.size() > kMaxTextBytes) name.resize(kMaxTextBytes);
    if (depth() == 1)
      root_key_ = name;
    else if (depth() == 3)
      key_ = name;
    else if (depth() == 4)
      argument_ = name;
    if (!is_in_events_ && depth() >= 2) key_ = name;
    return true;
  }
  bool end_array() override {
    close();
    if (depth() == 1) is_in_events_ = false;
    return true;
  }
  bool end_object() override {
    close();
    if (is_in_events_ && depth() == 2) take_event();
    return true;
  }
  void finish() override {
    if (rank_ >= 0) sink_.rank(rank_);
    take_matmuls();
    take_collectives();
  }

 private:
  [[nodiscard]] bool is_argument(std::string_view name) const {
    return is_in_events_ && depth() >= 4 && key_ == "args" && argument_ == name;
  }

  bool whole(std::int64_t value) override {
    if (!is_in_events_) {
      if (root_key_ == "distributedInfo" && key_ == "rank" && depth() == 2) rank_ = value;
      return true;
    }
    if (depth() == 3) {
      event_.times.set(key_, value);
    } else if (is_argument("Input Dims")) {
      if (!event_.operands.empty() && event_.operands.back().size() < kMaxListed)
        event_.operands.back().push_back(value);
    } else if (depth() == 4 && key_ == "args") {
      set_argument(value);
    }
    return true;
  }

  void set_argument(std::int64_t value) {
    if (argument_ == "External id") event_.external = value;
    if (argument_ == "device") event_.device = value;
    if (argument_ == "Rank" && rank_ < 0) rank_ = value;
    if (argument_ == "correlation") event_.correlation = value;
    if (argument_ == "In msg nelems") event_.in_elements = value;
    if (argument_ == "Out msg nelems") event_.out_elements = value;
    if (argument_ == "Group size") event_.group_size = value;
  }

  void take_text(std::string& text) {
    if (!is_in_events_) {
      if (root_key_ == "deviceProperties" && key_ == "name") sink_.fact("device", text);
      if (root_key_ == "distributedInfo" && key_ == "nccl_version") sink_.fact("nccl", planner::nccl_version(text));
      return;
    }
    if (depth() == 3) {
      if (key_ == "ph")
        event_.phase = std::move(text);
      else if (key_ == "cat")
        event_.category = std::move(text);
      else if (key_ == "name")
        event_.name = std::move(text);
      return;
    }
    if (is_argument("Input type")) {
      if (event_.types.size() < kMaxListed) event_.types.push_back(std::move(text));
      return;
    }
    if (depth() != 4 || key_ != "args") return;
    for (const auto& [name, field] : {std::pair{"Collective name", &Event::collective},
                                      {"dtype", &Event::element},
                                      {"In split size", &Event::in_splits},
                                      {"Out split size", &Event::out_splits},
                                      {"Process Group Name", &Event::group},
                                      {"Process Group Ranks", &Event::group_ranks}})
      if (argument_ == name) event_.*field = std::move(text);
  }

  void take_event() {
    if (event_.phase != "X") return sink_.skip(pieces_.line(), "no event with a duration");
    if (event_.category == "cpu_op") return take_operator();
    if (event_.category != "kernel") return sink_.skip(pieces_.line(), "no kernel");
    const bool is_nccl = event_.name.starts_with("nccl");
    const bool is_matmul = event_.external && matmuls_.contains(*event_.external);
    const bool has_number_of_launch = event_.external && event_.external == event_.correlation;
    names_operators_ = names_operators_ || (event_.external && !has_number_of_launch);
    if (!is_nccl && !is_matmul) return skip_other(has_number_of_launch ? kOldKernel : "kernel of another operator");
    const auto end = event_.times.end();
    if (!end) return sink_.bad(pieces_.line(), shown(event_.name) + ": a kernel without a start and a time above 0");
    interval_ = {*event_.times.start, *end};
    // Tools that merge traces write events twice.
    const std::tuple key(event_.device, interval_.start, interval_.end, event_.correlation.value_or(0));
    if (known_kernels_.contains(key)) return sink_.skip(pieces_.line(), "the same event as an earlier one");
    if (is_nccl ? nccl_count_ + 1 < kMaxKept : kernels_.size() < kMaxKept) known_kernels_.insert(key);
    if (is_nccl) return take_collective_kernel();
    // Copies around a collective carry the collective's fields, too.
    if (!event_.collective.empty()) return sink_.skip(pieces_.line(), "kernel beside a collective");
    if (kernels_.size() == kMaxKept) return leave_behind("behind the first 262144 kernels of matmuls");
    kernels_.push_back({interval_, *event_.external, event_.device, pieces_.line(), has_number_of_launch});
  }

  /// Skips a kernel of no operator that is taken. A matmul's slows what runs beside it all the same.
  void skip_other(std::string_view why) {
    const auto end = event_.times.end();
    if (!end || !is_matmul_kernel(event_.name)) return sink_.skip(pieces_.line(), why);
    interval_ = {*event_.times.start, *end};
    if (other_count_ == kMaxKept) return leave_behind("behind the first 262144 kernels of matmuls");
    ++other_count_;
    while_matmul_.add(event_.device, interval_);
    sink_.skip(pieces_.line(), why);
  }

  void take_operator() {
    const auto first = find_first_operand(event_.name);
    if (!first || !event_.external) return sink_.skip(pieces_.line(), "operator without a matmul of two matrices");
    if (event_.operands.size() < *first + 3)
      return sink_.skip(pieces_.line(), "matmul without shapes; profile with record_shapes=True");
    // operands[0] is the list itself; its elements follow.
    const auto& a = event_.operands[*first + 1];
    const auto& b = event_.operands[*first + 2];
    if (const auto fault = find_operands_fault(a, b))
      return fault->is_bad ? sink_.bad(pieces_.line(), event_.name + ": " + std::string(fault->why))
                           : sink_.skip(pieces_.line(), fault->why);
    if (matmuls_.size() == kMaxKept) return sink_.skip(pieces_.line(), "behind the first 262144 matmuls");
    Matmul matmul{a[0], b[1], a[1], event_.times.start.value_or(0), std::nullopt};
    if (*first < event_.types.size()) matmul.dtype = find_dtype(bare_type(event_.types[*first]));
    const auto [at, is_new] = matmuls_.try_emplace(*event_.external, matmul);
    const Matmul& known = at->second;
    const bool is_same = event_.times.start && known.start == matmul.start && known.m == matmul.m &&
                         known.n == matmul.n && known.k == matmul.k;
    at->second.is_twice = known.is_twice || (!is_new && !is_same);
    sink_.skip(pieces_.line(), "operator; its kernels are what is taken");
  }

  void take_collective_kernel() {
    if (nccl_count_++ == kMaxKept) --nccl_count_;
    if (nccl_count_ == kMaxKept) return leave_behind("behind the first 262143 collectives");
    while_collective_.add(event_.device, interval_);
    if (event_.collective.empty()) return sink_.skip(pieces_.line(), "kernel of NCCL that says nothing of its message");
    CollectiveKernel kernel{
        interval_,        {},   event_.device, pieces_.line(), group_name(event_.group + " " + event_.group_ranks),
        place_in_group(), false};
    const std::string why = read_message(kernel.timing);
    kernel.is_planned = why.empty();
    if (!why.empty()) sink_.skip(kernel.line, why);
    collectives_.push_back(std::move(kernel));
  }

  /// Why the collective cannot be taken; empty when it can.
  std::string read_message(Timing& timing) const {
    const auto collective = collective_named(event_.collective);
    if (!collective) return shown(event_.collective) + " is no collective that mc2 plans";
    const auto bytes = find_element_bytes(bare_type(event_.element));
    if (!bytes) return "element type " + shown(event_.element) + " is unknown";
    const auto is_equal = [](const std::string& splits) { return splits.empty() || splits == "[]"; };
    if (!is_equal(event_.in_splits) || !is_equal(event_.out_splits)) return "all-to-all with splits of its own";
    const auto elements = collective == Collective::AllGather ? event_.out_elements : event_.in_elements;
    if (!elements || *elements < 1 || *elements > kMaxMessageBytes / *bytes) return "its message's size is not there";
    const std::int64_t ranks = event_.group_size.value_or(0);
    if (ranks < 2 || ranks > planner::kMaxWorldSize) return "a group of " + std::to_string(ranks) + " ranks";
    timing.collective = *collective;
    timing.message_bytes = *elements * *bytes;
    timing.world_size = static_cast<int>(ranks);
    timing.time = std::chrono::nanoseconds(*event_.times.time);
    return contradiction_of(*collective, ranks);
  }

  /// The error text where the elements sent and received do not fit the collective: all-gather receives what all ranks
  /// send, reduce-scatter sends what all ranks receive. They also do not fit for grouped collectives.
  [[nodiscard]] std::string contradiction_of(Collective collective, std::int64_t ranks) const {
    const std::int64_t in = event_.in_elements.value_or(0), out = event_.out_elements.value_or(0);
    const bool agrees = collective == Collective::AllGather       ? in <= out && in * ranks == out
                        : collective == Collective::ReduceScatter ? out <= in && out * ranks == in
                                                                  : in == out;
    return agrees ? "" : "what it sends is not what it receives among so many ranks";
  }

  /// Index of the trace's rank in the event's list of ranks, e.g. "[0, 4, 8]". Nothing where a long list is truncated
  /// or the trace's rank is unknown.
  [[nodiscard]] std::optional<int> place_in_group() const {
    std::string_view rest = event_.group_ranks;
    if (!rest.starts_with('[') || !rest.ends_with(']') || rank_ < 0) return std::nullopt;
    rest = rest.substr(1, rest.size() - 2);
    const auto ranks = split(rest, ',');
    const auto own = std::ranges::find(ranks, std::to_string(rank_));
    return own == ranks.end() ? std::nullopt : std::optional(static_cast<int>(own - ranks.begin()));
  }

  /// Skips a kernel that is not kept. From its start on it is unknown which kernels run beside others.
  void leave_behind(std::string_view why) {
    horizon_ = std::min(horizon_, interval_.start);
    sink_.skip(pieces_.line(), why);
  }

  /// Takes the matmuls. The time of a matmul is the sum over all its kernels. An operator precedes its kernels in the
  /// trace.
  void take_matmuls() {
    while_collective_.sort();
    std::unordered_map<std::int64_t, std::pair<Kernel, bool>> taken; // bool: whether all its kernels ran alone
    std::vector<std::int64_t> order;
    for (const Kernel& kernel : kernels_) {
      // Until 2023 every kernel had the number of its launch, which says nothing of an operator.
      if (kernel.has_number_of_launch && !names_operators_) {
        sink_.skip(kernel.line, kOldKernel);
        continue;
      }
      while_matmul_.add(kernel.device, kernel.interval);
      const bool is_alone = kernel.interval.end < horizon_ && !while_collective_.cross(kernel.device, kernel.interval);
      const auto [at, is_new] = taken.try_emplace(kernel.external, kernel, is_alone);
      if (is_new) {
        order.push_back(kernel.external);
        continue;
      }
      at->second.first.interval.end += kernel.interval.end - kernel.interval.start;
      at->second.second = at->second.second && is_alone && at->second.first.device == kernel.device;
    }
    while_matmul_.sort();
    for (const std::int64_t external : order) {
      const auto& [kernel, is_alone] = taken.at(external);
      if (matmuls_.at(external).is_twice)
        sink_.skip(kernel.line, "matmul whose number another one has, too");
      else if (is_alone)
        take_matmul(matmuls_.at(external), kernel);
      else
        sink_.skip(kernel.line, "matmul beside a collective, which slows it");
    }
  }

  void take_matmul(const Matmul& matmul, const Kernel& kernel) {
    if (!matmul.dtype) return sink_.skip(kernel.line, "matmul of a type that mc2 does not plan");
    Timing timing;
    timing.component = planner::Component::Matmul;
    timing.m = matmul.m, timing.n = matmul.n, timing.k = matmul.k;
    timing.dtype = matmul.dtype;
    timing.time = std::chrono::nanoseconds(kernel.interval.end - kernel.interval.start);
    sink_.take(kernel.line, timing, "matmul");
  }

  void take_collectives() {
    std::ranges::stable_sort(collectives_, {}, [](const CollectiveKernel& each) { return each.interval.start; });
    std::unordered_map<std::uint64_t, std::uint64_t> numbers; // runs so far of each group
    for (CollectiveKernel& kernel : collectives_) {
      const std::uint64_t number = ++numbers[kernel.group];
      if (!kernel.is_planned) continue;
      if (kernel.interval.end >= horizon_ || while_matmul_.cross(kernel.device, kernel.interval)) {
        sink_.skip(kernel.line, "collective beside a matmul, which slows it");
        continue;
      }
      kernel.timing.event = event_name(kernel.group, number);
      kernel.timing.rank = kernel.place.value_or(static_cast<int>(std::clamp<std::int64_t>(rank_, 0, INT32_MAX)));
      sink_.take(kernel.line, kernel.timing, planner::to_string(kernel.timing.collective));
    }
  }

  const JsonPieces& pieces_;
  LogSink& sink_;
  bool is_in_events_ = false;
  std::string root_key_, key_, argument_;
  std::int64_t rank_ = -1; ///< rank of the trace; -1: not stated yet
  Interval interval_;      ///< interval of the current kernel
  /// Device, start, end and number of the launch.
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>> known_kernels_;
  std::int64_t horizon_ = INT64_MAX; ///< start of the first kernel that was left out
  std::size_t nccl_count_ = 0;
  bool names_operators_ = false; ///< whether any kernel does
  Event event_;
  std::unordered_map<std::int64_t, Matmul> matmuls_; ///< by "External id"
  std::vector<Kernel> kernels_;
  std::vector<CollectiveKernel> collectives_;
  std::size_t other_count_ = 0; ///< kernels of matmuls that are not taken
  Intervals while_collective_, while_matmul_;
};

} // namespace
} // namespace pytorch_trace

bool detect_pytorch_trace(std::string_view head) {
  return trimmed(head).starts_with('{') &&
         (has(head, "\"traceEvents\"") || (has(head, "\"schemaVersion\"") && has(head, "\"deviceProperties\"")));
}

Result<void> read_pytorch_trace(LogReader& reader, const ImportAnswers&, LogSink& sink) {
  using namespace pytorch_trace;
  return read_json_log<Handler>(reader, sink);
}

} // namespace mc2::profiler
