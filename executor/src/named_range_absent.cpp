#include "named_range.hpp"

namespace mc2::executor {

NamedRange::NamedRange(const char* /*name*/, std::int64_t /*number*/) noexcept {}

NamedRange::~NamedRange() = default;

void NamedRange::set_up() noexcept {}

} // namespace mc2::executor
