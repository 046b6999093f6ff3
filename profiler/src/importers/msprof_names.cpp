#include "msprof_names.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
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

/// Whether the text begins with the whole word Gemm: "Gemm", "GemmV2" and "gemm_1", but not "GemmaRmsNorm".
bool begins_with_gemm(std::string_view text) {
  constexpr std::size_t kLength = 4;
  const bool goes_on = text.size() > kLength && text[kLength] >= 'a' && text[kLength] <= 'z';
  return plain(text.substr(0, kLength)) == "gemm" && !goes_on;
}

std::string without(std::string text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts)
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part)) text.erase(at, part.size());
  return text;
}

/// Whether the rest of a name says only which version or call it is: "v2", "31".
bool is_number_or_version(std::string_view rest) {
  constexpr std::string_view kDigits = "0123456789";
  for (std::size_t at = rest.find_first_not_of(kDigits); at != std::string_view::npos;
       at = rest.find_first_not_of(kDigits, at + 1))
    if (rest[at] != 'v' || at + 1 == rest.size() || !has(kDigits, rest.substr(at + 1, 1))) return false;
  return true;
}

MsprofOperator classify(std::string_view text) {
  std::string word = plain(text);
  if (word.starts_with("hcom")) return classify_collective(word);
  if (word.starts_with("aclnn")) word.erase(0, 5), text.remove_prefix(5);
  const std::string_view matmul = begins_with_gemm(text) ? "gemm" : "matmul";
  if (!has(word, matmul)) return {};
  constexpr std::array kFused{
      std::pair{"allreduce", Collective::AllReduce}, std::pair{"allgather", Collective::AllGather},
      std::pair{"reducescatter", Collective::ReduceScatter}, std::pair{"alltoall", Collective::AllToAll}};
  const auto* fused = std::ranges::find_if(kFused, [&](const auto& each) { return has(word, each.first); });
  const bool is_fused = fused != kFused.end();
  if (is_fused && has(word, "aicpu")) return {MsprofWork::KernelOfCollective};
  // A fused operator whose weights alone are quantised counts as one of A's type.
  std::string rest = without(word, {matmul, "common", "custom", "aicore"});
  if (is_fused) rest = without(rest, {fused->first, "weightquant"});
  if (has(rest, "batch") || has(rest, "group") || has(rest, "quant")) return {MsprofWork::OtherMatmul};
  if (!is_number_or_version(rest)) return {MsprofWork::MatmulAndMore};
  if (!is_fused) return {MsprofWork::Matmul};
  return {MsprofWork::FusedMatmul, fused->second,
          word.find(fused->first) < word.find(matmul) ? planner::Lane::Communication : planner::Lane::Compute};
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
