#include "machine_load.hpp"

#include <chrono>
#include <fstream>
#include <iostream>
#include <thread>

#include "mc2/planner/text.hpp"

namespace mc2::cli {
namespace {

std::optional<int> running_threads() {
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;) {
    int count = 0;
    if (word == "procs_running" && file >> count) return count;
  }
  return std::nullopt;
}

} // namespace

std::optional<double> other_running_threads() {
  constexpr int kLooks = 10;
  int sum = 0;
  for (int look = 0; look < kLooks; ++look) {
    const auto count = running_threads();
    if (!count) return std::nullopt;
    sum += *count - 1; // one of them looks
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  return static_cast<double>(sum) / kLooks;
}

std::optional<std::string> load_note(double other_threads, int core_count) {
  constexpr double kNotedShare = 0.25;
  if (core_count < 1 || other_threads < kNotedShare * core_count) return std::nullopt;
  return "load of other programs: " + number_text(other_threads, 2) + " threads on " + std::to_string(core_count) +
         " cores; times are longer beside them";
}

std::optional<std::string> load_note_now(std::string_view backend) {
  if (backend != "host") return std::nullopt;
  const auto others = other_running_threads();
  return others ? load_note(*others, static_cast<int>(std::thread::hardware_concurrency())) : std::nullopt;
}

void tell_load(std::string_view backend) {
  if (const auto note = load_note_now(backend)) std::cerr << "mc2: note: " + *note + "\n";
}

} // namespace mc2::cli
