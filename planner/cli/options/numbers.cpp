#include "options/numbers.hpp"

#include <string>

#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"
#include "mc2/store/text.hpp"

namespace mc2::cli {

using store::complaint_about;

CLI::Validator whole_number(std::int64_t low, std::int64_t high) {
  return {[low, high](std::string& text) { return complaint_about(text, low, high); }, ""};
}

CLI::Validator rank_count() {
  return {[](std::string& text) {
            const bool is_too_few = complaint_about(text, std::numeric_limits<std::int64_t>::min(), 1).empty();
            return is_too_few ? "is " + text.substr(0, 32) + "; legal: 2 or more"
                              : complaint_about(text, std::int64_t{2}, planner::kMaxWorldSize);
          },
          ""};
}

CLI::Validator number_or_range(std::int64_t low, std::int64_t high) {
  return {
      [low, high](std::string& text) {
        const std::size_t colon = text.find(':');
        for (const std::string& part : {text.substr(0, colon), text.substr(colon == std::string::npos ? 0 : colon + 1)})
          if (std::string complaint = complaint_about(part, low, high); !complaint.empty())
            return complaint + (colon == std::string::npos ? ", or a range first:last"
                                                           : "; a range is first:last, both within these bounds");
        const NumberRange range = read_range(text);
        return range.first <= range.last ? std::string() : "is " + text.substr(0, 32) + "; the first is above the last";
      },
      ""};
}

NumberRange read_range(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::int64_t first = std::stoll(text);
  return {first, colon == std::string::npos ? first : std::stoll(text.substr(colon + 1))};
}

CLI::Validator real_number(double low, double high) {
  return {[low, high](std::string& text) { return complaint_about(text, low, high); }, ""};
}

CLI::Option* add_seconds(CLI::App& app, const std::string& name, std::chrono::milliseconds& value,
                         const std::string& help) {
  const auto take = [&value](const double& seconds) { value = planner::to_ms(seconds); };
  return app.add_option_function<double>("--" + name, take, help)
      ->default_str(number_text(std::chrono::duration<double>(value).count()))
      ->check(real_number(0.001, 3600));
}

} // namespace mc2::cli
