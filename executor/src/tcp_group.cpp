#include "tcp_group.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio.hpp>
#include <cctype>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "mc2/planner/text.hpp"
#include "tcp_link.hpp"
#include "texts.hpp"

namespace mc2::executor {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using frames::Header;
using frames::Kind;
using frames::kMostBytes;
using frames::kProtocol;
using frames::Link;
using frames::Message;
using frames::message_of;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;
using ErrorText = boost::system::error_code;

constexpr std::uint32_t kMostGreetingBytes = 8192;
constexpr Milliseconds kGreetingTime{5000}; ///< a new connection must greet within this time
constexpr Milliseconds kConnectTime{2000};  ///< an attempt to connect without an answer ends after this time
constexpr Milliseconds kBetweenAttempts{50};
constexpr Milliseconds kPortTime{3000};     ///< how long to wait for an earlier group to release the port
constexpr Milliseconds kLook{10};           ///< between looks whether a name has been resolved
constexpr Milliseconds kFarewellTime{2000}; ///< how long a closing group waits for the others to leave
constexpr Milliseconds kMostSilence{10'000};
constexpr Milliseconds kLeastSilence{1'000};
constexpr Milliseconds kBeat{200};

struct Address {
  std::string host, port;
};

/// Reads "host:port" or "[::1]:port". The result is empty for any other text.
Address parse(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  Address address;
  if (colon != std::string::npos) {
    address.host = text.substr(0, colon);
    address.port = text.substr(colon + 1);
    if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']')
      address.host = address.host.substr(1, address.host.size() - 2);
  }
  const bool is_number = !address.port.empty() && address.port.size() < 6 &&
                         std::ranges::all_of(address.port, [](unsigned char c) { return std::isdigit(c) != 0; });
  const bool is_legal =
      !address.host.empty() && is_number && std::stoi(address.port) > 0 && std::stoi(address.port) <= 65535;
  return is_legal ? address : Address{};
}

/// The page of ProcessGroup::abort_word().
class AbortPage {
 public:
  AbortPage() {
    void* const place =
        mmap(nullptr, ProcessGroup::kAbortPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) throw SystemError("mmap", errno, std::strerror(errno));
    word_ = static_cast<std::atomic<std::uint32_t>*>(place);
  }
  ~AbortPage() { munmap(word_, ProcessGroup::kAbortPageBytes); }
  AbortPage(const AbortPage&) = delete;
  AbortPage& operator=(const AbortPage&) = delete;

  void raise() noexcept { word_->store(1, std::memory_order_release); }
  [[nodiscard]] std::uint32_t* word() const noexcept { return reinterpret_cast<std::uint32_t*>(word_); }

 private:
  std::atomic<std::uint32_t>* word_ = nullptr;
};

/// Takes the first of several texts off, each of which ends in a zero byte.
std::string_view take_text(std::string_view& texts) {
  const std::size_t end = std::min(texts.find('\0'), texts.size());
  const std::string_view text = texts.substr(0, end);
  texts.remove_prefix(std::min(end + 1, texts.size()));
  return text;
}

using LinkPointer = std::shared_ptr<Link>;

} // namespace

Result<void> check_rank_zero(const std::string& address) {
  if (!parse(address).host.empty()) return {};
  return Error{ErrorCode::InvalidSpec, "rank_zero",
               "is '" + address.substr(0, 64) + "'; legal: host:port, with a port of 1 to 65535"};
}

/// The connections of a group. A thread of its own, the network's thread, exchanges messages; the process's other
/// threads share state with it under a mutex.
class TcpGroup::Network {
 public:
  Network(const ProcessPlace& place, int world_size, Milliseconds deadline)
      : rank_(place.rank),
        world_size_(world_size),
        address_text_(place.address),
        address_(parse(place.address)),
        number_(place.key, place.rank),
        key_(place.key + " " + std::to_string(number_.value())),
        deadline_(deadline),
        silence_(std::clamp(deadline, kLeastSilence, kMostSilence)),
        hosts_(static_cast<std::size_t>(world_size)),
        inbox_(hosts_.size()),
        has_left_(hosts_.size()),
        has_come_(hosts_.size()) {
    hosts_[index(rank_)] = host_name();
    has_come_[index(rank_)] = true;
    asio::post(context_, [this] { begin(); });
    thread_ = std::jthread([this] { serve(); });
    try {
      wait_for_all();
    } catch (...) {
      stop();
      throw;
    }
    number_.keep();
  }
  ~Network() {
    asio::post(context_, [this] { send_to_all(message_of(Kind::Left, rank_, "")); });
    stop();
  }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  std::vector<std::string> all_gather(std::string_view own) {
    put(rank_, std::string(own));
    begin_writing();
    asio::post(context_, [this, message = message_of(Kind::Data, rank_, own)] {
      send_data(message, nullptr);
      end_writing();
    });
    std::vector<std::string> all;
    for (int rank = 0; rank < world_size_; ++rank) all.push_back(take(rank));
    // Waits until the system has all data, so that the others get them even if this process ends now.
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, deadline_, [this] { return writing_count_ == 0 || failure_; });
    return all;
  }

  void leave() {
    asio::post(context_, [this] { send_to_all(message_of(Kind::Left, rank_, "")); });
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, deadline_, [this] {
      int left = 1;
      for (int rank = 0; rank < world_size_; ++rank) left += rank != rank_ && has_left_[index(rank)] ? 1 : 0;
      return failure_ || left == world_size_;
    });
  }

  void fail(const std::string& what) noexcept {
    if (!set_failure(what)) return;
    try {
      asio::post(context_, [this, message = message_of(Kind::Failed, rank_, what)] { send_to_all(message); });
    } catch (...) { // the other ranks notice the failure when this process leaves or ends
    }
  }

  [[nodiscard]] std::optional<std::string> failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  [[nodiscard]] std::optional<std::string> departure() const {
    const std::lock_guard lock(mutex_);
    for (int rank = 0; rank < world_size_; ++rank)
      if (has_left_[index(rank)]) return rank_text(rank) + " has left";
    return std::nullopt;
  }
  [[nodiscard]] std::uint32_t* abort_word() const noexcept { return page_.word(); }

 private:
  [[nodiscard]] static std::size_t index(int rank) noexcept { return static_cast<std::size_t>(rank); }
  [[nodiscard]] bool leads() const noexcept { return rank_ == 0; }

  [[nodiscard]] std::string where(int rank) const {
    const std::lock_guard lock(mutex_);
    const std::string& host = hosts_[index(rank)];
    if (host.empty() && rank == 0) return rank_text(rank) + " at " + address_text_; // hosts come with the Welcome
    return rank_text(rank) + (host.empty() ? "" : " on " + host);
  }

  // Functions that the process's own threads call.

  void wait_for_all() {
    std::unique_lock lock(mutex_);
    const auto is_over = [this] { return is_complete_ || refusal_ || failure_; };
    changed_.wait_until(lock, begun_ + deadline_, is_over);
    // A rank that has found rank 0 waits longer: rank 0 tells which ranks are missing at the end of rank 0's own
    // deadline, which may have begun later.
    if (!leads() && has_come_[0]) changed_.wait_until(lock, begun_ + 2 * deadline_ + kConnectTime, is_over);
    if (is_complete_) return;
    if (refusal_) throw SystemError("meet", EEXIST, *refusal_);
    if (failure_) throw SystemError("meet", ECANCELED, *failure_);
    const std::string text = leads() ? missing_text() : unreached_text();
    lock.unlock();
    if (leads()) fail(text);
    throw SystemError("meet", ETIMEDOUT, text);
  }

  [[nodiscard]] std::string missing_text() const {
    std::vector<int> missing;
    for (int rank = 0; rank < world_size_; ++rank)
      if (!has_come_[index(rank)]) missing.push_back(rank);
    return "of " + std::to_string(world_size_) + " ranks these did not come within " + milliseconds_text(deadline_) +
           ": " + list_text(missing) + "; rank 0 waits on " + hosts_[0] + " at " + address_text_ +
           (last_attempt_.empty() ? "" : " (" + last_attempt_ + ")") +
           (strangers_ > 0 ? ", where " + std::to_string(strangers_) + " connections were of something else" : "");
  }
  [[nodiscard]] std::string unreached_text() const {
    const std::string own = rank_text(rank_) + " on " + hosts_[index(rank_)] + ": ";
    if (has_come_[0])
      return own + "rank 0 at " + address_text_ + " is there, and did not say within " +
             milliseconds_text(2 * deadline_) + " that all ranks came";
    return own + "rank 0 did not come within " + milliseconds_text(deadline_) + " at " + address_text_ + " (" +
           (last_attempt_.empty() ? "its name has not been resolved" : last_attempt_) + ")";
  }

  void put(int rank, std::string text) {
    const std::lock_guard lock(mutex_);
    inbox_[index(rank)].push_back(std::move(text));
    changed_.notify_all();
  }

  std::string take(int rank) {
    std::unique_lock lock(mutex_);
    auto& messages = inbox_[index(rank)];
    const bool is_in_time =
        changed_.wait_for(lock, deadline_, [&] { return !messages.empty() || failure_ || has_left_[index(rank)]; });
    if (messages.empty()) {
      if (failure_) throw SystemError("meet", ECANCELED, *failure_);
      if (is_in_time) throw SystemError("meet", ECANCELED, rank_text(rank) + " has left");
      const std::string host = hosts_[index(rank)];
      throw SystemError("meet", ETIMEDOUT,
                        rank_text(rank) + " on " + host + " did not come within " + milliseconds_text(deadline_));
    }
    std::string text = std::move(messages.front());
    messages.pop_front();
    return text;
  }

  /// Sets the reason of the failure, unless there is one already. @return whether it was set
  bool set_failure(const std::string& what) noexcept {
    const std::lock_guard lock(mutex_);
    if (failure_) return false;
    failure_ = what;
    page_.raise(); // after the reason is set: a thread that sees the word must find the reason
    changed_.notify_all();
    return true;
  }

  void stop() {
    asio::post(context_, [this] { close(Clock::now() + kFarewellTime); });
    thread_.join(); // the thread ends when it has no more work
  }

  // Functions that the network's thread calls.

  void serve() noexcept {
    try {
      context_.run();
    } catch (const std::exception& error) {
      set_failure(rank_text(rank_) + ": the connections with the other hosts ended: " + error.what());
    }
  }

  void begin() {
    if (leads())
      listen();
    else
      connect();
    beat();
  }

  /// Sends to all connected processes except `from`: rank 0 passes the messages of one rank on to all others.
  void send_to_all(const Message& message, const LinkPointer& from = nullptr) {
    for (const LinkPointer& link : links_)
      if (link != from) link->send(message);
  }

  void begin_writing() {
    const std::lock_guard lock(mutex_);
    ++writing_count_;
  }
  void end_writing() {
    const std::lock_guard lock(mutex_);
    if (--writing_count_ == 0) changed_.notify_all();
  }
  /// As send_to_all(), for data: writing_count_ counts the frame until the system has taken it.
  void send_data(const Message& message, const LinkPointer& from) {
    for (const LinkPointer& link : links_) {
      if (link == from) continue;
      begin_writing();
      link->send(message, [this] { end_writing(); });
    }
  }

  void listen() {
    ErrorText error;
    // A name may have another address here than on other hosts. Rank 0 therefore listens at all of its addresses,
    // unless the place has a numeric one.
    const auto literal = asio::ip::make_address(address_.host, error);
    tcp::endpoint endpoint(tcp::v6(), static_cast<std::uint16_t>(std::stoi(address_.port)));
    if (!error) endpoint.address(literal);
    acceptor_.open(endpoint.protocol(), error);
    if (error == asio::error::address_family_not_supported) { // a host without IPv6
      endpoint = tcp::endpoint(tcp::v4(), endpoint.port());
      acceptor_.open(endpoint.protocol(), error);
    }
    if (!error && endpoint.address().is_v6() && endpoint.address().is_unspecified())
      acceptor_.set_option(asio::ip::v6_only(false), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    // An earlier group of the same key that is not closed yet may still have the port.
    if (error) {
      ErrorText ignored;
      acceptor_.close(ignored);
      if (error == asio::error::address_in_use && Clock::now() < begun_ + kPortTime)
        return after(kBetweenAttempts, [this] { listen(); });
      return refuse("rank 0 on " + hosts_[0] + " cannot wait at " + address_text_ + ": " + error.message() +
                    "; give an address of this host and a port that is free");
    }
    (void)fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
    accept();
  }

  void accept() {
    acceptor_.async_accept([this](ErrorText error, tcp::socket socket) {
      if (!acceptor_.is_open() || is_closing_) return;
      if (error) return after(kBetweenAttempts, [this] { accept(); }); // e.g. no file descriptor is free
      greet(std::make_shared<Link>(std::move(socket)));
      accept();
    });
  }

  void greet(const LinkPointer& link) {
    strangers_links_.insert(link);
    after(kGreetingTime, [this, weak = std::weak_ptr(link)] {
      const LinkPointer found = weak.lock();
      if (found && strangers_links_.contains(found)) dismiss(found);
    });
    read(link, kMostGreetingBytes, [this, link](bool is_read) {
      if (!strangers_links_.contains(link)) return;
      if (!is_read || link->header.kind != Kind::Hello) return dismiss(link);
      admit(link);
    });
  }

  void dismiss(const LinkPointer& link) {
    strangers_links_.erase(link);
    const std::lock_guard lock(mutex_);
    ++strangers_;
    ErrorText ignored;
    link->socket.close(ignored);
  }

  /// Admits a process that has greeted, if it has the key and a rank that is free. A refused process learns the reason.
  void admit(const LinkPointer& link) {
    strangers_links_.erase(link);
    const int rank = link->header.rank;
    std::string_view rest = link->text;
    const std::string host(take_text(rest)), world_size(take_text(rest)), key(take_text(rest));
    ErrorText ignored;
    if (key != key_) { // a process of a later group or of another job
      link->socket.close(ignored);
      return;
    }
    const std::unique_lock lock(mutex_);
    if (const std::string why = why_refused(rank, host, world_size); !why.empty())
      return link->send(message_of(Kind::Refused, 0, why));
    has_come_[index(rank)] = true;
    hosts_[index(rank)] = host;
    link->rank = rank;
    links_.push_back(link);
    link->send(message_of(Kind::Beat, 0, "")); // tells the process that it has found rank 0
    if (std::ranges::find(has_come_, false) == has_come_.end()) complete();
    listen_to(link);
  }

  /// Why a rank may not take part; empty if it may. Called with the mutex held.
  std::string why_refused(int rank, const std::string& host, const std::string& world_size) {
    const std::string place = rank_text(rank) + " on " + host, own_size = std::to_string(world_size_);
    if (world_size != own_size) {
      last_attempt_ = place + " wants " + world_size + " ranks and rank 0 on " + hosts_[0] + " " + own_size +
                      "; every rank must open as many";
      return last_attempt_;
    }
    if (rank < 1 || rank >= world_size_) return place + " is no rank of " + own_size;
    if (!has_come_[index(rank)]) return {};
    return rank_text(rank) + " is there twice: on " + hosts_[index(rank)] + " and on " + host +
           "; every process needs a rank of its own";
  }

  /// Tells all that every rank has come. Called with the mutex held.
  void complete() {
    std::string hosts;
    for (const std::string& host : hosts_) hosts.append(host).push_back('\0');
    send_to_all(message_of(Kind::Welcome, 0, hosts));
    ErrorText ignored;
    acceptor_.close(ignored);
    is_complete_ = true;
    changed_.notify_all();
  }

  /// Resolves the name of rank 0's host on a detached thread, because a name server that does not answer would block
  /// the thread.
  void connect() {
    if (is_closing_) return;
    const auto answer = std::make_shared<Answer>();
    std::thread([answer, host = address_.host, port = address_.port] {
      asio::io_context own;
      ErrorText error;
      std::vector<tcp::endpoint> endpoints;
      for (const auto& found : tcp::resolver(own).resolve(host, port, error)) endpoints.push_back(found.endpoint());
      const std::lock_guard lock(answer->mutex);
      answer->endpoints = std::move(endpoints);
      answer->error = error;
      answer->is_there = true;
    }).detach();
    await(answer);
  }

  struct Answer {
    std::mutex mutex;
    bool is_there = false;
    ErrorText error;
    std::vector<tcp::endpoint> endpoints;
  };

  void await(const std::shared_ptr<Answer>& answer) {
    const std::lock_guard lock(answer->mutex);
    if (!answer->is_there) return after(kLook, [this, answer] { await(answer); });
    if (answer->error) return try_again("the name " + address_.host + " has no address: " + answer->error.message());
    reach(std::make_shared<std::vector<tcp::endpoint>>(answer->endpoints), 0);
  }

  /// Tries to connect to the addresses of a name one after the other, each for kConnectTime.
  void reach(const std::shared_ptr<std::vector<tcp::endpoint>>& endpoints, std::size_t at) {
    if (at == endpoints->size()) return after(kBetweenAttempts, [this] { connect(); });
    connecting_ = std::make_shared<tcp::socket>(context_);
    const std::weak_ptr<tcp::socket> attempt = connecting_;
    after(kConnectTime, [this, attempt] {
      ErrorText ignored;
      if (connecting_ && connecting_ == attempt.lock()) connecting_->close(ignored);
    });
    connecting_->async_connect((*endpoints)[at], [this, endpoints, at](ErrorText error) {
      if (is_closing_) return;
      const auto socket = std::exchange(connecting_, nullptr);
      if (!error && is_own(*socket)) return try_again("nobody waits there yet");
      if (!error) return introduce(std::make_shared<Link>(std::move(*socket)));
      note(error == asio::error::operation_aborted
               ? "no answer; is a firewall in between? TCP port " + address_.port + " must be open"
               : error.message());
      reach(endpoints, at + 1);
    });
  }

  /// Whether a socket is connected with itself. That happens if nobody listens at the port and the system gives this
  /// very port to the connecting socket. Closes such a socket at once, because it would keep the port from rank 0.
  static bool is_own(tcp::socket& socket) {
    ErrorText error;
    if (socket.local_endpoint(error) != socket.remote_endpoint(error)) return false;
    socket.set_option(asio::socket_base::linger(true, 0), error);
    socket.close(error);
    return true;
  }

  void introduce(const LinkPointer& link) {
    if (is_closing_) return;
    link->rank = 0;
    std::string text = hosts_[index(rank_)];
    text.append(1, '\0').append(std::to_string(world_size_)).append(1, '\0').append(key_);
    link->send(message_of(Kind::Hello, rank_, text));
    links_.push_back(link);
    after(kGreetingTime, [this, weak = std::weak_ptr(link)] { // rank 0 answers a greeting at once, with a beat
      const LinkPointer found = weak.lock();
      ErrorText ignored;
      if (found && !is_greeted()) found->socket.close(ignored);
    });
    read(link, kMostBytes, [this, link](bool is_read) {
      if (is_read && link->header.kind == Kind::Refused) return refuse(link->text);
      if (!is_read || link->header.rank != 0) { // rank 0 belongs to an earlier group, or is not ready yet
        links_.clear();
        return try_again("what answers there is no rank 0 of this job");
      }
      greeted();
      hear(link);
      listen_to(link);
    });
  }

  void note(const std::string& why) {
    const std::lock_guard lock(mutex_);
    last_attempt_ = why;
  }

  void try_again(const std::string& why) {
    note(why);
    after(kBetweenAttempts, [this] { connect(); });
  }

  /// Notes that rank 0 has answered.
  void greeted() {
    const std::lock_guard lock(mutex_);
    has_come_[0] = true;
  }
  [[nodiscard]] bool is_greeted() const {
    const std::lock_guard lock(mutex_);
    return has_come_[0];
  }

  void refuse(const std::string& why) {
    const std::lock_guard lock(mutex_);
    refusal_ = why;
    changed_.notify_all();
  }

  /// Reads one message. @param done  called at the end, with whether a legal message was read
  void read(const LinkPointer& link, std::uint32_t most_bytes, std::function<void(bool)> done) {
    asio::async_read(link->socket, asio::buffer(&link->header, sizeof(Header)),
                     [this, link, most_bytes, done = std::move(done)](ErrorText error, std::size_t) {
                       if (error || link->header.protocol != kProtocol || link->header.byte_count > most_bytes)
                         return done(false);
                       link->last_heard = Clock::now();
                       link->text.resize(link->header.byte_count);
                       asio::async_read(link->socket, asio::buffer(link->text),
                                        [link, done](ErrorText failed, std::size_t) {
                                          link->last_heard = Clock::now();
                                          done(!failed);
                                        });
                     });
  }

  void listen_to(const LinkPointer& link) {
    read(link, kMostBytes, [this, link](bool is_read) {
      if (!is_read) return lose(link);
      hear(link);
      listen_to(link);
    });
  }

  void hear(const LinkPointer& link) {
    const Header& header = link->header;
    if (header.rank < 0 || header.rank >= world_size_) return;
    const auto passed = [&] { return message_of(header.kind, header.rank, link->text); };
    switch (header.kind) {
      case Kind::Data:
        send_data(passed(), link);
        put(header.rank, std::move(link->text));
        break;
      case Kind::Failed:
        send_to_all(passed(), link);
        set_failure(link->text);
        break;
      case Kind::Left: {
        send_to_all(passed(), link);
        const std::lock_guard lock(mutex_);
        has_left_[index(header.rank)] = true;
        changed_.notify_all();
        break;
      }
      case Kind::Welcome: learn_hosts(link->text); break;
      case Kind::Hello:
      case Kind::Refused:
      case Kind::Beat: break;
    }
  }

  void learn_hosts(std::string_view text) {
    const std::lock_guard lock(mutex_);
    for (std::string& host : hosts_) host = take_text(text);
    is_complete_ = true;
    changed_.notify_all();
  }

  /// Handles a connection that has broken: its process has ended, unless it told before that it leaves.
  void lose(const LinkPointer& link) {
    std::erase(links_, link);
    if (is_closing_) return;
    {
      const std::lock_guard lock(mutex_);
      if (has_left_[index(link->rank)]) return;
      if (leads() && !is_complete_) { // the rank may come again before all have come
        has_come_[index(link->rank)] = false;
        return;
      }
    }
    fail(where(link->rank) + " has ended");
  }

  void beat() {
    if (is_closing_) return;
    send_to_all(message_of(Kind::Beat, rank_, ""));
    for (const LinkPointer& link : links_) {
      const std::lock_guard lock(mutex_);
      if (!is_complete_ || has_left_[index(link->rank)]) link->last_heard = Clock::now();
    }
    const auto silent = std::ranges::find_if(
        links_, [this](const LinkPointer& link) { return Clock::now() - link->last_heard > silence_; });
    if (silent != links_.end())
      fail("nothing was heard of " + where((*silent)->rank) + " for " + milliseconds_text(silence_) +
           "; its process is stopped or its link is cut");
    after(kBeat, [this] { beat(); });
  }

  /// Calls `work` later, unless the group closes before.
  void after(Milliseconds time, std::function<void()> work) {
    auto timer = std::make_shared<asio::steady_timer>(context_, time);
    timers_.insert(timer);
    timer->async_wait([this, timer, work = std::move(work)](ErrorText error) {
      timers_.erase(timer);
      if (!error && !is_closing_) work();
    });
  }

  [[nodiscard]] bool are_others_there() const {
    const std::lock_guard lock(mutex_);
    return is_complete_ && !failure_ &&
           std::ranges::any_of(links_, [this](const LinkPointer& link) { return !has_left_[index(link->rank)]; });
  }

  /// Closes all connections when everything is written and the others have left, too, but no later than `end`.
  void close(Clock::time_point end) {
    const bool is_written = std::ranges::all_of(links_, [](const LinkPointer& link) { return link->outbox.empty(); });
    // Waits for the others, because closing a connection with unread data may make the other side lose data.
    if ((!is_written || are_others_there()) && Clock::now() < end) {
      auto timer = std::make_shared<asio::steady_timer>(context_, Milliseconds{1});
      timer->async_wait([this, timer, end](ErrorText) { close(end); });
      return;
    }
    is_closing_ = true;
    ErrorText ignored;
    acceptor_.close(ignored);
    if (connecting_) connecting_->close(ignored);
    for (const LinkPointer& link : links_) link->socket.close(ignored);
    for (const LinkPointer& link : strangers_links_) link->socket.close(ignored);
    strangers_links_.clear();
    for (const auto& timer : timers_) timer->cancel();
  }

  const int rank_;
  const int world_size_;
  const std::string address_text_;
  const Address address_;
  Number number_;
  const std::string key_; ///< the place's key with its number
  const Milliseconds deadline_, silence_;
  const Clock::time_point begun_ = Clock::now();
  AbortPage page_;

  mutable std::mutex mutex_; ///< guards the members down to strangers_
  std::condition_variable changed_;
  std::vector<std::string> hosts_;             ///< by rank; empty until known
  std::vector<std::deque<std::string>> inbox_; ///< data that have arrived, by rank
  std::vector<bool> has_left_, has_come_;      ///< by rank. has_come_: on rank 0 all entries count, elsewhere entry 0
  bool is_complete_ = false;                   ///< all ranks have come
  int writing_count_ = 0;                      ///< frames of data that the system has not taken yet
  std::optional<std::string> failure_, refusal_;
  std::string last_attempt_; ///< why rank 0 has not been reached, or which greeting rank 0 refused last
  int strangers_ = 0;        ///< number of connections without a legal greeting

  // Only the network's thread uses the members below.
  asio::io_context context_;
  tcp::acceptor acceptor_{context_};
  std::vector<LinkPointer> links_;        ///< on rank 0 to all others, elsewhere to rank 0
  std::set<LinkPointer> strangers_links_; ///< connections that have not greeted yet
  std::set<std::shared_ptr<asio::steady_timer>> timers_;
  std::shared_ptr<tcp::socket> connecting_; ///< the present attempt to connect to rank 0
  bool is_closing_ = false;
  std::jthread thread_;
};

TcpGroup::TcpGroup(const ProcessPlace& place, int world_size, std::chrono::milliseconds deadline)
    : ProcessGroup(place.rank, world_size), network_(std::make_unique<Network>(place, world_size, deadline)) {}
TcpGroup::~TcpGroup() = default;

std::vector<std::string> TcpGroup::all_gather(std::string_view own) { return network_->all_gather(own); }
void TcpGroup::leave() { network_->leave(); }
void TcpGroup::fail(std::string_view why) noexcept { network_->fail(rank_text(rank()).append(": ").append(why)); }
std::optional<std::string> TcpGroup::failure() const { return network_->failure(); }
std::optional<std::string> TcpGroup::departure() const { return network_->departure(); }
std::uint32_t* TcpGroup::abort_word() const noexcept { return network_->abort_word(); }

} // namespace mc2::executor
