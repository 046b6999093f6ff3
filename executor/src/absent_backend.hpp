#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checks.hpp"
#include "mc2/executor/backend.hpp"

namespace mc2::executor {

/// Takes the place of a backend that this build does not have in the registry, so that a user who asks for the backend
/// gets the reason.
class AbsentBackend final : public Backend {
 public:
  /// Both texts must outlive *this.
  AbsentBackend(std::string_view name, std::string_view reason) noexcept : name_(name), reason_(reason) {}

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] Availability availability(int /*local_ranks*/) const override {
    return {.is_available = false, .reason = std::string(reason_)};
  }
  [[nodiscard]] std::vector<planner::Variant> variants(const planner::OpSpec& /*op*/,
                                                       const CommunicatorOptions& /*options*/) const override {
    return {};
  }
  [[nodiscard]] Result<void> check_variant(const planner::OpSpec& /*op*/, const CommunicatorOptions& /*options*/,
                                           const planner::Variant& /*variant*/) const override {
    return absent();
  }
  [[nodiscard]] Result<void> supports(const planner::OpSpec& /*op*/) const override { return absent(); }
  [[nodiscard]] planner::Fingerprint fingerprint(const CommunicatorOptions& /*options*/) const override {
    return {.fields = {{"backend", std::string(name_)}}};
  }
  [[nodiscard]] Result<std::unique_ptr<Communicator>> open(const CommunicatorOptions& /*options*/) const override {
    return absent();
  }

 private:
  [[nodiscard]] Error absent() const { return {ErrorCode::Unsupported, "backend", std::string(reason_)}; }

  std::string_view name_;
  std::string_view reason_;
};

} // namespace mc2::executor
