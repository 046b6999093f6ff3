#include "store_gate.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <limits>

#include "mc2/planner/text.hpp"
#include "pause.hpp"

namespace mc2::server {

namespace {

FileIdentity identity_of(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

/// Free bytes on the disk of a path; the largest number where they are not known.
std::uint64_t free_bytes(const std::filesystem::path& path) {
  struct statvfs status {};
  if (::statvfs(path.c_str(), &status) != 0) return std::numeric_limits<std::uint64_t>::max();
  return std::uint64_t{status.f_bavail} * status.f_frsize;
}

} // namespace

std::string StoreGate::advice(StoreState state) const {
  switch (state) {
    case StoreState::Well: break;
    case StoreState::Gone:
      return "the store's file was deleted, moved or replaced; put it back, or start the service anew";
    case StoreState::Unreadable: return "the store cannot be read; mc2 db check says what is wrong";
    case StoreState::Rewound:
      return "the store's file was replaced by an earlier copy of it or by another store; start the service anew: "
             "until then it takes no "
             "writes, and lets in the tokens that it knew";
    case StoreState::DiskFull:
      return "less than " + bytes_text(static_cast<std::int64_t>(least_free_bytes_)) + " free on the store's disk (" +
             bytes_text(static_cast<std::int64_t>(free_bytes_.load())) +
             " left); make room, or lower --least-free-bytes";
  }
  return {};
}

StoreGate::StoreGate(std::filesystem::path path, std::uint64_t least_free_bytes, store::Store writer,
                     OnTokens on_tokens, OnState on_state, OnRise on_rise)
    : path_(std::move(path)),
      least_free_bytes_(least_free_bytes),
      opened_file_(identity_of(path_)),
      writer_(std::move(writer)),
      on_tokens_(std::move(on_tokens)),
      on_state_(std::move(on_state)),
      on_rise_(std::move(on_rise)) {}

Result<std::unique_ptr<StoreGate>> StoreGate::open(const std::filesystem::path& path, std::uint64_t least_free_bytes,
                                                   OnTokens on_tokens, OnState on_state, OnRise on_rise) {
  MC2_ASSIGN(auto writer, store::Store::open(path, store::OpenMode::ReadWrite));
  std::unique_ptr<StoreGate> gate(new StoreGate(path, least_free_bytes, std::move(writer), std::move(on_tokens),
                                                std::move(on_state), std::move(on_rise)));
  MC2_TRY(gate->look());
  gate->watcher_ = std::jthread([raw = gate.get()](const std::stop_token& ends) { raw->watch(ends); });
  return gate;
}

Result<std::unique_ptr<store::Store>> StoreGate::borrow() {
  {
    const std::lock_guard lock(readers_mutex_);
    if (!readers_.empty()) {
      auto reader = std::move(readers_.back());
      readers_.pop_back();
      return reader;
    }
  }
  MC2_ASSIGN(auto opened, store::Store::open(path_, store::OpenMode::ReadOnly));
  return std::make_unique<store::Store>(std::move(opened));
}

void StoreGate::give_back(std::unique_ptr<store::Store> reader) {
  const std::lock_guard lock(readers_mutex_);
  readers_.push_back(std::move(reader));
}

void StoreGate::raise_revision(std::int64_t seen) {
  std::int64_t known = revision_.load();
  while (known < seen && !revision_.compare_exchange_weak(known, seen)) {
  }
  if (known < seen) on_rise_();
}

void StoreGate::refresh_now() {
  // Where the file cannot be read, the revision stays, and so do the cached answers.
  if (const auto found = writer_.position()) {
    const std::lock_guard lock(position_mutex_);
    position_ = found.value();
  }
  if (const auto found = writer_.revision()) raise_revision(found.value());
  (void)tell_tokens(writer_); // else the gate's own thread does
}

std::optional<store::Position> StoreGate::position() {
  const std::lock_guard lock(position_mutex_);
  return position_;
}

void StoreGate::change_position(const std::optional<store::Position>& before, const store::Position& now) {
  const std::lock_guard lock(position_mutex_);
  if (position_ == before && !is_rewound_) position_ = now;
}

Result<void> StoreGate::require_own_course() {
  const auto known = position();
  if (!known) return {};
  MC2_ASSIGN(const bool has_it, writer_.has_been_at(*known));
  if (has_it) return {};
  is_rewound_ = true;
  return Error{ErrorCode::Unreadable, "", advice(StoreState::Rewound)};
}

Result<void> StoreGate::require_own_file() const {
  const StoreState seen = is_rewound_ ? StoreState::Rewound : state_.load();
  if (seen != StoreState::Gone && seen != StoreState::Rewound) return {};
  return Error{ErrorCode::Unreadable, "", advice(seen)};
}

Result<void> StoreGate::look() {
  return read([this](const store::Store& store) -> Result<void> {
    const auto known = position();
    // Read before it is known that the file is still the same. Revisions that an older mc2 made for tokens have none.
    const auto now = store.position();
    if (known) {
      MC2_ASSIGN(const bool has_it, store.has_been_at(*known));
      if (!has_it) { // or a write of this service has just changed the history (a replica's snapshot)
        const std::lock_guard lock(writer_mutex_);
        if (const auto own = require_own_course(); !own && !is_rewound_) return own.error();
      }
    }
    if (now) change_position(known, now.value());
    MC2_ASSIGN(const auto seen, store.revision());
    raise_revision(seen);
    return tell_tokens(store);
  });
}

Result<void> StoreGate::tell_tokens(const store::Store& store) {
  const std::lock_guard lock(tokens_mutex_); // taken before reading, so that the revision is no older than the told one
  MC2_ASSIGN(const auto tokens, store.token_revision());
  if (tokens < told_tokens_) is_rewound_ = true;
  // An earlier copy has no later tokens, and revoked ones are still valid there.
  if (tokens == told_tokens_ || is_rewound_) return {};
  MC2_TRY(on_tokens_(store)); // on an error told_tokens_ stays, so the next look calls it again
  told_tokens_ = tokens;
  return {};
}

StoreState StoreGate::look_at_file() {
  if (identity_of(path_) != opened_file_) return StoreState::Gone;
  try {
    if (!look().ok()) return StoreState::Unreadable;
  } catch (const std::exception&) { // e.g. a file that is locked too long; requests that read it get their own error
    return StoreState::Unreadable;
  }
  if (is_rewound_) return StoreState::Rewound; // the cache may hold answers of both files under the same epochs
  free_bytes_ = free_bytes(path_);
  return free_bytes_ < least_free_bytes_ ? StoreState::DiskFull : StoreState::Well;
}

void StoreGate::watch(const std::stop_token& ends) {
  while (!ends_within(ends, kStaleness)) {
    const StoreState seen = look_at_file();
    if (state_.exchange(seen) == seen) continue;
    try {
      on_state_(advice(seen));
    } catch (const std::exception&) { // no memory for the message
    }
  }
}

} // namespace mc2::server
