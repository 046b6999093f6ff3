#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "capi/call.hpp"

namespace mc2::capi {

enum class Kind : std::uint8_t {
  Communicator = 1,
  Context,
  Machine,
  Model,
  Plan,
  PlanRanges,
  Prepared,
  Store,
  Refinement,
  Collectives
};

/// Base of the objects that handles stand for.
class Object {
 public:
  virtual ~Object() = default;
};

/// Hands out handles. A handle is a slot's number and generation; the generation grows with each use of the slot, so
/// that a freed handle never names a later object. Looking a handle up takes no lock and pins the object until it is
/// unpinned. The table lives until the process ends, so that handles may be freed at any time.
class HandleTable {
 public:
  static HandleTable& get();

  /// Takes an object into the table and returns its handle. Throws std::bad_alloc.
  [[nodiscard]] std::uint64_t add(Kind kind, std::unique_ptr<Object> object);

  /// The object of a handle, which is not destroyed before unpin(). Leaves the call with MC2_ERROR_HANDLE for any other
  /// value, saying what it is.
  [[nodiscard]] Object& pin(std::uint64_t handle, Kind kind);
  void unpin(std::uint64_t handle) noexcept;

  /// Makes the handle invalid. The object is destroyed when its last pin ends. Leaves the call as pin() does.
  void free(std::uint64_t handle, Kind kind);

 private:
  /// `state` holds the generation in bits 32 to 63, whether the handle is valid in bit 31, and the number of pins
  /// below.
  struct Slot {
    std::atomic<std::uint64_t> state{0};
    std::unique_ptr<Object> object;
    std::atomic<Kind> kind{Kind::Plan};
  };
  static constexpr std::uint32_t kChunkSlots = 1U << 12U, kMaxChunks = 1U << 12U;
  using Chunk = std::array<Slot, kChunkSlots>;

  HandleTable();
  /// The slot of a handle; null for a value that was never a handle.
  [[nodiscard]] Slot* slot_of(std::uint64_t handle) noexcept;
  [[nodiscard]] Slot& acquire(std::uint64_t handle, Kind kind, std::uint64_t clear);
  [[nodiscard]] std::uint32_t take_slot();
  void release(std::uint32_t index, Slot& slot) noexcept;

  std::array<std::atomic<Chunk*>, kMaxChunks> chunks_{}; ///< never freed
  std::mutex mutex_;                                     ///< guards the members below
  std::uint32_t slot_count_ = 0;
  std::vector<std::uint32_t> free_;
};

/// Keeps the object of a handle pinned while a call uses it.
template <typename T>
class Pinned {
 public:
  template <typename Handle>
  explicit Pinned(const Handle* handle)
      : handle_(reinterpret_cast<std::uint64_t>(handle)),
        object_(static_cast<T&>(HandleTable::get().pin(handle_, T::kKind))) {}
  ~Pinned() { HandleTable::get().unpin(handle_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  [[nodiscard]] T* operator->() const noexcept { return &object_; }
  [[nodiscard]] T& operator*() const noexcept { return object_; }

 private:
  std::uint64_t handle_;
  T& object_;
};

/// Gives the caller a handle of a new object.
template <typename T, typename Handle>
void hand_out(std::unique_ptr<T> object, Handle** handle) {
  *handle = reinterpret_cast<Handle*>(HandleTable::get().add(T::kKind, std::move(object)));
}

/// Runs the body of a call that makes a T from the result of make() and hands out its handle. `name` is the argument's
/// name for errors.
template <typename T, typename Handle, typename Make>
mc2_status call_for(Handle** handle, const char* name, const Make& make) noexcept {
  return call([&] {
    given(handle, name);
    hand_out(std::make_unique<T>(make()), handle);
  });
}

/// The body of mc2_free_*().
template <typename T, typename Handle>
mc2_status free_handle(Handle* handle) noexcept {
  return call([&] {
    if (handle != nullptr) HandleTable::get().free(reinterpret_cast<std::uint64_t>(handle), T::kKind);
  });
}

} // namespace mc2::capi
