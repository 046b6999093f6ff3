#include "backends/mpi/variants.hpp"

#include <charconv>
#include <string>

namespace mc2::executor::mpi {
namespace {

using planner::Error;
using planner::ErrorCode;
using planner::Result;
using planner::Variant;

constexpr const char* kSleepUs = "sleep_us";
constexpr int kMaxSleepUs = 10'000;
constexpr const char* kDefaultSleepUs = "50"; // the published measurement's, docs/mpi.md

Result<std::chrono::microseconds> read_sleep(const Variant& variant) {
  const auto found = variant.fields.find(kSleepUs);
  int value = -1;
  if (found != variant.fields.end()) {
    const std::string& text = found->second;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
    if (is_whole && value >= 0 && value <= kMaxSleepUs) return std::chrono::microseconds{value};
  }
  return Error{ErrorCode::InvalidSpec, "variant",
               "\"" + variant.name + "\" needs the setting " + kSleepUs + ", a whole number from 0 to " +
                   std::to_string(kMaxSleepUs) +
                   (found == variant.fields.end() ? "; it is missing" : ", not \"" + found->second + "\"")};
}

Result<void> check_fields(const Variant& variant, bool has_sleep) {
  for (const auto& [key, value] : variant.fields) {
    if (has_sleep && key == kSleepUs) continue;
    return Error{ErrorCode::InvalidSpec, "variant", "\"" + variant.name + "\" has no setting \"" + key + "\""};
  }
  return {};
}

} // namespace

std::vector<Variant> mpi_variants() {
  // The ring leaves the matmul its core and is the faster of the two that do; blocking needs a core to spin on.
  return {{.name = "ring", .fields = {{kSleepUs, kDefaultSleepUs}}},
          {.name = "blocking", .fields = {}},
          {.name = "nonblocking", .fields = {{kSleepUs, kDefaultSleepUs}}}};
}

Result<MpiVariant> read_variant(const Variant& variant) {
  using Algorithm = MpiVariant::Algorithm;
  MpiVariant read;
  if (variant.name == "ring") {
    read.algorithm = Algorithm::Ring;
  } else if (variant.name == "blocking") {
    read.algorithm = Algorithm::Blocking;
  } else if (variant.name == "nonblocking") {
    read.algorithm = Algorithm::Nonblocking;
  } else {
    return Error{ErrorCode::UnknownName, "variant",
                 "the mpi backend has no variant \"" + variant.name + "\"; it has: ring, blocking, nonblocking"};
  }
  const bool has_sleep = read.algorithm != Algorithm::Blocking;
  if (auto legal = check_fields(variant, has_sleep); !legal) return legal.error();
  if (!has_sleep) return read;
  const auto sleep = read_sleep(variant);
  if (!sleep) return sleep.error();
  read.sleep = sleep.value();
  return read;
}

} // namespace mc2::executor::mpi
