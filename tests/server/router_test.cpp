#include "router.hpp"

#include <gtest/gtest.h>

namespace mc2::server::router_test {
namespace {

TEST(Router, FindsEveryRouteByItsOwnPattern) {
  for (const Route& route : routes()) {
    std::string path(route.pattern);
    if (const auto at = path.find("{id}"); at != std::string::npos) path.replace(at, 4, "abc123");
    const Match match = find_route(route.method, path);
    ASSERT_NE(match.route, nullptr) << path;
    EXPECT_EQ(match.route, &route) << path;
  }
}

TEST(Router, CapturesWholeSegmentsOnly) {
  EXPECT_EQ(find_route("GET", "/v1/plans/abc123").id, "abc123");
  EXPECT_EQ(find_route("GET", "/v1/plans/abc123/explanation").id, "abc123");
  for (const char* path : {"/v1/plans/", "/v1/plans/a/b", "/v1/plans//explanation", "/v1/plans/a/explanation/", "/v1",
                           "", "//", "v1/plans/a", "/V1/plans/a"})
    EXPECT_EQ(find_route("GET", path).route, nullptr) << path;
}

TEST(Router, NamesTheMethodsThatAPathHas) {
  EXPECT_EQ(find_route("PUT", "/v1/plan").allowed, "GET, HEAD, POST");
  EXPECT_EQ(find_route("POST", "/v1/plans/abc123").allowed, "GET, HEAD, DELETE");
  EXPECT_EQ(find_route("GET", "/nothing").allowed, "");
  EXPECT_EQ(find_route("get", "/livez").route, nullptr) << "methods are case-sensitive";
}

TEST(Router, OnlyWhatTellsNothingOfTheStoreIsOpen) {
  for (const Route& route : routes()) {
    const bool tells_nothing = route.pattern == "/livez" || route.pattern == "/readyz" || route.pattern == "/" ||
                               route.pattern == "/assets/{id}"; // the same files for everybody
    EXPECT_EQ(route.access == Access::Open, tells_nothing) << route.pattern;
    EXPECT_TRUE(route.method != "DELETE" || route.access == Access::Admin) << route.pattern;
    EXPECT_TRUE(!route.needs.upload || route.access >= Access::Write) << route.pattern;
    EXPECT_TRUE(route.method == "POST" || !route.needs.upload) << route.pattern;
  }
}

TEST(Router, APathIsTheSameHoweverItIsWritten) {
  EXPECT_EQ(route_of("POST", "/v1/sample%73?x=1").route, route_of("POST", "/v1/samples").route);
  EXPECT_TRUE(route_of("POST", "/v1/sample%73").route->needs.upload);
  EXPECT_EQ(route_of("POST", "/v1/what%2Dif").route->needs.work, Work::Plan);
  EXPECT_EQ(route_of("GET", "/v1/plans/%61bc").id, "abc");
  EXPECT_EQ(route_of("GET", "/v1/plan%").route, nullptr);
}

TEST(Router, WhatReadsTheStoreOrPlansKeepsNobodyWaiting) {
  for (const Route& route : routes()) {
    const bool is_quick =
        route.access == Access::Open || route.pattern == "/version" || route.pattern == "/openapi.yaml";
    EXPECT_EQ(route.needs.work == Work::Quick, is_quick) << route.pattern;
    const bool is_write = route.method != "GET" && route.access >= Access::Write; // a backup is a GET, for admins only
    EXPECT_EQ(route.needs.work == Work::Write, is_write) << route.pattern;
  }
}

TEST(Router, HeadIsAnsweredAsGet) { EXPECT_NE(find_route("HEAD", "/livez").route, nullptr); }

} // namespace
} // namespace mc2::server::router_test
