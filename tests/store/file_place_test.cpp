#include "file_place.hpp"

#include <gtest/gtest.h>

namespace mc2::store::file_place_test {
namespace {

TEST(FilePlace, NetworkFileSystemsAreKnownByTheirMagic) {
  EXPECT_EQ(network_file_system(0x6969), "NFS");
  EXPECT_EQ(network_file_system(0xFF534D42), "CIFS");
  EXPECT_EQ(network_file_system(static_cast<int>(0xFF534D42U)), "CIFS") << "as a 32-bit statfs reports it";
  EXPECT_EQ(network_file_system(0xFE534D42), "SMB");
  EXPECT_EQ(network_file_system(0x01021997), "9p");
}

TEST(FilePlace, LocalFileSystemsAreNotRefused) {
  EXPECT_EQ(network_file_system(0xEF53), "") << "ext4";
  EXPECT_EQ(network_file_system(0x01021994), "") << "tmpfs";
  EXPECT_EQ(network_file_system(0x794C7630), "") << "overlayfs";
  EXPECT_EQ(network_file_system(0x9123683E), "") << "btrfs";
}

TEST(FilePlace, FuseMountsAreJudgedByTheirType) {
  EXPECT_EQ(network_fuse_type("fuse.sshfs"), "fuse.sshfs");
  EXPECT_EQ(network_fuse_type("fuse.fuse-overlayfs"), "");
  EXPECT_EQ(network_fuse_type("fuseblk"), "");
}

} // namespace
} // namespace mc2::store::file_place_test
