#pragma once

#include "mc2/server/message.hpp"

namespace mc2::server {

/// Whether the client is an mc2 before 0.2. Such clients refuse a plan with a key that they do not know
/// (docs/adr/0019-plans-that-grow.md). Their User-Agent does not name mc2, only the library that they are made with.
[[nodiscard]] bool is_first_client(const Request& request) noexcept;

/// Removes the keys that such clients do not know from every plan in an answer, and adjusts the answer's digest and
/// ETag. An answer without a plan stays unchanged.
[[nodiscard]] Response as_first_clients_read(Response response);

} // namespace mc2::server
