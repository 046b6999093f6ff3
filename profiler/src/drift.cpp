#include "mc2/profiler/drift.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <set>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/profiler/statistics.hpp"

namespace mc2::profiler {
namespace {

constexpr int kMaxIterations = 60;
constexpr double kConverged = 1e-6; // of a log factor

struct Cell {
  std::size_t row;
  std::size_t round;
  double log_time;
};

/// The two-way table of the rounds that have enough rows, densely indexed.
struct Table {
  std::vector<Cell> cells;
  std::vector<std::vector<std::size_t>> cells_of_row;
  std::vector<std::vector<std::size_t>> cells_of_round;
  std::vector<int> rounds;
};

std::set<int> rounds_with_enough_rows(std::span<const DriftCell> cells) {
  std::map<int, std::set<int>> rows_of_round;
  for (const DriftCell& cell : cells) rows_of_round[cell.round].insert(cell.row);
  std::set<int> enough;
  for (const auto& [round, rows] : rows_of_round) {
    if (static_cast<int>(rows.size()) >= kMinDriftRows) enough.insert(round);
  }
  return enough;
}

Table make_table(std::span<const DriftCell> cells) {
  Table table;
  const std::set<int> rounds = rounds_with_enough_rows(cells);
  table.rounds.assign(rounds.begin(), rounds.end());
  table.cells_of_round.resize(rounds.size());
  std::map<int, std::size_t> index_of_row;
  for (const DriftCell& cell : cells) {
    const auto round = std::lower_bound(table.rounds.begin(), table.rounds.end(), cell.round);
    if (round == table.rounds.end() || *round != cell.round) continue;
    MC2_CHECK(cell.time_us > 0, "a drift cell needs a positive time");
    const auto round_index = static_cast<std::size_t>(round - table.rounds.begin());
    const std::size_t row_index = index_of_row.try_emplace(cell.row, index_of_row.size()).first->second;
    if (row_index == table.cells_of_row.size()) table.cells_of_row.emplace_back();
    table.cells_of_row[row_index].push_back(table.cells.size());
    table.cells_of_round[round_index].push_back(table.cells.size());
    table.cells.push_back({row_index, round_index, std::log(cell.time_us)});
  }
  return table;
}

/// Sets each effect of one direction (rows or rounds) to the median of its cells' log times minus the other direction's
/// effects. Returns the largest change.
template <typename OtherEffect>
double polish(const Table& table, const std::vector<std::vector<std::size_t>>& cells_of, OtherEffect other_effect,
              std::vector<double>& effects) {
  double change = 0;
  std::vector<double> rest;
  for (std::size_t i = 0; i < effects.size(); ++i) {
    rest.clear();
    for (const std::size_t cell : cells_of[i]) {
      rest.push_back(table.cells[cell].log_time - other_effect(table.cells[cell]));
    }
    const double effect = quantile(rest, 0.5);
    change = std::max(change, std::abs(effect - effects[i]));
    effects[i] = effect;
  }
  return change;
}

std::vector<double> round_effects(const Table& table) {
  std::vector<double> rows(table.cells_of_row.size(), 0);
  std::vector<double> rounds(table.rounds.size(), 0);
  for (int i = 0; i < kMaxIterations; ++i) {
    const double row_change = polish(
        table, table.cells_of_row, [&](const Cell& cell) { return rounds[cell.round]; }, rows);
    const double round_change = polish(
        table, table.cells_of_round, [&](const Cell& cell) { return rows[cell.row]; }, rounds);
    if (std::max(row_change, round_change) < kConverged) break;
  }
  return rounds;
}

double nearest_factor(const std::map<int, double>& estimated, int round) {
  const auto above = estimated.lower_bound(round);
  if (above == estimated.end()) return std::prev(above)->second;
  if (above == estimated.begin()) return above->second;
  const auto below = std::prev(above);
  return round - below->first <= above->first - round ? below->second : above->second;
}

} // namespace

double Drift::factor(int round) const {
  const auto found = rounds.find(round);
  return found == rounds.end() ? 1.0 : found->second.factor;
}

bool Drift::is_estimated(int round) const {
  const auto found = rounds.find(round);
  return found != rounds.end() && found->second.is_estimated;
}

double Drift::range() const {
  double low = 0;
  double high = 0;
  for (const auto& [number, round] : rounds) {
    if (!round.is_estimated) continue;
    low = low == 0 ? round.factor : std::min(low, round.factor);
    high = std::max(high, round.factor);
  }
  return low > 0 ? high / low : 1.0;
}

Drift estimate_drift(std::span<const DriftCell> cells) {
  Drift drift;
  const Table table = make_table(cells);
  if (table.rounds.empty()) {
    for (const DriftCell& cell : cells) drift.rounds[cell.round];
    return drift;
  }
  const std::vector<double> effects = round_effects(table);
  const double level = quantile(effects, 0.5);
  std::map<int, double> estimated;
  for (std::size_t i = 0; i < effects.size(); ++i) estimated[table.rounds[i]] = std::exp(effects[i] - level);
  for (const DriftCell& cell : cells) {
    drift.rounds[cell.round] = {nearest_factor(estimated, cell.round), estimated.contains(cell.round)};
  }
  return drift;
}

} // namespace mc2::profiler
