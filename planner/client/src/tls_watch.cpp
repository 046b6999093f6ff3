#include "tls_watch.hpp"

#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <algorithm>

namespace mc2::client {
namespace {

using Context = boost::asio::ssl::context;
using SharedWatch = std::shared_ptr<TlsWatch>;

/// The place in an OpenSSL context for the share of a watch; the context releases it.
int place_of_watch() {
  static const int place = SSL_CTX_get_ex_new_index(
      0, nullptr, nullptr, nullptr,
      [](void*, void* kept, CRYPTO_EX_DATA*, int, long, void*) { delete static_cast<SharedWatch*>(kept); });
  return place;
}

/// Trusts this file alone: cpprestsdk has loaded the system's certificates already.
void trust_only(Context& context, const std::filesystem::path& ca_file) {
  SSL_CTX_set_cert_store(context.native_handle(), X509_STORE_new()); // frees the store before
  context.load_verify_file(ca_file.string());
}

} // namespace

void TlsWatch::set_up(Context& context, const SharedWatch& watch, const std::filesystem::path& ca_file) {
  auto share = std::make_unique<SharedWatch>(watch);
  if (SSL_CTX_set_ex_data(context.native_handle(), place_of_watch(), share.get()) == 1) {
    share.release(); // the context's now
    SSL_CTX_set_cert_verify_callback(context.native_handle(), &TlsWatch::verify, watch.get());
  }
  // Also where the file cannot be read: the call then ends with that error, and must not wait.
  const std::unique_ptr<TlsWatch, void (*)(TlsWatch*)> at_end(watch.get(), [](TlsWatch* seen) { seen->note_set_up(); });
  context.set_options(Context::default_workarounds | Context::no_sslv2 | Context::no_sslv3 | Context::no_tlsv1 |
                      Context::no_tlsv1_1);
  if (!ca_file.empty()) trust_only(context, ca_file);
}

void TlsWatch::note_set_up() {
  const std::lock_guard lock(mutex_);
  set_up_at_ = Clock::now();
  refusal_.clear(); // of an earlier connection
  changed_.notify_all();
}

TlsWatch::Clock::time_point TlsWatch::wait_from(Clock::time_point began, const std::stop_token& stop) {
  constexpr std::chrono::seconds kLongestSetUp{5};
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, stop, began + kLongestSetUp, [this] { return set_up_at_.has_value(); });
  return std::clamp(set_up_at_.value_or(began), began, began + kLongestSetUp); // others' connections are set up, too
}

int TlsWatch::verify(X509_STORE_CTX* certificate, void* watch) {
  const int verdict = X509_verify_cert(certificate);
  const int reason = X509_STORE_CTX_get_error(certificate);
  auto& seen = *static_cast<TlsWatch*>(watch);
  const std::lock_guard lock(seen.mutex_);
  // cpprestsdk compares the host's name itself, and sets no reason where it differs.
  const bool is_mismatch = reason == X509_V_OK || reason == X509_V_ERR_UNSPECIFIED;
  seen.refusal_ =
      verdict == 1 ? "" : X509_verify_cert_error_string(is_mismatch ? X509_V_ERR_HOSTNAME_MISMATCH : reason);
  return verdict;
}

std::string TlsWatch::refusal() const {
  const std::lock_guard lock(mutex_);
  return refusal_;
}

} // namespace mc2::client
