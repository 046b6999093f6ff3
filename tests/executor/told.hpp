#pragma once

#include <cstdio>
#include <string>

#include "mc2/planner/error.hpp"

namespace mc2::testing {

/// Of what a process tells: 0 when the words are in the message, else 1 after showing it.
inline int has(const std::string& message, const char* words) {
  if (message.find(words) != std::string::npos) return 0;
  std::fprintf(stderr, "'%s' is not in '%s'\n", words, message.c_str());
  return 1;
}

/// The text of the SystemError that a call ends with.
template <typename Call>
std::string thrown(const Call& call) {
  try {
    static_cast<void>(call());
  } catch (const SystemError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

} // namespace mc2::testing
