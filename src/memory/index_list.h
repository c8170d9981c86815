// Doubly linked lists over the indices of an array: membership changes in O(1), nothing allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"

namespace saccade {

struct IndexLink {
  std::int32_t prev = -1;
  std::int32_t next = -1;
  bool linked = false;
};

// One list; the links are shared by all lists that partition the same indices.
class IndexList {
 public:
  std::int32_t front() const { return head_; }
  bool empty() const { return head_ < 0; }

  void push_back(std::vector<IndexLink>& links, std::int32_t index) {
    IndexLink& link = links[static_cast<std::size_t>(index)];
    CHECK(!link.linked, "index {} is in a list already", index);
    link = {tail_, -1, true};
    if (tail_ >= 0) {
      links[static_cast<std::size_t>(tail_)].next = index;
    } else {
      head_ = index;
    }
    tail_ = index;
  }

  void remove(std::vector<IndexLink>& links, std::int32_t index) {
    IndexLink& link = links[static_cast<std::size_t>(index)];
    CHECK(link.linked, "index {} is in no list", index);
    (link.prev >= 0 ? links[static_cast<std::size_t>(link.prev)].next : head_) = link.next;
    (link.next >= 0 ? links[static_cast<std::size_t>(link.next)].prev : tail_) = link.prev;
    link = {};
  }

 private:
  std::int32_t head_ = -1;
  std::int32_t tail_ = -1;
};

}  // namespace saccade
