#include "mc2/store/nccl_rules.hpp"

#include <algorithm>
#include <string>

#include "exporters/nccl.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::store {
namespace {

constexpr std::size_t kFewestFields = 8, kMostFields = 10;

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const bool is_last = line.find(',') == std::string_view::npos;
    fields.push_back(take_part(line, ','));
    if (is_last) return fields;
  }
}

/// Reads one field after another, and keeps the first error.
class Fields {
 public:
  explicit Fields(std::string_view line) : fields_(fields_of(line)) {
    if (fields_.size() < kFewestFields || fields_.size() > kMostFields)
      error_ = "has " + std::to_string(fields_.size()) + " fields; needs 8 to 10";
  }

  template <std::size_t N>
  int name(const std::array<std::string_view, N>& names, const char* what) {
    const std::string_view text = next();
    const auto found = std::ranges::find(names, text);
    if (found != names.end()) return static_cast<int>(found - names.begin());
    return fail(std::string(what) + " is " + in_quotes(text) + "; legal: " + list_text(names));
  }

  /// A number. -1, any, for a field that the line leaves out.
  template <typename T>
  T number(T first, T last, const char* what) {
    if (at_ == fields_.size()) return -1;
    const std::string_view text = next();
    if (const auto value = number_in<T>(text); value && *value >= first && *value <= last) return *value;
    return fail(std::string(what) + " is " + in_quotes(text) + "; needs " + std::to_string(first) + " to " +
                std::to_string(last));
  }

  int fail(const std::string& why) {
    if (error_.empty()) error_ = why;
    return -1;
  }
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  std::string_view next() { return at_ < fields_.size() ? fields_[at_++] : std::string_view(); }

  std::vector<std::string_view> fields_;
  std::size_t at_ = 0;
  std::string error_;
};

/// Reads one line. Errors: Malformed.
Result<NcclRule> read_rule(std::string_view line) {
  constexpr std::int64_t kMostBytes = INT64_MAX;
  constexpr int kMost = 1 << 20;
  Fields fields(line);
  NcclRule rule;
  rule.function = fields.name(kNcclFunctions, "the collective");
  rule.min_bytes = fields.number<std::int64_t>(0, kMostBytes, "the smallest size");
  rule.max_bytes = fields.number<std::int64_t>(0, kMostBytes, "the largest size");
  rule.algorithm = fields.name(kNcclAlgorithms, "the algorithm");
  rule.protocol = fields.name(kNcclProtocols, "the protocol");
  rule.channels = fields.number(-1, kMostNcclChannels, "the number of channels");
  rule.nodes = fields.number(-1, kMost, "the number of nodes");
  rule.ranks = fields.number(-1, kMost, "the number of ranks");
  rule.grouped_ops = fields.number(-1, kMost, "the number of grouped operations");
  rule.has_registered_buffers = fields.number(-1, 1, "what says whether buffers are registered");
  if (rule.min_bytes > rule.max_bytes) fields.fail("the smallest size is above the largest");
  if (!fields.error().empty()) return Error{ErrorCode::Malformed, "", fields.error()};
  return rule;
}

} // namespace

std::string_view nccl_name(planner::Collective collective) {
  switch (collective) {
    case planner::Collective::AllReduce: return "allreduce";
    case planner::Collective::ReduceScatter: return "reducescatter";
    case planner::Collective::AllGather: return "allgather";
    case planner::Collective::AllToAll: return "";
  }
  return "";
}

int exchanging_sms(const planner::Variant& variant) {
  const auto ctas = variant.fields.find("ctas");
  const bool is_number = ctas != variant.fields.end() && !ctas->second.empty() && ctas->second.size() < 4 &&
                         ctas->second.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? std::stoi(ctas->second) : 0;
}

int own_nccl_channels(const planner::Variant& variant) {
  const int own = variant.name.starts_with("nccl") ? exchanging_sms(variant) : 0;
  return own <= kMostNcclChannels ? own : 0;
}

std::set<std::int64_t> message_sizes(const planner::Plan& plan) {
  std::set<std::int64_t> sizes;
  for (const std::int64_t rows : plan.cut.block_rows)
    sizes.insert(rows * planner::traits_of(plan.op.kind).message_bytes_per_unit(plan.op));
  return sizes;
}

std::vector<NcclRule> nccl_rules(const planner::Plan& plan) {
  const std::string_view name = nccl_name(planner::collective_of(plan.op.kind));
  const int channels = own_nccl_channels(plan.variant);
  if (name.empty() || channels == 0) return {};
  std::vector<NcclRule> rules;
  NcclRule rule;
  rule.function = static_cast<int>(std::ranges::find(kNcclFunctions, name) - kNcclFunctions.begin());
  rule.channels = channels, rule.nodes = 1, rule.ranks = plan.op.world_size;
  for (const std::int64_t bytes : message_sizes(plan)) {
    rule.min_bytes = rule.max_bytes = bytes;
    rules.push_back(rule);
  }
  return rules;
}

Result<std::vector<NcclRule>> read_nccl_rules(std::string_view text) {
  std::vector<NcclRule> rules;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    const auto rule = read_rule(line);
    if (!rule) return Error{ErrorCode::Malformed, "line " + std::to_string(number), rule.error().message};
    rules.push_back(rule.value());
  }
  return rules;
}

} // namespace mc2::store
