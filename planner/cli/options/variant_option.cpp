#include "options/variant_option.hpp"

#include <CLI/CLI.hpp>

namespace mc2::cli {
namespace {

constexpr const char* kOption = "--variant";

} // namespace

void VariantOption::add_to(CLI::App& app) {
  app.add_option(kOption, text, "only this variant of the backend, serial included: NAME or NAME(field=value,...)");
}

Result<std::vector<planner::Variant>> VariantOption::choose(const executor::Backend& backend,
                                                            const executor::CommunicatorOptions& options,
                                                            const planner::OpSpec& op) const {
  MC2_ASSIGN(auto one, chosen());
  if (!one) return backend.variants(op, options);
  if (auto legal = backend.check_variant(op, options, *one); !legal)
    return Error{legal.error().code, kOption, legal.error().message};
  return std::vector{*std::move(one)};
}

Result<std::optional<planner::Variant>> VariantOption::chosen() const {
  if (!text) return std::optional<planner::Variant>();
  planner::Variant one = planner::parse_variant(*text);
  if (!one.name.empty() && one.name.find_first_of("(),=") == std::string::npos) return std::optional(std::move(one));
  return Error{ErrorCode::InvalidSpec, kOption,
               "is '" + *text + "'; legal: NAME or NAME(field=value,...), fields in alphabetical order"};
}

} // namespace mc2::cli
