#include "first_clients.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "mc2/store/codec.hpp"

namespace mc2::server::first_clients_test {
namespace {

using nlohmann::json;

const json kShort = {{"schema", "mc2.plan/1"}, {"reason", "x"}, {"validation", {{"fused_us", 1}}}};
const json kGrown = {{"schema", "mc2.plan/1"},
                     {"reason", "x"},
                     {"benefit_interval", {{"low", 0}, {"high", 1}}},
                     {"validation", {{"fused_us", 1}, {"measured_at", "now"}, {"spread", {{"speed_range", 1}}}}}};

Response answered(const json& document) {
  return {.body = std::make_shared<const std::string>(document.dump()), .etag = "\"abc-7\""};
}

json as_read(const json& document) { return json::parse(*as_first_clients_read(answered(document)).body); }

json answer_with(const json& plan) {
  return {{"schema", "mc2.answer/1"}, {"plan", plan}, {"digest", store::digest(plan.dump())}, {"epoch", 7}};
}

Request from(const char* user_agent) {
  Request request;
  request.user_agent = user_agent;
  return request;
}

TEST(FirstClients, AreThoseThatNameOnlyTheirLibrary) {
  EXPECT_TRUE(is_first_client(from("cpprestsdk/2.10.18")));
  for (const char* other : {"mc2/0.2.0", "curl/8.5", "", "Mozilla/5.0"}) EXPECT_FALSE(is_first_client(from(other)));
}

TEST(FirstClients, GetPlansWithoutLaterKeysUnderTheirOwnDigest) {
  EXPECT_EQ(as_read(kGrown), kShort);
  EXPECT_EQ(as_read(answer_with(kGrown)), answer_with(kShort));
  const json batch = {
      {"schema", "mc2.batch_answer/1"},
      {"answers", {{{"answer", answer_with(kGrown)}, {"status", 200}}, {{"problem", {}}, {"status", 404}}}}};
  EXPECT_EQ(as_read(batch)["answers"][0]["answer"], answer_with(kShort));
  EXPECT_EQ(as_read(batch)["answers"][1], batch["answers"][1]);
}

TEST(FirstClients, GetAnotherTagForAnotherBody) {
  EXPECT_EQ(as_first_clients_read(answered(kGrown)).etag, "\"abc-7-first\"");
}

TEST(FirstClients, GetEverythingElseAsItIs) {
  for (const char* body : {R"({"schema":"mc2.cost_model/1"})", "[1,2]", "not json", ""}) {
    Response response{.body = std::make_shared<const std::string>(body), .etag = {}};
    EXPECT_EQ(*as_first_clients_read(response).body, body);
  }
  Response not_modified;
  not_modified.status = 304;
  EXPECT_EQ(as_first_clients_read(not_modified).body, nullptr);
}

} // namespace
} // namespace mc2::server::first_clients_test
