#include "capi/handles.hpp"

#include <pthread.h>

#include <utility>

namespace mc2::capi {
namespace {

static_assert(sizeof(void*) == sizeof(std::uint64_t), "a handle has 56 bits");

constexpr std::uint64_t kIsValid = 1ULL << 31U;
constexpr unsigned kIndexBits = 24;

std::uint64_t generation_of_state(std::uint64_t state) noexcept { return state >> 32U; }
std::uint64_t generation_of(std::uint64_t handle) noexcept { return handle >> kIndexBits; }
std::uint32_t index_of(std::uint64_t handle) noexcept {
  return static_cast<std::uint32_t>(handle & ((1ULL << kIndexBits) - 1));
}

const char* name_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::Collectives: return "collectives";
    case Kind::Communicator: return "communicator";
    case Kind::Context: return "context";
    case Kind::Machine: return "machine";
    case Kind::Model: return "model";
    case Kind::Plan: return "plan";
    case Kind::PlanRanges: return "plan ranges";
    case Kind::Prepared: return "prepared";
    case Kind::Refinement: return "refinement";
    case Kind::Store: return "store";
  }
  return "handle";
}

[[noreturn]] void refuse(Kind wanted, const char* why) { fail(MC2_ERROR_HANDLE, name_of(wanted), why); }

} // namespace

HandleTable& HandleTable::get() {
  static HandleTable& table = *new HandleTable;
  return table;
}

HandleTable::HandleTable() {
  // fork() waits until no thread changes the table, so that the child's copy is consistent and its mutex unlocked.
  pthread_atfork([] { get().mutex_.lock(); }, [] { get().mutex_.unlock(); }, [] { get().mutex_.unlock(); });
}

std::uint32_t HandleTable::take_slot() {
  const std::lock_guard lock(mutex_);
  if (!free_.empty()) {
    const std::uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }
  if (slot_count_ == kMaxChunks * kChunkSlots) throw std::bad_alloc();
  if (slot_count_ % kChunkSlots == 0) {
    free_.reserve(slot_count_ + kChunkSlots); // release() must not allocate
    chunks_[slot_count_ / kChunkSlots].store(new Chunk, std::memory_order_release);
  }
  return slot_count_++;
}

std::uint64_t HandleTable::add(Kind kind, std::unique_ptr<Object> object) {
  const std::uint32_t index = take_slot();
  Slot& slot = (*chunks_[index / kChunkSlots].load(std::memory_order_acquire))[index % kChunkSlots];
  const std::uint64_t generation = generation_of_state(slot.state.load(std::memory_order_relaxed)) + 1;
  slot.object = std::move(object);
  slot.kind.store(kind, std::memory_order_relaxed);
  slot.state.store(generation << 32U | kIsValid, std::memory_order_release);
  return generation << kIndexBits | index;
}

HandleTable::Slot* HandleTable::slot_of(std::uint64_t handle) noexcept {
  Chunk* const chunk = chunks_[index_of(handle) / kChunkSlots].load(std::memory_order_acquire);
  return chunk == nullptr ? nullptr : &(*chunk)[index_of(handle) % kChunkSlots];
}

/// Checks the handle; if it is valid, adds a pin and clears the bits `clear` of the slot's state in one atomic step.
HandleTable::Slot& HandleTable::acquire(std::uint64_t handle, Kind kind, std::uint64_t clear) {
  if (handle == 0) refuse(kind, "is NULL");
  Slot* const slot = slot_of(handle);
  if (slot == nullptr) refuse(kind, "is no handle of mc2");
  std::uint64_t state = slot->state.load(std::memory_order_acquire);
  for (;;) {
    const std::uint64_t now = generation_of_state(state);
    if (generation_of(handle) == 0 || generation_of(handle) > now) refuse(kind, "is no handle of mc2");
    if (generation_of(handle) < now || (state & kIsValid) == 0) refuse(kind, "has been freed");
    const Kind found = slot->kind.load(std::memory_order_relaxed);
    if (found != kind)
      fail(MC2_ERROR_HANDLE, name_of(kind), std::string("is a handle of another kind: ") + name_of(found));
    if (slot->state.compare_exchange_weak(state, (state + 1) & ~clear, std::memory_order_acq_rel,
                                          std::memory_order_acquire))
      return *slot;
  }
}

Object& HandleTable::pin(std::uint64_t handle, Kind kind) { return *acquire(handle, kind, 0).object; }

void HandleTable::unpin(std::uint64_t handle) noexcept {
  Slot& slot = *slot_of(handle);
  const std::uint64_t left = slot.state.fetch_sub(1, std::memory_order_acq_rel) - 1;
  if ((left & 0xFFFFFFFFULL) == 0) release(index_of(handle), slot); // freed, and this was the last pin
}

void HandleTable::free(std::uint64_t handle, Kind kind) {
  static_cast<void>(acquire(handle, kind, kIsValid));
  unpin(handle);
}

void HandleTable::release(std::uint32_t index, Slot& slot) noexcept {
  slot.object.reset();
  // The generation has 32 bits. A slot that has used all of them is not used again.
  if (generation_of_state(slot.state.load(std::memory_order_relaxed)) == 0xFFFFFFFFULL) return;
  const std::lock_guard lock(mutex_);
  free_.push_back(index);
}

} // namespace mc2::capi
