#include "follower.hpp"

#include <algorithm>
#include <exception>
#include <fstream>
#include <memory>
#include <new>
#include <random>
#include <string_view>
#include <thread>

#include "copy_name.hpp"
#include "mc2/store/store.hpp"
#include "pause.hpp"

namespace mc2::server {
namespace {

using client::Client;

std::string random_name() {
  std::random_device random;
  return "mc2-" + std::to_string(random()) + std::to_string(random());
}

/// How long the leader waits for a change before it answers. So is_connected may be outdated by this time.
constexpr std::chrono::milliseconds kPatience{1'000};

/// Errors: as client::Options::validate.
Result<Client> client_of(const Leader& leader, std::size_t max_answer_bytes = client::Options().max_answer_bytes) {
  client::Options options{.url = leader.url, .token = leader.token, .ca_file = leader.ca_file};
  options.max_answer_bytes = max_answer_bytes;
  options.names = {.token = "--follow-token-file", .ca_file = "--follow-ca", .without = "leave out --follow"};
  auto opened = Client::open(options);
  if (opened || opened.error().field != "server") return opened;
  return Error{opened.error().code, "follow", opened.error().message};
}

/// Errors: those of the client; ReadOnly for a file that cannot be written.
Result<void> download_snapshot(const Leader& leader, const std::filesystem::path& file, const std::stop_token& ends) {
  constexpr std::size_t kMostBytes = std::size_t{16} << 30U;
  MC2_ASSIGN(const auto client, client_of(leader, kMostBytes));
  MC2_ASSIGN(const auto bytes, client.snapshot(ends));
  std::ofstream stream(file, std::ios::binary);
  std::filesystem::permissions(file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  if ((stream << bytes).flush()) return {};
  return Error{ErrorCode::ReadOnly, file.string(), "cannot be written; make room beside the store"};
}

/// Errors: as Follower::prepare.
Result<void> begin_replica(const Config& config, store::Store& store, const Surroundings& surroundings) {
  constexpr std::chrono::seconds kMostWaiting{10}; // leader and replica may have been started at the same time
  constexpr std::chrono::milliseconds kPause{250};
  const auto until = std::chrono::steady_clock::now() + kMostWaiting;
  const CopyName copy(config.store.parent_path());
  for (bool has_told = false;; has_told = true) {
    const auto downloaded = download_snapshot(config.leader, copy.path(), surroundings.stop);
    if (downloaded) return store.become_replica(config.leader.url, copy.path());
    const bool may_come = downloaded.error().code == client::kUnavailable && std::chrono::steady_clock::now() < until;
    if (may_come && !has_told) surroundings.tell("waits up to 10 s for the leader: " + downloaded.error().text());
    if (!may_come || ends_within(surroundings.stop, kPause)) return downloaded;
  }
}

} // namespace

Result<void> Follower::prepare(const Config& config, const Surroundings& surroundings) {
  MC2_TRY(client_of(config.leader));
  MC2_ASSIGN(auto store, store::Store::open(config.store, store::OpenMode::ReadWrite));
  MC2_ASSIGN(const auto leader, store.leader());
  return leader.empty() ? begin_replica(config, store, surroundings) : store.set_leader(config.leader.url);
}

Follower::Follower(const Config& config, Client client, StoreGate& store, AnswerCache& answers,
                   Surroundings surroundings)
    : config_(config),
      name_(random_name()),
      client_(std::move(client)),
      store_(store),
      answers_(answers),
      surroundings_(std::move(surroundings)),
      current_at_(Clock::now()),
      thread_([this] { follow(ends_.get_token()); }) {}

Result<std::unique_ptr<Follower>> Follower::open(const Config& config, StoreGate& store, AnswerCache& answers,
                                                 Surroundings surroundings) {
  MC2_ASSIGN(auto leader, client_of(config.leader));
  return std::unique_ptr<Follower>(new Follower(config, std::move(leader), store, answers, std::move(surroundings)));
}

Follower::State Follower::state() const {
  const std::lock_guard lock(mutex_);
  State now = state_;
  now.behind = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - current_at_);
  return now;
}

std::string Follower::state_text() const {
  const State now = state();
  return "behind-ms=" + std::to_string(now.behind.count()) + ", connected=" + (now.is_connected ? "?1" : "?0");
}

void Follower::note_current(std::int64_t leader_revision) {
  bool is_news = false;
  {
    const std::lock_guard lock(mutex_);
    is_news = !std::exchange(state_.is_connected, true);
    state_.leader_revision = leader_revision;
    current_at_ = Clock::now();
  }
  if (is_news)
    surroundings_.tell("follows " + client_.url() + " from epoch " + std::to_string(leader_revision) + " on");
}

void Follower::note_lost(const std::string& why) {
  bool is_news = false;
  {
    const std::lock_guard lock(mutex_);
    is_news = std::exchange(state_.is_connected, false) || told_ != why;
    told_ = why;
  }
  if (is_news) surroundings_.tell("answers come from the documents here, as the leader cannot be followed: " + why);
}

Result<void> Follower::take_snapshot(const std::stop_token& ends) {
  const CopyName copy(config_.store.parent_path());
  MC2_TRY(download_snapshot(config_.leader, copy.path(), ends)); // outside of write(): others may write
  MC2_TRY(store_.write([&](store::Store& store) { return store.become_replica(client_.url(), copy.path()); }));
  answers_.forget_all();
  return {};
}

Result<bool> Follower::step(const std::stop_token& ends) {
  MC2_ASSIGN(const auto since, store_.read([](const store::Store& store) { return store.position(); }));
  const auto asked = client_.rows_since(since, kPatience, ends);
  if (!asked && asked.error().code == ErrorCode::Stale) {
    MC2_TRY(take_snapshot(ends));
    return false; // pause, so that a leader that never tells changes is not asked for one snapshot after another
  }
  if (!asked) return asked.error();
  const store::Changes& changes = asked.value();
  const bool has_changed = changes.revision != since.revision;
  if (has_changed) MC2_TRY(store_.write([&](store::Store& store) { return store.apply(since.revision, changes); }));
  note_current(changes.revision);
  return has_changed;
}

void Follower::follow(const std::stop_token& ends) {
  constexpr std::chrono::milliseconds kFirstPause{100}, kLongestPause{5'000};
  std::chrono::milliseconds pause = kFirstPause;
  while (!ends.stop_requested()) {
    const auto began = Clock::now();
    try {
      const auto stepped = step(ends);
      if (ends.stop_requested()) return;
      const bool has_waited = Clock::now() - began > kPatience / 2;
      if (stepped && (stepped.value() || has_waited)) {
        pause = kFirstPause;
        continue;
      }
      if (!stepped) note_lost(stepped.error().text());
    } catch (const std::bad_alloc&) {       // there is no memory for a message either
    } catch (const std::exception& fault) { // the store was locked too long, or the disk is full
      note_lost(fault.what());
    }
    if (ends_within(ends, pause)) return;
    pause = std::min(2 * pause, kLongestPause);
  }
}

namespace {

client::ForwardedRequest forwarded(const Request& request, const std::string& by) {
  client::ForwardedRequest sent{request.method,
                                request.target,
                                request.content_type,
                                std::string(std::string_view(request.body)),
                                {{"X-Request-Id", request.id}}};
  sent.headers.emplace_back("Via", (request.via.empty() ? "" : request.via + ", ") + "1.1 " + by);
  if (!request.if_match.empty()) sent.headers.emplace_back("If-Match", request.if_match);
  if (!request.if_none_match.empty()) sent.headers.emplace_back("If-None-Match", request.if_none_match);
  return sent;
}

/// Why nothing was forwarded.
std::string reason_against_sending(const Error& fault) {
  if (fault.code == ErrorCode::Mismatch)
    return "nothing was sent on, as the leader now has another store than the one that this replica copies; ask the "
           "leader itself, or give the replica a new --store";
  if (fault.code == ErrorCode::Stale)
    return "nothing was sent on, as this replica is too far behind to know whether its leader still has the same "
           "store; ask again once it has caught up";
  return "nothing was sent on, as the leader does not tell whether it still has the same store: " + fault.message;
}

} // namespace

Result<void> Follower::require_same_store(const std::stop_token& ends) const {
  MC2_ASSIGN(const auto position, store_.read([](const store::Store& store) { return store.position(); }));
  return client_.require_position(position, ends);
}

Response Follower::send_on(const Request& request) const {
  constexpr std::chrono::milliseconds kMostWaiting{1'000}, kLook{2};
  const auto ends = ends_.get_token();
  if (request.is_given_up && request.is_given_up()) // it waited for others, whose leader may have been silent
    return problem(503, "the client has gone; nothing was sent on", request.id);
  if (const auto same = require_same_store(ends); !same)
    return problem(503, reason_against_sending(same.error()), request.id);
  auto answer = client_.forward(forwarded(request, name_), ends);
  if (!answer)
    return problem(503, "the leader did not take the forwarded request: " + answer.error().message, request.id);
  client::ForwardedAnswer& given = answer.value();
  if (given.status == 401 || given.status == 403)
    return problem(403, "the leader does not allow this to the replica's token (--follow-token-file)", request.id);
  Response response{.status = given.status,
                    .content_type = std::move(given.content_type),
                    .body = std::make_shared<const std::string>(std::move(given.body))};
  if (!given.location.empty()) response.headers.emplace_back("Location", std::move(given.location));
  // Waits for the change, so that a client that reads it from this replica next finds it.
  const auto now = client_.changes_since(std::nullopt, {}, ends);
  const auto until = Clock::now() + kMostWaiting;
  while (now && store_.revision() < now.value().revision && Clock::now() < until && !ends.stop_requested())
    std::this_thread::sleep_for(kLook);
  return response;
}

} // namespace mc2::server
