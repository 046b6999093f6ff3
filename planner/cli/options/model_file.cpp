#include "options/model_file.hpp"

#include <utility>

#include "mc2/store/codec.hpp"
#include "options/document_file.hpp"

namespace mc2::cli {

Result<planner::CostModel> read_model(const std::filesystem::path& path) {
  return read_document(path, store::decode_model);
}

Result<std::optional<planner::CostModel>> read_model_if_named(const std::string& path) {
  if (path.empty()) return std::optional<planner::CostModel>();
  MC2_ASSIGN(auto model, read_model(path));
  return std::optional(std::move(model));
}

} // namespace mc2::cli
