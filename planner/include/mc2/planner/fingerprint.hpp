#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/error.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// What makes a measurement comparable with another: device, link, driver and library versions.
///
/// Keys are lower_snake_case ("cpu_model", "cores", "backend", "link", "onednn"). A measurement made under an
/// emulated link or virtual compute carries the key `emulation`, so that it can never equal a real machine's.
struct Fingerprint {
  std::map<std::string, std::string> fields;

  /// Empty where the machine has no such field.
  [[nodiscard]] std::string_view field(std::string_view key) const;

  /// Whether the costs come from published constants (device_model()) or other tools' logs, not from mc2's own
  /// measurements on the machine.
  [[nodiscard]] bool is_elsewhere() const;

  /// True when any part of the machine was emulated or virtual.
  [[nodiscard]] bool is_emulated() const { return fields.contains("emulation"); }

  /// Whether several ranks share a device, which shows what is right but not how fast it is.
  [[nodiscard]] bool is_shared_device() const { return fields.contains("ranks_per_device"); }
  /// Errors: Unsupported on a shared device, where nothing is timed and nothing is kept.
  [[nodiscard]] Result<void> require_speeds() const;
  /// Checks that the machine has as many ranks as an operator; else nothing could run its plan there. A fingerprint
  /// without a number of ranks stands for any. Errors: InvalidSpec.
  [[nodiscard]] Result<void> require_ranks(int world_size) const;

  /// One "key=value" per field, ordered by key, joined with "; ". Values have ';' and '=' escaped with '\\', so
  /// distinct fingerprints have distinct texts.
  [[nodiscard]] std::string canonical_text() const;

  /// Short human label: the device and link, the number of nodes if there are several, "not pinned" where lanes have no
  /// cores of their own, and "EMULATED: ..." or "SHARED DEVICE: ..." where it applies.
  [[nodiscard]] std::string label() const;

  /// Keys whose values differ or that only one side has, as "key: here 'x', there 'y'".
  [[nodiscard]] std::vector<std::string> differences(const Fingerprint& other) const;

  bool operator==(const Fingerprint&) const = default;
};

/// NCCL's version in one form, since each of its tools has another: NCCL_VERSION_CODE 22807 and "2.28.7+cuda13.0" are
/// "2.28.7". A text of another form is returned as it is.
[[nodiscard]] std::string nccl_version(std::string_view text);

} // namespace mc2::planner

#pragma GCC visibility pop
