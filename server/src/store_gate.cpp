#include "store_gate.hpp"

#include <sys/stat.h>

#include <condition_variable>

namespace mc2::server {

using planner::Result;

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
  auto writer = store::Store::open(path, store::OpenMode::ReadWrite);
  if (!writer) return writer.error();
  std::unique_ptr<StoreGate> gate(new StoreGate(path, std::move(writer).value(), std::move(on_change)));
  if (auto looked = gate->look(); !looked) return looked.error();
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
  auto opened = store::Store::open(path_, store::OpenMode::ReadOnly);
  if (!opened) return opened.error();
  return std::make_unique<store::Store>(std::move(opened).value());
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
    const auto seen = store.revision();
    if (!seen) return seen.error();
    raise_revision(seen.value());
    if (seen.value() == told_revision_) return {};
    if (auto told = on_change_(store); !told) return told; // and again the next time
    told_revision_ = seen.value();
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
