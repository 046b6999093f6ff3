#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "mc2/planner/error.hpp"
#include "mc2/server/config.hpp"
#include "mc2/server/message.hpp"

namespace mc2::server {

/// Answers requests from a store; knows nothing of sockets. schemas/openapi.yaml describes every answer.
class Service {
 public:
  /// Opens or creates the store.
  /// @param utc_now  the time as ISO 8601, for what is kept
  /// Errors: as store::Store::open, Config::validate. Throws SystemError.
  [[nodiscard]] static planner::Result<std::unique_ptr<Service>> open(const Config& config,
                                                                       std::function<std::string()> utc_now);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Threads: safe to share. Every failure becomes a problem document (RFC 9457).
  [[nodiscard]] Response answer(const Request& request) noexcept;

  /// Whether a body of this target may have Limits::upload_bytes.
  [[nodiscard]] static bool takes_upload(std::string_view method, std::string_view target) noexcept;

  /// From here on /readyz says no, so that no new requests are sent here.
  void start_draining() noexcept;

 private:
  struct Impl;
  explicit Service(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A problem document for what goes wrong before a request is complete, e.g. 413, 431, 503.
[[nodiscard]] Response problem(int status, std::string_view detail, std::string_view request_id);

} // namespace mc2::server
