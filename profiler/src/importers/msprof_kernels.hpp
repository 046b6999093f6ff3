#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "log_sink.hpp"

namespace mc2::profiler {

/// What is read of a kernel, as op_summary has it; empty where it is not known.
struct MsprofKernel {
  enum Cell : std::size_t {
    kName,
    kType,
    kDuration, ///< in us
    kInputShapes,
    kInputTypes,
    kOutputShapes,
    kDevice,
    kStream,
    kStart,
    kTask,
    kCellCount
  };
  std::int64_t line = 0;
  std::array<std::string, kCellCount> cells;
};

/// Reads kernels that a database has instead of a table, until there is none.
void read_msprof_kernels(const ImportAnswers& answers, LogSink& sink,
                         const std::function<std::optional<MsprofKernel>()>& next);

} // namespace mc2::profiler
