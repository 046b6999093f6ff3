#include "lowering/lowering.hpp"

namespace mc2::executor {

StageList lower_embedding_all_to_all(const planner::OpSpec& op, const planner::Cut& cut) {
  return lower_in_order(op, cut);
}

} // namespace mc2::executor
