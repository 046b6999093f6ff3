#include "fit/solver.hpp"

#include <ceres/solver.h>

namespace mc2::profiler::fit {

bool solve(ceres::Problem& problem) {
  ceres::Solver::Options options;
  options.linear_solver_type = ceres::DENSE_QR;
  options.logging_type = ceres::SILENT;
  options.minimizer_progress_to_stdout = false;
  options.num_threads = 1;
  options.max_num_iterations = 100;
  options.function_tolerance = 1e-12;
  options.parameter_tolerance = 1e-12;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  return summary.IsSolutionUsable();
}

void solve_roughly(ceres::Problem& problem) {
  ceres::Solver::Options options;
  options.logging_type = ceres::SILENT;
  options.max_num_iterations = 100;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
}

} // namespace mc2::profiler::fit
