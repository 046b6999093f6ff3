#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

namespace mc2::server {

/// What the service counts, for Prometheus. Threads: safe to share.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// @param route  its pattern, or "none": never what a client sent, of which there are endlessly many; of text that stays
  void count_request(std::string_view method, std::string_view route, int status, std::chrono::nanoseconds took);
  /// @param source  "stored", "model", "what_if"; @param provenance  of the makespan
  void count_answer(std::string_view source, std::string_view provenance);
  void count_cache(bool is_hit);
  void connection_opened();
  void connection_closed();
  /// Closed without an answer, or with 408 or 503. @param reason  "limit", "timeout", "tls"
  void connection_refused(std::string_view reason);

  /// In the text exposition format, version 0.0.4.
  [[nodiscard]] std::string text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace mc2::server
