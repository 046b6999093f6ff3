/// Prints the name, stored value, most rows whose blocks are columns, and work of each operator kind, in the table's
/// order, for kinds_lists_test.py.

#include <iostream>

#include "mc2/planner/op_spec.hpp"

int main() {
  for (const mc2::planner::OpTraits& traits : mc2::planner::op_registry())
    std::cout << traits.name << " " << static_cast<int>(traits.kind) << " " << traits.max_column_cut_m << " "
              << to_string(traits.work) << "\n";
}
