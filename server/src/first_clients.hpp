#pragma once

#include "mc2/server/message.hpp"

namespace mc2::server {

/// Whether an mc2 before 0.2 asks: its clients name no mc2 in User-Agent, only the library that they are made with, and
/// refuse a plan with a key that they do not know (docs/adr/0019-plans-that-grow.md).
[[nodiscard]] bool is_first_client(const Request& request) noexcept;

/// The answer with every plan in it as those clients know it, under the digest of that. Unchanged where it holds no
/// plan.
[[nodiscard]] Response as_first_clients_read(Response response);

} // namespace mc2::server
