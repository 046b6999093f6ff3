#include "pages/sweep_page.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "mc2/planner/text.hpp"
#include "mc2/render/text.hpp"
#include "pages/text.hpp"

namespace mc2::cli {
namespace {

constexpr std::size_t kCellColumns = 8; ///< one more for marks
constexpr std::size_t kReasonLines = 3; ///< of each reason

/// The most lines of tables, so that tables and the notes below them fit on a screen of 40 lines.
/// @param has_experts  there is a note about them, too
std::size_t most_lines(std::size_t reason_count, bool has_experts) {
  constexpr std::size_t kWithoutReasons = 38, kLeast = 8;
  const std::size_t noted = kReasonLines * std::max<std::size_t>(reason_count + (has_experts ? 1 : 0), 2);
  return kWithoutReasons - std::min(noted, kWithoutReasons - kLeast);
}

using render::padded;

std::string right(const std::string& text, std::size_t columns) {
  return std::string(columns - std::min(columns, text.size()), ' ') + text;
}

std::string cell_text(const GridCell& cell) {
  using enum GridCell::Basis;
  const std::string mark = cell.basis == Measured ? "=" : cell.basis == Extrapolated ? "~" : "";
  switch (cell.status) {
    case GridCell::Status::Cut: return mark + percent_text(cell.benefit);
    case GridCell::Status::OneBlock: return "*" + mark + percent_text(cell.benefit);
    case GridCell::Status::Serial: return mark + "whole";
    case GridCell::Status::Refused: break;
  }
  return "-";
}

/// The lines of one model and kind, as indices into PlanGrid::divided_layers().
struct Section {
  const LayerShape* layer; ///< the first layer
  planner::OpKind kind;
  std::vector<std::size_t> lines;
};

std::vector<Section> sections_of(const std::vector<DividedLayer>& divided) {
  std::vector<Section> sections;
  std::map<std::pair<std::string, planner::OpKind>, std::size_t> places;
  for (std::size_t i = 0; i < divided.size(); ++i) {
    const auto [place, is_new] = places.try_emplace({divided[i].layer->model, divided[i].kind}, sections.size());
    if (is_new) sections.push_back({divided[i].layer, divided[i].kind, {}});
    sections[place->second].lines.push_back(i);
  }
  return sections;
}

class Page {
 public:
  Page(const PlanGrid& grid, const PlannedGrid& planned, int width)
      : grid_(grid),
        planned_(planned),
        divided_(grid.divided_layers()),
        width_(width),
        cell_columns_(kCellColumns + (marks_text().empty() ? 0 : 1)),
        most_lines_(most_lines(planned.refusals.size() + (marks_text().empty() ? 0 : 1), has_experts())) {
    std::size_t longest = 0;
    for (const DividedLayer& each : divided_) longest = std::max(longest, each.layer->layer.size());
    name_columns_ = std::min<std::size_t>(longest, 24);
    const std::size_t columns = static_cast<std::size_t>(width), label_columns = label("", "").size();
    const std::size_t room = columns > label_columns ? (columns - label_columns) / cell_columns_ : 0;
    shown_m_ = std::min(grid.all_m.size(), std::max<std::size_t>(room, 1));
  }

  std::string text() {
    for (const Section& section : sections_of(divided_)) add(section);
    return text_ + "\n" + notes();
  }

 private:
  [[nodiscard]] std::string label(const std::string& layer, const std::string& ranks) const {
    return "  " + padded(layer.substr(0, name_columns_), static_cast<int>(name_columns_)) + right(ranks, 6);
  }

  void add(const Section& section) {
    if (line_count_ + 3 > most_lines_) { // room for a heading and one line at least
      left_out_ += section.lines.size();
      return;
    }
    text_ += text_.empty() ? "" : "\n";
    text_ += section.layer->model + ", " + std::string(to_string(section.kind)) + ", " +
             std::string(to_string(section.layer->dtype)) + "\n" + label("", "ranks");
    for (std::size_t i = 0; i < shown_m_; ++i)
      text_ += right((i == 0 ? "m=" : "") + std::to_string(grid_.all_m[i]), cell_columns_);
    text_ += "\n";
    line_count_ += 3;
    for (const std::size_t line : section.lines) add_line(line);
  }

  void add_line(std::size_t line) {
    if (++line_count_ > most_lines_) {
      ++left_out_;
      return;
    }
    text_ += label(divided_[line].layer->layer, std::to_string(divided_[line].ranks));
    for (std::size_t i = 0; i < shown_m_; ++i)
      text_ += right(cell_text(planned_.cells[line * grid_.all_m.size() + i]), cell_columns_);
    text_ += "\n";
  }

  [[nodiscard]] bool has_experts() const {
    return std::ranges::any_of(
        divided_, [](const DividedLayer& each) { return !planner::divides_an_axis(each.layer->parallelism); });
  }
  [[nodiscard]] bool has(GridCell::Status status) const {
    return std::ranges::find(planned_.cells, status, &GridCell::status) != planned_.cells.end();
  }

  [[nodiscard]] bool has(GridCell::Basis basis) const {
    return std::ranges::find(planned_.cells, basis, &GridCell::basis) != planned_.cells.end();
  }

  /// What the marks before a percentage mean; empty without marks.
  [[nodiscard]] std::string marks_text() const {
    std::vector<std::string> marks;
    if (has(GridCell::Basis::Measured)) marks.emplace_back("=: measured in a race, the others are predicted");
    if (has(GridCell::Basis::Extrapolated)) marks.emplace_back("~: EXTRAPOLATED, blocks lie outside what was measured");
    return list_text(marks, "; ");
  }

  void note(const std::string& start, const std::string& what) {
    notes_ += render::hanging(start, what, width_, kReasonLines);
  }

  std::string notes() {
    using enum GridCell::Status;
    note("  ", std::string("percent: time saved by cutting, as a share of serial; ") +
                   (has(OneBlock) ? "*: saved by one uncut block, which overlaps by itself; " : "") +
                   "whole: serial is best" + (has(Refused) ? "; -: no plan" : ""));
    if (const std::string marks = marks_text(); !marks.empty()) note("  ", marks);
    if (has_experts()) note("  ", "m of experts: rows that reach a rank, where mc2 model counts tokens");
    for (const auto& [code, alike] : planned_.refusals)
      note("  no plan for " + std::to_string(alike.count) + ": ", (alike.count > 1 ? "e.g. " : "") + alike.example);
    const std::size_t left_out_m = grid_.all_m.size() - shown_m_;
    std::string rest = left_out_ > 0 ? std::to_string(left_out_) + " lines" : "";
    if (left_out_m > 0) rest += (rest.empty() ? "" : ", ") + std::to_string(left_out_m) + " values of m";
    note("  ", (rest.empty() ? "" : "not shown: " + rest + "; ") + "--csv or --json: every plan, its blocks and times");
    return notes_;
  }

  const PlanGrid& grid_;
  const PlannedGrid& planned_;
  std::vector<DividedLayer> divided_;
  int width_;
  std::size_t cell_columns_, most_lines_, name_columns_ = 0, shown_m_ = 0, line_count_ = 0, left_out_ = 0;
  std::string text_, notes_;
};

} // namespace

std::string sweep_page(const PlanGrid& grid, const PlannedGrid& planned, int width) {
  return Page(grid, planned, width).text();
}

} // namespace mc2::cli
