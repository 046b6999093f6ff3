#include <iostream>

#include "mc2/client/client.hpp"
#include "mc2/executor/backend.hpp"
#include "mc2/executor/buffer.hpp"
#include "mc2/executor/communicator.hpp"
#include "mc2/executor/executor.hpp"
#include "mc2/executor/verify.hpp"
#include "mc2/finder/plan_source.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/profiler/drift.hpp"
#include "mc2/profiler/fit.hpp"
#include "mc2/profiler/recalibrate.hpp"
#include "mc2/profiler/statistics.hpp"
#include "mc2/profiler/stopping_rule.hpp"
#include "mc2/profiler/sweep.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/layers.hpp"
#include "mc2/store/store.hpp"

// Calls into each library, so that each must be linked with all that it needs.
int main() {
  const auto plan = mc2::planner::make_plan({}, {}, {});
  const auto stored = mc2::store::Store::open("/nonexistent/store.db", mc2::store::OpenMode::ReadOnly);
  const auto client = mc2::client::Client::open({.url = "nowhere", .token = {}, .ca_file = {}});
  const auto fitted = mc2::profiler::fit_cost_model({});
  const auto backend = mc2::executor::find_backend("host");
  if (plan || stored || client || fitted || !backend) return 1;
  std::cout << plan.error().text() << "\n"
            << stored.error().text() << "\n"
            << client.error().text() << "\n"
            << fitted.error().text() << "\n"
            << backend.value()->availability().reason << "\n";
}
