// The text by which a request names an image.
#pragma once

#include <string>
#include <string_view>

namespace saccade::serve {

// `scheme` is in lower case, with its punctuation: "data:", "https://".
bool has_scheme(std::string_view reference, std::string_view scheme);

// "data:image/png;base64,... (1234 characters)", "https://host/path...": fit for a message.
std::string shortened(std::string_view reference);

}  // namespace saccade::serve
