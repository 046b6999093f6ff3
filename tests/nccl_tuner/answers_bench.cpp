#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "executor/nccl_tuner/src/interface.hpp"

/// Measures how long an answer of the tuner plug-in takes (docs/gpu.md). Each call is timed by itself.
///
///     NCCL_TUNER_CONFIG_FILE=rules.csv build/ci/tests/nccl_tuner/answers_bench
///     build/ci/executor/nccl_tuner/libnccl-tuner-mc2.so
namespace {

using namespace mc2::nccl_tuner;
using Clock = std::chrono::steady_clock;

constexpr int kCount = 1'000'000, kAllReduce = 4;

double ns_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double, std::nano>(end - start).count();
}

} // namespace

int main(int argc, char** argv) {
  void* library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : nullptr;
  const auto* tuner = library == nullptr ? nullptr : static_cast<const TunerV5*>(dlsym(library, "ncclTunerPlugin_v5"));
  void* context = nullptr;
  if (tuner == nullptr || tuner->init(&context, 0, 8, 1, nullptr, nullptr, nullptr) != kSuccess) {
    std::fprintf(stderr, "answers_bench: needs the path of libnccl-tuner-mc2.so\n");
    return EXIT_FAILURE;
  }
  std::mt19937 random(1);
  std::array<float, 21> costs{};
  std::vector<double> call_ns, empty_ns;
  for (int i = 0; i < kCount; ++i) {
    const std::size_t bytes = random() % (std::size_t{64} << 20);
    int channels = 0;
    const auto start = Clock::now();
    tuner->get_coll_info(context, kAllReduce, bytes, 1, reinterpret_cast<float**>(costs.data()), 7, 3, 0,
                         &channels); // NOLINT
    const auto end = Clock::now();
    call_ns.push_back(ns_between(start, end));
    empty_ns.push_back(ns_between(end, Clock::now()));
  }
  for (auto* times : {&call_ns, &empty_ns}) {
    std::ranges::sort(*times);
    std::printf("%s: median %.0f ns, p99 %.0f ns, p99.99 %.0f ns\n",
                times == &call_ns ? "a call and the clock" : "the clock alone", (*times)[kCount / 2],
                (*times)[kCount / 100 * 99], (*times)[kCount / 10000 * 9999]);
  }
  return tuner->finalize(context);
}
