#include "http/tls.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

namespace mc2::server {
namespace {

using boost::system::error_code;

Error refused(const char* setting, const std::filesystem::path& file, const std::string& what) {
  return {ErrorCode::InvalidSpec, setting, file.string() + " " + what};
}

/// Errors: InvalidSpec.
Result<void> require_file(const char* setting, const std::filesystem::path& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) return refused(setting, file, "is a directory; name a PEM file");
  errno = 0;
  if (std::ifstream(file).is_open()) return {};
  return refused(setting, file, "cannot be read: " + std::string(std::strerror(errno != 0 ? errno : EIO)));
}

/// A text that changes when a file is written or replaced.
std::string state_of(const TlsFiles& files) {
  std::string state;
  for (const auto& file : {files.certificate, files.key}) {
    struct stat status {};
    if (stat(file.c_str(), &status) != 0) continue;
    for (const auto number :
         {static_cast<long long>(status.st_ino), static_cast<long long>(status.st_size),
          static_cast<long long>(status.st_mtim.tv_sec), static_cast<long long>(status.st_mtim.tv_nsec)})
      state += std::to_string(number) + " ";
  }
  return state;
}

/// Errors: InvalidSpec.
Result<std::shared_ptr<net::ssl::context>> load_context(const TlsFiles& files) {
  for (const auto& [setting, file] : {std::pair{"tls-certificate", files.certificate}, std::pair{"tls-key", files.key}})
    MC2_TRY(require_file(setting, file));
  auto context = std::make_shared<net::ssl::context>(net::ssl::context::tls_server);
  SSL_CTX* const handle = context->native_handle();
  SSL_CTX_set_min_proto_version(handle, TLS1_2_VERSION);
  SSL_CTX_set_options(handle, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(handle, SSL_MODE_RELEASE_BUFFERS); // idle connections keep no buffers
  error_code error;
  // Without this OpenSSL asks for a passphrase on the terminal.
  context->set_password_callback([](std::size_t, auto) { return std::string(); }, error);
  context->use_certificate_chain_file(files.certificate.string(), error);
  if (error)
    return refused("tls-certificate", files.certificate, "is no certificate in PEM form (" + error.message() + ")");
  context->use_private_key_file(files.key.string(), net::ssl::context::pem, error);
  if (!error) return context;
  ERR_clear_error();
  const bool is_of_another = error.category() == net::error::get_ssl_category() &&
                             ERR_GET_REASON(static_cast<unsigned long>(error.value())) == X509_R_KEY_VALUES_MISMATCH;
  if (is_of_another)
    return refused("tls-key", files.key, "is not the key of the certificate " + files.certificate.string());
  return refused("tls-key", files.key, "is no private key in PEM form without a passphrase (" + error.message() + ")");
}

} // namespace

Result<std::unique_ptr<Tls>> Tls::open(const TlsFiles& files) {
  std::unique_ptr<Tls> tls(new Tls);
  MC2_TRY(tls->load(files));
  return tls;
}

std::shared_ptr<net::ssl::context> Tls::context() const {
  const std::lock_guard lock(mutex_);
  return context_;
}

Result<void> Tls::load(const TlsFiles& files) {
  std::string state = state_of(files); // before reading, so that a later change is noticed by the next look
  MC2_ASSIGN(auto loaded, load_context(files));
  const std::lock_guard lock(mutex_);
  files_ = files;
  state_ = std::move(state);
  context_ = std::move(loaded);
  return {};
}

Result<bool> Tls::follow_files() {
  TlsFiles files;
  {
    std::string state;
    const std::lock_guard lock(mutex_);
    state = state_of(files_);
    if (state == state_) return false;
    state_ = std::move(state);
    files = files_;
  }
  MC2_TRY(load(files));
  return true;
}

} // namespace mc2::server
