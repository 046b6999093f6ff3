#include "mc2/executor/resident_problem.hpp"

#include "mc2/planner/error.hpp"

namespace mc2::executor {
namespace {

std::unique_ptr<RankMemory> mirror_of(std::span<const std::byte> matrix, int rank, Communicator& communicator) {
  auto memory = communicator.allocate(rank, matrix.size());
  memory->upload(matrix);
  return memory;
}

} // namespace

ResidentProblem::ResidentProblem(const planner::OpSpec& op, std::uint64_t seed, Communicator& communicator,
                                 std::span<const std::int64_t> counts)
    : host_(op, seed, counts) {
  MC2_CHECK(op.world_size == communicator.world_size() && communicator.local_ranks().size() == host_.buffers().size(),
            "a problem of another world than the communicator's");
  if (communicator.uses_host_memory()) return;
  for (const int rank : communicator.local_ranks()) {
    const RankBuffers& matrices = host_.buffers()[static_cast<std::size_t>(rank)];
    RankMirror& mirror = mirrors_.emplace_back(RankMirror{.a = mirror_of(matrices.a, rank, communicator),
                                                          .b = mirror_of(matrices.b, rank, communicator),
                                                          .c = mirror_of(matrices.c, rank, communicator),
                                                          .others = {}});
    resident_.push_back({.a = mirror.a->bytes(),
                         .b = mirror.b->bytes(),
                         .c = mirror.c->bytes(),
                         .send_counts = matrices.send_counts,
                         .receive_counts = matrices.receive_counts});
    RankBuffers& own = resident_.back();
    for (auto operand :
         {&RankBuffers::bias, &RankBuffers::residual, &RankBuffers::a_scales, &RankBuffers::b_scales}) {
      if ((matrices.*operand).empty()) continue;
      mirror.others.push_back(mirror_of(matrices.*operand, rank, communicator));
      own.*operand = mirror.others.back()->bytes();
    }
  }
}

std::span<const RankBuffers> ResidentProblem::buffers() const noexcept {
  return mirrors_.empty() ? host_.buffers() : std::span<const RankBuffers>(resident_);
}

void ResidentProblem::poison() {
  host_.poison();
  for (std::size_t rank = 0; rank < mirrors_.size(); ++rank) mirrors_[rank].c->upload(host_.buffers()[rank].c);
}

void ResidentProblem::refill_a(std::uint64_t seed) {
  host_.refill_a(seed);
  for (std::size_t rank = 0; rank < mirrors_.size(); ++rank) mirrors_[rank].a->upload(host_.buffers()[rank].a);
}

void ResidentProblem::fetch_results() {
  for (std::size_t rank = 0; rank < mirrors_.size(); ++rank) mirrors_[rank].c->download(host_.buffers()[rank].c);
}

} // namespace mc2::executor
