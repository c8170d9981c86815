// Where rows may be found before anybody is asked to make them.
#pragma once

#include "cluster/store/row_store.h"

namespace saccade::cluster {

// Any thread. Answers come on a thread of its own, also from within a call.
class RowFinder {
 public:
  virtual ~RowFinder() = default;
  // RowStore::find and wrong.
  virtual void find(const RowQuery& query, Nanos cost, RowStore::Found done) = 0;
  virtual void wrong(const Digest& name, const std::string& maker) = 0;
};

}  // namespace saccade::cluster
