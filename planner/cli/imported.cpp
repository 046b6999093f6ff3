#include "imported.hpp"

namespace mc2::cli {

Result<store::ImportedMachine> find_imported(const store::Layers& layers, const std::string& device) {
  auto machine = store::join_imported(device, layers.list_profiles(store::imported_fields(device)));
  if (!machine) return Error{machine.error().code, "--device", machine.error().message};
  return machine;
}

Error nothing_imported(const planner::OpSpec& op, const std::string& device) {
  return {ErrorCode::NotFound, "--device",
          "nothing was imported for " + op.text() + " on '" + device + "'; see mc2 import --help"};
}

} // namespace mc2::cli
