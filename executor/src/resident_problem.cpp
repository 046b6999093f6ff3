#include "mc2/executor/resident_problem.hpp"

#include "mc2/planner/error.hpp"

namespace mc2::executor {
namespace {

std::unique_ptr<RankMemory> mirror_of(std::span<const std::byte> matrix, int rank, Communicator& communicator) {
  if (matrix.empty()) return nullptr;
  auto memory = communicator.allocate(rank, matrix.size());
  memory->upload(matrix);
  return memory;
}

std::span<std::byte> bytes_of(const std::unique_ptr<RankMemory>& mirror) {
  return mirror ? mirror->bytes() : std::span<std::byte>{};
}

void renew(const std::unique_ptr<RankMemory>& mirror, std::span<const std::byte> matrix) {
  if (mirror) mirror->upload(matrix);
}

} // namespace

ResidentProblem::ResidentProblem(const planner::OpSpec& op, std::uint64_t seed, Communicator& communicator,
                                 const ProblemExtras& extras)
    : host_(op, seed, extras) {
  MC2_CHECK(op.world_size == communicator.world_size() && communicator.local_ranks().size() == host_.buffers().size(),
            "a problem of another world than the communicator's");
  if (communicator.uses_host_memory()) return;
  for (const int rank : communicator.local_ranks()) {
    const RankBuffers& matrices = host_.buffers()[static_cast<std::size_t>(rank)];
    RankMirror& mirror =
        mirrors_.emplace_back(RankMirror{.a = mirror_of(matrices.a, rank, communicator),
                                         .b = mirror_of(matrices.b, rank, communicator),
                                         .c = mirror_of(matrices.c, rank, communicator),
                                         .normed = mirror_of(matrices.normed, rank, communicator),
                                         .gathered_a = mirror_of(matrices.gathered_a, rank, communicator),
                                         .offsets = mirror_of(matrices.bags.offsets, rank, communicator),
                                         .indices = mirror_of(matrices.bags.indices, rank, communicator),
                                         .experts = mirror_of(matrices.choices.experts, rank, communicator),
                                         .choice_weights = mirror_of(matrices.choices.weights, rank, communicator),
                                         .others = {}});
    resident_.push_back({.a = bytes_of(mirror.a),
                         .b = bytes_of(mirror.b),
                         .c = bytes_of(mirror.c),
                         .bags = {bytes_of(mirror.offsets), bytes_of(mirror.indices), matrices.bags.type},
                         .choices = {bytes_of(mirror.experts), bytes_of(mirror.choice_weights), matrices.choices.type},
                         .send_counts = matrices.send_counts,
                         .receive_counts = matrices.receive_counts,
                         .normed = bytes_of(mirror.normed),
                         .norm_epsilon = matrices.norm_epsilon,
                         .gathered_a = bytes_of(mirror.gathered_a)});
    RankBuffers& own = resident_.back();
    for (auto operand : {&RankBuffers::bias, &RankBuffers::residual, &RankBuffers::norm_weight, &RankBuffers::a_scales,
                         &RankBuffers::b_scales}) {
      mirror.others.push_back(mirror_of(matrices.*operand, rank, communicator));
      own.*operand = bytes_of(mirror.others.back());
    }
  }
}

std::span<const RankBuffers> ResidentProblem::buffers() const noexcept {
  return mirrors_.empty() ? host_.buffers() : std::span<const RankBuffers>(resident_);
}

void ResidentProblem::poison() {
  host_.poison();
  for (std::size_t rank = 0; rank < mirrors_.size(); ++rank) {
    renew(mirrors_[rank].c, host_.buffers()[rank].c);
    renew(mirrors_[rank].normed, host_.buffers()[rank].normed);
    renew(mirrors_[rank].gathered_a, host_.buffers()[rank].gathered_a);
  }
}

void ResidentProblem::refill_a(std::uint64_t seed) {
  host_.refill_a(seed);
  for (std::size_t rank = 0; rank < mirrors_.size(); ++rank) {
    const RankBuffers& matrices = host_.buffers()[rank];
    renew(mirrors_[rank].a, matrices.a);
    renew(mirrors_[rank].offsets, matrices.bags.offsets);
    renew(mirrors_[rank].indices, matrices.bags.indices);
    renew(mirrors_[rank].experts, matrices.choices.experts);
    renew(mirrors_[rank].choice_weights, matrices.choices.weights);
  }
}

void ResidentProblem::fetch_results() {
  for (std::size_t rank = 0; rank < mirrors_.size(); ++rank) {
    const RankBuffers& host = host_.buffers()[rank];
    const RankMirror& mirror = mirrors_[rank];
    if (mirror.c) mirror.c->download(host.c); // a rank may get no row
    if (mirror.normed) mirror.normed->download(host.normed);
    if (mirror.gathered_a) mirror.gathered_a->download(host.gathered_a);
  }
}

} // namespace mc2::executor
