#pragma once

#include <cstdint>
#include <string>

/// How messages name things.
namespace mc2::executor {

/// "rank 2".
[[nodiscard]] std::string rank_text(int rank);

/// "17 B", "640.0 KiB", "12.34 GiB".
[[nodiscard]] std::string bytes_text(std::int64_t bytes);

} // namespace mc2::executor
