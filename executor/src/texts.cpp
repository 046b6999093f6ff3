#include "texts.hpp"

namespace mc2::executor {

std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

} // namespace mc2::executor
