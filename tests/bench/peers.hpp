#pragma once

#include <memory>
#include <string>
#include <vector>

#include "context.hpp"
#include "peer_page.hpp"

namespace mc2::cli {

/// `mc2-bench peers`: compares mc2's tuned plans with the best serial and with PyTorch, shape by shape.
struct PeersBench {
  MachineOptions machine;
  std::string shapes_file = "data/gpu_shapes.csv";
  std::string ops; ///< names with commas between; empty for all
  std::optional<int> ranks;
  double budget_s = 20;
  std::optional<double> time_limit_s;
  std::string store_path;
  std::optional<std::string> json_file;
  std::string chart_file; ///< empty: none
  std::string table_file; ///< kept results to draw instead of measuring; empty: none
  std::string torch = "auto";

  PeersBench() { machine.backend = "cuda"; }
  void add_to(CLI::App& app);
  /// Errors: Unsupported without the backend's devices; as parse_shapes; the error of the first shape that failed, e.g.
  /// Mismatch, after all results were printed; Cancelled. Throws SystemError.
  [[nodiscard]] Result<ExitCode> run() const;

 private:
  [[nodiscard]] Result<std::vector<planner::OpSpec>> shapes() const;
  /// Errors: as read_peer_table and ImageFile::open.
  [[nodiscard]] Result<ExitCode> draw_table() const;
  [[nodiscard]] Result<PeerRace> race_one(const planner::OpSpec& op, store::Store& store, TorchSeat& seat) const;
  void race_all(const std::vector<planner::OpSpec>& list, store::Store& store, TorchSeat& seat, PeerRun& run) const;
};

} // namespace mc2::cli
