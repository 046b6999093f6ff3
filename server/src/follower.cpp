#include "follower.hpp"

#include <algorithm>
#include <exception>
#include <fstream>
#include <memory>
#include <thread>

#include "copy_name.hpp"
#include "mc2/store/store.hpp"
#include "pause.hpp"

namespace mc2::server {
namespace {

using client::Client;

/// How long the leader may be silent where nothing has changed: so old the news that it answers may be.
constexpr std::chrono::milliseconds kPatience{1'000};

/// Errors: as client::Options::validate.
Result<Client> client_of(const Leader& leader) {
  client::Options options{.url = leader.url, .token = leader.token, .ca_file = leader.ca_file};
  options.max_answer_bytes = std::size_t{16} << 30U; // a snapshot of a large store
  auto opened = Client::open(options);
  if (opened || opened.error().field != "server") return opened;
  return Error{opened.error().code, "follow", opened.error().message};
}

/// Whether the leader's store is the one that ours is a replica of, and still tells of what came after ours.
enum class Lineage : std::uint8_t {
  Same,
  TooOld,  ///< ours: it tells no longer of what came next
  Another, ///< the leader's: an earlier copy was put in its place, e.g.
};

/// Errors: those of the client; Unsupported for another version.
Result<Lineage> compare(const Client& leader, const store::Store& store) {
  MC2_ASSIGN(const auto version, leader.version());
  if (version != MC2_VERSION)
    return Error{ErrorCode::Unsupported, leader.url(),
                 "is mc2 " + version +
                     ", and this is " MC2_VERSION ": a replica answers as its leader does only with the same mc2"};
  MC2_ASSIGN(const auto revision, store.revision());
  MC2_ASSIGN(const auto now, leader.changes_since(std::nullopt, {}));
  if (now.revision < revision) return Lineage::Another;
  const auto own = store.changes_since(revision - 1, 1);
  if (!own || own.value().changes.empty()) { // nothing has changed since changes are noted, or since the snapshot
    const auto told = leader.changes_since(revision, {});
    return told ? Result<Lineage>(Lineage::Same) : Result<Lineage>(Lineage::TooOld);
  }
  const auto theirs = leader.changes_since(revision - 1, {});
  if (!theirs && theirs.error().code == ErrorCode::Stale) return Lineage::TooOld;
  if (!theirs) return theirs.error();
  const auto& changes = theirs.value().changes;
  return !changes.empty() && changes.front() == own.value().changes.front() ? Lineage::Same : Lineage::Another;
}

/// Errors: those of the client, and as Store::become_replica.
Result<void> take_snapshot_of(const Client& leader, store::Store& store, const std::stop_token& ends) {
  MC2_ASSIGN(const auto bytes, leader.snapshot(ends));
  const CopyName copy(store.path().parent_path());
  std::ofstream file(copy.path(), std::ios::binary);
  std::filesystem::permissions(copy.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  if (!(file << bytes).flush())
    return Error{ErrorCode::ReadOnly, copy.path().string(), "cannot be written; make room beside the store"};
  return store.become_replica(leader.url(), copy.path());
}

/// Errors: as Follower::prepare.
Result<void> make_replica(const Client& leader, store::Store& store, bool is_replica) {
  Lineage lineage = Lineage::TooOld;
  if (is_replica) {
    MC2_ASSIGN(lineage, compare(leader, store));
  }
  return lineage == Lineage::Same ? Result<void>() : take_snapshot_of(leader, store, {});
}

} // namespace

Result<void> Follower::prepare(const Config& config, const Surroundings& surroundings) {
  constexpr std::chrono::seconds kMostWaiting{10}; // both may have been started at once
  constexpr std::chrono::milliseconds kPause{250};
  MC2_ASSIGN(const auto leader, client_of(config.leader));
  MC2_ASSIGN(auto store, store::Store::open(config.store, store::OpenMode::ReadWrite));
  MC2_ASSIGN(const auto leader_before, store.leader());
  const bool is_replica = !leader_before.empty();
  const auto until = Clock::now() + kMostWaiting;
  auto made = make_replica(leader, store, is_replica);
  while (!made && made.error().code == client::kUnavailable && !is_replica && Clock::now() < until) {
    std::this_thread::sleep_for(kPause);
    made = make_replica(leader, store, is_replica);
  }
  if (made || !is_replica) return made;
  if (surroundings.event) surroundings.event("serves what it has, as it cannot be followed: " + made.error().text());
  return {};
}

Follower::Follower(Client client, StoreGate& store, AnswerCache& answers, Surroundings surroundings)
    : client_(std::move(client)),
      store_(store),
      answers_(answers),
      surroundings_(std::move(surroundings)),
      current_at_(Clock::now()),
      thread_([this](const std::stop_token& ends) { follow(ends); }) {}

Result<std::unique_ptr<Follower>> Follower::open(const Config& config, StoreGate& store, AnswerCache& answers,
                                                 Surroundings surroundings) {
  MC2_ASSIGN(auto leader, client_of(config.leader));
  return std::unique_ptr<Follower>(new Follower(std::move(leader), store, answers, std::move(surroundings)));
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
  const std::lock_guard lock(mutex_);
  if (!std::exchange(state_.is_connected, true) && surroundings_.event)
    surroundings_.event("follows " + client_.url() + " from epoch " + std::to_string(leader_revision) + " on");
  state_.leader_revision = leader_revision;
  current_at_ = Clock::now();
}

void Follower::note_lost(const Error& why) {
  const std::lock_guard lock(mutex_);
  const bool is_news = std::exchange(state_.is_connected, false) || told_ != why.code;
  told_ = why.code;
  if (is_news && surroundings_.event)
    surroundings_.event("answers go on from what is here, as it cannot be followed: " + why.text());
}

Result<void> Follower::take_over(const store::Changes& changes, std::int64_t since) {
  return store_.write([&](store::Store& store) { return store.apply(since, changes); });
}

Result<void> Follower::take_snapshot(std::int64_t since, const std::stop_token& ends) {
  MC2_ASSIGN(const auto now, client_.changes_since(std::nullopt, {}, ends));
  if (now.revision < since) // answers of both stores would be kept under the same epochs
    return Error{ErrorCode::Stale, client_.url(), "has another store than the one that is followed; start anew"};
  MC2_TRY(store_.write([&](store::Store& store) { return take_snapshot_of(client_, store, ends); }));
  answers_.forget_all();
  return {};
}

Result<void> Follower::step(const std::stop_token& ends) {
  if (!is_checked_) {
    MC2_ASSIGN(const auto lineage, store_.read([&](const store::Store& store) { return compare(client_, store); }));
    if (lineage == Lineage::Another)
      return Error{ErrorCode::Stale, client_.url(), "has another store than the one that is followed; start anew"};
    is_checked_ = true;
  }
  MC2_ASSIGN(const auto since, store_.read([](const store::Store& store) { return store.revision(); }));
  const auto changes = client_.rows_since(since, kPatience, ends);
  if (!changes && changes.error().code == ErrorCode::Stale) return take_snapshot(since, ends);
  if (!changes) return changes.error();
  if (changes.value().revision > since) MC2_TRY(take_over(changes.value(), since));
  note_current(changes.value().revision);
  return {};
}

void Follower::follow(const std::stop_token& ends) {
  constexpr std::chrono::milliseconds kFirstPause{100}, kLongestPause{5'000};
  std::chrono::milliseconds pause = kFirstPause;
  while (!ends.stop_requested()) {
    Error why{ErrorCode::Cancelled, "", ""};
    try {
      const auto stepped = step(ends);
      if (stepped) {
        pause = kFirstPause;
        continue;
      }
      why = stepped.error();
    } catch (const std::exception& fault) { // a store that is locked too long, a full disk
      why.message = fault.what();
    }
    if (ends.stop_requested()) return;
    note_lost(why);
    is_checked_ = false;
    if (ends_within(ends, pause)) return;
    pause = std::min(2 * pause, kLongestPause);
  }
}

Response Follower::send_on(const Request& request) const {
  constexpr std::chrono::milliseconds kMostWaiting{1'000}, kLook{2};
  client::ForwardedRequest sent{request.method,
                                request.target,
                                request.content_type,
                                std::string(std::string_view(request.body)),
                                {{"X-Request-Id", request.id}}};
  if (!request.if_match.empty()) sent.headers.emplace_back("If-Match", request.if_match);
  if (!request.if_none_match.empty()) sent.headers.emplace_back("If-None-Match", request.if_none_match);
  auto answer = client_.forward(sent);
  if (!answer) return problem(503, "the leader does not take it: " + answer.error().message, request.id);
  client::ForwardedAnswer& given = answer.value();
  Response response{.status = given.status,
                    .content_type = std::move(given.content_type),
                    .body = std::make_shared<const std::string>(std::move(given.body)),
                    .etag = {}};
  if (!given.location.empty()) response.headers.emplace_back("Location", std::move(given.location));
  // So that whoever asks for it next, and here, finds it.
  const auto now = client_.changes_since(std::nullopt, {});
  const auto until = Clock::now() + kMostWaiting;
  while (now && store_.revision() < now.value().revision && Clock::now() < until) std::this_thread::sleep_for(kLook);
  return response;
}

} // namespace mc2::server
