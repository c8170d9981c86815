// Python pickles of prompts: plain lists, tuples, integers and strings, or a pandas DataFrame as
// to_pickle() writes it. Anything else - another class, a call, a dict - is refused by name.
// Nothing in a pickle is ever executed: a DataFrame is read as the tree of data that it is made of.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/pickle.h"

namespace saccade::bench {

// kUnsupported for anything else, and what parse_pickle says. Kinds beyond lists, tuples, integers
// and strings are only there below a DataFrame, whose classes are all pandas' and numpy's.
Result<Pickle> parse_prompts(std::string_view bytes);

using TokenRows = std::vector<std::vector<std::int32_t>>;

// The rows of a pickle of prompts: a sequence whose rows are sequences of token ids (0 to 2^31), or
// sequences that hold exactly one such sequence beside numbers and strings; or a DataFrame's column
// of lists or integer arrays.
Result<TokenRows> token_rows(const Pickle& pickle, std::string_view column = "tok_inputs");

// Of a DataFrame's pickle (pandas 1.3 on): its column. kNotFound says which there are.
bool is_data_frame(const Pickle& pickle);
Result<TokenRows> frame_token_rows(const Pickle& pickle, std::string_view column);

}  // namespace saccade::bench
