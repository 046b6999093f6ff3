/// The least that a server on Boost.Beast does: it reads each request whole, answers every one with the same bytes,
/// keeps the connection open and closes slow ones. throughput.py measures `mc2 serve` against it.
/// Usage: bare_beast FILE THREADS; prints its port.
#include <utility> // boost/asio/awaitable.hpp of 1.74 forgets it

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Stream = beast::basic_stream<net::ip::tcp, net::any_io_executor>;

net::awaitable<void> serve(Stream stream, const std::string& body) {
  constexpr std::chrono::seconds kTimeout{30};
  boost::system::error_code error;
  beast::flat_buffer buffer;
  while (!error) {
    http::request<http::string_body> request;
    stream.expires_after(kTimeout);
    co_await http::async_read(stream, buffer, request, net::redirect_error(net::use_awaitable, error));
    if (error) break;
    http::response<http::string_body> response{http::status::ok, request.version()};
    response.set(http::field::server, "bare");
    response.set(http::field::content_type, "application/json");
    response.keep_alive(request.keep_alive());
    response.body() = body;
    response.prepare_payload();
    co_await http::async_write(stream, response, net::redirect_error(net::use_awaitable, error));
  }
}

net::awaitable<void> accept(net::io_context& io, net::ip::tcp::acceptor& acceptor, const std::string& body) {
  while (true) {
    const net::any_io_executor strand = net::make_strand(io);
    net::basic_stream_socket<net::ip::tcp, net::any_io_executor> socket(strand);
    co_await acceptor.async_accept(socket, net::use_awaitable);
    net::co_spawn(strand, serve(Stream(std::move(socket)), body), net::detached);
  }
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::ifstream file(argv[1], std::ios::binary);
  const std::string body{std::istreambuf_iterator<char>(file), {}};
  net::io_context io;
  net::ip::tcp::acceptor acceptor(io, {net::ip::make_address("127.0.0.1"), 0});
  std::cout << acceptor.local_endpoint().port() << std::endl;
  net::co_spawn(io, accept(io, acceptor, body), net::detached);
  std::vector<std::jthread> threads;
  for (int i = 1; i < std::atoi(argv[2]); ++i) threads.emplace_back([&io] { io.run(); });
  io.run();
}
