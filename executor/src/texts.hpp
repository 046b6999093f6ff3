#pragma once

#include <string>

/// Words of messages.
namespace mc2::executor {

/// "rank 2".
[[nodiscard]] std::string rank_text(int rank);

} // namespace mc2::executor
