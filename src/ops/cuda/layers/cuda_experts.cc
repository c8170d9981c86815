// Layers of several MLPs: which row goes to which expert is decided on the device, so the host
// launches the same kernels whatever the router says.
#include <algorithm>
#include <cstring>

#include "ops/cuda/cuda_device.h"
#include "ops/shapes.h"

namespace saccade::cuda {
namespace {

// Of a call's visits at once: bounds the scratch.
constexpr std::int64_t kMaxVisits = 16384;

// Whether one product can take both.
bool alike(const CudaWeight& a, const CudaWeight& b) {
  const CodedRows* const codes = a.codes();
  const CodedRows* const others = b.codes();
  if (codes == nullptr || others == nullptr)
    return codes == others && a.rows().type == b.rows().type;
  return codes->form == others->form && codes->group_steps == others->group_steps &&
         codes->places == others->places && (codes->input_scale > 0) == (others->input_scale > 0) &&
         codes->groups == others->groups && (codes->order == nullptr) == (others->order == nullptr);
}

GroupWeight group_weight(const CudaWeight& weight) {
  const CodedRows* const codes = weight.codes();
  if (codes == nullptr) return {weight.rows().data, nullptr, nullptr, nullptr};
  return {codes->codes, codes->scales, codes->zeros, codes->order};
}

// Pieces of one scratch, each from a 256-byte boundary on.
class Carving {
 public:
  std::size_t take(std::int64_t count, std::size_t size) {
    const std::size_t at = bytes_;
    bytes_ += (static_cast<std::size_t>(count) * size + 255) / 256 * 256;
    return at;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

// One launch's arguments in one place, as a call that is kept has them.
struct GroupedCall {
  GemmKernelArgs gemm;
  GemmGroups groups;
};
void launch_grouped(const GroupedCall& call, cudaStream_t stream) {
  launch_grouped_gemm(call.gemm, call.groups, stream);
}
struct GroupedCodesCall {
  GemmKernelArgs gemm;
  CodedRows like;
  GemmGroups groups;
};
void launch_grouped_codes(const GroupedCodesCall& call, cudaStream_t stream) {
  launch_grouped_gemm_codes(call.gemm, call.like, call.groups, stream);
}
struct GroupedBytesCall {
  GemmBytesKernelArgs gemm;
  GemmGroups groups;
};
void launch_grouped_bytes(const GroupedBytesCall& call, cudaStream_t stream) {
  launch_grouped_gemm_bytes(call.gemm, call.groups, stream);
}
struct GroupedE4m3Call {
  GemmE4m3KernelArgs gemm;
  GemmGroups groups;
};
void launch_grouped_e4m3(const GroupedE4m3Call& call, cudaStream_t stream) {
  launch_grouped_gemm_e4m3(call.gemm, call.groups, stream);
}

// What lies in a band's scratch: of each visit of a row to an expert, and of tiles of visits.
struct Band {
  std::int32_t* experts;
  float* weights;
  std::int32_t* rows;
  std::int32_t* places;
  GroupTile* tiles;
  Rows inner;  // gate and up
  Rows part;   // of y
};

class BandPieces {
 public:
  BandPieces(std::int64_t visits, std::int64_t tiles, std::int64_t width, std::int64_t out,
             DType type)
      : inner_{nullptr, type, visits, 2 * width, (2 * width + 7) / 8 * 8},
        part_{nullptr, type, visits, out, (out + 7) / 8 * 8},
        experts_(pieces_.take(visits, sizeof(std::int32_t))),
        weights_(pieces_.take(visits, sizeof(float))),
        rows_(pieces_.take(visits, sizeof(std::int32_t))),
        places_(pieces_.take(visits, sizeof(std::int32_t))),
        tiles_(pieces_.take(tiles, sizeof(GroupTile))),
        inner_at_(pieces_.take(visits * inner_.stride, size_of(type))),
        part_at_(pieces_.take(visits * part_.stride, size_of(type))) {}

  std::size_t bytes() const { return pieces_.bytes(); }
  Band in(std::byte* scratch) const {
    Band band{reinterpret_cast<std::int32_t*>(scratch + experts_),
              reinterpret_cast<float*>(scratch + weights_),
              reinterpret_cast<std::int32_t*>(scratch + rows_),
              reinterpret_cast<std::int32_t*>(scratch + places_),
              reinterpret_cast<GroupTile*>(scratch + tiles_),
              inner_,
              part_};
    band.inner.data = scratch + inner_at_;
    band.part.data = scratch + part_at_;
    return band;
  }

 private:
  Carving pieces_;
  Rows inner_;
  Rows part_;
  std::size_t experts_;
  std::size_t weights_;
  std::size_t rows_;
  std::size_t places_;
  std::size_t tiles_;
  std::size_t inner_at_;
  std::size_t part_at_;
};

}  // namespace

WeightTables::~WeightTables() {
  for (const auto& [key, table] : tables_) runtime_.free(table.device);
}

WeightTables::Table& WeightTables::table_of(std::span<const GroupWeight> weights) {
  return tables_[std::ranges::find_if(weights, [](const GroupWeight& weight) {
                   return weight.data != nullptr;
                 })->data];
}

bool WeightTables::holds(std::span<const GroupWeight> weights) {
  const Table& table = table_of(weights);
  return table.weights.size() == weights.size() &&
         std::memcmp(table.weights.data(), weights.data(), weights.size_bytes()) == 0;
}

const GroupWeight* WeightTables::of(std::span<const GroupWeight> weights, UploadRing& ring,
                                    cudaStream_t stream) {
  Table& table = table_of(weights);
  if (holds(weights)) return reinterpret_cast<const GroupWeight*>(table.device);
  const std::size_t bytes = weights.size_bytes();
  if (table.device != nullptr) runtime_.free(table.device);
  table.weights.assign(weights.begin(), weights.end());
  table.device = runtime_.allocate(bytes);
  if (table.device == nullptr)
    throw DeviceFailed(fmt::format("no {} bytes on the device for a list of weights", bytes));
  const UploadRing::Piece piece = ring.take(bytes);
  std::memcpy(piece.host, weights.data(), bytes);
  runtime_.copy({.to = table.device,
                 .to_stride = bytes,
                 .from = piece.host,
                 .from_stride = bytes,
                 .row_bytes = bytes,
                 .rows = 1},
                Direction::kToDevice, stream);
  ring.release();
  return reinterpret_cast<const GroupWeight*>(table.device);
}

void CudaStream::experts(const ExpertsArgs& args) {
  check_shapes(args);
  CHECK(std::ssize(args.experts) <= kMaxExperts, "{} experts, {} are the most", args.experts.size(),
        kMaxExperts);
  const std::int64_t band = std::max<std::int64_t>(1, kMaxVisits / args.per_row);
  for (std::int64_t begin = 0; begin < args.x.rows(); begin += band) {
    const std::int64_t end = std::min(args.x.rows(), begin + band);
    ExpertsArgs rows = args;
    rows.x = args.x.row_range(begin, end);
    rows.logits = args.logits.row_range(begin, end);
    rows.y = args.y.row_range(begin, end);
    experts_of_band(rows);
  }
}

void CudaStream::grouped_product(const Rows& x, const CudaWeight& like, const GemmGroups& groups,
                                 float input_scale, const Rows& y) {
  GemmKernelArgs gemm;
  gemm.x = x;
  gemm.weight = like.rows();
  gemm.y = y;
  if (like.codes() == nullptr) {
    launch(launch_grouped, {gemm, groups});
  } else if (like.codes()->form == CodeForm::kE4m3Rows) {
    GemmE4m3KernelArgs e4m3;
    e4m3.x = rounded_e4m3(x, *like.codes(), input_scale);
    e4m3.weight = *like.codes();
    e4m3.y = y;
    launch(launch_grouped_e4m3, {e4m3, groups});
  } else if (like.codes()->order != nullptr) {
    gemm.x = ordered(x, nullptr, groups, y.rows);
    GemmGroups by_place = groups;
    by_place.x_rows = nullptr;
    launch(launch_grouped_codes, {gemm, *like.codes(), by_place});
  } else if (like.codes()->form != CodeForm::kBytes) {
    launch(launch_grouped_codes, {gemm, *like.codes(), groups});
  } else {
    const RoundedRows codes = rounded(x);
    GemmBytesKernelArgs bytes;
    bytes.x = codes.codes;
    bytes.x_stride = codes.stride;
    bytes.x_scales = codes.scales;
    bytes.weight = *like.codes();
    bytes.y = y;
    launch(launch_grouped_bytes, {bytes, groups});
  }
}

void CudaStream::experts_of_band(const ExpertsArgs& args) {
  const auto count = std::ssize(args.experts);
  const std::int64_t visits = args.x.rows() * args.per_row;
  const std::int64_t width = args.experts.front().down->in();
  const std::int64_t out = args.y.cols();
  const DType type = args.y.dtype();
  const int tile_rows = visits > 2 * kFewTileRows * count ? kManyTileRows : kFewTileRows;
  const std::int64_t tile_count = max_tiles(visits, count, tile_rows);
  const BandPieces pieces(visits, tile_count, width, out, type);
  std::byte* const scratch = reserve(expert_scratch_, pieces.bytes());
  const Band band = pieces.in(scratch);
  const Rows& inner = band.inner;

  launch(launch_route, {.logits = rows_of(args.logits),
                        .per_row = args.per_row,
                        .normalise = args.normalise,
                        .experts = band.experts,
                        .weights = band.weights});
  launch(launch_sort_visits, {.experts = band.experts,
                              .visits = visits,
                              .per_row = args.per_row,
                              .count = count,
                              .rows = band.rows,
                              .places = band.places,
                              .tiles = band.tiles,
                              .tile_count = tile_count,
                              .tile_rows = tile_rows});
  GemmGroups groups;
  groups.tiles = band.tiles;
  groups.tile_count = tile_count;
  groups.tile_rows = tile_rows;
  const auto product = [&](Rows x, const PackedWeight* ExpertWeights::* which,
                           const std::int32_t* x_rows, Rows y) {
    groups.x_rows = x_rows;
    // Nearly always all are alike, and this is one product.
    std::vector<bool> done(args.experts.size());
    for (std::size_t first = 0; first < done.size(); ++first) {
      if (done[first]) continue;
      const CudaWeight& like = weight_of(*(args.experts[first].*which));
      group_weights_.assign(done.size(), {});
      // A row goes to several experts, and is rounded once: by the largest scale of theirs.
      float input_scale = 0;
      for (std::size_t e = first; e < done.size(); ++e) {
        const CudaWeight& weight = weight_of(*(args.experts[e].*which));
        if (done[e] || !alike(weight, like)) continue;
        done[e] = true;
        group_weights_[e] = group_weight(weight);
        if (weight.codes() != nullptr)
          input_scale = std::max(input_scale, weight.codes()->input_scale);
      }
      // Launches that are kept may point to the list that this one is put in place of.
      if (!weight_tables_.holds(group_weights_)) repeated_.interrupt();
      groups.weights = weight_tables_.of(group_weights_, matrices_, stream_);
      grouped_product(x, like, groups, input_scale, y);
    }
  };
  product(rows_of(args.x), &ExpertWeights::gate_up, band.rows, inner);
  Rows gate = inner;
  gate.cols = width;
  Rows up = gate;
  up.data = static_cast<std::byte*>(inner.data) + static_cast<std::size_t>(width) * size_of(type);
  GatedKernelArgs gated;
  gated.gate = gate;
  gated.up = up;
  gated.activation = args.activation;
  gated.out = gate;
  launch(launch_gated, gated);
  product(gate, &ExpertWeights::down, nullptr, band.part);
  launch(launch_combine, {.part = band.part,
                          .places = band.places,
                          .weights = band.weights,
                          .per_row = args.per_row,
                          .add = args.add,
                          .y = rows_of(args.y)});
}

}  // namespace saccade::cuda
