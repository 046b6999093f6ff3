#include "dashboard.hpp"

namespace mc2::server {

std::span<const DashboardFile> dashboard_files() noexcept { return {}; }

} // namespace mc2::server
