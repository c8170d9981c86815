// Doubly linked lists over the indices of an array: membership changes in O(1), nothing allocated.
#pragma once

#include <cstdint>

#include "base/check.h"

namespace saccade {

struct IndexLink {
  static constexpr std::int32_t kUnlinked = -2;
  std::int32_t prev = kUnlinked;  // -1: the first
  std::int32_t next = -1;
  bool linked() const { return prev != kUnlinked; }
};

// One list; the links are shared by all lists that partition the same indices. link_of(index) is
// where an index has its link: beside what else is looked at with it.
class IndexList {
 public:
  std::int32_t front() const { return head_; }
  bool empty() const { return head_ < 0; }

  template <typename LinkOf>
  void push_back(const LinkOf& link_of, std::int32_t index) {
    IndexLink& link = link_of(index);
    CHECK(!link.linked(), "index {} is in a list already", index);
    link = {tail_, -1};
    if (tail_ >= 0) {
      link_of(tail_).next = index;
    } else {
      head_ = index;
    }
    tail_ = index;
  }

  template <typename LinkOf>
  void remove(const LinkOf& link_of, std::int32_t index) {
    IndexLink& link = link_of(index);
    CHECK(link.linked(), "index {} is in no list", index);
    (link.prev >= 0 ? link_of(link.prev).next : head_) = link.next;
    (link.next >= 0 ? link_of(link.next).prev : tail_) = link.prev;
    link = {};
  }

 private:
  std::int32_t head_ = -1;
  std::int32_t tail_ = -1;
};

}  // namespace saccade
