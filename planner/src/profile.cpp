#include "mc2/planner/profile.hpp"

#include <algorithm>
#include <array>
#include <limits>
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

void Profile::add_session(std::span<const Sample> session) {
  if (session.empty()) return;
  const auto [first, last] = std::ranges::minmax(session, {}, &Sample::round);
  const std::int64_t had = samples.empty() ? -1 : std::ranges::max(samples, {}, &Sample::round).round;
  const std::int64_t most = std::int64_t{std::numeric_limits<int>::max()} - last.round;
  const auto shift = static_cast<int>(std::clamp<std::int64_t>(had + 1 - first.round, 0, most));
  if (shift > 0) later_sessions.push_back(first.round + shift); // what begins after the last round goes on with it
  for (Sample sample : session) {
    sample.round += shift;
    samples.push_back(std::move(sample));
  }
}

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
