#include "mc2/planner/profile.hpp"

#include <array>
#include <utility>

#include "mc2/planner/text.hpp"
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

Result<void> validate_block_times(double fused_us, double compute_us, double communication_us) {
  constexpr double kMostBusyShare = 1.05;
  for (const auto& [lane, us] : {std::pair{"compute", compute_us}, {"communication", communication_us}})
    if (us > kMostBusyShare * fused_us)
      return Error{ErrorCode::InvalidSpec, std::string(lane) + "_blocks_us",
                   std::string("its ") + lane + " blocks take " + time_text(us) + " together, longer than the whole, " +
                       time_text(fused_us)};
  return {};
}

} // namespace mc2::planner
