#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace mc2::support {

/// A loopback port on which nobody listens. It is bound, so that nobody else gets it.
class DeadPort {
 public:
  DeadPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address_;
    if (::bind(socket_, reinterpret_cast<sockaddr*>(&address_), length) != 0 ||
        ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address_), &length) != 0)
      std::abort();
  }
  ~DeadPort() { ::close(socket_); }
  DeadPort(const DeadPort&) = delete;
  DeadPort& operator=(const DeadPort&) = delete;

  [[nodiscard]] int socket() const { return socket_; }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(ntohs(address_.sin_port)); }

 private:
  int socket_;
  sockaddr_in address_{};
};

/// A Unix socket in the folder for temporary files; the destructor removes its file.
class SocketFile {
 public:
  SocketFile() {
    static std::atomic<int> count{0};
    path_ = std::filesystem::temp_directory_path() /
            ("mc2-fake-" + std::to_string(::getpid()) + "-" + std::to_string(++count) + ".sock");
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.string().copy(static_cast<char*>(address.sun_path), sizeof address.sun_path - 1);
    ::unlink(path_.c_str());
    if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) std::abort();
  }
  ~SocketFile() {
    ::close(socket_);
    ::unlink(path_.c_str());
  }
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

  [[nodiscard]] int socket() const { return socket_; }
  [[nodiscard]] std::string url() const { return "unix:" + path_.string(); }

 private:
  int socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::filesystem::path path_;
};

/// Answers every request on a loopback port or a Unix socket with the bytes that `answer` returns, then closes the
/// connection.
template <typename Place>
class FakeServiceAt {
 public:
  /// Called by the service's threads with the request's headers and body. Where it returns an empty string, the service
  /// never answers the request.
  using Answer = std::function<std::string(const std::string& request)>;

  explicit FakeServiceAt(Answer answer) : answer_(std::move(answer)) {
    ::listen(place_.socket(), 64);
    acceptor_ = std::jthread([this](const std::stop_token& stop) { accept_all(stop); });
  }

  [[nodiscard]] std::string url() const { return place_.url(); }
  [[nodiscard]] int request_count() const { return request_count_; }

 private:
  void accept_all(const std::stop_token& stop) {
    std::vector<std::jthread> connections;
    while (!stop.stop_requested()) {
      pollfd ready{.fd = place_.socket(), .events = POLLIN, .revents = 0};
      if (::poll(&ready, 1, 10) <= 0) continue;
      const int connection = ::accept4(place_.socket(), nullptr, nullptr, SOCK_CLOEXEC);
      connections.emplace_back([this, connection](const std::stop_token& end) { serve(connection, end); });
    }
  }

  void serve(int connection, const std::stop_token& stop) {
    std::string request;
    if (receive(connection, request, stop)) {
      ++request_count_;
      const std::string bytes = answer_(request);
      if (bytes.empty()) {
        while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      send_all(connection, bytes);
    }
    ::close(connection);
  }

  /// Receives until the headers and as many bytes as they announce are there. False when stopped or disconnected.
  static bool receive(int connection, std::string& request, const std::stop_token& stop) {
    char part[65536];
    while (!stop.stop_requested() && !is_complete(request)) {
      pollfd ready{.fd = connection, .events = POLLIN, .revents = 0};
      if (::poll(&ready, 1, 10) <= 0) continue;
      const auto count = ::recv(connection, part, sizeof part, 0);
      if (count <= 0) return false;
      request.append(part, static_cast<std::size_t>(count));
    }
    return !stop.stop_requested();
  }

  static bool is_complete(const std::string& request) {
    const auto end = request.find("\r\n\r\n");
    if (end == std::string::npos) return false;
    const auto length = request.find("Content-Length:");
    const std::size_t body = length < end ? std::stoul(request.substr(length + 15)) : 0;
    return request.size() >= end + 4 + body;
  }

  static void send_all(int connection, std::string_view bytes) {
    while (!bytes.empty()) {
      const auto count = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  Place place_;
  Answer answer_;
  std::atomic<int> request_count_{0};
  std::jthread acceptor_; ///< last, because its thread uses the members above
};

using FakeService = FakeServiceAt<DeadPort>;
using FakeSocketService = FakeServiceAt<SocketFile>;

/// An HTTP answer with a Content-Length header.
inline std::string http_answer(const std::string& body, const std::string& status = "200 OK",
                               const std::string& type = "application/json") {
  return "HTTP/1.1 " + status + "\r\nContent-Type: " + type + "\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\nConnection: close\r\n\r\n" + body;
}

} // namespace mc2::support
