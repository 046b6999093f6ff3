#pragma once

#include <rapidcheck.h>

#include <string>

namespace mc2::testing {

/// A legal setting "slices": one to eight equal slices, or two to six slices in other proportions.
inline std::string random_slices() {
  if (*rc::gen::arbitrary<bool>()) return std::to_string(*rc::gen::inRange(1, 9));
  std::string text = std::to_string(*rc::gen::inRange(1, 5));
  for (int left = *rc::gen::inRange(1, 6); left > 0; --left) text += "+" + std::to_string(*rc::gen::inRange(1, 5));
  return text;
}

} // namespace mc2::testing
