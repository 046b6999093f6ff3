#include "mc2/server/config.hpp"

#include <initializer_list>

namespace mc2::server {
namespace {

Result<void> check(bool is_legal, const char* setting, const char* legal) {
  if (is_legal) return {};
  return Error{ErrorCode::InvalidSpec, setting, std::string("must be ") + legal};
}

bool is_within(std::chrono::milliseconds time) {
  return time >= std::chrono::milliseconds(1) && time <= std::chrono::hours(1);
}

bool is_within(std::size_t bytes, std::size_t least, std::size_t most) { return bytes >= least && bytes <= most; }

/// The first of the checks that fails.
Result<void> first_fault(std::initializer_list<Result<void>> checks) {
  for (const auto& one : checks)
    if (!one) return one;
  return {};
}

Result<void> check_limits(const Limits& limits) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 30;
  constexpr std::size_t kMaxHeaderBytes = 64 << 10; // Boost.Beast throws for a longer header
  return first_fault({
      check(is_within(limits.header_bytes, 256, kMaxHeaderBytes), "header_bytes", "256 to 65536"),
      check(is_within(limits.body_bytes, 1024, kMaxBytes), "body_bytes", "1024 to 1073741824"),
      check(is_within(limits.upload_bytes, 1024, kMaxBytes), "upload_bytes", "1024 to 1073741824"),
      check(limits.upload_count >= 1 && limits.upload_count <= 1024, "uploads", "1 to 1024"),
      check(is_within(limits.header_timeout), "header_timeout", "1 ms to 1 h"),
      check(is_within(limits.body_timeout), "body_timeout", "1 ms to 1 h"),
      check(is_within(limits.idle_timeout), "idle_timeout", "1 ms to 1 h"),
      check(is_within(limits.drain_timeout), "drain_timeout", "1 ms to 1 h"),
      check(limits.watcher_count >= 0 && limits.watcher_count <= 65'536, "watchers", "0 to 65536"),
      check(limits.connection_count >= 1 && limits.connection_count <= 65'536, "connections", "1 to 65536"),
      check(limits.connection_count_of_address >= 0 && limits.connection_count_of_address <= 65'536,
            "connections_of_address", "0 (no limit) to 65536"),
      check(limits.requests_per_s >= 0 && limits.requests_per_s <= 1e9, "requests_per_s", "0 (no limit) to 1e9"),
      check(limits.refused_tokens_per_s >= 0 && limits.refused_tokens_per_s <= 1e9, "refused_tokens_per_s",
            "0 (no limit) to 1e9"),
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
      check(thread_count >= 0 && thread_count <= 256, "threads", "0 (as many as cores) to 256"),
      check(history_interval.count() >= 0 && history_interval.count() <= 86'400, "history-interval",
            "0 to 86400 seconds"),
  }));
  return check_limits(limits);
}

} // namespace mc2::server
