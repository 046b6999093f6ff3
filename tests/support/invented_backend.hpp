#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mc2/executor/backend.hpp"
#include "mc2/executor/communicator.hpp"
#include "stage.hpp"
#include "support/invented_bench.hpp"

namespace mc2::test {

using VariantCosts = std::vector<std::pair<planner::Variant, InventedCosts>>;

/// A run that reports invented times and neither multiplies nor sends. Needs executor/src as an include directory.
class InventedRun final : public executor::Prepared {
 public:
  InventedRun(const executor::StageList& list, const InventedCosts& costs) : stages_(list.stages), costs_(costs) {}

  using executor::Prepared::run;
  const executor::RunRecord& run(executor::RunMode mode, executor::RunDetail /*detail*/) override {
    using executor::RunMode;
    const bool computes = mode != RunMode::CommunicationOnly;
    const bool communicates = mode != RunMode::ComputeOnly && mode != RunMode::SerialCompute;
    const bool waits = mode == RunMode::Fused || mode == RunMode::Serial; // Serial is used with uncut plans only
    executor::RankTimes times;
    std::chrono::nanoseconds compute{0}, communication{0};
    for (const auto& stage : stages_) {
      times.compute.push_back(next(compute, computes ? costs_.block_us(true, stage.row_count) : 0));
      if (waits) communication = std::max(communication, compute);
      times.communication.push_back(next(communication, communicates ? costs_.block_us(false, stage.row_count) : 0));
    }
    record_.ranks.assign(2, times);
    record_.ranks[1].rank = 1;
    record_.makespan = record_.wall = std::max(compute, communication);
    return record_;
  }

 private:
  executor::StageTime next(std::chrono::nanoseconds& at, double us) const {
    if (at.count() > 0)
      at += std::chrono::nanoseconds(static_cast<std::int64_t>(costs_.hand_over_us * planner::kNsPerUs));
    const auto start = at;
    at += std::chrono::nanoseconds(static_cast<std::int64_t>(us * planner::kNsPerUs));
    return {start, at};
  }

  std::vector<executor::Stage> stages_;
  InventedCosts costs_;
  executor::RunRecord record_;
};

/// Two ranks of the invented machine.
class InventedCommunicator final : public executor::Communicator {
 public:
  explicit InventedCommunicator(VariantCosts costs) : costs_(std::move(costs)) {}
  [[nodiscard]] int world_size() const noexcept override { return 2; }
  [[nodiscard]] std::span<const int> local_ranks() const noexcept override { return ranks_; }
  [[nodiscard]] const planner::Fingerprint& fingerprint() const noexcept override { return fingerprint_; }
  [[nodiscard]] bool uses_host_memory() const noexcept override { return true; }
  [[nodiscard]] std::unique_ptr<executor::RankMemory> allocate(int, std::size_t) override { return nullptr; }

 protected:
  [[nodiscard]] Result<std::unique_ptr<executor::Prepared>> prepare_stages(const executor::StageList& stages,
                                                                           const planner::Variant& variant,
                                                                           std::span<const executor::RankBuffers>,
                                                                           const executor::PrepareOptions&) override {
    const auto costs = std::ranges::find(costs_, variant, &VariantCosts::value_type::first);
    return std::unique_ptr<executor::Prepared>(std::make_unique<InventedRun>(stages, costs->second));
  }

 private:
  VariantCosts costs_;
  std::vector<int> ranks_{0, 1};
  planner::Fingerprint fingerprint_{.fields = {{"backend", "invented"}}};
};

/// A backend of the invented machine, for matmul_all_reduce.
class InventedBackend final : public executor::Backend {
 public:
  explicit InventedBackend(VariantCosts costs) : costs_(std::move(costs)) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "invented"; }
  [[nodiscard]] executor::Availability availability(int /*local_ranks*/) const override { return {true, "invented"}; }
  [[nodiscard]] std::vector<planner::Variant> variants(const planner::OpSpec&,
                                                       const executor::CommunicatorOptions&) const override {
    std::vector<planner::Variant> result;
    for (const auto& [variant, unused] : costs_) result.push_back(variant);
    return result;
  }
  [[nodiscard]] Result<void> check_variant(const planner::OpSpec&, const executor::CommunicatorOptions&,
                                           const planner::Variant& variant) const override {
    if (std::ranges::find(costs_, variant, &VariantCosts::value_type::first) != costs_.end()) return {};
    return Error{ErrorCode::UnknownName, "variant", "there is no " + variant.text()};
  }
  [[nodiscard]] Result<void> supports(const planner::OpSpec&) const override { return {}; }
  [[nodiscard]] planner::Fingerprint fingerprint(const executor::CommunicatorOptions&) const override {
    return InventedCommunicator(costs_).fingerprint();
  }
  [[nodiscard]] Result<std::unique_ptr<executor::Communicator>> open(
      const executor::CommunicatorOptions&) const override {
    return std::unique_ptr<executor::Communicator>(std::make_unique<InventedCommunicator>(costs_));
  }

 private:
  VariantCosts costs_;
};

} // namespace mc2::test
