#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

namespace mc2::testing {

struct BoundSocket {
  int socket, port;
};

/// A socket bound to a TCP port of the loopback device that nobody else has. The caller closes it.
inline BoundSocket bound_socket() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (listener < 0 || bind(listener, any, size) != 0 || getsockname(listener, any, &size) != 0) std::abort();
  return {listener, ntohs(address.sin_port)};
}

/// A TCP port of the loopback device that was free a moment ago.
inline int free_port() {
  const BoundSocket bound = bound_socket();
  close(bound.socket);
  return bound.port;
}

} // namespace mc2::testing
