#include "mc2/planner/profile.hpp"

#include <array>

#include "names.hpp"

namespace mc2::planner {
namespace {
constexpr std::array kComponentNames{Name<Component>{Component::Matmul, "matmul"},
                                     Name<Component>{Component::Collective, "collective"}};
constexpr std::array kContextNames{Name<Context>{Context::Alone, "alone"}, Name<Context>{Context::CoRun, "co_run"}};
} // namespace

std::string_view to_string(Component component) noexcept { return name_of<Component>(kComponentNames, component); }
std::string_view to_string(Context context) noexcept { return name_of<Context>(kContextNames, context); }
Result<Component> parse_component(std::string_view text) {
  return parse_name<Component>(kComponentNames, text, "component");
}
Result<Context> parse_context(std::string_view text) { return parse_name<Context>(kContextNames, text, "context"); }

} // namespace mc2::planner
