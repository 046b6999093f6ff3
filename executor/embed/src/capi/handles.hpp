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

/// What a handle stands for.
class Object {
 public:
  virtual ~Object() = default;
};

/// Hands out handles: a slot's number and generation, so that a freed handle never names what came after it. Looking
/// one up takes no lock and keeps the object until it is let go. Lives until the process ends, so that handles may be
/// freed in any order.
class HandleTable {
 public:
  static HandleTable& get();

  /// The handle of a new object. Throws std::bad_alloc.
  [[nodiscard]] std::uint64_t add(Kind kind, std::unique_ptr<Object> object);

  /// Leaves the call with MC2_ERROR_HANDLE, saying what the value is instead. Otherwise the object stays until
  /// unpin().
  [[nodiscard]] Object& pin(std::uint64_t handle, Kind kind);
  void unpin(std::uint64_t handle) noexcept;

  /// From now on the handle is refused; the object goes with its last pin. Leaves the call as pin().
  void free(std::uint64_t handle, Kind kind);

 private:
  /// State: generation in the upper 32 bits, then whether the handle is valid, then the number of pins.
  struct Slot {
    std::atomic<std::uint64_t> state{0};
    std::unique_ptr<Object> object;
    std::atomic<Kind> kind{Kind::Plan};
  };
  static constexpr std::uint32_t kChunkSlots = 1U << 12U, kMaxChunks = 1U << 12U;
  using Chunk = std::array<Slot, kChunkSlots>;

  HandleTable();
  /// Null for a value that no handle has.
  [[nodiscard]] Slot* slot_of(std::uint64_t handle) noexcept;
  [[nodiscard]] Slot& acquire(std::uint64_t handle, Kind kind, std::uint64_t clear);
  [[nodiscard]] std::uint32_t take_slot();
  void release(std::uint32_t index, Slot& slot) noexcept;

  std::array<std::atomic<Chunk*>, kMaxChunks> chunks_{}; ///< never freed
  std::mutex mutex_;                                     ///< of what follows
  std::uint32_t slot_count_ = 0;
  std::vector<std::uint32_t> free_;
};

/// An object that a call uses.
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

/// A handle of a new object, for the caller.
template <typename T, typename Handle>
void hand_out(std::unique_ptr<T> object, Handle** handle) {
  *handle = reinterpret_cast<Handle*>(HandleTable::get().add(T::kKind, std::move(object)));
}

/// Runs the body of a call that hands out a T, made of what `make` returns. `name` is the handle's.
template <typename T, typename Handle, typename Make>
mc2_status call_for(Handle** handle, const char* name, const Make& make) noexcept {
  return call([&] {
    given(handle, name);
    hand_out(std::make_unique<T>(make()), handle);
  });
}

/// mc2_free_*().
template <typename T, typename Handle>
mc2_status free_handle(Handle* handle) noexcept {
  return call([&] {
    if (handle != nullptr) HandleTable::get().free(reinterpret_cast<std::uint64_t>(handle), T::kKind);
  });
}

} // namespace mc2::capi
