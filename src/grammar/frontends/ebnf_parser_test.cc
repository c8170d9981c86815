#include "grammar/frontends/ebnf_parser.h"

#include <gtest/gtest.h>

namespace saccade::grammar {
namespace {

TEST(Ebnf, CountsAreReadAndWhatIsNoneIsRefused) {
  for (const char* counts : {"{0}", "{2}", "{2,}", "{2,3}", "{2,-1}", "{,3}", "{ 1 , 2 }"})
    EXPECT_TRUE(parse_ebnf(std::string("root ::= \"a\"") + counts)) << counts;
  for (const char* counts : {"{}", "{ }", "{,}", "{,-1}", "{3,2}", "{a}", "{1", "{4294967295}"})
    EXPECT_FALSE(parse_ebnf(std::string("root ::= \"a\"") + counts)) << counts;
}

}  // namespace
}  // namespace saccade::grammar
