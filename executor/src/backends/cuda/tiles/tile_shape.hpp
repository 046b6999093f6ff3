#pragma once

namespace mc2::executor::cuda {

/// What one thread block multiplies at a time, and how it travels: as the kernel holds it in shared memory.
/// Wide tiles need fewer loads; narrow ones end more often, so that there is more to overlap where there are few.
inline constexpr int kTileRows = 128;
inline constexpr int kWideTile = 256; ///< columns
inline constexpr int kNarrowTile = 128;
constexpr int tile_bytes(int columns) { return kTileRows * columns * 2; } ///< bf16, f16
/// A tile's boxes, as CUtensorMap counts them, in elements: 128 bytes wide, which is what its swizzle takes.
inline constexpr int kBoxColumns = 64;
/// Of a box: what is sent or stored at a time while another tile is multiplied, and what of A is loaded of a tile that
/// reaches beyond its last row.
inline constexpr int kBitRows = 32;
inline constexpr int kDepth = 64; ///< of A and B that is loaded at a time

/// A matmul kernel of ours that takes a Run, ready to be enqueued on the device for which it was chosen.
template <typename Run>
struct MatmulKernel {
  void (*function)(Run) = nullptr;
  int shared_bytes = 0;
};

} // namespace mc2::executor::cuda
