#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "exporters/nccl.hpp"
#include "exporters/parts.hpp"
#include "mc2/planner/collective.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::store {
namespace {

using planner::Collective;

/// Algorithms of HCCL: an engine, an executor and one of the templates. Only those registered under a single template,
/// since a rule can choose no others. Source: REGISTER_EXEC* of HCCL, commit 09300b7.
struct HcclAlgorithms {
  Collective collective;
  std::string_view engine, executor;
  std::vector<std::string_view> templates;
};

const std::vector<HcclAlgorithms>& hccl_algorithms() {
  using enum Collective;
  static const std::vector<HcclAlgorithms> kAll{
      {AllGather, "aicpu", "sole", {"mesh", "meshconcur", "nhr", "nhrmultilink"}},
      {AllGather, "aiv", "sole", {"mesh"}},
      {AllGather, "ccums", "sole", {"mesh", "mesh2die"}},
      {AllGather, "ccusched", "sole", {"mesh", "mesh2die", "nhr", "nhrmultilink"}},
      {AllGather, "dpu", "sole", {"nhr"}},
      {ReduceScatter, "aicpu", "sole", {"mesh", "meshchunk", "meshconcur", "nhr", "nhrmultilink"}},
      {ReduceScatter, "aiv", "sole", {"mesh"}},
      {ReduceScatter, "ccums", "sole", {"mesh", "mesh2die"}},
      {ReduceScatter, "ccusched", "sole", {"mesh", "mesh2die", "nhr", "nhrmultilink"}},
      {AllReduce, "aicpu", "sole", {"meshchunktwoshot", "meshconcur", "meshoneshot", "meshtwoshot", "nhr"}},
      {AllReduce, "aiv", "sole", {"meshoneshot", "meshtwoshot"}},
      {AllReduce, "ccums", "sole", {"mesh", "mesh2die", "meshoneshot"}},
      {AllReduce, "ccums", "sequence", {"mesh2die"}},
      {AllReduce, "ccusched", "sole", {"mesh", "mesh2die", "nhr", "nhrmultilink"}},
      {AllReduce, "ccusched", "sequence", {"mesh2die"}}};
  return kAll;
}

/// Errors: InvalidSpec, listing the algorithms of the collective.
Result<void> require_hccl_algorithm(Collective collective, const std::array<std::string, 3>& named) {
  std::vector<std::string> legal;
  for (const HcclAlgorithms& row : hccl_algorithms()) {
    if (row.collective != collective) continue;
    for (const std::string_view name : row.templates) {
      if (row.engine == named[0] && row.executor == named[1] && name == named[2]) return {};
      legal.push_back(std::string(row.engine) + ":" + std::string(row.executor) + ":" + std::string(name));
    }
  }
  return Error{ErrorCode::InvalidSpec, "--algorithm",
               "is " + named[0] + ":" + named[1] + ":" + named[2] + ", by which HCCL has no " +
                   std::string(to_string(collective)) + " that a rule can choose; legal: " + list_text(legal)};
}

template <std::size_t N>
Result<void> require_name(const std::array<std::string_view, N>& legal, std::string_view text, const char* option) {
  if (std::find(legal.begin(), legal.end(), text) != legal.end()) return {};
  return Error{ErrorCode::InvalidSpec, option,
               (text.empty() ? "is missing: a plan does not name it"
                             : "unknown name '" + std::string(text.substr(0, 32)) + "'") +
                   "; legal: " + list_text(legal)};
}

/// The channels of the plan's NCCL variant, else those of the options. 0: neither names them.
int nccl_channels(const planner::Variant& variant, const ExportOptions& options) {
  const int own = own_nccl_channels(variant);
  return own > 0 ? own : options.channels.value_or(0);
}

/// Whether mc2's own kernels on GPUs or its CPU backends exchange the blocks, so that NCCL and HCCL are never called.
bool is_exchanged_by_mc2(const planner::Plan& plan) {
  const std::string_view backend = plan.fingerprint.field("backend");
  return !plan.variant.name.starts_with("nccl") && (backend == "cuda" || backend == "mpi" || backend == "host");
}

/// Whether the plan is for NPUs: all devices with published costs are NPUs.
bool is_of_npus(const planner::Plan& plan) { return plan.fingerprint.field("backend") == "published"; }

std::string_view hccl_name(Collective collective) {
  switch (collective) {
    case Collective::AllReduce: return "allreduce";
    case Collective::ReduceScatter: return "reduce_scatter";
    case Collective::AllGather: return "allgather";
    case Collective::AllToAll: return "alltoall";
  }
  return "";
}

std::string_view hccl_type(planner::DType dtype) {
  switch (dtype) {
    case planner::DType::I8: return "int8";
    case planner::DType::F8E4m3: break; // the plugin has no name for it
    case planner::DType::F16: return "fp16";
    case planner::DType::F32: return "fp32";
    case planner::DType::Bf16: return "bfp16";
  }
  return "";
}

/// The message size that HCCL's plugin gets: one rank's input, which in all-gather is its shard.
std::int64_t hccl_bytes(Collective collective, std::int64_t full_bytes, int world_size) {
  return collective == Collective::AllGather ? planner::ceil_div(full_bytes, world_size) : full_bytes;
}

/// The three parts of a name such as "aicpu:sole:nhr". Errors: InvalidSpec.
Result<std::array<std::string, 3>> hccl_algorithm(const std::string& text) {
  const std::size_t first = text.find(':'), second = text.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos || second + 1 == text.size())
    return Error{ErrorCode::InvalidSpec, "--algorithm",
                 std::string(text.empty() ? "is missing: a plan does not name it" : "names no algorithm of HCCL") +
                     "; legal: engine:executor:template, e.g. aicpu:sole:nhr"};
  return std::array{text.substr(0, first), text.substr(first + 1, second - first - 1), text.substr(second + 1)};
}

/// Checks that NCCL has kernels for the algorithm and protocol of the options. Errors: InvalidSpec naming the option.
Result<void> require_kernels(Collective collective, const ExportOptions& options) {
  MC2_TRY(require_name(kNcclAlgorithms, options.algorithm, "--algorithm"));
  MC2_TRY(require_name(kNcclProtocols, options.protocol, "--protocol"));
  const auto number = std::ranges::find(kNcclAlgorithms, options.algorithm) - kNcclAlgorithms.begin();
  const NcclKernels& algorithm = kNcclKernels[static_cast<std::size_t>(number)];
  if (std::ranges::find(algorithm.collectives, collective) == algorithm.collectives.end())
    return Error{ErrorCode::InvalidSpec, "--algorithm",
                 "is " + options.algorithm + ", by which NCCL has no " + std::string(to_string(collective))};
  if (!algorithm.has_all_protocols && options.protocol != "simple")
    return Error{ErrorCode::InvalidSpec, "--protocol",
                 "is " + options.protocol + ", which NCCL has for ring and tree only; by " + options.algorithm +
                     " it runs simple"};
  return {};
}

/// The properties by which NCCL's plugin tells messages apart: collective, ranks and bytes of the full array.
using NcclMessage = std::tuple<std::string_view, int, std::int64_t>;
using NcclLines = std::map<NcclMessage, const planner::Plan*>;

std::string plan_text(const planner::Plan& plan) { return plan.op.text() + " with " + plan.variant.text(); }

/// Errors: InvalidSpec for a plan that NCCL does not run or whose channels nobody says, and for a message that another
/// plan gives other channels.
Result<void> add_nccl_lines(const planner::Plan& plan, const ExportOptions& options, NcclLines& lines) {
  if (is_exchanged_by_mc2(plan))
    return Error{
        ErrorCode::InvalidSpec, "PLAN",
        plan_text(plan) + " never calls NCCL: mc2's own kernels exchange its blocks; plan with --variant nccl"};
  if (is_of_npus(plan))
    return Error{ErrorCode::InvalidSpec, "PLAN",
                 plan_text(plan) + " is of a machine of NPUs, which never call NCCL; --format hccl-tuner is theirs"};
  const int channels = nccl_channels(plan.variant, options);
  if (channels == 0)
    return Error{
        ErrorCode::InvalidSpec, "--channels",
        "is missing: " + plan_text(plan) + " does not say, and the plugin takes one channel where its file says none"};
  for (const std::int64_t bytes : message_sizes(plan)) {
    const NcclMessage message{nccl_name(planner::collective_of(plan.op.kind)), plan.op.world_size, bytes};
    const planner::Plan& other = *lines.try_emplace(message, &plan).first->second;
    const int other_channels = nccl_channels(other.variant, options);
    if (channels == other_channels) continue;
    return Error{ErrorCode::InvalidSpec, "PLAN",
                 plan_text(other) + " and " + plan_text(plan) + " both exchange messages of " + std::to_string(bytes) +
                     " bytes, over " + std::to_string(other_channels) + " and " + std::to_string(channels) +
                     " channels; export one of them"};
  }
  return {};
}

/// Errors: InvalidSpec for a plan that does not call HCCL; Infeasible for an element type or a collective for which
/// there can be no rule.
Result<void> require_hccl(const planner::Plan& plan) {
  const planner::OpSpec& op = plan.op;
  if (is_exchanged_by_mc2(plan) || plan.variant.name.starts_with("nccl"))
    return Error{ErrorCode::InvalidSpec, "PLAN", plan_text(plan) + " never calls HCCL: it runs on CPUs or NVIDIA GPUs"};
  if (hccl_type(planner::exchange_type(op)).empty())
    return Error{ErrorCode::Infeasible, "dtype",
                 op.text() + " exchanges " + std::string(to_string(planner::exchange_type(op))) +
                     "; HCCL's plugin knows int8, fp16, fp32 and bfp16"};
  if (planner::collective_of(op.kind) == Collective::AllToAll)
    return Error{ErrorCode::Infeasible, "",
                 "HCCL asks no tuner about all-to-all, which " + std::string(to_string(op.kind)) + " needs"};
  return {};
}

} // namespace

/// Writes the file of NCCL's example tuner plugin:
/// collective,min,max,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff.
Result<std::string> write_nccl_tuner(std::span<const ExportItem> items, const ExportOptions& options) {
  std::string text =
      "# NCCL tuner configuration by mc2: the messages of these plans' blocks, in bytes of the full array.\n";
  NcclLines lines;
  for (const ExportItem& item : items) {
    if (nccl_name(planner::collective_of(item.plan.op.kind)).empty())
      return Error{ErrorCode::Infeasible, "",
                   "NCCL's tuner knows no all-to-all, which " + std::string(to_string(item.plan.op.kind)) + " needs"};
    MC2_TRY(require_kernels(planner::collective_of(item.plan.op.kind), options));
    for (const auto& line : provenance_lines(item.plan)) text += "# " + line + "\n";
    MC2_TRY(add_nccl_lines(item.plan, options, lines));
  }
  for (const auto& [message, plan] : lines) {
    const auto& [collective, ranks, bytes] = message;
    text += std::string(collective) + "," + std::to_string(bytes) + "," + std::to_string(bytes) + "," +
            options.algorithm + "," + options.protocol + "," + std::to_string(nccl_channels(plan->variant, options)) +
            ",-1," + std::to_string(ranks) + ",-1,-1\n";
  }
  return text;
}

/// Writes the configuration of HCCL's example tuner plugin, version 1.
Result<std::string> write_hccl_tuner(std::span<const ExportItem> items, const ExportOptions& options) {
  MC2_ASSIGN(const auto algorithm, hccl_algorithm(options.algorithm));
  nlohmann::json op_types = nlohmann::json::object();
  std::set<std::tuple<Collective, int, std::string_view, std::int64_t>> known; ///< messages that already have a rule
  for (const ExportItem& item : items) {
    MC2_TRY(require_hccl(item.plan));
    const planner::OpSpec& op = item.plan.op;
    const Collective collective = planner::collective_of(op.kind);
    MC2_TRY(require_hccl_algorithm(collective, algorithm));
    auto& rules = op_types[std::string(hccl_name(collective))]["rules"];
    for (const std::int64_t bytes : message_sizes(item.plan)) {
      const std::int64_t seen = hccl_bytes(collective, bytes, op.world_size);
      if (!known.emplace(collective, op.world_size, hccl_type(planner::exchange_type(op)), seen).second) continue;
      rules.push_back({{"match",
                        {{"min_ranks", op.world_size},
                         {"max_ranks", op.world_size},
                         {"min_bytes", seen},
                         {"max_bytes", seen},
                         {"data_type", hccl_type(planner::exchange_type(op))}}},
                       {"engine", algorithm[0]},
                       {"executor", algorithm[1]},
                       {"template", algorithm[2]},
                       {"cost", 0.0}});
    }
  }
  return nlohmann::json{{"version", 1}, {"op_types", op_types}}.dump(2) + "\n";
}

} // namespace mc2::store
