#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "examples.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/store.hpp"

/// Puts stores to hard use:
///   torture kills COUNT     kills writers with SIGKILL while others write, and looks for what was lost
///   torture writers PROCESSES THREADS SECONDS     all write one store, and no write may be refused or overwritten
/// Files are in $TMPDIR, or else in /dev/shm: a kill loses nothing that the kernel has, so a disk only slows it down.
namespace mc2::store {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "torture: %s\n", what.c_str());
  std::exit(1);
}

/// The plan that a writer keeps under a key, in the given version.
planner::Plan version_of(int writer, int key, int version) {
  planner::Plan plan = examples::plan(1024 + 128 * std::int64_t{key}, "writer " + std::to_string(writer));
  plan.makespan.us = plan.makespan.low_us = plan.makespan.high_us = 100 + version;
  plan.timeline.makespan_us = plan.makespan.us;
  return plan;
}

constexpr int kKeyCount = 8;

/// What a writer says once the store has kept it.
struct Acknowledged {
  int writer, key, version;
};

/// The last acknowledged version of each writer and key.
using Versions = std::map<std::pair<int, int>, int>;

/// A child process that keeps version after version until it is killed.
class Writer {
 public:
  Writer(const fs::path& path, int number, int first_version) : number_(number) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) fail("no pipe");
    process_ = fork();
    if (process_ < 0) fail("cannot fork");
    if (process_ == 0) {
      close(ends[0]);
      write_until_killed(path, first_version, ends[1]);
    }
    close(ends[1]);
    reading_end_ = ends[0];
  }

  /// Kills the process, and takes the versions that it had acknowledged.
  void end(Versions& versions) {
    kill(process_, SIGKILL);
    int status = 0;
    waitpid(process_, &status, 0);
    if (!WIFSIGNALED(status))
      fail("writer " + std::to_string(number_) + " gave up with status " + std::to_string(WEXITSTATUS(status)));
    take_acknowledged(versions);
    close(reading_end_);
  }

  void take_acknowledged(Versions& versions) const {
    Acknowledged said{};
    for (pollfd ready{reading_end_, POLLIN, 0};
         poll(&ready, 1, 0) == 1 && read(reading_end_, &said, sizeof said) == sizeof said;)
      versions[{said.writer, said.key}] = said.version;
  }

 private:
  [[noreturn]] void write_until_killed(const fs::path& path, int version, int writing_end) const {
    auto store = Store::open(path, OpenMode::ReadWrite);
    if (!store) _exit(2);
    for (;; ++version)
      for (int key = 0; key < kKeyCount; ++key) {
        if (!store.value().put_plan(version_of(number_, key, version), "tuned", examples::kNow)) _exit(3);
        const Acknowledged said{number_, key, version};
        if (write(writing_end, &said, sizeof said) != sizeof said) _exit(4);
      }
  }

  int number_;
  pid_t process_ = -1;
  int reading_end_ = -1;
};

/// Checks that every acknowledged version, or a later one of the same writer, is there and whole.
void verify(const fs::path& path, const Versions& versions) {
  if (versions.empty()) return; // there may be no store yet
  const auto store = Store::open(path, OpenMode::ReadOnly);
  if (!store) fail(store.error().text());
  if (!store.value().check().is_healthy) fail("the store is damaged: " + store.value().check().database_check);
  for (const auto& [place, version] : versions) {
    const auto [writer, key] = place;
    const auto found = store.value().find_plan(examples::key_of(version_of(writer, key, version)));
    if (!found) fail("lost: " + found.error().text());
    const int kept = static_cast<int>(found.value().plan.makespan.us) - 100;
    if (kept < version)
      fail("version " + std::to_string(version) + " was acknowledged and " + std::to_string(kept) + " is there");
    if (found.value().document != encode(version_of(writer, key, kept))) fail("a torn plan");
  }
}

void torture_by_kills(const fs::path& path, int kill_count) {
  constexpr int kWriterCount = 3;
  std::mt19937 random(20261121);
  Versions versions;
  std::vector<Writer> writers;
  int next_version = 0;
  for (int number = 0; number < kWriterCount; ++number) writers.emplace_back(path, number, next_version++ * 1000);
  for (int kills = 1; kills <= kill_count; ++kills) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 12'000));
    const auto victim = random() % writers.size();
    for (const Writer& writer : writers) writer.take_acknowledged(versions);
    writers[victim].end(versions);
    verify(path, versions);
    writers[victim] = Writer(path, static_cast<int>(victim), next_version++ * 1000);
    if (kills % 1000 == 0) std::printf("%d kills\n", kills), std::fflush(stdout);
  }
  for (Writer& writer : writers) writer.end(versions);
  verify(path, versions);
  std::printf("%d kills, %zu keys: nothing lost, nothing torn\n", kill_count, versions.size());
}

/// One process of `torture writers`. Returns how many samples it added; ends the process on a failure.
std::int64_t write_for(const fs::path& path, int process, int thread_count, std::chrono::seconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  std::atomic<std::int64_t> added{0};
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < thread_count; ++thread)
    threads.emplace_back([&, writer = process * thread_count + thread] {
      try {
        auto store = Store::open(path, OpenMode::ReadWrite);
        if (!store) fail(store.error().text());
        for (int version = 0; std::chrono::steady_clock::now() < end; ++version) {
          const auto sample = examples::sample(1'000'000 * writer + version); // equal samples are kept once
          if (auto kept =
                  store.value().append_samples(examples::op(), examples::fingerprint(), {&sample, 1}, examples::kNow);
              !kept)
            fail(kept.error().text());
          ++added;
          const planner::Plan plan = version_of(writer, version % kKeyCount, version);
          if (auto kept = store.value().put_plan(plan, "tuned", examples::kNow); !kept) fail(kept.error().text());
          const auto found = store.value().find_plan(examples::key_of(plan));
          if (!found) fail(found.error().text());
          if (found.value().document != encode(plan)) fail("another plan stands where this thread alone writes");
        }
      } catch (const std::exception& error) {
        fail(error.what());
      }
    });
  threads.clear();
  return added;
}

void torture_by_writers(const fs::path& path, int process_count, int thread_count, std::chrono::seconds time) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) fail("no pipe");
  std::vector<pid_t> processes;
  for (int process = 0; process < process_count; ++process) {
    processes.push_back(fork());
    if (processes.back() != 0) continue;
    const std::int64_t added = write_for(path, process, thread_count, time);
    _exit(write(ends[1], &added, sizeof added) == sizeof added ? 0 : 1);
  }
  std::int64_t added = 0;
  for (const pid_t process : processes) {
    int status = 0;
    waitpid(process, &status, 0);
    if (status != 0) fail("a process failed");
    std::int64_t one = 0;
    if (read(ends[0], &one, sizeof one) != sizeof one) fail("a process said nothing");
    added += one;
  }
  const auto store = Store::open(path, OpenMode::ReadOnly);
  if (!store) fail(store.error().text());
  if (!store.value().check().is_healthy) fail("the store is damaged");
  const auto stats = store.value().stats();
  if (!stats || stats.value().sample_count != added)
    fail(std::to_string(added) + " samples were acknowledged, " +
         std::to_string(stats ? stats.value().sample_count : -1) + " are there");
  std::printf("%d processes x %d threads, %lld s: %lld samples and as many plans, no update lost, none refused\n",
              process_count, thread_count, static_cast<long long>(time.count()), static_cast<long long>(added));
}

int run(const std::vector<std::string>& words) {
  const char* const parent = std::getenv("TMPDIR");
  std::string folder = std::string(parent != nullptr ? parent : "/dev/shm") + "/mc2-torture-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) fail("cannot make a folder " + folder);
  const fs::path path = fs::path(folder) / "mc2.db";
  if (words.size() == 2 && words[0] == "kills")
    torture_by_kills(path, std::stoi(words[1]));
  else if (words.size() == 4 && words[0] == "writers")
    torture_by_writers(path, std::stoi(words[1]), std::stoi(words[2]), std::chrono::seconds(std::stoi(words[3])));
  else
    fail("usage: torture kills COUNT | torture writers PROCESSES THREADS SECONDS");
  fs::remove_all(folder);
  return 0;
}

} // namespace
} // namespace mc2::store

int main(int argument_count, char** arguments) { return mc2::store::run({arguments + 1, arguments + argument_count}); }
