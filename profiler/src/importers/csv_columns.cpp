#include "csv_columns.hpp"

#include <algorithm>
#include <cstring>

#include "fields.hpp"

namespace mc2::profiler {
namespace {

/// The error text for a heading's word that joins a time's name with another unit than us, e.g. "serial_ms" where the
/// column is "serial" or "serial_us"; empty for any other word.
std::string other_unit_fault(std::string_view name, const std::string& word, const WantedColumn& column) {
  if (!column.is_time) return {};
  for (const std::string_view unit : {"ms", "ns", "s"})
    for (const std::string_view known : column.names)
      if (word == std::string(known).append(unit))
        return "column '" + shown(name) + "' is in " + std::string(unit) + "; legal: us";
  return {};
}

/// What a program for tables puts between columns in place of commas, if the heading has that; else empty.
std::string other_divider_text(std::string_view heading, std::size_t column_count) {
  if (heading.starts_with("sep=")) return "; it is a line for a program for tables: remove it";
  if (column_count != 1) return {};
  for (const auto& [divider, name] : {std::pair{';', "semicolons"}, {'\t', "tabs"}})
    if (heading.find(divider) != std::string_view::npos)
      return std::string("; ") + name + " divide its columns: save the table with commas, and points in numbers";
  return {};
}

} // namespace

bool is_missing(std::string_view cell) noexcept {
  return cell.empty() || cell == "N/A" || cell == "NA" || cell == "null" || cell == "4294967295";
}

template <typename Visit>
bool CsvColumns::visit_cells(std::string_view line, Visit visit) {
  const char* at = line.data();
  const char* const end = at + line.size();
  while (true) {
    const char* from = at;
    if (at != end && *at == '"') {
      do { // a doubled quote ends one quoted part and begins the next
        at = static_cast<const char*>(std::memchr(at + 1, '"', static_cast<std::size_t>(end - at - 1)));
        if (!at) return false;
        ++at;
      } while (at != end && *at == '"');
    }
    const auto* comma =
        at == end ? nullptr : static_cast<const char*>(std::memchr(at, ',', static_cast<std::size_t>(end - at)));
    visit(std::string_view(from, static_cast<std::size_t>((comma ? comma : end) - from)));
    if (!comma) return true;
    at = comma + 1;
  }
}

Result<void> CsvColumns::read_heading(std::string_view line) {
  const auto refused = [](std::string message) { return Error{ErrorCode::Malformed, "", std::move(message)}; };
  slot_of_.clear();
  cells_.assign(wanted_.size(), {});
  has_.assign(wanted_.size(), false);
  heading_ = line.substr(0, 64);
  std::string fault;
  const bool is_closed = visit_cells(line, [&](std::string_view raw) {
    const std::string_view name = bare(raw);
    const std::string word = plain(name.substr(0, name.find('(')));
    slot_of_.push_back(-1);
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      const auto& names = wanted_[i].names;
      if (fault.empty()) fault = other_unit_fault(name, word, wanted_[i]);
      if (std::find(names.begin(), names.end(), word) == names.end()) continue;
      if (has_[i] && fault.empty()) fault = "'" + shown(name) + "' is a column twice, or stands beside its other name";
      if (wanted_[i].is_time && fault.empty()) fault = unit_fault(name, "us");
      has_[i] = true;
      slot_of_.back() = static_cast<int>(i);
    }
  });
  if (!is_closed) return refused("the heading opens a quote that it does not close");
  if (!fault.empty()) return refused(fault);
  for (std::size_t i = 0; i < wanted_.size(); ++i)
    if (wanted_[i].is_required && !has_[i])
      return refused("the heading has no column " + std::string(wanted_[i].shown) +
                     other_divider_text(line, slot_of_.size()));
  return {};
}

bool CsvColumns::is_heading(std::string_view line) const { return !heading_.empty() && line.substr(0, 64) == heading_; }

std::optional<std::string> CsvColumns::read_row(const Line& line) {
  std::size_t count = 0;
  const bool is_closed = visit_cells(line.text, [&](std::string_view cell) {
    if (count < slot_of_.size() && slot_of_[count] >= 0) cells_[static_cast<std::size_t>(slot_of_[count])] = bare(cell);
    ++count;
  });
  if (!is_closed || count != slot_of_.size())
    return "the row has " + std::to_string(count) + " cells where the heading has " + std::to_string(slot_of_.size()) +
           ", or a quote that is not closed";
  // Where a file is truncated inside the last cell, a number may lack digits.
  const bool wants_last_cell = !slot_of_.empty() && slot_of_.back() >= 0;
  if (!line.is_terminated && wants_last_cell) return "the log ends inside this row: it has no line break";
  return std::nullopt;
}

} // namespace mc2::profiler
