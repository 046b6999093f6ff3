#include <stdlib.h>

#include <utility> // Asio 1.74 forgets it

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "http/session.hpp"
#include "mc2/store/store.hpp"
#include "store/examples.hpp"

namespace {

using namespace mc2;
using namespace mc2::server;
namespace fs = std::filesystem;

/// A service on a store with a plan, a model and samples. It is renewed now and then, as requests add to the store.
class Served {
 public:
  Served() {
    std::string name = "/dev/shm/mc2-fuzz-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
    Config config;
    config.store = folder_ / "mc2.db";
    {
      auto store = store::Store::open(config.store, store::OpenMode::ReadWrite).value();
      (void)store.put_plan(store::examples::plan(), "tuned", store::examples::kNow).value();
      (void)store.put_model(store::examples::model(), store::examples::kNow).value();
    }
    service_ =
        Service::open(config, {.utc_now = [] { return std::string(store::examples::kNow); }, .event = {}}).value();
  }
  ~Served() {
    service_.reset();
    fs::remove_all(folder_);
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  [[nodiscard]] Service& service() { return *service_; }
  [[nodiscard]] UploadRoom& uploads() { return uploads_; }

 private:
  fs::path folder_;
  UploadRoom uploads_{"/dev/shm", 1};
  std::unique_ptr<Service> service_;
};

using LocalSocket = net::local::stream_protocol::socket::rebind_executor<net::any_io_executor>::other;

/// Sends the bytes, closes the sending side, and reads the answer to its end.
net::awaitable<void> talk(LocalSocket socket, std::string_view bytes, std::string& answer) {
  boost::system::error_code error;
  co_await net::async_write(socket, net::buffer(bytes.data(), bytes.size()),
                            net::redirect_error(net::use_awaitable, error));
  socket.shutdown(net::socket_base::shutdown_send, error);
  std::array<char, 4096> piece{};
  for (error.clear(); !error;) {
    const std::size_t count =
        co_await socket.async_read_some(net::buffer(piece), net::redirect_error(net::use_awaitable, error));
    if (answer.size() < 16) answer.append(piece.data(), count);
  }
}

} // namespace

/// Takes the bytes as what a client sends on one connection. Every request must get an answer of HTTP/1.1, or the
/// connection must end.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr int kRequestsOfAStore = 20'000;
  static std::unique_ptr<Served> served;
  static int count = 0;
  if (count++ % kRequestsOfAStore == 0) served = std::make_unique<Served>();
  static const LiveLimits limits{Limits{}};
  static const AccessLog log;
  static RateLimiter rates(0);
  static net::thread_pool upload_pool{1}, writing_pool{1}, reading_pool{1}, planning_pool{1}, copying_pool{1};
  SessionList sessions;
  net::io_context io;
  const net::any_io_executor executor = io.get_executor();
  LocalSocket here(executor), there(executor);
  net::local::connect_pair(here, there);
  std::string answer;
  net::co_spawn(executor,
                serve_connection(PlainStream(PlainStream::socket_type(std::move(here))), "unix",
                                 SessionContext{served->service(), limits, log, sessions, rates, served->uploads(),
                                                upload_pool, writing_pool, reading_pool, planning_pool, copying_pool}),
                net::detached);
  net::co_spawn(executor, talk(std::move(there), {reinterpret_cast<const char*>(data), size}, answer), net::detached);
  io.run();
  if (!answer.empty() && !answer.starts_with("HTTP/1.")) std::abort();
  if (sessions.size() != 0) std::abort();
  return 0;
}
