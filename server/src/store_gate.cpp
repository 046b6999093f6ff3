#include "store_gate.hpp"

namespace mc2::server {

using planner::Result;

StoreGate::StoreGate(std::filesystem::path path, store::Store writer)
    : path_(std::move(path)), writer_(std::move(writer)) {
  refresh_now();
}

Result<std::unique_ptr<StoreGate>> StoreGate::open(const std::filesystem::path& path) {
  auto writer = store::Store::open(path, store::OpenMode::ReadWrite);
  if (!writer) return writer.error();
  return std::unique_ptr<StoreGate>(new StoreGate(path, std::move(writer).value()));
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

void StoreGate::refresh_now() {
  // Where the file cannot be read, answers that are kept stay what they were.
  if (const auto found = writer_.revision()) revision_ = found.value();
  checked_at_ = Clock::now().time_since_epoch().count();
}

std::int64_t StoreGate::revision() {
  const auto now = Clock::now();
  Clock::rep checked = checked_at_.load(std::memory_order_acquire);
  const bool is_fresh = now - Clock::time_point(Clock::duration(checked)) < kStaleness;
  // Whoever moves the time forward asks.
  if (!is_fresh && checked_at_.compare_exchange_strong(checked, now.time_since_epoch().count())) {
    const auto found = read([](const store::Store& store) { return store.revision(); });
    if (found) revision_ = found.value();
  }
  return revision_.load(std::memory_order_acquire);
}

} // namespace mc2::server
