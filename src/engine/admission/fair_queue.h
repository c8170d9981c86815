// Whose turn it is among the sequences that wait, and what each client has had.
//
// Clients share by tokens (a virtual token counter: who has been served least comes first), their
// own sequences go by rank. A client that comes back begins where the turn is: having been idle is
// no credit. With one client this is the order of ranks.
#pragma once

#include <cstdint>
#include <queue>
#include <set>
#include <unordered_map>
#include <vector>

#include "engine/admission/sequence.h"

namespace saccade {

// Sequences from add() to remove(), each waiting or running. One thread; keeps their addresses.
class FairQueue {
 public:
  // `places`: sequences that may run at once; a client's share is an equal part of them, at least
  // one. Not `fair`: all are one client.
  FairQueue(std::int64_t places, bool fair) : places_(places), fair_(fair) {}

  void add(Sequence& sequence);        // waits; must not be here already
  void start(Sequence& sequence);      // waiting to running
  void send_back(Sequence& sequence);  // running to waiting, in its old place
  bool remove(Sequence& sequence);     // whether it was waiting
  void charge(const Sequence& sequence, std::int64_t tokens);

  std::int64_t waiting() const { return waiting_; }
  std::int64_t running_of(ClientId client) const;
  std::int64_t served(ClientId client) const;
  std::int64_t active() const { return active_; }  // clients with sequences
  std::int64_t share() const;                      // places of each
  // Each client with waiting sequences, and how many.
  std::unordered_map<ClientId, std::int64_t> waiting_by_client() const;
  // At most `most` of the waiting, each client's first before any's second.
  std::vector<Sequence*> first(std::size_t most) const;

  // Offers the waiting in turn, each once. What has been offered may be started, and charged,
  // before the next is asked for; nothing else may change meanwhile.
  class Turns {
   public:
    explicit Turns(FairQueue& queue);
    Sequence* next();  // null: all have been offered

   private:
    struct Turn {
      bool over_share;
      std::int64_t served;
      Sequence* sequence;
      ClientId client;
      bool operator<(const Turn& other) const;  // the queue's top is the first
    };
    void offer(ClientId client, const Sequence* after);

    FairQueue& queue_;
    std::priority_queue<Turn> turns_;
    Sequence* last_ = nullptr;
  };

 private:
  struct Client {
    std::int64_t served = 0;  // tokens
    std::int64_t running = 0;
    std::set<Sequence*, ByRank> waiting;
    bool active() const { return running > 0 || !waiting.empty(); }
  };
  ClientId client_of(const Sequence& sequence) const { return fair_ ? sequence.request.client : 0; }
  void forget_idle();

  std::int64_t places_;
  bool fair_;
  std::unordered_map<ClientId, Client> clients_;
  std::int64_t waiting_ = 0;
  std::int64_t active_ = 0;
  std::int64_t turn_at_ = 0;  // what the client had been served that was started last
};

}  // namespace saccade
