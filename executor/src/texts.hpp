#pragma once

#include <concepts>
#include <string>

/// Words of messages.
namespace mc2::executor {

/// "rank 2".
[[nodiscard]] std::string rank_text(std::integral auto rank) { return "rank " + std::to_string(rank); }

} // namespace mc2::executor
