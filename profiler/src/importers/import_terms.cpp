#include "mc2/profiler/import_terms.hpp"

#include "fields.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::profiler {
namespace {

constexpr std::size_t kShownText = 32;

/// Sets the value unless the text is empty. Errors: as `parse`, with `name` as the field.
template <typename T, typename Parse>
Result<void> read_name(const char* name, const std::string& text, const Parse& parse, std::optional<T>& value) {
  if (text.empty()) return {};
  const auto parsed = parse(text);
  if (!parsed) return Error{parsed.error().code, name, parsed.error().message};
  value = parsed.value();
  return {};
}

Result<void> check_size(const char* name, const std::optional<std::int64_t>& size, std::int64_t most) {
  if (!size || (*size >= 1 && *size <= most)) return {};
  return Error{ErrorCode::InvalidSpec, name, "is " + std::to_string(*size) + "; must be 1 to " + std::to_string(most)};
}

/// Errors: as ImportTerms::answers.
Result<void> check_sizes(const ImportTerms& terms) {
  for (const auto& checked :
       {check_size("m", terms.m, planner::kMaxSize), check_size("n", terms.n, planner::kMaxSize),
        check_size("k", terms.k, planner::kMaxSize), check_size("ranks", terms.ranks, planner::kMaxWorldSize)})
    if (!checked) return checked;
  return {};
}

std::optional<int> to_world_size(const std::optional<std::int64_t>& ranks) {
  return ranks ? std::optional(static_cast<int>(*ranks)) : std::nullopt;
}

constexpr Name<Buffers> kBuffersNames[]{
    {Buffers::OutOfPlace, "out-of-place"}, {Buffers::InPlace, "in-place"}, {Buffers::Both, "both"}};

Result<void> read_bytes(const std::string& text, ImportAnswers& answers) {
  answers.bytes_from_neighbour = text == "neighbour" || text == "neighbor";
  if (text.empty() || answers.bytes_from_neighbour) return {};
  const auto size = number_in<std::int64_t>(text);
  if (!size || *size < 1 || *size > kMaxMessageBytes)
    return Error{ErrorCode::InvalidSpec, "bytes",
                 "'" + text.substr(0, kShownText) + "' is neither a number of bytes from 1 to 2^50 nor 'neighbour'"};
  answers.message_bytes = size;
  return {};
}

} // namespace

Result<ImportAnswers> ImportTerms::answers() const {
  MC2_TRY(check_sizes(*this));
  ImportAnswers answers{.world_size = to_world_size(ranks), .m = m, .n = n, .k = k};
  MC2_TRY(read_name("collective", collective, planner::parse_collective, answers.collective));
  MC2_TRY(read_name("dtype", dtype, planner::parse_dtype, answers.dtype));
  MC2_ASSIGN(answers.buffers, parse_name<Buffers>(kBuffersNames, buffers, "buffers"));
  MC2_TRY(read_bytes(bytes, answers));
  if (const auto kind = planner::parse_op_kind(op); kind)
    answers.kind = kind.value(); // question() refuses unknown ones
  if (!blocks.empty()) {
    MC2_TRY(planner::parse_cut(blocks));
    answers.blocks = blocks;
  }
  return answers;
}

Result<ImportQuestion> ImportTerms::question() const {
  MC2_TRY(check_sizes(*this));
  ImportQuestion question{.world_size = to_world_size(ranks), .m = m, .n = n, .k = k, .device = device};
  MC2_TRY(read_name("op", op, planner::parse_op_kind, question.kind));
  if (question.kind && planner::traits_of(*question.kind).work != planner::Work::Matmul)
    return Error{ErrorCode::InvalidSpec, "op",
                 op + " is not imported: the logs hold none of its " +
                     std::string(to_string(planner::traits_of(*question.kind).work)) +
                     "; measure it with mc2 profile or mc2 tune"};
  MC2_TRY(read_name("dtype", dtype, planner::parse_dtype, question.dtype));
  return question;
}

} // namespace mc2::profiler
