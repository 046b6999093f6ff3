#include "exporters/tiling_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "mc2/planner/cutting.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::store {
namespace {

constexpr std::array<std::string_view, 14> kReadMembers{
    "rankDim", "rankM",   "rankN",   "rankK",    "tileM",        "tileNum",      "tileCnt",
    "tailM",   "tailNum", "tailCnt", "dataType", "kMc2TileRows", "kMc2TailRows", "first_group_m"};

Error malformed(std::string field, std::string message) {
  return {ErrorCode::Malformed, std::move(field), std::move(message)};
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex_digit(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/// C++ text in two: its code, without strings, and its comments. What belongs to the other is blank, so that places are
/// those of the text.
struct SourceText {
  std::string code, comments;
};

/// Whether the word that the text ends with says that a string behind it is raw.
bool ends_in_raw_prefix(std::string_view text) {
  std::size_t begin = text.size();
  while (begin > 0 && text.size() - begin < 4 && is_word(text[begin - 1])) --begin;
  const std::array<std::string_view, 5> prefixes{"R", "LR", "uR", "UR", "u8R"};
  return std::ranges::find(prefixes, text.substr(begin)) != prefixes.end();
}

/// The length of the comment, or of the string or character, that begins at a place; 0 where neither begins there. A
/// quote that its line does not close ends there.
std::size_t aside_length(std::string_view whole, std::size_t place) {
  const std::string_view text = whole.substr(place);
  const char before = place == 0 ? ' ' : whole[place - 1];
  if (text.front() == '"' && ends_in_raw_prefix(whole.substr(0, place))) { // R"end(...)end"
    const std::size_t open = std::min(text.find('('), text.size());
    const std::size_t close =
        text.find(")" + std::string(text.substr(1, std::max<std::size_t>(open, 1) - 1)) + "\"", open);
    return close == std::string_view::npos ? text.size() : close + open + 1;
  }
  if (text.starts_with("//")) return std::min(text.find('\n'), text.size());
  if (text.starts_with("/*")) {
    const std::size_t close = text.find("*/", 2);
    return close == std::string_view::npos ? text.size() : close + 2;
  }
  const char quote = text.front();
  if (quote != '"' && (quote != '\'' || is_hex_digit(before))) return 0; // 4'096 is a number
  for (std::size_t at = 1; at < text.size() && text[at] != '\n'; ++at) {
    if (text[at] == quote) return at + 1;
    if (text[at] == '\\') ++at;
  }
  return std::min(text.find('\n'), text.size());
}

SourceText parted(std::string_view text) {
  SourceText parts{std::string(text), std::string(text)};
  const auto blank = [](std::string& part, std::size_t at, std::size_t count) {
    for (std::size_t i = at; i < std::min(at + count, part.size()); ++i)
      if (part[i] != '\n') part[i] = ' ';
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = aside_length(text, at);
    const bool is_comment = length > 0 && text[at] == '/';
    if (length > 0) blank(parts.code, at, length);
    blank(parts.comments, at, is_comment ? 2 : std::max<std::size_t>(length, 1));
    const bool is_closed = length >= 4 && text.substr(at, length).ends_with("*/");
    if (is_comment && text[at + 1] == '*' && is_closed) parts.comments.replace(at + length - 2, 2, "; ");
    at += std::max<std::size_t>(length, 1);
  }
  return parts;
}

constexpr std::string_view kBlanks = " \t\r", kAllBlanks = " \t\r\n";

std::string_view without(std::string_view blanks, std::string_view text) {
  const std::size_t first = text.find_first_not_of(blanks);
  return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

/// The value that a call sets: its argument, or the second of several, which follows the struct. None where what
/// follows shows no call. @param text  begins with `(`
std::optional<std::string_view> argument_of_call(std::string_view text) {
  constexpr std::size_t kMostLength = 256;
  std::size_t begin = 1, end = 0, comma_count = 0;
  int depth = 0;
  for (std::size_t at = 0; at < std::min(text.size(), kMostLength); ++at) {
    if (text[at] == '(') ++depth;
    const bool ends_argument = depth == 1 && (text[at] == ',' || text[at] == ')');
    if (ends_argument && comma_count < 2) end = at;
    if (text[at] == ',' && depth == 1 && ++comma_count == 1) begin = at + 1;
    if (text[at] != ')' || --depth > 0) continue;
    const std::string_view behind = without(kAllBlanks, text.substr(at + 1));
    const bool is_call = !behind.empty() && std::string_view(";.),").find(behind.front()) != std::string_view::npos;
    return is_call ? std::optional(text.substr(begin, end - begin)) : std::nullopt;
  }
  return std::nullopt;
}

/// Whether the text ends in the beginning of a setter's call. A type before it would declare the setter.
bool calls_setter(std::string_view before) {
  if (!before.ends_with("set_")) return false;
  while (!before.empty() && is_word(before.back())) before.remove_suffix(1);
  before = before.substr(0, before.find_last_not_of(kAllBlanks) + 1);
  if (before.empty()) return true;
  if (is_word(before.back())) {
    const std::size_t end = before.size();
    while (!before.empty() && is_word(before.back())) before.remove_suffix(1);
    const std::string_view word(before.data() + before.size(), end - before.size());
    return word == "return" || word == "else" || word == "do";
  }
  if (before.ends_with("->") || before.ends_with("&&")) return true;
  return std::string_view("&*>:").find(before.back()) == std::string_view::npos;
}

/// The text of the value that code sets a member to; none if it sets none.
/// @param before, behind  what stands around the name
std::optional<std::string_view> set_to(std::string_view before, std::string_view behind) {
  const std::string_view rest = without(kAllBlanks, behind);
  if (rest.starts_with('=') && !rest.starts_with("==")) return without(kAllBlanks, rest.substr(1));
  for (const std::string_view changes : {"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"})
    if (rest.starts_with(changes)) return rest; // no number
  if (!rest.starts_with('(')) return std::nullopt;
  const std::string_view first = without(kAllBlanks, rest.substr(1));
  if (!first.empty() && is_digit(first.front())) return first;
  const auto value = calls_setter(before) ? argument_of_call(rest) : std::nullopt;
  return value ? std::optional(without(kAllBlanks, *value)) : std::nullopt; // none of constructors and declarations
}

constexpr std::string_view kOperators = "+-*/%<>&|^";

/// Whether a text begins with a name that is set, such as `rankM = 1024`.
bool begins_fact(std::string_view text) {
  const auto end = std::ranges::find_if_not(text, is_word);
  const std::string_view behind = without(kBlanks, {end, text.end()});
  return end != text.begin() && !is_digit(text.front()) && behind.starts_with('=') && !behind.starts_with("==");
}

/// Whether a number in a comment ends before `rest`. Words, a full stop, a dash or the next fact may follow, but no
/// calculation.
bool ends_number_in_words(std::string_view rest) {
  const bool goes_on = rest.starts_with('\'') || rest.starts_with('.');
  if (rest.empty() || is_word(rest.front())) return rest.empty();
  if (goes_on && rest.size() > 1 && is_digit(rest[1])) return false;
  const std::string_view next = without(kBlanks, rest);
  if (next.empty() || next.starts_with("//") || kOperators.find(next.front()) == std::string_view::npos) return true;
  const std::size_t operand = next.find_first_not_of(std::string(kOperators).append(kBlanks));
  if (operand == std::string_view::npos) return true;
  if (next.front() == '|') return begins_fact(next.substr(operand));
  return next.front() == '-' && !is_digit(next[operand]);
}

/// Whether a number in code ends before `rest`, and is not the first one of an expression.
bool ends_number(std::string_view rest) {
  if (!rest.empty() && (is_word(rest.front()) || rest.front() == '\'' || rest.front() == '.')) return false;
  const std::string_view on_line = without(kBlanks, rest);
  rest = without(kAllBlanks, rest);
  if (rest.empty() || std::string_view(",;)}").find(rest.front()) != std::string_view::npos) return true;
  return on_line.front() == '\n' && rest.front() != '?' && kOperators.find(rest.front()) == std::string_view::npos;
}

std::optional<std::int64_t> whole_number(std::string_view text, bool is_comment) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || value < 0) return std::nullopt;
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const std::string_view behind = without("uUlL", rest);
  return (is_comment ? ends_number_in_words(behind) : ends_number(behind)) ? std::optional(value) : std::nullopt;
}

/// Reads the last value that code, or comments, set the member to. Errors: as tiling_values, for code.
Result<void> read_member(std::string_view name, std::string_view text, bool is_comment, TilingValues& values) {
  std::size_t end = is_comment ? 0 : text.size();
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    if (at >= end) end = std::min(text.find('\n', at), text.size()); // of a comment, another line tells no more
    const std::string_view before = text.substr(0, at), behind = text.substr(0, end).substr(at + name.size());
    const bool is_whole = (before.empty() || !is_word(before.back()) || before.ends_with("set_")) &&
                          (behind.empty() || !is_word(behind.front()));
    const auto value = is_whole ? set_to(before, behind) : std::nullopt;
    if (!value) continue;
    const auto parsed = whole_number(*value, is_comment);
    if (parsed) values[std::string(name)] = *parsed;
    if (!parsed && !is_comment && name != "dataType")
      return malformed("line " + std::to_string(std::ranges::count(before, '\n') + 1),
                       "sets " + std::string(name) + " to something other than a whole number; write the number");
  }
  return {};
}

std::optional<std::int64_t> value_of(const TilingValues& values, std::string_view name) {
  const auto found = values.find(name);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

/// A number of blocks that has two names; 0 if neither is set. Errors: Malformed if they differ or exceed the limit.
Result<std::int64_t> block_count_of(const TilingValues& values, std::string_view one, std::string_view other) {
  const auto first = value_of(values, one), second = value_of(values, other);
  if (first && second && *first != *second)
    return malformed("", std::string(one) + " is " + std::to_string(*first) + " and " + std::string(other) + " " +
                             std::to_string(*second) + "; they are two names for one number");
  const std::int64_t count = first ? *first : second.value_or(0);
  if (count <= planner::kMaxBlockCount) return count;
  return malformed("", std::string(one) + " is " + std::to_string(count) + "; a cut has at most " +
                           std::to_string(planner::kMaxBlockCount) + " blocks");
}

/// The rows of a block by a member, which counts those of `unit` ranks, or by a constant, which counts those of one;
/// none if neither is set. Errors: Malformed if they differ, or the member is no multiple of `unit`.
Result<std::optional<std::int64_t>> block_rows_of(const TilingValues& values, std::string_view member,
                                                  std::string_view constant, std::int64_t unit) {
  const auto rows = value_of(values, member), of_constant = value_of(values, constant);
  if (!rows) return of_constant;
  if (*rows % unit != 0)
    return malformed(std::string(member), "is " + std::to_string(*rows) + ", no multiple of the " +
                                              std::to_string(unit) + " ranks, whose rows it counts");
  if (of_constant && *of_constant != *rows / unit)
    return malformed(std::string(constant), "is " + std::to_string(*of_constant) + ", but " + std::string(member) +
                                                " makes it " + std::to_string(*rows / unit));
  return std::optional(*rows / unit);
}

std::optional<planner::DType> dtype_of(std::int64_t hccl_code) {
  using enum planner::DType;
  for (const planner::DType dtype : {I8, F16, F32, Bf16})
    if (hccl_type_code(dtype) == hccl_code) return dtype;
  return std::nullopt;
}

/// The kind that the text names. Errors: Malformed if it names none or several.
Result<planner::OpKind> kind_in(std::string_view text) {
  using planner::OpKind;
  std::optional<OpKind> found;
  for (const auto& [kind, spellings] :
       {std::pair{OpKind::AllGatherMatmul, std::array{"AllGatherMatmul", "all_gather_matmul"}},
        {OpKind::MatmulReduceScatter, std::array{"MatmulReduceScatter", "matmul_reduce_scatter"}},
        {OpKind::MatmulAllReduce, std::array{"MatmulAllReduce", "matmul_all_reduce"}}}) {
    const bool is_named = std::ranges::any_of(
        spellings, [&](const char* spelling) { return text.find(spelling) != std::string_view::npos; });
    if (is_named && found) return malformed("", "names two operators; say which one in a comment, and no other");
    if (is_named) found = kind;
  }
  if (found) return *found;
  return malformed("",
                   "holds no plan of mc2's and names no operator; write a comment with AllGatherMatmul, "
                   "MatmulReduceScatter or MatmulAllReduce");
}

} // namespace

std::optional<int> hccl_type_code(planner::DType dtype) noexcept {
  switch (dtype) {
    case planner::DType::I8: return 0;
    case planner::DType::F8E4m3: break;
    case planner::DType::F16: return 3;
    case planner::DType::F32: return 4;
    case planner::DType::Bf16: return 11;
  }
  return std::nullopt;
}

Result<TilingValues> tiling_values(std::string_view text) {
  const auto& [code, comments] = parted(text);
  TilingValues values, commented;
  for (const std::string_view name : kReadMembers) {
    MC2_TRY(read_member(name, code, false, values));
    MC2_TRY(read_member(name, comments, true, commented));
  }
  using Names = std::array<std::string_view, 3>; // of one number; the last may be no name
  for (const Names& names : {Names{"tileNum", "tileCnt"}, Names{"tailNum", "tailCnt"}, Names{"tailM", "kMc2TailRows"},
                             Names{"tileM", "kMc2TileRows", "first_group_m"}})
    if (std::ranges::any_of(names, [&](std::string_view name) { return values.contains(name); }))
      for (const std::string_view name : names) commented.erase(std::string(name));
  values.merge(commented); // what code sets stays
  return values;
}

Result<planner::OpSpec> tiling_operator(std::string_view text, const TilingValues& values) {
  planner::OpSpec op;
  MC2_ASSIGN(op.kind, kind_in(text));
  std::vector<std::string_view> missing;
  const auto required = [&](std::string_view name) {
    const auto value = value_of(values, name);
    if (!value) missing.push_back(name);
    return value.value_or(1);
  };
  const std::int64_t ranks = required("rankDim"), rows = required("rankM");
  op.n = required("rankN");
  op.k = required("rankK");
  const auto dtype = dtype_of(required("dataType"));
  if (!missing.empty())
    return malformed(
        "", "sets no " + list_text(missing) + "; where the struct has none, a comment may, e.g. // rankDim = 8");
  if (!dtype) return malformed("dataType", "is none of HCCL's 0 (int8), 3 (fp16), 4 (fp32) and 11 (bfp16)");
  if (ranks > planner::kMaxWorldSize || rows > planner::kMaxSize)
    return malformed(ranks > planner::kMaxWorldSize ? "rankDim" : "rankM", "is out of range");
  op.dtype = *dtype;
  op.world_size = static_cast<int>(ranks);
  op.m = op.kind == planner::OpKind::AllGatherMatmul ? rows * ranks : rows;
  if (const auto legal = op.validate(); !legal) return malformed(legal.error().field, legal.error().message);
  return op;
}

Result<planner::Cut> tiling_cut(const planner::OpSpec& op, const TilingValues& values, std::int64_t unit) {
  MC2_ASSIGN(const auto tile_count, block_count_of(values, "tileNum", "tileCnt"));
  MC2_ASSIGN(const auto tail_count, block_count_of(values, "tailNum", "tailCnt"));
  const std::int64_t length = planner::traits_of(op.kind).cut_axis_length(op);
  std::int64_t tail_rows = 0;
  std::optional<std::int64_t> tile_rows;
  if (tail_count > 0) {
    MC2_ASSIGN(const auto rows, block_rows_of(values, "tailM", "kMc2TailRows", unit));
    tail_rows = rows.value_or(0);
  }
  if (tile_count > 0) {
    MC2_ASSIGN(tile_rows, block_rows_of(values, "tileM", "kMc2TileRows", unit));
    if (!tile_rows) tile_rows = value_of(values, "first_group_m");
  }
  if (tail_count > 0 && (tail_rows < 1 || tail_rows > length))
    return malformed("tailM", "is missing, or no number of rows that the operator has");
  if (!tile_rows && tile_count > 0) tile_rows = (length - tail_rows * tail_count) / tile_count;
  if (tile_count > 0 && (*tile_rows < 1 || *tile_rows > length))
    return malformed("tileM", "is no number of rows that the operator has");
  planner::Cut cut;
  cut.block_rows.assign(static_cast<std::size_t>(tile_count), tile_rows.value_or(0));
  cut.block_rows.insert(cut.block_rows.end(), static_cast<std::size_t>(tail_count), tail_rows);
  if (const auto fits = planner::validate_cut(op, cut); !fits) return malformed("", fits.error().message);
  return cut;
}

} // namespace mc2::store
