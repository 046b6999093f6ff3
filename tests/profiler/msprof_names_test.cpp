#include "importers/msprof_names.hpp"

#include <gtest/gtest.h>

namespace mc2::profiler::msprof_names_test {
namespace {

MsprofWork work_of(std::string_view type) { return find_msprof_operator(type, "x").work; }

TEST(MsprofNames, AMatmulIsAWholeWordWithAVersion) {
  for (const char* type : {"MatMul", "Matmul", "MatMulV2", "MatMulV3", "Gemm", "GemmV2", "gemm_1", "aclnnMatmul"})
    EXPECT_EQ(work_of(type), MsprofWork::Matmul) << type;
  EXPECT_EQ(find_msprof_operator("", "aclnnMatmul_MatMulCommon_MatMulV2").work, MsprofWork::Matmul);
  EXPECT_EQ(find_msprof_operator("", "MatMulV3_1").work, MsprofWork::Matmul);
  for (const char* type : {"GemmaRmsNorm", "aclnnGemmaRmsNorm", "GemmaRmsNormV2"})
    EXPECT_EQ(work_of(type), MsprofWork::Other) << type;
}

TEST(MsprofNames, BatchedGroupedAndQuantisedMatmulsAreNoneWhateverTheyAreFusedWith) {
  for (const char* type :
       {"BatchMatMulV2", "GroupedMatmul", "QuantBatchMatmulV3", "WeightQuantBatchMatmulV2", "GroupedMatMulAllReduce",
        "GroupedMatMulAlltoAllv", "AlltoAllvGroupedMatMul", "AlltoAllAllGatherBatchMatMul", "QuantMatmulAllReduce",
        "BatchMatMulReduceScatterAlltoAll", "aclnnGroupedMatMulAllReduce"})
    EXPECT_EQ(work_of(type), MsprofWork::OtherMatmul) << type;
}

TEST(MsprofNames, OneThatDoesOtherWorkIsNone) {
  for (const char* type : {"MatmulAllReduceAddRmsNorm", "MatmulAllReduceAddRmsNormV2", "AllGatherMatmulSwiglu",
                           "MatmulAllReduceAllGather", "MatmulAlltoAllv", "MatMulAddRelu"})
    EXPECT_EQ(work_of(type), MsprofWork::MatmulAndMore) << type;
  EXPECT_EQ(find_msprof_operator("", "aclnnMatmulAllReduceAddRmsNorm_1").work, MsprofWork::MatmulAndMore);
}

TEST(MsprofNames, AFusedOperatorHasAVersionAtMost) {
  for (const char* type : {"MatmulAllReduce", "MatmulAllReduceV2", "AllGatherMatmulV2", "MatmulReduceScatter",
                           "AlltoAllMatmul", "MatmulAlltoAll", "WeightQuantMatmulAllReduce", "MatmulAllReduceCustom"})
    EXPECT_EQ(work_of(type), MsprofWork::FusedMatmul) << type;
  const auto called = find_msprof_operator("", "aclnnMatmulAllReduce_MatmulAllReduce_MatmulAllReduce");
  EXPECT_EQ(called.work, MsprofWork::FusedMatmul);
  EXPECT_EQ(called.first_lane, planner::Lane::Compute);
  const auto of_core = find_msprof_operator("", "aclnnMatmulAllReduce_MatmulAllReduceAiCore_MatmulAllReduce");
  EXPECT_EQ(of_core.work, MsprofWork::FusedMatmul);
  EXPECT_EQ(find_msprof_operator("AllGatherMatmul", "x").first_lane, planner::Lane::Communication);
  EXPECT_EQ(work_of("MatmulAllReduceAicpu"), MsprofWork::KernelOfCollective);
}

} // namespace
} // namespace mc2::profiler::msprof_names_test
