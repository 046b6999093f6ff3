#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "mc2/executor/backend.hpp"
#include "mc2/planner/cutting.hpp"

namespace mc2::executor::backend_registry_test {
namespace {

// Two tables name every backend and must agree: backend_registry() in executor/src/backends/backend_registry.cpp, and
// default_alignments() in planner/src/cutting.cpp, which the service reads without linking a backend.
TEST(BackendRegistry, HasAnAlignmentInThePlannerForEachBackend) {
  std::vector<std::string_view> registered, aligned;
  for (const Backend* backend : backend_registry()) registered.push_back(backend->name());
  for (const planner::BackendAlignment& entry : planner::default_alignments()) aligned.push_back(entry.backend);
  EXPECT_THAT(aligned, ::testing::UnorderedElementsAreArray(registered));
}

} // namespace
} // namespace mc2::executor::backend_registry_test
