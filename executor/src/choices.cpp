#include "choices.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "index_numbers.hpp"
#include "mc2/planner/text.hpp"
#include "parallel_for.hpp"
#include "texts.hpp"

namespace mc2::executor {

ChoiceReader::ChoiceReader(const planner::OpSpec& op, const ExpertChoices& choices) noexcept
    : experts_(*op.experts), choices_(choices) {}

Choice ChoiceReader::at(std::int64_t place) const noexcept {
  Choice choice{.expert = number_at(choices_.experts, choices_.type, place)};
  if (!choices_.weights.empty())
    std::memcpy(&choice.weight, choices_.weights.data() + static_cast<std::size_t>(place) * sizeof(float),
                sizeof(float));
  return choice;
}

bool ChoiceReader::is_legal(const Choice& choice) const noexcept {
  return choice.expert >= 0 && choice.expert < experts_.count && std::isfinite(choice.weight);
}

Error choice_fault(const planner::ChosenExperts& experts, std::int64_t place, const Choice& choice) {
  const std::string where =
      "row " + std::to_string(place / experts.top_k) + ", choice " + std::to_string(place % experts.top_k);
  if (choice.expert < 0 || choice.expert >= experts.count)
    return {
        ErrorCode::InvalidSpec, "choices",
        where + " is expert " + std::to_string(choice.expert) + "; legal: 0 to " + std::to_string(experts.count - 1)};
  return {ErrorCode::InvalidSpec, "choices",
          where + " has the weight " + number_text(choice.weight) + "; needs a finite number"};
}

Result<void> check_choices(const planner::OpSpec& op, std::span<const int> ranks,
                           std::span<const RankBuffers> buffers) {
  for (std::size_t i = 0; i < buffers.size() && op.experts; ++i) {
    const ChoiceReader reader(op, buffers[i].choices);
    const auto is_bad = [&](std::int64_t place) { return !reader.is_legal(reader.at(place)); };
    const auto bad = parallel_find_first(op.m * reader.top_k(), is_bad);
    if (!bad) continue;
    const Error error = choice_fault(*op.experts, *bad, reader.at(*bad));
    return Error{error.code, error.field, rank_text(ranks[i]) + ", " + error.message};
  }
  return {};
}

std::int64_t choice_digest(const planner::OpSpec& op, const RankBuffers& own) {
  if (!op.experts) return 0;
  const ChoiceReader reader(op, own.choices);
  std::uint64_t digest = 0xCBF29CE484222325ULL; // FNV-1a, with whole numbers in place of bytes
  const auto add = [&digest](std::uint64_t number) {
    digest = (digest ^ number) * 0x100000001B3ULL;
    digest ^= digest >> 29U;
  };
  for (std::int64_t place = 0; place < op.m * reader.top_k(); ++place) {
    const Choice choice = reader.at(place);
    add(static_cast<std::uint64_t>(choice.expert));
    add(std::bit_cast<std::uint32_t>(choice.weight));
  }
  return static_cast<std::int64_t>(digest);
}

Result<void> check_choices_agree(std::span<const std::int64_t> digests) {
  for (std::size_t rank = 1; rank < digests.size(); ++rank)
    if (digests[rank] != digests.front())
      return Error{
          ErrorCode::InvalidSpec, "choices",
          rank_text(rank) + " brings other choices or weights than rank 0; every rank needs those of all rows"};
  return {};
}

} // namespace mc2::executor
