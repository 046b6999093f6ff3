#pragma once

#include <cstdio>
#include <string>

#include "mc2/planner/error.hpp"

namespace mc2::testing {

/// Exit code of a test's process: 0 if the message contains the words; otherwise prints the message and returns 1.
inline int has(const std::string& message, const char* words) {
  if (message.find(words) != std::string::npos) return 0;
  std::fprintf(stderr, "'%s' is not in '%s'\n", words, message.c_str());
  return 1;
}

/// The text of the SystemError that a call throws.
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
