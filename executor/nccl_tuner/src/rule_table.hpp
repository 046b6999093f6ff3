#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "mc2/store/nccl_rules.hpp"

namespace mc2::nccl_tuner {

/// Rules of one communicator, by size; looking one up allocates nothing.
class RuleTable {
 public:
  /// Of the rules, those for so many ranks on so many nodes. The first that matches a message holds.
  RuleTable(std::span<const store::NcclRule> rules, std::size_t ranks, std::size_t nodes);

  [[nodiscard]] const store::NcclRule* find(int function, std::int64_t bytes, int grouped_ops,
                                            int has_registered_buffers) const noexcept;
  [[nodiscard]] std::size_t rule_count() const noexcept { return rules_.size(); }

 private:
  /// From a size to the next part's: the rules that may match, by number, in their order.
  struct Part {
    std::int64_t first_bytes = 0;
    std::vector<std::uint32_t> rules;
  };
  static constexpr std::size_t kFunctionCount = store::kNcclFunctions.size();

  [[nodiscard]] std::vector<Part> parts_of(int function) const;

  std::vector<store::NcclRule> rules_;
  std::array<std::vector<Part>, kFunctionCount> parts_;
};

} // namespace mc2::nccl_tuner
