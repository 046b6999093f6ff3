#include "mc2/server/config.hpp"

#include <concepts>
#include <initializer_list>
#include <string>
#include <utility>

namespace mc2::server {
namespace {

Result<void> check(bool is_legal, const char* setting, const char* legal) {
  if (is_legal) return {};
  return Error{ErrorCode::InvalidSpec, setting, std::string("must be ") + legal};
}

bool is_within(std::chrono::milliseconds time) {
  return time >= std::chrono::milliseconds(1) && time <= std::chrono::hours(1);
}

/// @param zero  what 0 means; empty: 0 is a value like others
template <std::integral Value>
Result<void> check_range(Value value, const char* setting, WholeRange legal, const char* zero = "") {
  const std::string words = std::to_string(legal.low) + zero + " to " + std::to_string(legal.high);
  const bool is_legal = std::cmp_greater_equal(value, legal.low) && std::cmp_less_equal(value, legal.high);
  return check(is_legal, setting, words.c_str());
}

Result<void> check_rate(double per_second, const char* setting) {
  return check(per_second >= 0 && per_second <= kMostPerSecond, setting, "0 (no limit) to 1e9");
}

/// The first of the checks that fails.
Result<void> first_fault(std::initializer_list<Result<void>> checks) {
  for (const auto& one : checks)
    if (!one) return one;
  return {};
}

Result<void> check_limits(const Limits& limits) {
  return first_fault({
      check_range(limits.header_bytes, "header_bytes", kLegalHeaderBytes),
      check_range(limits.body_bytes, "body_bytes", kLegalBodyBytes),
      check_range(limits.upload_bytes, "upload_bytes", kLegalBodyBytes),
      check_range(limits.upload_count, "uploads", kLegalUploads),
      check(is_within(limits.header_timeout), "header_timeout", "1 ms to 1 h"),
      check(is_within(limits.body_timeout), "body_timeout", "1 ms to 1 h"),
      check(is_within(limits.idle_timeout), "idle_timeout", "1 ms to 1 h"),
      check(is_within(limits.drain_timeout), "drain_timeout", "1 ms to 1 h"),
      check_range(limits.watcher_count, "watchers", kLegalWatchers),
      check_range(limits.connection_count, "connections", kLegalConnections),
      check_range(limits.connection_count_of_address, "connections_of_address", kLegalConnectionsOfAddress,
                  " (no limit)"),
      check_rate(limits.requests_per_s, "requests_per_s"),
      check_rate(limits.refused_tokens_per_s, "refused_tokens_per_s"),
  });
}

} // namespace

Result<void> Config::validate() const {
  const bool keeps_for_ever = !retention.samples && !retention.models && !retention.measurements;
  MC2_TRY(first_fault({
      check(!store.empty(), "store", "the path of a file"),
      check(
          !is_replica() || keeps_for_ever, "follow",
          "given without --keep-samples, --keep-models and --keep-measurements: a replica keeps what its leader keeps"),
      check(is_replica() || !leader.is_sent_documents, "forward-writes", "given together with --follow"),
      check(is_replica() || leader.ca_file.empty(), "follow-ca", "given together with --follow"),
      check(is_replica() || leader.token.empty(), "follow-token-file", "given together with --follow"),
      check(tls_certificate.empty() == tls_key.empty(), "tls-key", "given together with tls-certificate, or neither"),
      check_range(thread_count, "threads", kLegalThreads, " (as many as cores)"),
      check(history_interval.count() >= 0 && history_interval.count() <= 86'400, "history-interval",
            "0 to 86400 seconds"),
  }));
  return check_limits(limits);
}

} // namespace mc2::server
