#include "serve/handlers/path_hint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace saccade::serve {
namespace {

TEST(PathHint, SaysWhatIsThere) {
  constexpr std::array<std::string_view, 5> kPaths = {"/v1/chat/completions", "/v1/completions",
                                                      "/v1/models", "/load", "/v1/rerank"};
  const auto exists = [&](std::string_view path) {
    return std::ranges::find(kPaths, path) != kPaths.end();
  };
  for (const auto& [asked, meant] : {
           std::pair{"/chat/completions", "/v1/chat/completions"},
           {"/v1/v1/chat/completions", "/v1/chat/completions"},
           {"/v1/chat/completions/", "/v1/chat/completions"},
           {"/v1/chat/completion", "/v1/chat/completions"},
           {"/completion", "/v1/completions"},
           {"/models", "/v1/models"},
           {"//v1/chat/completions", "/v1/chat/completions"},
           {"/v1//models", "/v1/models"},
           {"/V1/Chat/Completions", "/v1/chat/completions"},
           {"/api/chat", "/v1/chat/completions"},
           {"/slots", "/load"},
           {"/props", ""},  // nothing of it is served here
           {"/elsewhere", ""},
           {"/", ""},
           {"", ""},
           {"/v1", ""},
       })
    EXPECT_EQ(path_meant(asked, exists), meant) << asked;
}

}  // namespace
}  // namespace saccade::serve
