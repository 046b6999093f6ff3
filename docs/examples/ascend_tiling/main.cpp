// Prints the tiling of a shape, and checks that its blocks have the shape's rows. This needs no CANN.
//
//   ascend_tiling M N K RANKS

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include "op_host.hpp"

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "ascend_tiling: give M N K RANKS\n");
    return 2;
  }
  Mc2Tiling tiling;
  if (!fill_tiling({std::atoll(argv[1]), std::atoll(argv[2]), std::atoll(argv[3]), std::atoll(argv[4])}, tiling)) {
    std::fprintf(stderr, "ascend_tiling: sizes are 1 to 2^32 - 1\n");
    return 2;
  }
  const std::uint64_t rows =
      std::uint64_t{tiling.tileM} * tiling.tileNum + std::uint64_t{tiling.tailM} * tiling.tailNum;
  std::printf("%u x %u rows, then %u x %u rows, of %u\n", tiling.tileNum, tiling.tileM, tiling.tailNum, tiling.tailM,
              tiling.rankM);
  return rows == tiling.rankM ? 0 : 1;
}
