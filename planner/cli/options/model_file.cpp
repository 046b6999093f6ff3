#include "options/model_file.hpp"

#include "mc2/store/codec.hpp"
#include "options/document_file.hpp"

namespace mc2::cli {

Result<planner::CostModel> read_model(const std::filesystem::path& path) {
  return read_document(path, store::decode_model);
}

} // namespace mc2::cli
