#include <array>
#include <limits>

#include "exporters/parts.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"

namespace mc2::store {
namespace {

constexpr std::string_view kMarker = "// mc2-plan: ";

/// HcclDataType of the HCCL headers.
int hccl_type_code(planner::DType dtype) {
  switch (dtype) {
    case planner::DType::I8: return 0;
    case planner::DType::F8E4m3: break; // refused
    case planner::DType::F16: return 3;
    case planner::DType::F32: return 4;
    case planner::DType::Bf16: return 11;
  }
  return 0;
}

struct Field {
  const char* name;
  std::int64_t value;
};

/// What both forms say of the operator. rankM counts the rows of A that one rank holds.
std::vector<Field> operator_fields(const planner::OpSpec& op) {
  const bool gathers_rows = planner::traits_of(op.kind).first_lane == planner::Lane::Communication;
  return {{"rankDim", op.world_size},
          {"rankM", gathers_rows ? op.m / op.world_size : op.m},
          {"rankN", op.n},
          {"rankK", op.k},
          {"isTransposeA", 0},
          {"isTransposeB", 0},
          {"dataType", hccl_type_code(op.dtype)}};
}

/// Errors: Infeasible for what the tiling's fields cannot say.
Result<void> check_fields(const planner::OpSpec& op) {
  if (op.dtype == planner::DType::F8E4m3)
    return Error{ErrorCode::Infeasible, "dtype", "is f8e4m3; the tiling knows int8, fp16, fp32 and bfp16"};
  for (const Field& field : operator_fields(op))
    if (field.value > std::numeric_limits<std::uint32_t>::max())
      return Error{ErrorCode::Infeasible, field.name, "does not fit into the tiling's 32 bits"};
  return {};
}

/// The two groups of a plan: what runs first, and the rest. Errors: Infeasible for more of them.
Result<std::array<BlockGroup, 2>> two_groups(const planner::Plan& plan) {
  const auto groups = block_groups(plan.cut);
  if (planner::cut_axis(plan.op) != planner::CutAxis::Rows)
    return Error{ErrorCode::Infeasible, "", "the tiling cuts rows, and this plan cuts columns of " + plan.op.text()};
  if (groups.size() > 2)
    return Error{ErrorCode::Infeasible, "",
                 "the tiling has two groups of blocks, and this plan has " + std::to_string(groups.size()) + " (" +
                     plan.cut.text() + "); plan with --strategy search"};
  MC2_TRY(check_fields(plan.op));
  return std::array{groups[0], groups.size() == 2 ? groups[1] : BlockGroup{}};
}

/// Errors: InvalidSpec unless there is exactly one plan.
Result<const planner::Plan*> only_plan(std::span<const ExportItem> items) {
  if (items.size() == 1) return &items.front().plan;
  return Error{ErrorCode::InvalidSpec, "PLAN",
               "a tiling is of one plan; give one, not " + std::to_string(items.size())};
}

constexpr std::string_view kFieldNote =
    "// dataType is HCCL's HcclDataType: 0 int8, 3 fp16, 4 fp32, 11 bfp16. rankM counts the rows of A of one rank.\n";

std::string heading(const planner::Plan& plan, const char* form) {
  std::string text = "// Tiling by mc2, " + std::string(form) + ".\n";
  for (const auto& line : provenance_lines(plan)) text += "// " + line + "\n";
  return text + std::string(kFieldNote) + std::string(kMarker) + encode(plan) + "\n#include <cstdint>\n\n";
}

std::string assignments(const std::vector<Field>& fields) {
  std::string text;
  for (const Field& field : fields)
    text += "  tiling." + std::string(field.name) + " = " + std::to_string(field.value) + ";\n";
  return text;
}

/// One line of the table: first and last m, block length, shortest odd block, and whether that is the first one.
std::string table_row(const planner::PlanRange& range) {
  const planner::CutRule& rule = range.rule;
  return "      {" + std::to_string(range.first_m) + ", " + std::to_string(range.last_m) + ", " +
         std::to_string(rule.long_rows) + ", " + std::to_string(rule.min_odd_rows) + ", " +
         (rule.is_odd_first ? "true" : "false") + "},  // " + rule.variant.text() + ", " + rule.text() + ", gain " +
         percent_text(range.least_benefit) + " to " + percent_text(range.most_benefit) + "\n";
}

/// Those that are cut by rows: the tiling knows no other blocks.
std::string row_cut_table(const planner::PlanRanges& ranges) {
  std::string text;
  planner::OpSpec op = ranges.op;
  for (const auto& range : ranges.ranges) {
    op.m = range.first_m;
    if (planner::cut_axis(op) == planner::CutAxis::Rows) text += table_row(range);
  }
  return text;
}

Result<std::vector<ExportItem>> read_snippet(std::string_view text, std::string_view format) {
  MC2_ASSIGN(auto items, read_documents(text, kMarker));
  return require_unedited(std::move(items), text, format);
}

} // namespace

Result<std::string> write_ascendc(std::span<const ExportItem> items, const ExportOptions&) {
  MC2_ASSIGN(const auto plan, only_plan(items));
  MC2_ASSIGN(const auto groups, two_groups(*plan));
  const auto& [first, rest] = groups;
  std::vector<Field> fields = operator_fields(plan->op);
  fields.insert(fields.begin() + 1,
                {{"tileM", first.rows}, {"tileNum", first.count}, {"tailM", rest.rows}, {"tailNum", rest.count}});
  return heading(*plan,
                 "in the form of the Ascend C sample: tileNum blocks of tileM rows first, then tailNum of tailM") +
         "template <typename Tiling>\nvoid set_mc2_tiling(Tiling& tiling) {\n" + assignments(fields) + "}\n";
}

Result<std::string> write_ascendc_ranges(const planner::PlanRanges& ranges) {
  MC2_TRY(check_fields(ranges.op));
  const std::string rows = row_cut_table(ranges);
  if (rows.empty()) return Error{ErrorCode::Infeasible, "", "the tiling cuts rows, and no range of these does"};
  std::vector<Field> fields = operator_fields(ranges.op);
  std::erase_if(fields, [](const Field& field) { return std::string_view(field.name) == "rankM"; });
  const std::string shards = std::to_string(planner::m_step(ranges.op));
  const bool gathers_rows = planner::traits_of(ranges.op.kind).first_lane == planner::Lane::Communication;
  std::string text =
      "// Tiling by mc2 for every m of a range, in the form of the Ascend C sample: tileNum blocks of tileM "
      "rows first, then\n// tailNum of tailM.\n";
  for (const auto& line : provenance_lines(ranges)) text += "// " + line + "\n";
  return text + std::string(kFieldNote) + "#include <cstdint>\n\n" +
         "// False: there is no plan for this m, and nothing is set.\n"
         "template <typename Tiling>\nbool set_mc2_tiling(Tiling& tiling, std::uint32_t m) {\n"
         "  struct Range {\n    std::uint32_t first_m, last_m, block, least_odd;\n    bool is_odd_first;\n  };\n"
         "  static constexpr Range kRanges[] = {\n" +
         rows +
         "  };\n"
         "  const Range* range = nullptr;\n"
         "  for (const Range& each : kRanges)\n"
         "    if (m >= each.first_m && m <= each.last_m) range = &each;\n"
         "  if (range == nullptr || m % " +
         shards + " != 0) return false;\n" + assignments(fields) + "  tiling.rankM = m" +
         (gathers_rows ? " / " + std::to_string(ranges.op.world_size) : "") + ";\n" +
         "  const std::uint32_t rows = m / " + shards +
         ";\n"
         "  const std::uint32_t count = range->block == 0 ? 0 : (rows - range->least_odd) / range->block;\n"
         "  const std::uint32_t odd = rows - count * range->block;\n"
         "  const bool is_odd_first = count == 0 || range->is_odd_first;\n"
         "  tiling.tileM = is_odd_first ? odd : range->block;\n"
         "  tiling.tileNum = is_odd_first ? 1 : count;\n"
         "  tiling.tailM = count == 0 ? 0 : is_odd_first ? range->block : odd;\n"
         "  tiling.tailNum = count == 0 ? 0 : is_odd_first ? count : 1;\n"
         "  return true;\n}\n";
}

Result<std::vector<ExportItem>> read_ascendc(std::string_view text) { return read_snippet(text, "ascendc"); }

Result<std::string> write_ascendc_lib(std::span<const ExportItem> items, const ExportOptions&) {
  MC2_ASSIGN(const auto plan, only_plan(items));
  MC2_ASSIGN(const auto groups, two_groups(*plan));
  const auto& [first, rest] = groups;
  std::vector<Field> fields = operator_fields(plan->op);
  fields.insert(fields.begin() + 1, {{"tileCnt", first.count}, {"tailM", rest.rows}, {"tailCnt", rest.count}});
  return heading(*plan, "in the form of the operator library: tileCnt blocks first, then tailCnt of tailM rows") +
         "// first_group_m is M of the first blocks' matmul tiling.\n"
         "template <typename Tiling>\nvoid set_mc2_tiling(Tiling& tiling, std::uint32_t& first_group_m) {\n" +
         assignments(fields) + "  first_group_m = " + std::to_string(first.rows) + ";\n}\n";
}

Result<std::vector<ExportItem>> read_ascendc_lib(std::string_view text) { return read_snippet(text, "ascendc-lib"); }

} // namespace mc2::store
