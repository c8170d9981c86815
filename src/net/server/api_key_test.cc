#include "net/server/api_key.h"

#include <gtest/gtest.h>

#include <vector>

namespace saccade::net {
namespace {

HttpRequest with(std::vector<std::pair<std::string, std::string>> headers) {
  HttpRequest request;
  request.headers = std::move(headers);
  return request;
}

TEST(ApiKey, IsWhatEitherHeaderBrings) {
  const std::vector<std::string> keys = {"one", "two"};
  const HttpRequest good[] = {
      with({{"authorization", "Bearer one"}}),
      with({{"authorization", "bearer   two"}}),
      with({{"authorization", "two"}}),
      with({{"x-api-key", "one"}}),
  };
  for (const HttpRequest& request : good) EXPECT_TRUE(authorised(request, keys));
  const HttpRequest bad[] = {
      with({}),
      with({{"authorization", ""}}),
      with({{"authorization", "Bearer"}}),
      with({{"authorization", "Bearer on"}}),
      with({{"authorization", "Bearer onee"}}),
      with({{"x-api-key", "three"}}),
      with({{"authorization", "Bearer three"}, {"x-api-key", "one"}}),
  };
  for (const HttpRequest& request : bad) EXPECT_FALSE(authorised(request, keys));
  EXPECT_TRUE(authorised(with({}), {}));
}

}  // namespace
}  // namespace saccade::net
