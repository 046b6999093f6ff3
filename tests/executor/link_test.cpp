#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mc2/executor/backend.hpp"

namespace mc2::executor::link_test {
namespace {

using ::testing::HasSubstr;
using Mode = LinkSpec::Mode;

TEST(ParseLink, ReadsEveryLegalForm) {
  EXPECT_EQ(parse_link("shm").value(), LinkSpec{});
  EXPECT_EQ(parse_link("2.5Gbit,20us").value(), (LinkSpec{Mode::Emulated, 2.5e9, 20}));
  EXPECT_EQ(parse_link("100Mbit").value(), (LinkSpec{Mode::Emulated, 1e8, 0}));
  EXPECT_EQ(parse_link("1kbit,0ns").value(), (LinkSpec{Mode::Emulated, 1e3, 0}));
  EXPECT_EQ(parse_link("10000Gbit,1000ms").value(), (LinkSpec{Mode::Emulated, 1e13, 1e6}));
  EXPECT_EQ(parse_link("0.5Gbit,1.5us").value(), (LinkSpec{Mode::Emulated, 5e8, 1.5}));
  EXPECT_EQ(parse_link("tcp:2.5Gbit").value(), (LinkSpec{Mode::Tcp, 2.5e9, 0}));
}

TEST(ParseLink, TextReadsBackAsTheSameLink) {
  for (const char* text : {"shm", "2.5Gbit,20us", "100Mbit", "1kbit", "333.333333Mbit,17ns", "10000Gbit,1000ms",
                           "tcp:2.5Gbit", "tcp:1kbit", "0.1Gbit,0.5ms", "3.3Gbit,1.234us", "12.3456789Gbit"}) {
    const LinkSpec link = parse_link(text).value();
    EXPECT_EQ(parse_link(link.text()).value(), link) << text << " as " << link.text();
  }
  EXPECT_EQ(parse_link("2.5Gbit,20us").value().text(), "2.5Gbit,20us");
  EXPECT_EQ(parse_link("0.1Gbit,1500us").value().text(), "100Mbit,1500us");
  EXPECT_EQ(parse_link("tcp:2500Mbit").value().text(), "tcp:2.5Gbit");
}

TEST(ParseLink, RefusesAnythingElseNamingThePartAndTheLegalForms) {
  for (const char* text :
       {"",          "SHM",        "shm,20us",       "Gbit",
        "2.5",       "2.5gbit",    "2.5 Gbit",       " 2.5Gbit",
        "2.5Gbit ",  "-1Gbit",     "+1Gbit",         "infGbit",
        "nanGbit",   "1e3Gbit",    "0x1Gbit",        "0Gbit",
        "0.5kbit",   "10001Gbit",  "1Gbit,",         "1Gbit,20",
        "1Gbit,20s", "1Gbit,-1us", "1Gbit,1001ms",   "1Gbit,20us,3us",
        "tcp:",      "tcp",        "tcp:1Gbit,20us", "tcp:shm",
        "udp:1Gbit", "1Gbit/s",    ".5Gbit",         "999999999999999999999999999999999999999999999Gbit"}) {
    const auto link = parse_link(text);
    ASSERT_FALSE(link.ok()) << text;
    EXPECT_EQ(link.error().code, ErrorCode::InvalidSpec);
    EXPECT_EQ(link.error().field, "link");
    EXPECT_THAT(link.error().message, HasSubstr("legal forms")) << text;
    EXPECT_EQ(link.error().message.find('\n'), std::string::npos);
  }
  EXPECT_THAT(parse_link("2.5Gbot,20us").error().message, HasSubstr("the rate \"2.5Gbot\""));
  EXPECT_THAT(parse_link("2.5Gbit,20u").error().message, HasSubstr("the latency \"20u\""));
  EXPECT_THAT(parse_link("1e99Gbit").error().message,
              HasSubstr("the rate \"1e99Gbit\" has an exponent; write its digits"));
  EXPECT_THAT(parse_link(std::string(400, '9') + "Gbit").error().message, HasSubstr("outside its legal range"));
}

TEST(ParseVirtualCompute, ReadsAndWritesItsForms) {
  EXPECT_EQ(parse_virtual_compute("90Gflops,10us").value(), (VirtualCompute{90, 10}));
  EXPECT_EQ(parse_virtual_compute("1.5Tflops").value(), (VirtualCompute{1500, 0}));
  for (const char* text : {"90Gflops,10us", "0.001Gflops", "1000000Tflops,1000ms", "33.3Gflops,7ns"}) {
    const VirtualCompute device = parse_virtual_compute(text).value();
    EXPECT_EQ(parse_virtual_compute(device.text()).value(), device) << device.text();
  }
  EXPECT_EQ(parse_virtual_compute("90Gflops,10us").value().text(), "90Gflops,10us");
}

TEST(ParseVirtualCompute, RefusesAnythingElse) {
  for (const char* text :
       {"", "90", "90Mflops", "0Gflops", "-1Gflops", "90Gflops,", "90Gflops,1s", "90Gflops,1us,1us", "2000000Tflops"}) {
    const auto device = parse_virtual_compute(text);
    ASSERT_FALSE(device.ok()) << text;
    EXPECT_EQ(device.error().field, "virtual_compute");
    EXPECT_THAT(device.error().message, HasSubstr("legal form")) << text;
  }
}

TEST(VirtualCompute, BlockTimeIsFixedPlusFlopCountOverRate) {
  // 2 * 100 * 300 * 500 = 30e6 flop at 90 Gflop/s: 333.333 us, plus 10 us.
  EXPECT_DOUBLE_EQ((VirtualCompute{90, 10}).block_us(2.0 * 100 * 300 * 500), 10 + 30e6 / 90e3);
}

TEST(CommunicatorOptions, ValidateNamesTheOption) {
  const auto field_of = [](const CommunicatorOptions& options) { return options.validate().error().field; };
  EXPECT_TRUE(CommunicatorOptions{}.validate().ok());
  CommunicatorOptions options;
  options.world_size = 1;
  EXPECT_EQ(field_of(options), "world_size");
  options = {};
  options.link = {Mode::Emulated, 0, 0};
  EXPECT_EQ(field_of(options), "link");
  options.link = {Mode::Tcp, 1e9, 5};
  EXPECT_EQ(field_of(options), "link");
  options.link = {Mode::SharedMemory, 1e9, 0};
  EXPECT_EQ(field_of(options), "link");
  options = {};
  options.virtual_compute = VirtualCompute{0, 0};
  EXPECT_EQ(field_of(options), "virtual_compute");
  options = {};
  options.deadline = std::chrono::hours{24 * 8};
  EXPECT_EQ(field_of(options), "deadline");
}

} // namespace
} // namespace mc2::executor::link_test
