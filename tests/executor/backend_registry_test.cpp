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

TEST(BackendRegistry, HasTheCudaBackendEverywhereWhichSaysWhatIsMissing) {
  const Backend& cuda = *find_backend("cuda").value();
  const auto found = cuda.availability();
  EXPECT_FALSE(found.reason.empty());
  if (found.is_available) return;
  const planner::OpSpec op{.kind = planner::OpKind::MatmulAllReduce,
                           .m = 64,
                           .n = 64,
                           .k = 64,
                           .dtype = planner::DType::Bf16,
                           .world_size = 2};
  EXPECT_EQ(cuda.supports(op).error().code, ErrorCode::Unsupported);
  EXPECT_EQ(cuda.open({}).error().code, ErrorCode::Unsupported);
}

} // namespace
} // namespace mc2::executor::backend_registry_test
