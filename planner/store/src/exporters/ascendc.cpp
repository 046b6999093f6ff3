#include <array>
#include <limits>

#include "exporters/parts.hpp"
#include "exporters/tiling_text.hpp"
#include "mc2/planner/collective.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/imported.hpp"

namespace mc2::store {
namespace {

constexpr std::string_view kMarker = "// mc2-plan: ";
constexpr std::string_view kRangesTitle = "// Tiling by mc2 for every m of a range"; ///< of a snippet of ranges

struct Field {
  const char* name;
  std::string value; ///< a C++ expression
};

Field field(const char* name, std::int64_t value) { return {name, std::to_string(value)}; }

bool gathers_rows(const planner::OpSpec& op) {
  return planner::traits_of(op.kind).first_lane == planner::Lane::Communication;
}

/// The fields for the operator, which both forms have.
std::vector<Field> operator_fields(const planner::OpSpec& op) {
  return {field("rankDim", op.world_size),
          field("rankN", op.n),
          field("rankK", op.k),
          field("isTransposeA", 0),
          field("isTransposeB", 0),
          field("dataType", hccl_type_code(op.dtype).value_or(0))};
}

/// Number of rows of A that one rank holds.
std::int64_t rank_rows(const planner::OpSpec& op) { return gathers_rows(op) ? op.m / op.world_size : op.m; }

/// Whether the sample's kernel runs at most one block of the second group. Its array of handles has room for no more.
bool has_one_tail(const planner::OpSpec& op) {
  const auto collective = planner::collective_of(op.kind);
  return collective == planner::Collective::AllGather || collective == planner::Collective::ReduceScatter;
}

/// By how much the samples' tileM and tailM grow for each row of a block: reduce-scatter counts the rows of all ranks.
std::int64_t sample_rows(const planner::OpSpec& op) {
  return planner::collective_of(op.kind) == planner::Collective::ReduceScatter ? op.world_size : 1;
}

/// Further fields that the tuning case in the documentation and the samples set.
std::vector<Field> sample_settings(const planner::OpSpec& op) {
  if (planner::collective_of(op.kind) != planner::Collective::AllReduce) return {field("determinism", 0)};
  return {field("cToFloatLen", 0), field("nd2NzWorkLen", 1), field("determinism", 0), field("useBufferType", 1)};
}

/// The value of HcclCMDType in HCCL's headers; 0 for a collective that the library has in another struct.
int hccl_command(planner::Collective collective) {
  switch (collective) {
    case planner::Collective::AllReduce: return 2;
    case planner::Collective::AllGather: return 6;
    case planner::Collective::ReduceScatter: return 7;
    case planner::Collective::AllToAll: break;
  }
  return 0;
}

constexpr std::int64_t aligned(std::int64_t value, std::int64_t step) { return planner::ceil_div(value, step) * step; }

/// Further fields of the library's form: its command, and bytes of its workspaces as its host code computes them for
/// row-major operands. Source: all_gather_matmul_tiling_base, matmul_reduce_scatter_tiling and
/// matmul_all_reduce_tiling_base of ops-transformer, commit 3a280bc.
std::vector<Field> library_settings(const planner::OpSpec& op) {
  const auto collective = planner::collective_of(op.kind);
  if (hccl_command(collective) == 0) return {};
  const std::int64_t in_bytes = planner::size_bytes(op.dtype),
                     out_bytes = planner::size_bytes(planner::product_type(op));
  const bool is_gather = collective == planner::Collective::AllGather;
  const bool converts_bias = op.epilogue.has_bias && (is_gather || op.dtype == planner::DType::Bf16);
  std::vector<Field> fields{field("commtype", hccl_command(collective)),
                            field("subtype", 0),
                            field("gatherIndex", 0),
                            field("storageGather", 0),
                            field("isAdd", op.epilogue.has_residual ? 1 : 0),
                            field("biasLen", converts_bias ? aligned(op.n, 256) * 4 : 0)};
  if (collective == planner::Collective::AllReduce) return fields;
  const std::int64_t step = 256 / in_bytes;
  fields.push_back(field("nd2NzWorkLen", aligned(op.k, step) * aligned(op.n, step) * in_bytes));
  fields.push_back(field("cToFloatLen", is_gather ? 0 : aligned(op.m * op.n * out_bytes, 512)));
  if (is_gather) fields.push_back(field("gatherLen", aligned(rank_rows(op) * op.k * in_bytes, 512) * op.world_size));
  return fields;
}

/// Checks that the tiling can express the operator. Errors: Infeasible.
Result<void> check_fields(const planner::OpSpec& op) {
  if (planner::traits_of(op.kind).work != planner::Work::Matmul)
    return Error{ErrorCode::Infeasible, "op",
                 "is " + std::string(to_string(op.kind)) + "; the tiling is that of one matmul"};
  if (op.dtype == planner::DType::F8E4m3)
    return Error{ErrorCode::Infeasible, "dtype", "is f8e4m3; the tiling knows int8, fp16, fp32 and bfp16"};
  if (op.epilogue.norm != planner::Norm::None)
    return Error{ErrorCode::Infeasible, "epilogue",
                 "is " + std::string(to_string(op.epilogue)) + "; the tiling has no field for a norm"};
  for (const auto& [name, value] : {std::pair{"rankM", op.m}, {"rankN", op.n}, {"rankK", op.k}})
    if (value > std::numeric_limits<std::uint32_t>::max())
      return Error{ErrorCode::Infeasible, name, "does not fit into the tiling's 32 bits"};
  return {};
}

/// The two groups of equal blocks of a plan, in their order; the second may be empty. Errors: Infeasible for more
/// groups, blocks of columns, and as check_fields.
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

/// C++ 17 code that sets a member if the struct has it. Structs of the same purpose differ in their members.
constexpr std::string_view kMembers =
    "#pragma once\n#include <cstdint>\n#include <type_traits>\n#include <utility>\n\n"
    "// Structs of this purpose differ: a member that yours has is set, others are left out.\n"
    "#define MC2_TILING_MEMBER(name)                                                                \\\n"
    "  template <typename T, typename = decltype(std::declval<T&>().name)>                          \\\n"
    "  constexpr bool mc2_has_##name(int) {                                                         \\\n"
    "    return true;                                                                               \\\n"
    "  }                                                                                            \\\n"
    "  template <typename T>                                                                        \\\n"
    "  constexpr bool mc2_has_##name(long) {                                                        \\\n"
    "    return false;                                                                              \\\n"
    "  }                                                                                            \\\n"
    "  template <typename T>                                                                        \\\n"
    "  auto mc2_set_##name(T& tiling, std::uint64_t value, int)->decltype(tiling.name, void()) {    \\\n"
    "    using Member = typename std::remove_reference<decltype(tiling.name)>::type;                \\\n"
    "    tiling.name = static_cast<Member>(value);                                                  \\\n"
    "  }                                                                                            \\\n"
    "  template <typename T>                                                                        \\\n"
    "  void mc2_set_##name(T&, std::uint64_t, long) {}\n";

std::string members(const std::vector<Field>& fields) {
  std::string text(kMembers);
  for (const Field& each : fields) text += "MC2_TILING_MEMBER(" + std::string(each.name) + ")\n";
  return text + "#undef MC2_TILING_MEMBER\n\n";
}

std::string heading(const planner::Plan& plan, const char* form) {
  std::string text = "// Tiling by mc2, " + std::string(form) + ".\n";
  for (const auto& line : provenance_lines(plan)) text += "// " + line + "\n";
  return text + std::string(kFieldNote) + std::string(kMarker) + encode(plan) + "\n";
}

std::string assignments(const std::vector<Field>& fields) {
  std::string text =
      "  static_assert(mc2_has_tileCnt<Tiling>(0) || mc2_has_tileNum<Tiling>(0), \"this is no struct of a tiling: it "
      "counts no blocks\");\n";
  for (const Field& each : fields) text += "  mc2_set_" + std::string(each.name) + "(tiling, " + each.value + ", 0);\n";
  return text;
}

/// The fields of the samples' form. Each of the two counts is set under both of its names.
std::vector<Field> sample_fields(const planner::OpSpec& op, const std::array<std::string, 4>& tile_and_tail,
                                 const std::string& rank_m) {
  const auto& [tile_m, tile_count, tail_m, tail_count] = tile_and_tail;
  std::vector<Field> fields{{"tileM", tile_m}, {"tileNum", tile_count}, {"tileCnt", tile_count},
                            {"tailM", tail_m}, {"tailNum", tail_count}, {"tailCnt", tail_count},
                            {"rankM", rank_m}};
  for (const auto& more : {operator_fields(op), sample_settings(op)})
    fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

/// One line of the table of ranges: first and last m, block length, least odd block, whether the odd block is first.
std::string table_row(const planner::PlanRange& range) {
  const planner::CutRule& rule = range.rule;
  return "      {" + std::to_string(range.first_m) + ", " + std::to_string(range.last_m) + ", " +
         std::to_string(rule.long_rows) + ", " + std::to_string(rule.min_odd_rows) + ", " +
         (rule.is_odd_first ? "true" : "false") + "},  // " + rule.variant.text() + ", " + rule.text() + ", gain " +
         percent_interval_text(range.least_benefit, range.most_benefit) + "\n";
}

/// The lines of the ranges that are cut by rows, since the tiling has no other blocks.
std::string row_cut_table(const planner::PlanRanges& ranges) {
  std::string text;
  planner::OpSpec op = ranges.op;
  for (const auto& range : ranges.ranges) {
    op.m = range.first_m;
    if (planner::cut_axis(op) == planner::CutAxis::Rows) text += table_row(range);
  }
  return text;
}

/// C++ code that finds the range of an m and computes the tiles by its rule.
std::string tiles_of_range(const std::string& table_rows, const std::string& shards) {
  return "  struct Range {\n    std::uint32_t first_m, last_m, block, least_odd;\n    bool is_odd_first;\n  };\n"
         "  static constexpr Range kRanges[] = {\n" +
         table_rows +
         "  };\n"
         "  const Range* range = nullptr;\n"
         "  for (const Range& each : kRanges)\n"
         "    if (m >= each.first_m && m <= each.last_m) range = &each;\n"
         "  if (range == nullptr || m % " +
         shards + " != 0) return false;\n" + "  const std::uint32_t rows = m / " + shards +
         ";\n"
         "  const std::uint32_t count = range->block == 0 ? 0 : (rows - range->least_odd) / range->block;\n"
         "  const std::uint32_t odd = rows - count * range->block;\n"
         "  const bool is_odd_first = count == 0 || range->is_odd_first;\n"
         "  const std::uint32_t tile_rows = is_odd_first ? odd : range->block, tile_count = is_odd_first ? 1 : count;\n"
         "  const std::uint32_t tail_rows = count == 0 ? 0 : is_odd_first ? range->block : odd;\n"
         "  const std::uint32_t tail_count = count == 0 ? 0 : is_odd_first ? count : 1;\n";
}

/// "tailNum is 5 where the plan in the file has 4; ..."; empty if nothing differs.
std::string changes_text(const TilingValues& values, const TilingValues& of_plan) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : values)
    if (const auto known = of_plan.find(name); known != of_plan.end() && known->second != value)
      texts.push_back(name + " is " + std::to_string(value) + " where the plan in the file has " +
                      std::to_string(known->second));
  return list_text(texts, "; ");
}

/// Each number of blocks or of rows has two names. If only one of them was edited, it alone counts.
void follow_edits(TilingValues& values, const TilingValues& of_plan) {
  const auto is_edited = [&](const std::string& name) {
    const auto before = of_plan.find(name);
    const auto value = std::as_const(values).find(name);
    return value != values.end() && before != of_plan.end() && value->second != before->second;
  };
  for (const auto& [one, other] : {std::pair{"tileNum", "tileCnt"},
                                   {"tailNum", "tailCnt"},
                                   {"tileM", "kMc2TileRows"},
                                   {"tailM", "kMc2TailRows"}}) {
    const bool is_one = is_edited(one), is_other = is_edited(other);
    if (is_one != is_other) values.erase(is_one ? other : one);
  }
}

constexpr std::array<std::string_view, 5> kOperatorMembers{"rankDim", "rankM", "rankN", "rankK", "dataType"};

/// The plan of an exported file that was edited. Errors: Malformed, naming the changes.
Result<planner::Plan> edited_plan(const planner::Plan& plan, TilingValues values, const TilingValues& of_plan,
                                  std::int64_t unit) {
  const std::string changes = changes_text(values, of_plan);
  if (changes.empty()) return plan; // only comments or layout were edited
  for (const std::string_view name : kOperatorMembers)
    if (const auto value = values.find(name); value != values.end() && of_plan.at(std::string(name)) != value->second)
      return Error{ErrorCode::Malformed, "",
                   changes + "; its plan is of another operator: remove the line with " + std::string(kMarker) +
                       "to read the file by its values"};
  follow_edits(values, of_plan);
  auto cut = tiling_cut(plan.op, values, unit);
  if (!cut) return Error{ErrorCode::Malformed, cut.error().field, changes + "; " + cut.error().message};
  MC2_ASSIGN(auto edited, planner::unpredicted_plan(plan.op, plan.fingerprint, plan.variant, std::move(cut).value()));
  edited.reason = "read from an edited file: " + changes;
  return edited;
}

/// The plan of a tiling that was written by hand. Errors: Malformed.
Result<planner::Plan> plan_by_hand(std::string_view text, const TilingValues& values, bool counts_all_ranks) {
  MC2_ASSIGN(const auto op, tiling_operator(text, values));
  MC2_ASSIGN(auto cut, tiling_cut(op, values, counts_all_ranks ? sample_rows(op) : 1));
  MC2_ASSIGN(auto plan, planner::unpredicted_plan(op, {imported_fields("unknown")}, {"imported", {}}, cut));
  plan.reason = "read from a tiling that was written by hand";
  return plan;
}

/// Reads the plan in the comment of a file. Reads the values instead if there is no such plan or they were edited.
Result<std::vector<ExportItem>> read_snippet(std::string_view text, std::string_view format, bool counts_all_ranks) {
  if (text.starts_with(kRangesTitle))
    return Error{ErrorCode::Malformed, "",
                 "is a table of ranges of m, which is not read back; keep the plans of all m as JSON (mc2 plan --m "
                 "first:last --out)"};
  MC2_ASSIGN(auto values, tiling_values(text));
  if (text.find(kMarker) == std::string_view::npos) {
    MC2_ASSIGN(auto plan, plan_by_hand(text, values, counts_all_ranks));
    return std::vector<ExportItem>{{std::move(plan), {}}};
  }
  MC2_ASSIGN(auto items, read_documents(text, kMarker));
  MC2_TRY(only_plan(items));
  MC2_ASSIGN(const auto exporter, find_exporter(format));
  MC2_ASSIGN(const auto written, exporter->write(items, {}));
  if (written == text) return items;
  if (written.starts_with(text)) return Error{ErrorCode::Malformed, "", "ends before its function does: it was cut"};
  MC2_ASSIGN(const auto of_plan, tiling_values(written));
  planner::Plan& plan = items.front().plan;
  // mc2 0.1.0 set this count of the library's form under one of its two names.
  if (of_plan.contains("tailNum") && values.contains("tailCnt")) values.try_emplace("tailNum", values.at("tailCnt"));
  for (const auto& [name, value] : of_plan)
    if (!values.contains(name) && !name.starts_with("kMc2")) // constants only repeat, and mc2 0.1.0 wrote none
      return Error{ErrorCode::Malformed, "",
                   "no longer sets " + name + ", which is " + std::to_string(value) +
                       " by the plan in the file: it is cut, or was edited"};
  MC2_ASSIGN(plan, edited_plan(plan, std::move(values), of_plan, counts_all_ranks ? sample_rows(plan.op) : 1));
  return items;
}

} // namespace

Result<std::string> write_ascendc(std::span<const ExportItem> items, const ExportOptions&) {
  MC2_ASSIGN(const auto plan, only_plan(items));
  MC2_ASSIGN(const auto groups, two_groups(*plan));
  const auto& [first, rest] = groups;
  const std::int64_t rows = sample_rows(plan->op);
  const auto fields = sample_fields(plan->op,
                                    {std::to_string(first.rows * rows), std::to_string(first.count),
                                     std::to_string(rest.rows * rows), std::to_string(rest.count)},
                                    std::to_string(rank_rows(plan->op)));
  const bool is_beyond = has_one_tail(plan->op) && rest.count > 1;
  const std::string other_order = first.count != 1 ? std::string()
                                                   : "; plan with the single block last: mc2 plan --blocks " +
                                                         std::to_string(rest.count) + "x" + std::to_string(rest.rows) +
                                                         "," + std::to_string(first.rows);
  return heading(*plan,
                 "in the form of the Ascend C samples: tileNum (tileCnt) blocks of tileM rows first, then tailNum "
                 "(tailCnt) of tailM") +
         members(fields) + "// M of the TCubeTiling of the first blocks and of the others.\n" +
         "constexpr std::uint32_t kMc2TileRows = " + std::to_string(first.rows) +
         ", kMc2TailRows = " + std::to_string(rest.rows) +
         ";\n\ntemplate <typename Tiling>\nvoid set_mc2_tiling(Tiling& tiling) {\n" +
         (is_beyond
              ? "  static_assert(mc2_has_tileM<Tiling>(0), \"the sample's kernel runs one block behind the equal ones, "
                "and this plan has " +
                    std::to_string(rest.count) + other_order + "\");\n"
              : std::string()) +
         assignments(fields) + "}\n";
}

Result<std::string> write_ascendc_ranges(const planner::PlanRanges& ranges) {
  MC2_TRY(check_fields(ranges.op));
  const std::string rows = row_cut_table(ranges);
  if (rows.empty()) return Error{ErrorCode::Infeasible, "", "the tiling cuts rows, and no range of these does"};
  const std::string unit = std::to_string(sample_rows(ranges.op));
  const auto fields =
      sample_fields(ranges.op, {"tile_rows * " + unit, "tile_count", "tail_rows * " + unit, "tail_count"},
                    gathers_rows(ranges.op) ? "m / " + std::to_string(ranges.op.world_size) : "m");
  std::string text = std::string(kRangesTitle) +
                     ", in the form of the Ascend C samples: tileNum (tileCnt) blocks of tileM rows first,\n// then "
                     "tailNum (tailCnt) of tailM.\n";
  for (const auto& line : provenance_lines(ranges)) text += "// " + line + "\n";
  return text + std::string(kFieldNote) + members(fields) + "// False: there is no plan for this m" +
         (has_one_tail(ranges.op) ? ", or one of more blocks behind the equal ones than the sample's kernel runs"
                                  : "") +
         ", and nothing is set.\n"
         "template <typename Tiling>\nbool set_mc2_tiling(Tiling& tiling, std::uint32_t m) {\n" +
         tiles_of_range(rows, std::to_string(planner::m_step(ranges.op))) +
         (has_one_tail(ranges.op) ? "  if (tail_count > 1 && !mc2_has_tileM<Tiling>(0)) return false;\n" : "") +
         assignments(fields) + "  return true;\n}\n";
}

Result<std::vector<ExportItem>> read_ascendc(std::string_view text) { return read_snippet(text, "ascendc", true); }

Result<std::string> write_ascendc_lib(std::span<const ExportItem> items, const ExportOptions&) {
  MC2_ASSIGN(const auto plan, only_plan(items));
  MC2_ASSIGN(const auto groups, two_groups(*plan));
  const auto& [first, rest] = groups;
  std::vector<Field> fields{field("tileCnt", first.count), field("tileNum", first.count),
                            field("tailM", rest.rows),     field("tailCnt", rest.count),
                            field("tailNum", rest.count),  field("rankM", rank_rows(plan->op))};
  for (const auto& more : {operator_fields(plan->op), library_settings(plan->op)})
    fields.insert(fields.end(), more.begin(), more.end());
  return heading(*plan, "in the form of the operator library: tileCnt blocks first, then tailCnt of tailM rows") +
         members(fields) +
         "// first_group_m is M of the first blocks' matmul tiling. Lengths are in bytes, of operands in rows.\n"
         "template <typename Tiling>\nvoid set_mc2_tiling(Tiling& tiling, std::uint32_t& first_group_m) {\n" +
         assignments(fields) + "  first_group_m = " + std::to_string(first.rows) + ";\n}\n";
}

Result<std::vector<ExportItem>> read_ascendc_lib(std::string_view text) {
  return read_snippet(text, "ascendc-lib", false);
}

} // namespace mc2::store
