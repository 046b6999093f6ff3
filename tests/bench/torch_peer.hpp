#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "child_process.hpp"
#include "mc2/planner/op_spec.hpp"
#include "operand_files.hpp"

namespace mc2::cli {

/// The text of torch_peer.py. Its docstring defines the requests and answers between the two programs.
[[nodiscard]] std::string_view torch_peer_program() noexcept;

/// One way in which PyTorch computes an operator: fused or unfused, eager or as a CUDA graph.
struct TorchForm {
  std::string name;       ///< e.g. "fused_graph"
  std::string failure;    ///< why it does not take part; empty when it does
  double error_ratio = 0; ///< largest difference from mc2's result / allowed difference
};

/// Time limits of the program. A worker needs about ten seconds to load PyTorch and to connect the GPUs.
struct TorchPatience {
  std::chrono::milliseconds start{120'000};
  std::chrono::milliseconds answer{60'000};
};

/// PyTorch on the same GPUs, in processes of its own that live as long as *this. After any error the processes are gone
/// and the object must not be used again. The error contains the last lines that they wrote.
class TorchPeer {
 public:
  /// @param python  an interpreter that has PyTorch
  /// Errors: NotFound (no such program, or it ended), OutOfRange (too slow), Malformed (no legal answer), Unsupported
  /// (with the program's own reason), Cancelled. Throws SystemError.
  [[nodiscard]] static Result<std::unique_ptr<TorchPeer>> start(const std::string& python, int rank_count,
                                                                const TorchPatience& patience = {});

  /// Versions of PyTorch and its libraries, by name.
  [[nodiscard]] const std::map<std::string, std::string>& software() const noexcept { return software_; }
  /// Loads the operands that write_operands() wrote to `directory`, prepares every form and compares its result with C.
  [[nodiscard]] Result<std::vector<TorchForm>> open_case(const planner::OpSpec& op,
                                                         const std::filesystem::path& directory);
  /// Times of each form that takes part, in us, of the slowest rank. The forms take turns after one untimed turn.
  [[nodiscard]] Result<std::map<std::string, std::vector<double>>> time_forms(int repetition_count);
  [[nodiscard]] Result<void> close_case();

 private:
  TorchPeer(PrivateDirectory program_directory, const TorchPatience& patience)
      : program_directory_(std::move(program_directory)), patience_(patience) {}
  [[nodiscard]] Error with_last_words(const Error& error) const;

  PrivateDirectory program_directory_;
  TorchPatience patience_;
  std::unique_ptr<ChildProcess> child_;
  std::map<std::string, std::string> software_;
};

} // namespace mc2::cli
