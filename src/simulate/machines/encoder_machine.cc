#include "simulate/machines/encoder_machine.h"

#include <utility>

namespace saccade::simulate {

Result<std::unique_ptr<EncoderMachine>> EncoderMachine::create(
    int index, const EncoderMachineSettings& settings, EventLoop& loop, EncoderNet& net,
    Device& device) {
  auto machine = std::unique_ptr<EncoderMachine>(new EncoderMachine(settings, loop, net));
  EncoderMachine* const self = machine.get();
  TRY(machine->queue_,
      EncoderQueue::create(
          machine->tower_, device, settings.limits, machine->clock_,
          {.publish = [self](const Digest& key, View) { self->made_.push_back(key); },
           .failed = [](const Digest&, const Error&) {},
           .wanted = [self](const Digest& key) { return self->jobs_.contains(key); }}));
  machine->queue_->set_observer([self](const EncoderQueue::Event& event) {
    if (event.end == 0) self->begun_ = event.begin;
  });
  cluster::DeskSettings desk;
  desk.self = greeting_of(index);
  desk.max_rows = settings.limits.max_rows;
  desk.row_bytes = settings.row_budget;
  desk.media_bytes = desk.max_media_bytes = settings.media_budget;
  machine->desk_ =
      std::make_unique<cluster::EncoderDesk>(loop.clock(), loop.timers(), *machine, *machine, desk);
  net.add_encoder(*machine->desk_);
  return machine;
}

EncoderMachine::EncoderMachine(const EncoderMachineSettings& settings, EventLoop& loop,
                               EncoderNet& net)
    : loop_(loop),
      net_(net),
      clock_(loop.clock()),
      tower_(settings.costs.encode, settings.costs.noise, settings.seed, clock_) {}

void EncoderMachine::make(Job job) {
  jobs_[job.key] = {loop_.now(), job.rows};
  auto image = std::make_shared<PreparedImage>();
  image->layout.tokens = job.rows;
  image->layout.grid_h = 4;  // patches of a token
  image->layout.grid_w = job.rows;
  queue_->push(job.key, std::move(image));
  wake();
}

// What has been let go is told so at once; its stages end when the queue looks what is wanted.
void EncoderMachine::let_go(const Digest& key) {
  if (jobs_.erase(key) == 0) return;
  loop_.after(0, [this, key] {
    desk_->failed(key, {ErrorCode::kCancelled, "nobody waits for it any more", {}});
  });
}

void EncoderMachine::wake() {
  if (std::exchange(running_, true)) return;
  loop_.after(0, [this] { advance(); });
}

void EncoderMachine::advance() {
  // A run that nobody wants is given up at the second look.
  while (queue_->prune() && queue_->idle()) {
  }
  if (queue_->idle()) {
    running_ = false;
    return;
  }
  queue_->advance();
  const Nanos took = clock_.rejoin();
  busy_seconds_ += seconds(took);
  loop_.after(took, [this] {
    publish();
    advance();
  });
}

void EncoderMachine::publish() {
  for (const Digest& key : std::exchange(made_, {})) {
    const auto job = jobs_.extract(key);
    if (job.empty()) continue;
    ImageMaker::Made made;
    made.bytes.resize(static_cast<std::size_t>(job.mapped().rows));
    made.queued = std::max<Nanos>(0, begun_ - job.mapped().since);
    made.encoded = loop_.now() - begun_;
    desk_->made(key, std::move(made));
  }
}

}  // namespace saccade::simulate
