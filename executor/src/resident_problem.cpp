#include "mc2/executor/resident_problem.hpp"

#include "mc2/planner/error.hpp"
#include "operands.hpp"

namespace mc2::executor {
namespace {

std::unique_ptr<RankMemory> mirror_of(std::span<const std::byte> matrix, int rank, Communicator& communicator) {
  if (matrix.empty()) return nullptr;
  auto memory = communicator.allocate(rank, matrix.size());
  memory->upload(matrix);
  return memory;
}

} // namespace

ResidentProblem::ResidentProblem(const planner::OpSpec& op, std::uint64_t seed, Communicator& communicator,
                                 const ProblemExtras& extras)
    : host_(op, seed, extras) {
  MC2_CHECK(op.world_size == communicator.world_size() && communicator.local_ranks().size() == host_.buffers().size(),
            "a problem of another world than the communicator's");
  if (communicator.uses_host_memory()) return;
  for (const int rank : communicator.local_ranks()) {
    auto& mirrors = mirrors_.emplace_back();
    RankBuffers& own = resident_.emplace_back(host_.buffers()[static_cast<std::size_t>(rank)]);
    visit_operands(own, [&](auto& operand, const char*, OperandUse) {
      const auto& mirror = mirrors.emplace_back(mirror_of(operand, rank, communicator));
      operand = mirror ? mirror->bytes() : std::span<std::byte>{};
    });
  }
}

std::span<const RankBuffers> ResidentProblem::buffers() const noexcept {
  return mirrors_.empty() ? host_.buffers() : std::span<const RankBuffers>(resident_);
}

/// Calls `visit(mirror, operand)` for all ranks' operands with this use, except for those that a rank does not have.
template <typename Visit>
void ResidentProblem::visit_mirrors(OperandUse use, const Visit& visit) {
  for (std::size_t rank = 0; rank < mirrors_.size(); ++rank) {
    auto mirror = mirrors_[rank].begin();
    visit_operands(host_.buffers()[rank], [&](const auto& operand, const char*, OperandUse its_use) {
      if (its_use == use && *mirror) visit(**mirror, operand);
      ++mirror;
    });
  }
}

void ResidentProblem::poison() {
  host_.poison();
  visit_mirrors(OperandUse::Written,
                [](RankMemory& mirror, std::span<const std::byte> bytes) { mirror.upload(bytes); });
}

void ResidentProblem::refill_a(std::uint64_t seed) {
  host_.refill_a(seed);
  visit_mirrors(OperandUse::Renewed,
                [](RankMemory& mirror, std::span<const std::byte> bytes) { mirror.upload(bytes); });
}

void ResidentProblem::fetch_results() {
  visit_mirrors(OperandUse::Written, [](const RankMemory& mirror, const auto& bytes) {
    if constexpr (requires { mirror.download(bytes); }) mirror.download(bytes);
  });
}

} // namespace mc2::executor
