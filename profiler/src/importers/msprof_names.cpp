#include "msprof_names.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "fields.hpp"

namespace mc2::profiler {
namespace {

using planner::Collective;

/// A cheap test before classify(): most rows of a log are other operators.
bool can_matter(std::string_view text) {
  if (text.empty()) return false;
  return has(text, "at") || has(text, "emm") || has(text, "com") || has(text, "AT") || has(text, "Kernel");
}

MsprofOperator classify_collective(std::string word) {
  word.erase(0, 4); // hcom
  if (const auto collective = find_collective(word)) return {MsprofWork::Collective, *collective};
  return {MsprofWork::OtherCollective};
}

MsprofOperator classify(std::string_view text) {
  std::string word = plain(text);
  if (word.starts_with("hcom")) return classify_collective(word);
  if (word.starts_with("aclnn")) word.erase(0, 5);
  const bool is_matmul = has(word, "matmul") || word.starts_with("gemm");
  if (!is_matmul) return {};
  constexpr std::array kFused{
      std::pair{"allreduce", Collective::AllReduce}, std::pair{"allgather", Collective::AllGather},
      std::pair{"reducescatter", Collective::ReduceScatter}, std::pair{"alltoall", Collective::AllToAll}};
  for (const auto& [name, collective] : kFused)
    if (has(word, name))
      return {has(word, "aicpu") ? MsprofWork::KernelOfCollective : MsprofWork::FusedMatmul, collective,
              word.find(name) < std::min(word.find("matmul"), word.find("gemm")) ? planner::Lane::Communication
                                                                                 : planner::Lane::Compute};
  if (word.starts_with("matmul") || word.starts_with("gemm")) return {MsprofWork::Matmul};
  return {MsprofWork::OtherMatmul};
}

} // namespace

MsprofOperator find_msprof_operator(std::string_view type, std::string_view name) {
  // After two underscores, a name ends with numbers of the group and the call.
  const std::string_view stem = name.substr(0, name.find("__"));
  if (!can_matter(type) && !can_matter(stem)) return {};
  if (has(name, "AivKernel") || has(name, "AicpuKernel") || has(type, "AicpuKernel"))
    return {MsprofWork::KernelOfCollective};
  if (!type.empty()) return classify(type);
  return classify(stem);
}

} // namespace mc2::profiler
