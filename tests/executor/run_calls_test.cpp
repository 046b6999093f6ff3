// Tests that Prepared::run() allocates nothing and takes no lock. The program replaces malloc and its kind, and the
// locks of POSIX threads, by functions that count calls during a run. Two exceptions remain. oneDNN allocates the table
// of its arguments in every call that multiplies, and locks where it looks up its kernel for AVX2. Ranks on an emulated
// link share its schedule under a mutex.

#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <map>
#include <string>
#include <string_view>

#include "mc2/executor/backend.hpp"
#include "mc2/executor/verify.hpp"
#include "support/operators.hpp"
#include "support/prepare.hpp"

namespace {

/// The return addresses of calls made while counting. The array has a fixed size, because counting must not allocate.
struct Calls {
  std::atomic<int> count{0};
  std::array<std::atomic<void*>, 64> from{};

  void add(void* address) noexcept {
    const int index = count.fetch_add(1);
    if (index < static_cast<int>(from.size())) from[static_cast<std::size_t>(index)] = address;
  }
  /// Each calling function, or its library, with its number of calls, e.g. "libdnnl.so.2 (3) "; empty without calls.
  [[nodiscard]] std::string text() const {
    std::map<std::string, int> libraries;
    for (int i = 0; i < count && i < static_cast<int>(from.size()); ++i) {
      Dl_info info{};
      const bool is_known = dladdr(from[static_cast<std::size_t>(i)], &info) != 0;
      ++libraries[is_known && info.dli_sname != nullptr ? info.dli_sname : is_known ? info.dli_fname : "?"];
    }
    std::string text;
    for (const auto& [name, calls] : libraries) text += name + " (" + std::to_string(calls) + ") ";
    return text;
  }
  void clear() noexcept { count = 0; }
};

std::atomic<bool> is_counting{false};
Calls allocations, locks;
std::atomic<int> matmul_library_call_count{0}; ///< allocations and locks inside oneDNN

/// Whether oneDNN is among the callers.
bool is_beneath_matmul_library() noexcept {
  static thread_local bool is_inside = false; // backtrace() may allocate as well
  if (is_inside) return false;
  is_inside = true;
  std::array<void*, 12> frames{};
  const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
  bool is_beneath = false;
  for (int i = 0; i < depth && !is_beneath; ++i) {
    Dl_info info{};
    is_beneath = dladdr(frames[static_cast<std::size_t>(i)], &info) != 0 &&
                 std::string_view(info.dli_fname).find("libdnnl") != std::string_view::npos;
  }
  is_inside = false;
  return is_beneath;
}

} // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCanCount = false; // sanitizers have their own malloc and locks
#else
constexpr bool kCanCount = true;

#define MC2_VISIBLE __attribute__((visibility("default")))

extern "C" {
void* __libc_malloc(std::size_t);                // NOLINT: glibc's
void* __libc_calloc(std::size_t, std::size_t);   // NOLINT
void* __libc_realloc(void*, std::size_t);        // NOLINT
void* __libc_memalign(std::size_t, std::size_t); // NOLINT

static void note(Calls& calls, void* from) {
  if (!is_counting.load(std::memory_order_relaxed)) return;
  if (is_beneath_matmul_library())
    ++matmul_library_call_count;
  else
    calls.add(from);
}

MC2_VISIBLE void* malloc(std::size_t size) {
  note(allocations, __builtin_return_address(0));
  return __libc_malloc(size);
}
MC2_VISIBLE void* calloc(std::size_t count, std::size_t size) {
  note(allocations, __builtin_return_address(0));
  return __libc_calloc(count, size);
}
MC2_VISIBLE void* realloc(void* old, std::size_t size) {
  note(allocations, __builtin_return_address(0));
  return __libc_realloc(old, size);
}
MC2_VISIBLE void* memalign(std::size_t alignment, std::size_t size) {
  note(allocations, __builtin_return_address(0));
  return __libc_memalign(alignment, size);
}
MC2_VISIBLE void* aligned_alloc(std::size_t alignment, std::size_t size) {
  note(allocations, __builtin_return_address(0));
  return __libc_memalign(alignment, size);
}
MC2_VISIBLE int posix_memalign(void** to, std::size_t alignment, std::size_t size) {
  note(allocations, __builtin_return_address(0));
  *to = __libc_memalign(alignment, size);
  return *to == nullptr ? ENOMEM : 0;
}

#define MC2_COUNTED_LOCK(name, type)                                                    \
  MC2_VISIBLE int name(type* lock) {                                                    \
    static const auto real = reinterpret_cast<int (*)(type*)>(dlsym(RTLD_NEXT, #name)); \
    note(locks, __builtin_return_address(0));                                           \
    return real(lock);                                                                  \
  }
MC2_COUNTED_LOCK(pthread_mutex_lock, pthread_mutex_t)
MC2_COUNTED_LOCK(pthread_mutex_trylock, pthread_mutex_t)
MC2_COUNTED_LOCK(pthread_rwlock_rdlock, pthread_rwlock_t)
MC2_COUNTED_LOCK(pthread_rwlock_wrlock, pthread_rwlock_t)
MC2_COUNTED_LOCK(pthread_spin_lock, pthread_spinlock_t)
}
#endif

namespace mc2::executor {
namespace {

planner::OpSpec small(planner::OpKind kind) { return testing::completed({kind, 256, 64, 32, planner::DType::F32, 2}); }

/// Counts the calls of three runs, after two uncounted runs that may still set things up.
void count_runs(Prepared& prepared, RunMode mode) {
  (void)is_beneath_matmul_library(); // lets backtrace() set itself up
  for (int run = 0; run < 2; ++run) prepared.run(mode, RunDetail::Stages);
  allocations.clear();
  locks.clear();
  matmul_library_call_count = 0;
  is_counting = true;
  for (int run = 0; run < 3; ++run) prepared.run(mode, RunDetail::Stages);
  is_counting = false;
}

class RunCallsOn : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!kCanCount) GTEST_SKIP() << "sanitizers have their own malloc and locks";
  }
};

TEST_P(RunCallsOn, NeitherAllocateNorLock) {
  const Backend& host = *find_backend("host").value();
  const auto options = mc2::testing::host_options(2, GetParam());
  const auto communicator = host.open(options).value();
  for (const auto& traits : planner::op_registry()) {
    const auto op = small(traits.kind);
    RandomProblem problem(op, 1);
    const std::int64_t block = traits.cut_axis_length(op) / 4;
    const planner::Cut cut{{block, block, block, block}};
    for (const auto& variant : host.variants(op, options)) {
      const auto prepared = testing::prepare_cut(*communicator, op, cut, variant, problem.buffers()).value();
      for (const RunMode mode : {RunMode::Fused, RunMode::Serial}) {
        count_runs(*prepared, mode);
        EXPECT_EQ(allocations.text(), "") << op.text() << " " << variant.text();
        if (options.link.mode != LinkSpec::Mode::Emulated) {
          EXPECT_EQ(locks.text(), "") << op.text() << " " << variant.text();
        }
        if (op.tables) { // this kind has no matmul
          EXPECT_EQ(matmul_library_call_count, 0) << op.text();
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Links, RunCallsOn, ::testing::Values("shm", "100Gbit", "tcp:100Gbit"),
                         [](const auto& info) { return std::string("Link") + std::to_string(info.index); });

TEST(RunCalls, AreCountedAtAll) {
  if (!kCanCount) GTEST_SKIP() << "sanitizers have their own malloc and locks";
  (void)is_beneath_matmul_library();
  allocations.clear();
  locks.clear();
  is_counting = true;
  auto* const number = new std::atomic<int>(7);
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  is_counting = false;
  pthread_mutex_unlock(&mutex);
  EXPECT_EQ(allocations.count, 1);
  EXPECT_EQ(locks.count, 1);
  delete number;
}

} // namespace
} // namespace mc2::executor
