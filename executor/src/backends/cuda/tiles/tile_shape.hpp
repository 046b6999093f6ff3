#pragma once

namespace mc2::executor::cuda {

/// The shape of a tile, which is what one thread block multiplies at a time. A tile travels in the layout that it has
/// in shared memory.
/// Wide tiles need fewer loads. Narrow tiles end more often, which leaves more to overlap if there are few tiles.
inline constexpr int kTileRows = 128;
inline constexpr int kWideTile = 256; ///< columns
inline constexpr int kNarrowTile = 128;
constexpr int tile_bytes(int columns) { return kTileRows * columns * 2; } ///< for bf16 and f16
/// Columns of a box, CUtensorMap's unit of copying: 128 bytes, which its swizzle takes.
inline constexpr int kBoxColumns = 64;
/// Rows of a bit, a part of a box. Tiles are sent and stored in bits while another tile is multiplied, and A is loaded
/// in bits for a tile that reaches beyond A's last row.
inline constexpr int kBitRows = 32;
inline constexpr int kDepth = 64; ///< length along k that is loaded of A and B at a time

/// A matmul kernel of our own that takes a Run, ready to be enqueued on the device for which it was made.
template <typename Run>
struct MatmulKernel {
  void (*function)(Run) = nullptr;
  int shared_bytes = 0;
};

} // namespace mc2::executor::cuda
