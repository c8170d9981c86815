// The text by which a request names an image.
#pragma once

#include <string>
#include <string_view>

namespace saccade::serve {

// `scheme` is in lower case, with its punctuation: "data:", "https://".
bool has_scheme(std::string_view reference, std::string_view scheme);

// Without the white space and the control characters around it, which are no part of a URL
// (WHATWG).
std::string_view trimmed(std::string_view reference);

// "data:image/png;base64,... (1234 characters)", "https://host/path...": fit for a message.
std::string shortened(std::string_view reference);

}  // namespace saccade::serve
