#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "log_sink.hpp"

namespace mc2::profiler {

/// The cells of a kernel that are read, as texts of the form that op_summary has; empty where unknown.
struct MsprofKernel {
  enum Cell : std::size_t {
    kName,
    kType,
    kDuration, ///< in us
    kInputShapes,
    kInputTypes,
    kOutputShapes,
    kInputFormats,
    kOutputFormats,
    kDevice,
    kStream,
    kStart,
    kTask,
    kCellCount
  };
  std::int64_t line = 0;
  std::array<std::string, kCellCount> cells;
};

/// Reads kernels of a database instead of a table. @param next  gives one kernel after the other, then nothing
void read_msprof_kernels(const ImportAnswers& answers, LogSink& sink,
                         const std::function<std::optional<MsprofKernel>()>& next);

} // namespace mc2::profiler
