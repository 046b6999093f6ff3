#include "imported.hpp"

namespace mc2::cli {

Result<store::ImportedMachine> find_imported(const store::Layers& layers, const std::string& device) {
  auto machine = store::join_imported(device, layers.list_profiles(store::imported_fields(device)));
  if (!machine) return Error{machine.error().code, "--device", machine.error().message};
  return machine;
}

} // namespace mc2::cli
