#include "model/team_network.h"

#include <functional>
#include <utility>

#include "base/check.h"
#include "model/piecewise_run.h"

namespace saccade {
namespace {

// What a rank has in the place of the team's: the batch's lists and matrices. Spans and adapters
// are of the host, and the same for all. The bindings name every member, as in ops/operands.h.
Batch batch_of(const TeamStream& stream, int rank, const Batch& batch,
               std::vector<KvBinding>& bindings) {
  Batch own = batch;
  auto& [ids, last_tokens, positions, long_rows, spans, kv, embeddings, embedding_sources,
         embedding_rows, seeing_rows, image_rows, image_spans, logit_rows, logits, loras, lora_rows,
         seeing_loras, image_loras] = own;
  const auto make_own = [&](auto&... each) { ((each = stream.of(rank, each)), ...); };
  make_own(ids, last_tokens, positions, long_rows, embeddings, embedding_sources, embedding_rows,
           seeing_rows, image_rows, logit_rows, logits, lora_rows);
  bindings.assign(kv.begin(), kv.end());
  for (KvBinding& binding : bindings) make_own(binding.layer.blocks);
  kv = bindings;
  return own;
}

class TeamEncodeRun final : public PiecewiseRun {
 public:
  TeamEncodeRun(RankTeam& team, std::vector<std::vector<View>> out)
      : team_(team), out_(std::move(out)), runs_(out_.size()) {}

  void begin(int rank, Network& network, Stream& stream,
             std::span<const PreparedImage* const> images, const Tap& tap) {
    const auto at = static_cast<std::size_t>(rank);
    runs_[at] = network.begin_encode(stream, images, out_[at], tap);
  }
  Result<bool> advance() override {
    return all<bool>([](EncodeRun& run) { return run.advance(); }, std::equal_to<bool>());
  }
  // All ranks cut where the rates say, which are the same for all.
  Result<Piece> advance_piece(const WorkCost& rates, double seconds) override {
    return all<Piece>(
        [&](EncodeRun& run) -> Result<Piece> {
          if (auto* cut = dynamic_cast<PiecewiseRun*>(&run))
            return cut->advance_piece(rates, seconds);
          TRY(const bool complete, run.advance());
          return Piece{.cost = {}, .stage_ends = true, .complete = complete};
        },
        [](const Piece& one, const Piece& other) {
          return one.cost == other.cost && one.complete == other.complete;
        });
  }

 private:
  template <typename T, typename F, typename Equal>
  Result<T> all(F&& advance_one, const Equal& equal) {
    std::vector<Result<T>> each(runs_.size());
    team_.run([&](int rank) {
      const auto at = static_cast<std::size_t>(rank);
      each[at] = advance_one(*runs_[at]);
    });
    for (const Result<T>& went : each) {
      if (!went) return went;
      CHECK(equal(*went, *each.front()), "ranks are at different stages of an image");
    }
    return each.front();
  }

  RankTeam& team_;
  std::vector<std::vector<View>> out_;  // [ranks][images]
  std::vector<std::unique_ptr<EncodeRun>> runs_;
};

}  // namespace

TeamNetwork::TeamNetwork(TeamDevice& device, std::vector<std::unique_ptr<Network>> networks)
    : device_(device), networks_(std::move(networks)) {
  CHECK(std::ssize(networks_) == device_.team().size(), "{} networks, {} ranks", networks_.size(),
        device_.team().size());
  shape_ = networks_.front()->shape();
}

// Work that is left may use what the ranks' networks have.
TeamNetwork::~TeamNetwork() { device_.settle(); }

Result<void> TeamNetwork::reserve(Device& device, const Capacity& capacity) {
  CHECK(&device == &device_, "a network of ranks on {}", device.description());
  std::vector<Result<void>> went(networks_.size());
  device_.team().run([&](int rank) {
    went[static_cast<std::size_t>(rank)] = this->rank(rank).reserve(device_.rank(rank), capacity);
  });
  for (Result<void>& each : went) TRY_DO(std::move(each));
  return {};
}

void TeamNetwork::forward(Stream& stream, const Batch& batch, const Tap& tap) {
  CHECK(batch.loras.empty(), "ranks take no adapters");
  const auto& of_team = static_cast<const TeamStream&>(stream);
  device_.team().run([&](int rank) {
    std::vector<KvBinding> bindings;
    const Batch own = batch_of(of_team, rank, batch, bindings);
    this->rank(rank).forward(of_team.rank(rank), own, rank == 0 ? tap : Tap());
  });
}

void TeamNetwork::more_logits(Stream& stream, DeviceInts rows, View logits) {
  const auto& of_team = static_cast<const TeamStream&>(stream);
  device_.team().run([&](int rank) {
    this->rank(rank).more_logits(of_team.rank(rank), of_team.of(rank, rows),
                                 of_team.of(rank, logits));
  });
}

std::unique_ptr<EncodeRun> TeamNetwork::begin_encode(Stream& stream,
                                                     std::span<const PreparedImage* const> images,
                                                     std::span<const View> out, const Tap& tap) {
  const auto& of_team = static_cast<const TeamStream&>(stream);
  std::vector<std::vector<View>> outs(networks_.size());
  for (int rank = 0; rank < device_.team().size(); ++rank)
    for (const View& rows : out)
      outs[static_cast<std::size_t>(rank)].push_back(of_team.of(rank, rows));
  auto run = std::make_unique<TeamEncodeRun>(device_.team(), std::move(outs));
  device_.team().run([&](int rank) {
    run->begin(rank, this->rank(rank), of_team.rank(rank), images, rank == 0 ? tap : Tap());
  });
  return run;
}

Result<Model> make_team_model(TeamDevice& device,
                              const std::function<Result<Model>(int rank)>& load) {
  std::vector<Result<Model>> loaded(static_cast<std::size_t>(device.team().size()));
  device.team().run([&](int rank) { loaded[static_cast<std::size_t>(rank)] = load(rank); });
  Model model;
  std::vector<std::unique_ptr<Network>> networks;
  for (Result<Model>& each : loaded) {
    TRY(Model of_rank, std::move(each));
    if (model.processor == nullptr) model.processor = std::move(of_rank.processor);
    networks.push_back(std::move(of_rank.network));
  }
  model.network = std::make_unique<TeamNetwork>(device, std::move(networks));
  return model;
}

}  // namespace saccade
