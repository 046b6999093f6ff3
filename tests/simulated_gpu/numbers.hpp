#pragma once

#include <type_traits>

#include "element.hpp"
#include "f8.hpp"

namespace mc2::simulated {

using executor::Bf16;

template <typename T>
float to_f32(T value) {
  if constexpr (std::is_same_v<T, executor::F8E4m3>)
    return executor::to_float(value);
  else
    return executor::load(value);
}

template <typename T>
T from_f32(float value) {
  T result{};
  executor::store(value, result);
  return result;
}

} // namespace mc2::simulated
