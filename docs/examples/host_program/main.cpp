// A host program: it owns its matrices, and mc2 multiplies them and sums the products over the ranks, block by block
// as a plan says.
//
//   host_program                                          uncut: no plan is needed to start with
//   host_program --plan plan.json                         a plan that `mc2 plan --out plan.json` wrote
//   host_program --store plans.db --link 2.5Gbit,20us     the plan that `mc2 tune` kept for this machine in plans.db
//
// To make such a plan for the problem below on this machine:
//   mc2 tune --m 512 --n 256 --k 128 --ranks 2 --link 2.5Gbit,20us --store plans.db
//
// Exit codes: 0 every sum is right, 1 a sum is wrong, 2 an argument, plan or file is wrong, 3 a library or device
// failed.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mc2/executor/backend.hpp"
#include "mc2/executor/executor.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/store.hpp"

namespace {

namespace executor = mc2::executor;
namespace planner = mc2::planner;
namespace store = mc2::store;

// If mc2 cannot do something for an expected reason, it returns an Error inside a Result: check the Result, then use
// value(). The macros MC2_ASSIGN and MC2_TRY check it, and return the Error if there is one.
using mc2::Error;
using mc2::ErrorCode;
using mc2::Result;

// The problem. Each rank r has A_r [m, k] and B_r [k, n]; afterwards C [m, n] = sum over r of A_r B_r on every rank.
const planner::OpSpec kOp{.kind = planner::OpKind::MatmulAllReduce,
                          .m = 512,
                          .n = 256,
                          .k = 128,
                          .dtype = planner::DType::F32,
                          .world_size = 2};

struct Arguments {
  std::string plan_file;
  std::string store_file;
  std::string link = "shm";
  bool accept_other_machine = false;
};

Result<Arguments> parse(std::span<char*> words) {
  Arguments arguments;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i];
    std::string* value = word == "--plan"    ? &arguments.plan_file
                         : word == "--store" ? &arguments.store_file
                         : word == "--link"  ? &arguments.link
                                             : nullptr;
    if (word == "--accept-other-machine")
      arguments.accept_other_machine = true;
    else if (value == nullptr || ++i == words.size())
      return Error{ErrorCode::InvalidSpec, std::string(word),
                   "legal: --plan FILE, --store FILE, --link LINK, --accept-other-machine"};
    else
      *value = words[i];
  }
  return arguments;
}

// ---- 1. Where the plan comes from

Result<planner::Plan> read_plan(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{ErrorCode::NotFound, path, "cannot be opened"};
  const std::string json{std::istreambuf_iterator<char>(file), {}};
  auto plan = store::decode_plan(json); // refuses what is damaged, truncated or from a newer mc2
  if (!plan) return Error{plan.error().code, path, plan.error().text()};
  if (plan.value().op != kOp)
    return Error{ErrorCode::InvalidSpec, path, "is for " + plan.value().op.text() + ", not for " + kOp.text()};
  return plan;
}

// The key is the operator and the fingerprint, so a store never answers with a plan tuned on another machine.
Result<planner::Plan> find_kept_plan(const store::Store& opened, const planner::Fingerprint& here) {
  MC2_ASSIGN(const auto kept,
             opened.find_plan({.op = kOp, .fingerprint_digest = store::digest(here.canonical_text())}));
  return kept.plan;
}

// Whether there is no store at that place: the file is missing, or it is a directory or a device. All other errors,
// e.g. damage, must not be taken for "no plan yet".
bool is_no_store(const Error& error) {
  return error.code == ErrorCode::NotFound || error.code == ErrorCode::InvalidSpec;
}

// One block: matmul, then all-reduce. It is correct everywhere, so a program can always fall back to it.
planner::Plan uncut_plan(const executor::Backend& backend, const executor::CommunicatorOptions& options,
                         const planner::Fingerprint& here) {
  planner::Plan plan;
  plan.op = kOp;
  plan.fingerprint = here;
  plan.strategy = "given";
  plan.variant = backend.variants(kOp, options).front();
  plan.cut = {{planner::traits_of(kOp.kind).cut_axis_length(kOp)}};
  return plan;
}

Result<planner::Plan> choose_plan(const Arguments& arguments, const executor::Backend& backend,
                                  const executor::CommunicatorOptions& options, const planner::Fingerprint& here) {
  if (!arguments.plan_file.empty()) return read_plan(arguments.plan_file);
  std::string why = "neither --plan nor --store was given";
  if (!arguments.store_file.empty()) {
    const auto opened = store::Store::open(arguments.store_file, store::OpenMode::ReadOnly);
    if (!opened && !is_no_store(opened.error())) return opened.error();
    auto kept = opened ? find_kept_plan(opened.value(), here) : opened.error();
    if (kept) return kept;
    why = kept.error().text();
  }
  std::printf("no plan (%s): running uncut\n", why.c_str());
  return uncut_plan(backend, options, here);
}

// ---- 2. The program's own matrices

struct RankMatrices {
  std::vector<float> a, b, c;
};

std::vector<RankMatrices> make_matrices() {
  const auto m = static_cast<std::size_t>(kOp.m), n = static_cast<std::size_t>(kOp.n);
  const auto k = static_cast<std::size_t>(kOp.k);
  std::vector<RankMatrices> ranks;
  for (int rank = 0; rank < kOp.world_size; ++rank)
    ranks.push_back({std::vector<float>(m * k), std::vector<float>(k * n), std::vector<float>(m * n)});
  return ranks;
}

// Multiples of 1/8 between -1 and 1: every product and sum is exact in float, so the check needs no tolerance.
void fill(std::vector<float>& matrix, std::size_t seed) {
  for (std::size_t i = 0; i < matrix.size(); ++i)
    matrix[i] = static_cast<float>((i * 7 + i / 31 + seed * 5) % 17) / 8.0F - 1.0F;
}

// mc2 reads and writes the program's memory in place. These views own nothing: the vectors must outlive them.
std::vector<executor::RankBuffers> views_of(std::vector<RankMatrices>& ranks) {
  std::vector<executor::RankBuffers> views;
  for (auto& rank : ranks)
    views.push_back({.a = std::as_bytes(std::span(rank.a)),
                     .b = std::as_bytes(std::span(rank.b)),
                     .c = std::as_writable_bytes(std::span(rank.c))});
  return views;
}

// ---- 3. The check against the definition, which naive loops compute

double expected_sum(const std::vector<RankMatrices>& ranks, std::size_t row, std::size_t column) {
  const auto n = static_cast<std::size_t>(kOp.n), k = static_cast<std::size_t>(kOp.k);
  double sum = 0;
  for (const auto& rank : ranks)
    for (std::size_t l = 0; l < k; ++l) sum += double{rank.a[row * k + l]} * double{rank.b[l * n + column]};
  return sum;
}

Result<void> check(const std::vector<RankMatrices>& ranks) {
  const auto m = static_cast<std::size_t>(kOp.m), n = static_cast<std::size_t>(kOp.n);
  for (std::size_t row = 0; row < m; ++row)
    for (std::size_t column = 0; column < n; ++column) {
      const double expected = expected_sum(ranks, row, column);
      for (std::size_t rank = 0; rank < ranks.size(); ++rank)
        if (const double found = ranks[rank].c[row * n + column]; found != expected)
          return Error{ErrorCode::Mismatch, "C[" + std::to_string(row) + ", " + std::to_string(column) + "]",
                       "is " + std::to_string(found) + " on rank " + std::to_string(rank) + "; the naive sum is " +
                           std::to_string(expected)};
    }
  return {};
}

// ---- 4. All of it together

Result<void> run_steps(executor::Prepared& prepared, std::vector<RankMatrices>& ranks) {
  for (std::size_t step = 0; step < 3; ++step) {
    // New activations in every step; the weights B were packed by prepare() and stay.
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) fill(ranks[rank].a, 100 + 10 * step + rank);
    const executor::RunRecord& record = prepared.run(executor::RunMode::Fused);
    MC2_TRY(check(ranks));
    std::printf("step %zu: %.0f us, every sum is right\n", step, static_cast<double>(record.makespan.count()) / 1e3);
  }
  return {};
}

Result<void> run(const Arguments& arguments) {
  // A communicator holds the ranks: their threads, memory and links.
  MC2_ASSIGN(const auto backend, executor::find_backend("host"));
  MC2_ASSIGN(const auto link, executor::parse_link(arguments.link));
  executor::CommunicatorOptions options;
  options.world_size = kOp.world_size;
  options.link = link;
  MC2_ASSIGN(const auto communicator, backend->open(options));

  MC2_ASSIGN(const auto plan, choose_plan(arguments, *backend, options, communicator->fingerprint()));
  std::printf("%s: %s\n", kOp.text().c_str(), plan.cut.text().c_str());

  // prepare() packs the weights and allocates; run() then only computes. A plan carries the fingerprint of the
  // machine that it was made for. On another machine it is still correct, but may be slow, so the program has to ask
  // for that.
  auto ranks = make_matrices();
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) fill(ranks[rank].b, rank);
  const auto views = views_of(ranks);
  const executor::ExecuteOptions execute{.accept_other_fingerprint = arguments.accept_other_machine, .prepare = {}};
  const auto prepared = executor::prepare(plan, views, *communicator, execute);
  if (!prepared && prepared.error().code == ErrorCode::Stale)
    return Error{ErrorCode::Stale, "plan", prepared.error().message + "; --accept-other-machine runs it all the same"};
  if (!prepared) return prepared.error();
  return run_steps(*prepared.value(), ranks);
}

int report(int exit_code, const std::string& text) {
  std::fprintf(stderr, "host_program: %s\n", text.c_str());
  return exit_code;
}

} // namespace

int main(int argc, char** argv) {
  try {
    const auto arguments = parse(std::span(argv, static_cast<std::size_t>(argc)));
    if (!arguments) return report(2, arguments.error().text());
    const auto done = run(arguments.value());
    if (!done) return report(done.error().code == ErrorCode::Mismatch ? 1 : 2, done.error().text());
    return 0;
  } catch (const mc2::SystemError& error) {
    return report(3, error.what()); // a library, device or deadline failed, which no argument could have prevented
  } catch (const std::exception& error) {
    return report(3, error.what());
  }
}
