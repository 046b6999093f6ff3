#include "model_file.hpp"

#include "mc2/store/codec.hpp"

namespace mc2::cli {

Result<planner::CostModel> read_model(const std::filesystem::path& path) {
  const auto content = read_file(path);
  if (!content) return content.error();
  auto model = store::decode_model(content.value());
  if (!model) return document_error(path, model.error());
  return model;
}

} // namespace mc2::cli
