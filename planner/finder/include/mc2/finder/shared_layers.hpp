#pragma once

#include <mutex>

#include "mc2/store/layers.hpp"

#pragma GCC visibility push(default)

namespace mc2::finder {

/// Store layers that several places use, on several threads. The layers have one connection, so only one thread uses
/// them at a time. The layers must outlive this object, and nobody else may use them while a place is asked.
class SharedLayers {
 public:
  explicit SharedLayers(store::Layers& layers) : layers_(layers) {}

  template <typename Body>
  auto use(const Body& body) {
    const std::lock_guard lock(mutex_);
    return body(layers_);
  }

 private:
  std::mutex mutex_;
  store::Layers& layers_;
};

} // namespace mc2::finder

#pragma GCC visibility pop
