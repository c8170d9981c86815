// Linked where there is no Apache Arrow.
#include "bench/datasets/parquet_file.h"

namespace saccade::bench {

Result<std::unique_ptr<ParquetFile>> ParquetFile::open(const std::string& path) {
  return fail(ErrorCode::kUnsupported,
              "{}: this build cannot read Parquet. Install libarrow-dev and libparquet-dev, or run "
              "scripts/fetch-arrow, and configure again; or use the folder form (JSON lines and "
              "image files)",
              path);
}

}  // namespace saccade::bench
