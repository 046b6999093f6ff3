/// Prints the table of operator kinds for kinds_lists_test.py: name, stored value and work of each, in its order.

#include <iostream>

#include "mc2/planner/op_spec.hpp"

int main() {
  for (const mc2::planner::OpTraits& traits : mc2::planner::op_registry())
    std::cout << traits.name << " " << static_cast<int>(traits.kind) << " " << to_string(traits.work) << "\n";
}
