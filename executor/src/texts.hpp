#pragma once

#include <string>

/// How messages name things.
namespace mc2::executor {

/// "rank 2".
[[nodiscard]] std::string rank_text(int rank);

} // namespace mc2::executor
