#include "damage_watch.hpp"

#include <utility>

namespace mc2::server {
namespace {

constexpr std::size_t kMostTold = 1000; ///< bounds the memory; an operator who has read so many lines needs no more

/// The same reading function, which notes its errors.
template <typename Found, typename... Args>
std::function<Result<Found>(Args...)> noting(std::function<Result<Found>(Args...)> find, DamageWatch& damage) {
  return [find = std::move(find), &damage](Args... args) {
    auto found = find(std::forward<Args>(args)...);
    if (!found) damage.note(found.error());
    return found;
  };
}

} // namespace

void DamageWatch::note(const Error& fault) {
  if (fault.code != ErrorCode::Corrupt && fault.code != ErrorCode::NewerVersion) return;
  {
    const std::lock_guard lock(mutex_);
    if (told_.size() >= kMostTold || !told_.insert(fault.message).second) return;
  }
  metrics_.count_damage();
  surroundings_.tell("warning: answers pass over a kept document that cannot be read: " + fault.message +
                     "; mc2 db check lists all that cannot");
}

finder::Kept DamageWatch::watched(finder::Kept kept) {
  kept.find_plan = noting(std::move(kept.find_plan), *this);
  kept.find_model = noting(std::move(kept.find_model), *this);
  return kept;
}

} // namespace mc2::server
