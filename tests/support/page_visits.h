// What reading a text costs, counted and not timed: how often a page of it is come to.
//
// The text lies in pages that may not be read, of which the last few that were read are open. A
// scanner that goes over its text a fixed number of times comes to each page as often, one whose
// time grows with the square comes to each page as often as there are pages, or bytes. What is
// allocated meanwhile in pieces of pages lies in such pages too, so that copies count.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace saccade {

// Visits of pages while `scan` reads a copy of `text`; at most `most` + 1, after which nothing more
// is counted. One call at a time; what `scan` allocates in large pieces is gone with it.
std::size_t page_visits(std::string_view text, const std::function<void(std::string_view)>& scan,
                        std::size_t most);

std::size_t page_bytes();

}  // namespace saccade
