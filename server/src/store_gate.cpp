#include "store_gate.hpp"

#include <sys/stat.h>

#include <condition_variable>

namespace mc2::server {

namespace {

FileIdentity identity_of(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

} // namespace

StoreGate::StoreGate(std::filesystem::path path, store::Store writer, OnChange on_change)
    : path_(std::move(path)),
      opened_file_(identity_of(path_)),
      writer_(std::move(writer)),
      on_change_(std::move(on_change)) {}

Result<std::unique_ptr<StoreGate>> StoreGate::open(const std::filesystem::path& path, OnChange on_change) {
  MC2_ASSIGN(auto writer, store::Store::open(path, store::OpenMode::ReadWrite));
  std::unique_ptr<StoreGate> gate(new StoreGate(path, std::move(writer), std::move(on_change)));
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
}

void StoreGate::refresh_now() {
  // Where the file cannot be read, answers that are kept stay what they were.
  if (const auto found = writer_.revision()) raise_revision(found.value());
}

Result<void> StoreGate::look() {
  return read([this](const store::Store& store) -> Result<void> {
    MC2_ASSIGN(const auto seen, store.revision());
    raise_revision(seen);
    if (seen == told_revision_) return {};
    MC2_TRY(on_change_(store)); // and again the next time
    told_revision_ = seen;
    return {};
  });
}

void StoreGate::watch(const std::stop_token& ends) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  while (!never.wait_for(lock, ends, kStaleness, [&] { return ends.stop_requested(); })) {
    is_gone_ = identity_of(path_) != opened_file_;
    try {
      is_readable_ = look().ok();
    } catch (const std::exception&) { // a file that is locked too long, or gone; a request that reads it is told
      is_readable_ = false;
    }
  }
}

} // namespace mc2::server
