#include "torch_peer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace mc2::cli::torch_peer_test {
namespace {

using testing::HasSubstr;

const TorchPatience kQuick{.start = std::chrono::milliseconds(20'000), .answer = std::chrono::milliseconds(20'000)};

/// Replaces the interpreter, so that a script of the test runs in place of torch_peer.py.
class TorchPeerTest : public testing::Test {
 protected:
  TorchPeerTest() { std::signal(SIGPIPE, SIG_IGN); } // as the program does

  /// An interpreter that prints the hello line and then runs the script.
  std::string interpreter(const std::string& script, const std::string& hello = R"({"torch": "1.2", "cuda": "13"})") {
    const auto path = directory_.path() / "python";
    std::ofstream(path) << "#!/bin/sh\necho '" << hello << "'\n" << script << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path.string();
  }

  static Error open_error(TorchPeer& peer) { return peer.open_case(kOp, "/nowhere").error(); }

  inline static const planner::OpSpec kOp{planner::OpKind::AllGatherMatmul, 64, 32, 16, planner::DType::Bf16, 4};
  PrivateDirectory directory_ = PrivateDirectory::with_room_for(1 << 16).value();
};

TEST(TorchPeerProgram, IsTheFileToTheByte) {
  std::ifstream stream(MC2_SOURCE_DIR "/tests/bench/torch_peer.py");
  std::stringstream content;
  content << stream.rdbuf();
  EXPECT_EQ(torch_peer_program(), content.str());
}

TEST_F(TorchPeerTest, ReadsVersionsFormsAndTimes) {
  auto peer = TorchPeer::start(interpreter(R"sh(
read request; echo "$request" >&2
echo '{"forms": {"fused_eager": {"error_ratio": 0.5}, "fused_graph": {"failure": "none"}}}'
read request; echo '{"times_us": {"fused_eager": [3, 1.5]}}'
read request; echo '{}'; echo "$request" >&2; read end)sh"),
                               4, kQuick);
  ASSERT_TRUE(peer.ok()) << peer.error().text();
  EXPECT_EQ(peer.value()->software().at("torch"), "1.2");
  const auto forms = peer.value()->open_case(kOp, "/nowhere");
  ASSERT_TRUE(forms.ok()) << forms.error().text();
  ASSERT_EQ(forms.value().size(), 2u);
  EXPECT_EQ(forms.value()[0].name, "fused_eager");
  EXPECT_EQ(forms.value()[0].error_ratio, 0.5);
  EXPECT_EQ(forms.value()[1].failure, "none");
  const auto times = peer.value()->time_forms(2);
  ASSERT_TRUE(times.ok()) << times.error().text();
  EXPECT_THAT(times.value().at("fused_eager"), testing::ElementsAre(3, 1.5));
  EXPECT_TRUE(peer.value()->close_case().ok());
}

TEST_F(TorchPeerTest, SaysWhatTheProgramWroteBeforeItDied) {
  auto peer = TorchPeer::start(interpreter("read request; echo 'CUDA error: unspecified' >&2; exit 1"), 4, kQuick);
  ASSERT_TRUE(peer.ok());
  const Error error = open_error(*peer.value());
  EXPECT_EQ(error.code, ErrorCode::NotFound);
  EXPECT_THAT(error.text(), HasSubstr("CUDA error: unspecified"));
}

TEST_F(TorchPeerTest, LosesPatienceWithOneThatHangs) {
  const TorchPatience little{.start = std::chrono::milliseconds(20'000), .answer = std::chrono::milliseconds(100)};
  auto peer = TorchPeer::start(interpreter("sleep 1000"), 4, little);
  ASSERT_TRUE(peer.ok());
  EXPECT_EQ(open_error(*peer.value()).code, ErrorCode::OutOfRange);
}

TEST_F(TorchPeerTest, RefusesAnswersThatAreNone) {
  for (const char* answer : {"Welcome", "[]", "{\"error\": 3}", "{}", "{\"forms\": 1}", "{\"forms\": {\"a\": 1}}",
                             "{\"forms\": {\"a\": {}}}", "{\"forms\": {\"a\": {\"failure\": \"\"}}}"}) {
    auto peer = TorchPeer::start(interpreter(std::string("read request; echo '") + answer + "'; read end"), 4, kQuick);
    ASSERT_TRUE(peer.ok());
    EXPECT_EQ(open_error(*peer.value()).code, ErrorCode::Malformed) << answer;
  }
  for (const char* times : {"[1]", "[1, 0]", "[1, -1]", "[1, \"2\"]", "[1, 1e999]", "3"}) {
    auto peer = TorchPeer::start(
        interpreter(std::string("read request; echo '{\"times_us\": {\"a\": ") + times + "}}'; read end"), 4, kQuick);
    ASSERT_TRUE(peer.ok());
    EXPECT_EQ(peer.value()->time_forms(2).error().code, ErrorCode::Malformed) << times;
  }
}

TEST_F(TorchPeerTest, PassesOnWhyItCannotStart) {
  const auto lacking = TorchPeer::start(interpreter("", R"({"error": "no module torch"})"), 4, kQuick);
  ASSERT_FALSE(lacking.ok());
  EXPECT_EQ(lacking.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(lacking.error().text(), HasSubstr("no module torch"));
  EXPECT_EQ(TorchPeer::start(interpreter("", "{}"), 4, kQuick).error().code, ErrorCode::Malformed);
  EXPECT_EQ(TorchPeer::start("/no/such/python", 4, kQuick).error().code, ErrorCode::NotFound);
}

TEST(OperandFiles, HoldEveryMatrixAndDisappear) {
  std::vector<std::byte> a(6, std::byte{1}), b(4, std::byte{2}), c(2, std::byte{3});
  const std::vector<executor::RankBuffers> ranks(2, {.a = a, .b = b, .c = c});
  EXPECT_EQ(operand_bytes(ranks), 24u); // 2 * (6 + 4 + 2)
  std::filesystem::path path;
  {
    const auto directory = PrivateDirectory::with_room_for(operand_bytes(ranks)).value();
    path = directory.path();
    EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms::owner_all);
    write_operands(ranks, path);
    EXPECT_EQ(read_file(path / "a.1").value(), std::string(6, '\1'));
    EXPECT_EQ(read_file(path / "b.0").value(), std::string(4, '\2'));
    EXPECT_EQ(read_file(path / "c.1").value(), std::string(2, '\3'));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(OperandFiles, RefuseMoreThanThereIsRoomFor) {
  const auto directory = PrivateDirectory::with_room_for(std::uintmax_t{1} << 60);
  ASSERT_FALSE(directory.ok());
  EXPECT_EQ(directory.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(directory.error().message, HasSubstr("/dev/shm has "));
}

} // namespace
} // namespace mc2::cli::torch_peer_test
