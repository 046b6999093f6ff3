#pragma once

#include <span>
#include <string_view>

namespace mc2::server {

/// A file of the dashboard. web/embed.mjs writes the files into this program.
struct DashboardFile {
  std::string_view name; ///< "index.html", or the name of a file below /assets/
  std::string_view content_type;
  std::string_view digest; ///< SHA-256 of the bytes, hexadecimal
  std::span<const unsigned char> bytes;
};

/// Every file of the dashboard; none where this program was built without the dashboard (MC2_DASHBOARD).
[[nodiscard]] std::span<const DashboardFile> dashboard_files() noexcept;

} // namespace mc2::server
