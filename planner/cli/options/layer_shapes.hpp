#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/layer_shape.hpp"

namespace mc2::cli {

using planner::LayerShape;

/// The columns for help texts, in one line; without those of experts.
inline constexpr const char* kLayerColumns = "model,layer,parallel,n,k[,units,dtype,count]";

/// What follows kLayerColumns there.
inline constexpr const char* kExpertColumnsHelp = ", and experts,experts_per_token";

/// The help of an option that sets the element type of all layers.
/// @param whose  the type that it replaces, e.g. "the file's"
[[nodiscard]] std::string dtype_help(const std::string& whose);

/// Reads named layers: CSV with columns model, layer, parallel (row, column, dispatch or combine), n, k and
/// optionally units (default: the divided axis; none for dispatch and combine), dtype (default bf16), count (how
/// often the model has the layer, default 1), and for dispatch and combine experts (of all ranks) and experts_per_token
/// (both or neither; without them every rank has one expert). No two lines name the same model and layer. Errors:
/// Malformed or UnknownName with "file:line:column" as the field; at most 10000 layers.
[[nodiscard]] Result<std::vector<LayerShape>> parse_layer_shapes(std::string_view text, const std::string& file);

/// The layers of the published models that are part of this program (data/llm/).
[[nodiscard]] Result<std::vector<LayerShape>> built_in_layers();

} // namespace mc2::cli
