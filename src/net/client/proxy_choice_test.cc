#include "net/client/proxy_choice.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace saccade::net {
namespace {

TEST(ProxyChoice, NamesThatAreReachedWithoutOne) {
  const auto goes_through = [](const std::string& none, const std::string& host, int port = 443) {
    const ProxyChoice choice{"http://p:1", "http://p:2", none};
    return choice.proxy_of("https", host, static_cast<std::uint16_t>(port)) == "http://p:2";
  };
  EXPECT_TRUE(goes_through("", "example.org"));
  for (const char* none : {"example.org", ".example.org", "*.example.org", "a, EXAMPLE.org ,b",
                           "b example.org", "example.org:443", "*"}) {
    EXPECT_FALSE(goes_through(none, "example.org")) << none;
    EXPECT_FALSE(goes_through(none, "Sub.Example.ORG.")) << none;
  }
  EXPECT_TRUE(goes_through("example.org", "notexample.org"));
  EXPECT_TRUE(goes_through("sub.example.org", "example.org"));
  EXPECT_TRUE(goes_through("example.org:80", "example.org"));
  EXPECT_TRUE(goes_through(" , ,.", "example.org"));
  EXPECT_FALSE(goes_through("10.0.0.0/8", "10.200.3.4"));
  EXPECT_TRUE(goes_through("10.0.0.0/8", "11.0.0.1"));
  EXPECT_FALSE(goes_through("172.16.0.0/12", "172.31.255.1"));
  EXPECT_TRUE(goes_through("172.16.0.0/12", "172.32.0.1"));
  EXPECT_TRUE(goes_through("10.0.0.0/33", "10.0.0.1"));
  EXPECT_TRUE(goes_through("10.0.0.0/x", "10.0.0.1"));
  EXPECT_FALSE(goes_through("0.0.0.0/0", "8.8.8.8"));
  EXPECT_TRUE(goes_through("0.0.0.0/0", "example.org"));
  EXPECT_FALSE(goes_through("fd00::/8", "fd12::1"));
  EXPECT_TRUE(goes_through("fd00::/8", "fe80::1"));
  EXPECT_FALSE(goes_through("::1", "::1"));
  EXPECT_FALSE(goes_through("[::1]:443", "::1"));
  EXPECT_TRUE(goes_through("[::1]:80", "::1"));
}

TEST(ProxyChoice, TheEnvironmentNamesThem) {
  for (const char* name : {"http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY",
                           "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"})
    unsetenv(name);
  EXPECT_EQ(ProxyChoice::of_environment().proxy_of("http", "a", 80), "");
  setenv("ALL_PROXY", "http://all:1", 1);
  setenv("HTTP_PROXY", "http://capitals:1", 1);
  setenv("http_proxy", "http://small:1", 1);
  setenv("NO_PROXY", "b", 1);
  const ProxyChoice choice = ProxyChoice::of_environment();
  EXPECT_EQ(choice.proxy_of("http", "a", 80), "http://small:1");
  EXPECT_EQ(choice.proxy_of("https", "a", 443), "http://all:1");
  EXPECT_EQ(choice.proxy_of("https", "b", 443), "");
  for (const char* name : {"ALL_PROXY", "HTTP_PROXY", "http_proxy", "NO_PROXY"}) unsetenv(name);
}

}  // namespace
}  // namespace saccade::net
